"""`muster capacity`: how much room there is, and in what pieces, asked of a running Muster."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from rich.text import Text

from extender.cli.connecting import Connection
from extender.cli.listing import Listing, ListOptions, run
from extender.cli.printing import Cell, Column
from extender.service.board.documents import CapacityDocument, LevelCapacity

_EPILOG = (
    "Examples: `muster capacity`; "
    "`muster capacity -o json | jq '.gangs[] | select(.gpusPerPod == 8).pods'` says how many whole nodes are free."
)
#: Sizes of islands that a line of the table names, the largest first; `-o wide` names all.
_MOST_ISLANDS = 5
_COLUMNS = (
    Column("LEVEL"),
    Column("PRODUCT"),
    Column("DOMAINS", right=True),
    Column("FREE", right=True),
    Column("LARGEST"),
    Column("ISLANDS OF FREE GPUS"),
)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(capacity)


def capacity(*, options: ListOptions, connection: Connection) -> None:
    """Say how much room there is: free GPUs of each node and domain, by the size of the island that they make.

    `12 x 8` are 12 domains with 8 free GPUs each. Exit codes: 0 said, also if nothing is free; 1 Muster cannot be
    asked; 2 refused arguments.
    """
    listing = Listing(
        "capacity",
        "/api/v1/capacity",
        CapacityDocument,
        "levels",
        LevelCapacity,
        lambda row: f"{row.product}/{row.level}" if row.product else row.level,
        lambda _: _COLUMNS,
        lambda _, rows, wide: ((row, _cells(row, None if wide else _MOST_ISLANDS)) for row in rows),
        nothing="no nodes with GPUs",
        framed=_with_sizes,
    )
    run(listing, options, connection)


def _with_sizes(
    document: CapacityDocument, drawn: Iterator[tuple[LevelCapacity | None, Text]], headers: bool
) -> Iterator[Text]:
    """Yield the lines of the levels, then how many pods fit."""
    for _, line in drawn:
        yield line
    if headers:
        sizes = [f"{one.pods} with {_gpus(one.gpus_per_pod)}" for one in document.gangs]
        yield Text()
        yield Text(f"pods that fit now, by GPUs alone: {', '.join(sizes)}")


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
