"""`muster capacity`: how much room there is, and in what pieces, asked of a running Muster."""

from __future__ import annotations

from typing import Annotated

import typer

from extender.cli.connecting import Connection, answered, connected
from extender.cli.printing import Cell, Column, Report, console, note, print_answer, show
from extender.service.board.documents import CapacityDocument, LevelCapacity

_EPILOG = (
    "Examples: `muster capacity`; "
    "`muster capacity -o json | jq '.gangs[] | select(.gpusPerPod == 8).pods'` says how many whole nodes are free."
)
#: Sizes of islands that a line of the table names, the largest first; `-o wide` names all.
_MOST_ISLANDS = 5


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(connected(capacity))


def capacity(
    *,
    output: Annotated[Report, typer.Option("--output", "-o", help="How to print it.")] = Report.TABLE,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Leave out headings and what fits.")] = False,
    connection: Connection,
) -> None:
    """Say how much room there is: free GPUs of each node and domain, by the size of the island that they make.

    `12 x 8` are 12 domains with 8 free GPUs each. Exit codes: 0 said, also if nothing is free; 1 Muster cannot be
    asked; 2 refused arguments.
    """
    body, answer = answered("capacity", connection, "/api/v1/capacity", CapacityDocument)
    if print_answer(body, output):
        return
    if not answer.levels:
        note("no nodes with GPUs")
        return
    columns = [Column("LEVEL"), Column("PRODUCT"), Column("DOMAINS", right=True), Column("FREE", right=True)]
    columns += [Column("LARGEST"), Column("ISLANDS OF FREE GPUS")]
    most = None if output is Report.WIDE else _MOST_ISLANDS
    shown = console()
    show(shown, columns, [_cells(level, most) for level in answer.levels], headers=not no_headers)
    if not no_headers:
        sizes = [f"{one.pods} with {_gpus(one.gpus_per_pod)}" for one in answer.gangs]
        shown.print(f"\npods that fit now, by GPUs alone: {', '.join(sizes)}")


def islands(level: LevelCapacity, most: int | None) -> str:
    """Return the islands of a level, the largest first: `12 x 8, 3 x 4`; without those that have nothing."""
    sizes = [one for one in level.islands if one.free_gpus]
    named = [f"{one.domains} x {one.free_gpus}" for one in sizes[:most]]
    rest = sum(one.domains for one in sizes[len(named) :])
    return ", ".join(named + ([f"{rest} smaller"] if rest else [])) or "none"


def _cells(level: LevelCapacity, most: int | None) -> list[Cell]:
    free = sum(one.free_gpus * one.domains for one in level.islands)
    largest = level.largest
    shown = f"{largest.domain or level.level}: {largest.free_gpus}" if largest.free_gpus else "-"
    return [level.level, level.product or "-", str(level.domains), str(free), shown, islands(level, most)]


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' if count > 1 else ''}"
