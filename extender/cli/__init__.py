"""The command line: `muster serve`, `muster status`, `muster explain` and others, and the commands that plug into it.

Commands parse, wire the layers together and print; they decide nothing. A command imports what it needs when it runs,
so that `muster --help` answers at once. `commands` puts them together; modules of plug-ins import from here, so that
this module imports none of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

_EXIT_FAILED = 1


def main() -> None:
    """Run the command line; kubectl runs it as a plugin, under another name.

    A command that needs what only the extra `server` brings says so where the client alone is installed.
    """
    from extender.cli.commands import app

    plugin = Path(sys.argv[0]).stem == "kubectl-muster"
    try:
        app(prog_name="kubectl muster" if plugin else None)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in {"extender", "muster_lab"}:
            raise
        command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
        said = f"muster {command}: {package} is not installed, which this command needs: pip install 'muster[server]'"
        sys.stderr.write(f"{said}\n")
        sys.exit(_EXIT_FAILED)


def complete() -> None:
    """Say how the last word of a command line may go on, as kubectl asks for `kubectl muster`."""
    from extender.cli.commands import app
    from extender.cli.completing import answer_kubectl

    answer_kubectl(app, sys.argv[1:])
