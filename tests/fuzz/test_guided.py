"""A short guided run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import corpus
from tests.kube.certificates import make_certificate
from tests.patience import HANGS


@pytest.mark.skipif(
    sys.platform != "linux" or sys.version_info >= (3, 14), reason="atheris has wheels for Linux up to Python 3.13"
)
def test_no_input_is_more_than_refused(tmp_path: Path) -> None:
    """Whatever the bytes are, what reads them raises nothing but its own errors; what reaches anything new is kept."""
    (tmp_path / "corpus").mkdir()
    count = corpus.write(tmp_path / "corpus", make_certificate(tmp_path, "server").certificate.read_bytes())
    command = [sys.executable, "-m", "tests.fuzz.guided", "-runs=4000", "-seed=1", "-max_len=8192", "-timeout=60"]
    command += [f"-artifact_prefix={tmp_path}/", str(tmp_path / "corpus")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Done 4000 runs" in done.stderr
    covered = re.search(r"INITED cov: (\d+)", done.stderr)
    assert covered is not None
    assert int(covered[1]) > 10 * count, "the readers are not instrumented"
    kept = len([*(tmp_path / "corpus").iterdir()]) - count  # 60 to 70 as a rule: the certificate is made afresh
    assert kept > count / 4, "nothing that reached new branches was kept"
