"""`muster gangs`: how every gang stands, asked of a running Muster."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

import typer

from extender.cli.asking import ServerError, with_query
from extender.cli.completing import gang_names
from extender.cli.connecting import Connection, Scope, reached, refusals
from extender.cli.listing import Listing, ListOptions, run
from extender.cli.options import did_you_mean
from extender.cli.printing import Cell, Column, age, hidden_gangs, note, phase, until, with_local_times
from extender.clock import SystemClock
from extender.explain.documents import QueuesDocument
from extender.service.board.documents import GangRow, GangsDocument

#: Fits in 100 columns with names of some 30 characters; what is cut off on a narrow terminal is the reason's end.
COLUMNS = (
    Column("GANG"),
    Column("PHASE"),
    Column("MEMBERS", right=True),
    Column("GPUS", right=True),
    Column("QUEUE"),
    Column("POS", right=True),
    Column("AGE", right=True),
    Column("STARTS", right=True),
    Column("REASON"),
)
WIDE_COLUMNS = (
    *COLUMNS[:3],
    Column("PARTS", right=True),
    *COLUMNS[3:5],
    Column("PRIORITY", right=True),
    *COLUMNS[5:7],
    Column("NODES", right=True),
    Column("GB/S", right=True),
    Column("WITHIN"),
    *COLUMNS[7:9],
    Column("MESSAGE"),
)


def gang_cells(row: GangRow, now: dt.datetime) -> list[Cell]:
    """Return the cells of a gang under COLUMNS."""
    return [
        row.key,
        phase(row.phase),
        members(row),
        str(row.gpus),
        row.queue or "-",
        _count(row.position or None),
        age(row.since, now),
        starts(row, now),
        (row.evicted or "") if row.reason is None else row.reason.code,
    ]


def wide_cells(row: GangRow, now: dt.datetime) -> list[Cell]:
    """Return the cells of a gang under WIDE_COLUMNS."""
    cells = gang_cells(row, now)
    return [
        *cells[:3],
        "-" if row.parts is None else f"{row.parts.bound}/{row.parts.minimum}",
        *cells[3:5],
        str(row.priority),
        *cells[5:7],
        _count(row.nodes or None),
        "-" if row.bus_bandwidth is None else f"{row.bus_bandwidth:.0f}",
        within(row) or "-",
        *cells[7:9],
        with_local_times((row.evicted or "") if row.reason is None else row.reason.message),
    ]


def members(row: GangRow) -> str:
    """Return how many members have a node, or had one and succeeded, of how many are needed: `3/4`."""
    return f"{row.members.bound + row.members.succeeded}/{row.min_member}"


def within(row: GangRow) -> str:
    """Return the smallest that holds the whole gang: `rack r2`, "" where it has no place."""
    return " ".join(part for part in (row.level, row.domain) if part)


def starts(row: GangRow, now: dt.datetime) -> str:
    """Return in how long a waiting gang is expected to start: `5m`, `now`, `overdue`, `-` where that is not known.

    Where only a bound is known it is `>5h`.
    """
    expected = row.expected_start
    if expected is None and row.starts_after is not None:
        return until(row.starts_after, now).replace("in ", ">")
    if expected is None:
        return "-"
    return "overdue" if expected.overdue else until(expected.at, now).removeprefix("in ")


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


_EPILOG = (
    "Examples: `muster gangs --phase Pending` shows who waits, and why; `muster gangs -A --sort-by -gpus`; "
    "`muster gangs train eval -w` follows two of them; "
    "`muster gangs -A --phase Pending -o name | xargs -n1 muster explain` explains each of them."
)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(gangs)


def gangs(  # noqa: PLR0913 - one parameter per option
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAMESPACE/]NAME", help="Only these gangs.", show_default=False, autocompletion=gang_names
        ),
    ] = None,
    *,
    scope: Scope,
    phase: Annotated[
        str | None,
        typer.Option(
            metavar="PHASE", help="Only gangs in this phase: Pending, Scheduling, Running, Finished or Failed."
        ),
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Only gangs that wait for this reason, such as InsufficientCapacity."),
    ] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Only gangs of this Queue.")] = None,
    selector: Annotated[
        str | None,
        typer.Option(
            "--selector",
            "-l",
            metavar="SELECTOR",
            help="Only gangs whose PodGroup, else first pod, has such labels: team=a,tier in (x,y),!old.",
        ),
    ] = None,
    options: ListOptions,
    connection: Connection,
) -> None:
    """List the gangs: those that wait in the order of the queue, then the others by age.

    MEMBERS says how many are bound to nodes or have succeeded, of how many minMember asks for; GPUS what the members
    that have not ended ask for; POS is the place in that order; STARTS says in how long one that waits is expected to
    start.

    Exit codes: 0 listed, also if there are none; 1 Muster cannot be asked; 2 refused arguments; 3 no such gang.
    """
    with refusals("gangs"):
        keys = scope.keys(names or (), connection)
        namespace = None if keys else scope.chosen(connection)
    wanted = {"namespace": namespace, "phase": phase and phase.capitalize(), "reason": reason, "queue": queue}
    said = "".join(f", {name} {value}" for name, value in {**wanted, "labels": selector}.items() if value)
    listing = Listing(
        "gangs",
        with_query("/api/v1/gangs", {**wanted, "labelSelector": selector}),
        GangsDocument,
        "gangs",
        GangRow,
        lambda row: row.key,
        lambda wide: WIDE_COLUMNS if wide else COLUMNS,
        _cells,
        nothing=f"no gangs{said}"
        + ("; -A lists those of all namespaces" if namespace and scope.namespace is None else ""),
        names=keys,
    )
    found = run(listing, options, connection)
    if found.document.hidden and not keys:
        note(hidden_gangs(found.document.hidden))
    if queue is not None and not found.every:
        with refusals("gangs"):
            _check_queue(queue, connection)


def _check_queue(name: str, connection: Connection) -> None:
    """Raise ServerError if there is no such Queue, AskError if that cannot be asked."""
    with reached(connection) as muster:
        known = [row.name for row in muster.read(muster.get("/api/v1/queues"), QueuesDocument).queues]
    if name not in known:
        raise ServerError(f"there is no Queue {name}{did_you_mean(name, known)}")


def _cells(_: GangsDocument, rows: Sequence[GangRow], wide: bool) -> Iterator[tuple[GangRow, list[Cell]]]:
    now = SystemClock().now()
    write: Callable[[GangRow, dt.datetime], list[Cell]] = wide_cells if wide else gang_cells
    return ((row, write(row, now)) for row in rows)
