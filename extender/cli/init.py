"""`muster init`: whether a cluster is ready for Muster, and what to apply where it is not."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extender.cli.connecting import EXIT_FAILED, refusals
from extender.cli.options import CONNECTION_PANEL, ContextName, KubeconfigFile
from extender.cli.output import DOCUMENT, DocumentFormat, Format, Output, print_document
from extender.cli.pods import api_session
from extender.cli.printing import Column, console, show

if TYPE_CHECKING:
    from extender.cli.clusterchecks import CheckFinding

_COLUMNS = (Column("CHECK"), Column("STATE"), Column("FINDING"))
_EPILOG = (
    "Examples: `muster init`; `muster init --context staging -o json | jq -r '.apply[]'` prints the commands alone."
)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(init)


def init(
    *,
    output: DocumentFormat = "table",
    muster_namespace: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Namespace in which Muster is, or is to be.", rich_help_panel=CONNECTION_PANEL
        ),
    ] = "muster-system",
    kubeconfig: KubeconfigFile = None,
    context: ContextName = None,
) -> None:
    """Check whether a cluster is ready for Muster, and print what to apply where it is not. It writes nothing.

    It asks the API server with your own rights; no Muster needs to run. A state is ok, note (Muster works, but you may
    want to know), missing, or unknown (you may not read it).

    Exit codes: 0 ready; 1 something is missing, or the API server cannot be asked; 2 refused arguments.
    """
    from extender.cli.clusterchecks import CheckState, ClusterChecks
    from extender.cli.targets import ClusterObjects

    with refusals("init"):
        how = Output.read(output, DOCUMENT)
        with api_session(kubeconfig, context) as api:
            found = ClusterChecks(ClusterObjects(api), muster_namespace).run()
    commands = [_aimed(each, kubeconfig, context) for each in dict.fromkeys(c for one in found for c in one.apply)]
    ready = all(each.state is not CheckState.MISSING for each in found)
    if how.format in {Format.TABLE, Format.WIDE}:
        _show(found, commands, ready=ready)
    else:
        rows = [{"check": each.check, "state": each.state.value, "message": each.message} for each in found]
        print_document({"ready": ready, "findings": rows, "apply": commands}, how)
    if not ready:
        raise typer.Exit(EXIT_FAILED)


def _show(found: Sequence[CheckFinding], commands: Sequence[str], *, ready: bool) -> None:
    shown = console()
    show(shown, _COLUMNS, [[each.check, each.state.value, each.message] for each in found])
    if commands:
        shown.print("\nTo apply, in this order:")
    for each in commands:
        shown.print(f"  {each}")
    shown.print("\nready" if ready else "\nnot ready: something is missing")


def _aimed(command: str, kubeconfig: Path | None, context: str | None) -> str:
    """Return a command for the cluster that was asked about."""
    program, _, rest = command.partition(" ")
    if rest.startswith("repo "):
        return command
    options = f" --kubeconfig {shlex.quote(str(kubeconfig))}" if kubeconfig else ""
    if context is not None:
        options += f" {'--kube-context' if program == 'helm' else '--context'} {shlex.quote(context)}"
    return f"{program}{options} {rest}"
