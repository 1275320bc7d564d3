"""Flame graphs: py-spy samples a process that runs, its picture has a title of ours, and it says why it cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench.flame import explain, sampling, titled
from localcluster.errors import LocalClusterError

SVG = "{http://www.w3.org/2000/svg}"
BUSY = "def work():\n    while True:\n        sum(range(1000))\nprint('on', flush=True)\nwork()"


def test_a_running_process_is_drawn_under_our_title(tmp_path: Path) -> None:
    """The picture has the function in which the time went, and nothing of the machine's paths."""
    file = tmp_path / "flame.svg"
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            with sampling(process.pid, file):
                assert process.poll() is None
        finally:
            process.kill()
    drawing = titled(file.read_text(encoding="utf-8"), "Muster <busy>")
    texts = ["".join(element.itertext()) for element in ET.fromstring(drawing).iter(f"{SVG}text")]  # noqa: S314 - py-spy's own
    assert texts[0] == "Muster <busy>"
    assert any(text.startswith("work (") for text in texts)
    assert str(tmp_path) not in drawing
    assert sys.prefix not in drawing


def test_a_py_spy_that_may_not_attach_says_what_to_do() -> None:
    """The kernel's answer alone helps no user."""
    told = explain("Permission Denied: Try running again with elevated permissions by going 'sudo env ...'")
    assert "sudo sysctl kernel.yama.ptrace_scope=0" in told
    assert "--cap-add SYS_PTRACE" in told
    assert "it said: Permission Denied" in told
    assert "ptrace_scope" not in explain("Error: out of memory")


def test_a_process_that_is_gone_cannot_be_sampled(tmp_path: Path) -> None:
    """What py-spy said about it is in the error."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with pytest.raises(LocalClusterError, match="py-spy sampled nothing"), sampling(gone.pid, tmp_path / "flame.svg"):
        pytest.fail("nothing can be sampled")
