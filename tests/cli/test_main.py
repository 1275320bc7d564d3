"""The command line as a whole."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from extender import __version__
from extender.cli import main
from extender.cli.commands import PLUGINS, app, command_line


def test_help_lists_the_commands() -> None:
    """`muster --help` names every command."""
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    for command in ("serve", "simulate", "demo", "settings", "status", "watch", "completion", "kubectl muster"):
        assert command in result.stdout


def test_help_groups_the_commands() -> None:
    """What is asked of a running Muster comes first, in the order of use; what plugs in comes last, by name."""
    shown = CliRunner().invoke(app, ["--help"]).stdout
    headings = ["Ask a running Muster", "Run Muster", "Simulate, study, convert"]
    places = [shown.index(word) for word in [headings[0], " status ", " gangs ", headings[1], " serve ", headings[2]]]
    assert places == sorted(places)
    plugged = [shown.index(f" {name} ", places[-1]) for name in ("calibrate", "demo", "simulate", "trace")]
    assert plugged == sorted(plugged)
    assert "Broken" not in shown


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        ("no_such_package.commands", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("extender.clock", "AttributeError: module 'extender.clock' has no attribute 'register'"),
        ("extender.objects.keys:NO_SUCH_NAME", "AttributeError: module 'extender.objects.keys' has no attribute"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_costs_only_its_own_command(module: str, problem: str) -> None:
    """All others run; its own says in one line what is wrong, whatever it is called with, and exits with 1."""
    built = command_line([EntryPoint("broken", module, PLUGINS), *entry_points(group=PLUGINS)])
    shown = CliRunner().invoke(built, ["--help"]).stdout
    assert "Broken plug-ins" in shown
    assert " simulate " in shown
    result = CliRunner().invoke(built, ["broken", "--some", "option"])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"muster broken cannot be loaded from {module} ({module}): {problem}")
    assert result.stderr.count("\n") == 1
    assert CliRunner().invoke(built, ["settings"]).exit_code == 0


def test_a_plugin_that_fails_while_it_registers_costs_only_its_own_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a plug-in raises, Muster's own commands run."""
    module = ModuleType("failing_plugin")

    def register(_app: object) -> None:
        raise RuntimeError("no licence")

    module.__dict__["register"] = register
    monkeypatch.setitem(sys.modules, module.__name__, module)
    built = command_line([EntryPoint("failing", module.__name__, PLUGINS)])
    result = CliRunner().invoke(built, ["failing"])
    assert (result.exit_code, result.stderr) == (
        1,
        "muster failing cannot be loaded from failing_plugin (failing_plugin): RuntimeError: no licence\n",
    )


def test_a_module_of_a_plugin_can_be_imported_by_itself() -> None:
    """Importing one does not load the command line, which would load it again before it is complete."""
    subprocess.run([sys.executable, "-c", "import muster_lab.cli.demo"], check=True)


def test_kubectl_runs_it_as_a_plugin(tmp_path: Path) -> None:
    """Under the name kubectl-muster it calls itself what its user typed."""
    plugin = tmp_path / "kubectl-muster"
    plugin.write_text("from extender.cli import main\nmain()\n", encoding="utf-8")
    done = subprocess.run([sys.executable, plugin, "gangs", "--nonsense"], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("kubectl muster gangs: there is no option --nonsense")


def test_version_is_the_package_version() -> None:
    """`muster --version` and the distribution agree."""
    result = CliRunner().invoke(app, ["--version"])
    assert result.stdout.strip() == f"muster {__version__}"


def test_the_module_runs_the_command_line() -> None:
    """`python -m extender` is `muster`."""
    result = subprocess.run([sys.executable, "-m", "extender", "--version"], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == f"muster {__version__}"
    assert callable(main)
