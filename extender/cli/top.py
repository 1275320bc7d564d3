"""`muster top`: who holds the most GPUs, by gang and by queue, asked of a running Muster."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from extender.cli.connecting import Connection, asking
from extender.cli.output import DOCUMENT, DocumentFormat, Output, print_answer
from extender.cli.printing import Cell, Column, age, bar, console, note, phase, show
from extender.clock import SystemClock
from extender.service.board.documents import GangRow, GangsDocument, StatusDocument

_EPILOG = "Examples: `muster top`; `muster top --by queue`; `muster top --limit 3 --no-headers`."
_BAR_CELLS = 16


class By(StrEnum):
    """What is ranked."""

    GANG = "gang"
    QUEUE = "queue"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(top)


def top(
    *,
    by: Annotated[
        By, typer.Option(metavar="gang|queue", help="Rank gangs, or the Queues that they belong to.")
    ] = By.GANG,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many to list.")] = 20,
    output: DocumentFormat = "table",
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Leave out the headings.")] = False,
    connection: Connection,
) -> None:
    """Rank who holds the most GPUs in all namespaces: bound ones and reserved ones.

    JSON and YAML are Muster's list of gangs. Exit codes: 0 listed, also if none holds any; 1 Muster cannot be asked;
    2 refused arguments.
    """
    with asking("top", connection) as muster:
        how = Output.read(output, DOCUMENT)
        body = muster.get("/api/v1/gangs")
        if print_answer(body, how):
            return
        answer = muster.read(body, GangsDocument)
        status = muster.read(muster.get("/api/v1/status"), StatusDocument)
    every = status.gpus.allocatable
    if by is By.QUEUE:
        columns = [Column("QUEUE"), Column("GPUS", right=True), Column("SHARE"), *_right("", "GANGS", "WAIT")]
        rows = [_queue_cells(one, every) for one in _queues(answer.gangs)]
    else:
        columns = [Column("GANG"), Column("GPUS", right=True), Column("SHARE"), *_right("", "NODES", "FOR")]
        columns += [Column("QUEUE"), Column("PHASE")]
        now = SystemClock().now()
        rows = [_gang_cells(row, every, now) for row in _holding(answer.gangs)]
    if rows:
        show(console(), columns, rows[:limit], headers=not no_headers)
    else:
        note("no gang holds GPUs")


@dataclass(slots=True)
class QueueTotal:
    """What the gangs of one queue hold, how many do, and how many wait."""

    name: str
    gpus: int = 0
    gangs: int = 0
    waiting: int = 0


def _holding(gangs: Sequence[GangRow]) -> list[GangRow]:
    return sorted((row for row in gangs if row.gpus_held), key=lambda row: (-row.gpus_held, row.namespace, row.name))


def _queues(gangs: Sequence[GangRow]) -> list[QueueTotal]:
    totals: dict[str, QueueTotal] = {}
    for row in gangs:
        total = totals.setdefault(row.queue or "-", QueueTotal(row.queue or "-"))
        total.gpus += row.gpus_held
        total.gangs += row.gpus_held > 0
        total.waiting += row.reason is not None
    return sorted(totals.values(), key=lambda total: (-total.gpus, total.name))


def _gang_cells(row: GangRow, every: int, now: dt.datetime) -> list[Cell]:
    nodes = str(row.nodes) if row.nodes else "-"
    since = row.started_at or row.since
    return [
        row.key, *_share(row.gpus_held, every), nodes, age(since, now), row.queue or "-", phase(row.phase)
    ]  # fmt: skip


def _queue_cells(total: QueueTotal, every: int) -> list[Cell]:
    return [total.name, *_share(total.gpus, every), str(total.gangs), str(total.waiting)]


def _share(gpus: int, every: int) -> Iterator[Cell]:
    """Yield the cells of a number of GPUs among all: the number, a bar, a percentage."""
    yield str(gpus)
    yield bar([(gpus, "\u2588", "green")], every, _BAR_CELLS)
    yield f"{gpus / every:.0%}" if every else "-"


def _right(*headings: str) -> Iterator[Any]:
    return (Column(heading, right=True) for heading in headings)
