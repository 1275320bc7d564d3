"""`muster gangs`: how every gang stands, asked of a running Muster."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

import typer

from extender.cli.connecting import EXIT_USAGE, Connection, asking, connected
from extender.cli.printing import Format, console, note, print_document

_EPILOG = (
    "Examples: `muster gangs --phase Pending` shows who waits, and why; "
    "`muster gangs --phase Pending -o name | xargs -n1 muster explain` explains each of them."
)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(connected(gangs))


def gangs(  # noqa: PLR0913 - one parameter per option
    *,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only gangs of this namespace.")] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Gangs of all namespaces; so it is without -n too.")
    ] = False,
    phase: Annotated[
        str | None,
        typer.Option(help="Only gangs in this phase: Pending, Scheduling, Running, Finished or Failed."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(help="Only gangs that wait for this reason, such as InsufficientCapacity.")
    ] = None,
    queue: Annotated[str | None, typer.Option(help="Only gangs of this Queue.")] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to print them.")] = Format.TABLE,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Leave out the headings.")] = False,
    connection: Connection,
) -> None:
    """List the gangs: those that wait in the order in which they are judged, then the others by age.

    POS is the place in that order. Exit codes: 0 listed, also if there are none; 1 Muster cannot be asked; 2 refused
    arguments.
    """
    from extender.cli.documents import document, with_query
    from extender.clock import SystemClock

    if all_namespaces and namespace is not None:
        note("muster gangs: -n and -A exclude each other")
        raise typer.Exit(EXIT_USAGE)
    wanted = {"namespace": namespace, "phase": phase and phase.capitalize(), "reason": reason, "queue": queue}
    with asking("gangs", connection) as muster:
        answer = document(muster, muster.get(with_query("/api/v1/gangs", wanted)), "gangs")
    if print_document(answer, output):
        return
    rows = answer["gangs"]
    if output is Format.NAME:
        for row in rows:
            typer.echo(f"{row['namespace']}/{row['name']}")
    elif not rows:
        note("no gangs" + "".join(f", {name} {value}" for name, value in wanted.items() if value))
    else:
        show_gangs(rows, SystemClock().now(), wide=output is Format.WIDE, headers=not no_headers)


def show_gangs(rows: list[dict[str, Any]], now: dt.datetime, *, wide: bool, headers: bool) -> None:
    """Print gangs for people."""
    from extender.cli.gangtable import COLUMNS, WIDE_COLUMNS, gang_cells, wide_cells
    from extender.cli.tables import show

    columns = WIDE_COLUMNS if wide else COLUMNS
    cells = [wide_cells(row, now) if wide else gang_cells(row, now) for row in rows]
    show(console(), columns, cells, headers=headers)
