"""`muster capacity`: how much room there is, and in what pieces, asked of a running Muster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extender.cli.connecting import Connection, asking, connected
from extender.cli.printing import Report, console, note, print_document

if TYPE_CHECKING:
    from extender.cli.tables import Cell

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
    from extender.cli.documents import document
    from extender.cli.tables import Column, show

    with asking("capacity", connection) as muster:
        answer = document(muster, muster.get("/api/v1/capacity"), "levels", "gangs")
    if print_document(answer, output):
        return
    if not answer["levels"]:
        note("no nodes with GPUs")
        return
    columns = [Column("LEVEL"), Column("PRODUCT"), Column("DOMAINS", right=True), Column("FREE", right=True)]
    columns += [Column("LARGEST"), Column("ISLANDS OF FREE GPUS")]
    most = None if output is Report.WIDE else _MOST_ISLANDS
    shown = console()
    show(shown, columns, [_cells(level, most) for level in answer["levels"]], headers=not no_headers)
    if not no_headers:
        sizes = [f"{one['pods']} with {_gpus(one['gpusPerPod'])}" for one in answer["gangs"]]
        shown.print(f"\npods that fit now, by GPUs alone: {', '.join(sizes)}")


def islands(level: Mapping[str, Any], most: int | None) -> str:
    """Return the islands of a level, the largest first: `12 x 8, 3 x 4`; without those that have nothing."""
    sizes: Sequence[Mapping[str, Any]] = [one for one in level["islands"] if one["freeGpus"]]
    named = [f"{one['domains']} x {one['freeGpus']}" for one in sizes[:most]]
    rest = sum(one["domains"] for one in sizes[len(named) :])
    return ", ".join(named + ([f"{rest} smaller"] if rest else [])) or "none"


def _cells(level: Mapping[str, Any], most: int | None) -> list[Cell]:
    free = sum(one["freeGpus"] * one["domains"] for one in level["islands"])
    largest = level.get("largest") or {}
    place = largest.get("domain") or level["level"]
    shown = f"{place}: {largest['freeGpus']}" if largest.get("freeGpus") else "-"
    product = level.get("product") or "-"
    return [level["level"], product, str(level["domains"]), str(free), shown, islands(level, most)]


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' if count > 1 else ''}"
