"""The command line as a whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from extender import __version__
from extender.cli import app, main


def test_help_lists_the_commands() -> None:
    """Whoever types `muster` sees what there is."""
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    for command in ("serve", "simulate", "demo", "settings", "status", "watch", "completion", "kubectl muster"):
        assert command in result.stdout


def test_kubectl_runs_it_as_a_plugin(tmp_path: Path) -> None:
    """Under the name kubectl-muster it calls itself what its user typed."""
    plugin = tmp_path / "kubectl-muster"
    plugin.write_text("from extender.cli import main\nmain()\n", encoding="utf-8")
    done = subprocess.run([sys.executable, plugin, "gangs", "--nonsense"], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "Usage: kubectl muster gangs " in done.stderr


def test_version_is_the_package_version() -> None:
    """`muster --version` and the distribution agree."""
    result = CliRunner().invoke(app, ["--version"])
    assert result.stdout.strip() == f"muster {__version__}"


def test_the_module_runs_the_command_line() -> None:
    """`python -m extender` is `muster`."""
    result = subprocess.run([sys.executable, "-m", "extender", "--version"], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == f"muster {__version__}"
    assert callable(main)
