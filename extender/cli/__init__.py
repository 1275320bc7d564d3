"""The command line: `muster serve`, `muster check-config`, `muster simulate`, `muster calibrate` and others.

Commands parse, wire the layers together and print; they decide nothing. A command imports what it needs when it runs,
so that `muster --help` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from extender.cli import (
    calibrate,
    check_config,
    defrag,
    demo,
    explain,
    importing,
    serve,
    settings,
    simulate,
    study,
    trace,
)

app = typer.Typer(
    name="muster",
    help="Gang-schedule GPU workloads with the kube-scheduler that you run.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # among them are tokens and request bodies
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (serve, simulate, explain, defrag, demo, settings, check_config, calibrate, importing, study, trace):
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
    """Gang-schedule GPU workloads with the kube-scheduler that you run."""
    del version  # its callback has done everything


def main() -> None:
    """Run the command line."""
    app()
