"""`muster completion`: shells complete what `muster` takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from extender.cli.commands import app
from tests.patience import HANGS


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell: str) -> None:
    """It asks `muster` itself, under the name that it completes."""
    result = CliRunner().invoke(app, ["completion", shell])
    assert result.exit_code == 0
    assert f"complete_{shell}" in result.stdout
    assert "_MUSTER_COMPLETE" in result.stdout


def test_other_shells_are_refused() -> None:
    """Naming those that there are."""
    result = CliRunner().invoke(app, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "'tcsh' is not one of" in result.stderr


def test_bash_completes_commands_and_values(tmp_path: Path) -> None:
    """With the printed script, in a real bash: a command, and the value of an option."""
    bash = shutil.which("bash")
    assert bash is not None, "bash is needed for this test: apt-get install bash"
    command = f"#!{sys.executable}\nfrom extender.cli import main\nmain()\n"
    (tmp_path / "muster").write_text(command, encoding="utf-8")
    (tmp_path / "muster").chmod(0o755)
    script = CliRunner().invoke(app, ["completion", "bash"]).stdout
    asks = "".join(
        f"COMP_WORDS=({line}); COMP_CWORD={len(line.split()) - 1}; _muster_completion muster; echo ${{COMPREPLY[@]}}\n"
        for line in ("muster stat", "muster gangs --via po")
    )
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [bash, "-c", f"{script}\n{asks}"], check=True, capture_output=True, text=True, env=environment, timeout=HANGS
    )
    assert done.stdout.splitlines() == ["status", "port-forward"]
