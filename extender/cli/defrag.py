"""`muster defrag`: which moves of running gangs would make a waiting gang fit, and doing them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from extender.cli.asking import gang_path
from extender.cli.completing import gang_names
from extender.cli.connecting import Connection, MusterPort, NamespaceOption, asking, found, refusals
from extender.cli.output import DOCUMENT, DocumentFormat, Output, print_answer
from extender.cli.printing import Column, console, show
from extender.explain.documents import DefragmentationDocument

EXIT_NO_MOVES = 4

#: How long Muster may take to answer (seconds): a search over every running gang of a large cluster.
_TIMEOUT_SECONDS = 60.0

_EPILOG = "Examples: `muster defrag team/train` shows the moves; `muster defrag team/train --apply` has them done."


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(defrag)


def defrag(
    gang: Annotated[
        str, typer.Argument(metavar="[NAMESPACE/]GANG", help="The waiting gang.", autocompletion=gang_names)
    ],
    *,
    namespace: NamespaceOption,
    apply: Annotated[
        bool,
        typer.Option("--apply/--plan", help="Evict what has to move, within PodDisruptionBudgets; or only show it."),
    ] = False,
    output: DocumentFormat = "table",
    connection: Connection,
) -> None:
    """Show which preemptible gangs would have to move for a waiting gang to fit; with --apply, have them moved.

    Muster never does this by itself.

    Exit codes: 0 the gang fits, with these moves, 1 Muster cannot be asked, 2 refused arguments, 3 no such gang,
    4 no moves make it fit.
    """
    with refusals("defrag"):
        how = Output.read(output, DOCUMENT)
        [gang] = namespace.keys([gang], connection)
        path = f"{gang_path(gang)}/defrag"
    with asking("defrag", connection, MusterPort.VERBS) as muster, found("defrag", muster, gang):
        body = (muster.post if apply else muster.get)(path, _TIMEOUT_SECONDS)
        answer = muster.read(body, DefragmentationDocument)
    if not print_answer(body, how):
        _show(console(), gang, answer, applied=apply)
    if not answer.fits:
        raise typer.Exit(EXIT_NO_MOVES)


def _show(console: Console, gang: str, answer: DefragmentationDocument, *, applied: bool) -> None:
    """Print for people what has to move, and what comes of it."""
    moves = answer.moves
    if moves:
        columns = [Column("GANG"), Column("PODS", right=True), Column("FROM"), Column("TO")]
        rows = [[move.gang, str(move.pods), ", ".join(move.origins), ", ".join(move.targets)] for move in moves]
        show(console, columns, rows)
    if not answer.fits:
        said = f"{gang} does not fit: {answer.reason}"
    elif not moves:
        said = f"{gang}: {answer.reason}" if answer.reason else f"{gang} fits without any move"
    elif applied:
        said = f"evicted what has to move; {gang} gets the room"
    else:
        said = f"with these moves {gang} fits; --apply has them done"
    console.print(said)
