"""The command line: `muster serve`, `muster check-config`, `muster simulate`, `muster calibrate` and others.

Commands parse, wire the layers together and print; they decide nothing. A command imports what it needs when it runs,
so that `muster --help` answers at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from extender.cli import (
    calibrate,
    capacity,
    check_config,
    completion,
    defrag,
    demo,
    events,
    explain,
    gangs,
    importing,
    nodes,
    queues,
    replay,
    serve,
    settings,
    simulate,
    snapshot,
    status,
    study,
    top,
    trace,
    watch,
)

HELP = (
    "Gang-schedule GPU workloads with the kube-scheduler that you run. "
    "Installed as kubectl-muster too, which kubectl runs as `kubectl muster`."
)

app = typer.Typer(
    name="muster",
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # among them are tokens and request bodies
    context_settings={"help_option_names": ["-h", "--help"]},
)
_ASKING = (status, gangs, queues, nodes, top, capacity, events, watch, explain, defrag)
_OTHERS = (
    snapshot,
    replay,
    serve,
    simulate,
    demo,
    settings,
    check_config,
    calibrate,
    importing,
    study,
    trace,
    completion,
)
for command in (*_ASKING, *_OTHERS):
    command.register(app)


def _show_version(*, wanted: bool) -> None:
    if wanted:
        from extender import __version__

        typer.echo(f"muster {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=lambda wanted: _show_version(wanted=wanted),
            is_eager=True,
            help="Show the version and stop.",
        ),
    ] = False,
) -> None:
    del version  # its callback has done everything


def main() -> None:
    """Run the command line; kubectl runs it as a plugin, under another name."""
    plugin = Path(sys.argv[0]).stem == "kubectl-muster"
    app(prog_name="kubectl muster" if plugin else None)
