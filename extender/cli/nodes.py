"""`muster nodes`: who holds which GPU of each node, domain by domain, asked of a running Muster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated

import typer
from rich.text import Text

from extender.cli.completing import node_names
from extender.cli.connecting import Connection
from extender.cli.listing import Listing, ListOptions, run
from extender.cli.printing import Cell, Column, amount, one_line
from extender.service.board.documents import NodeItem, NodesDocument

_EPILOG = (
    "Examples: `muster nodes` draws the cluster; `muster nodes --free` only what has room; "
    "`muster nodes gpu-1 gpu-2 -o wide`; `muster nodes --sort-by -gpus.free`; "
    "`muster nodes -o name --free | xargs kubectl describe node`."
)
#: Colours of the holders, the one with most GPUs first; then they come again.
_STYLES = ("green", "cyan", "magenta", "blue", "yellow", "bright_green", "bright_cyan", "bright_magenta", "bright_blue")
#: Letters of the holders; who has none is drawn as `#`.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_OTHER, _FREE, _CLOSED = "#", "\u00b7", "-"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(nodes)


def nodes(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Only these nodes.", show_default=False, autocompletion=node_names),
    ] = None,
    *,
    free: Annotated[bool, typer.Option("--free", help="Only nodes that take pods and have a free GPU.")] = False,
    options: ListOptions,
    connection: Connection,
) -> None:
    """Draw who holds which GPU of each node, grouped by the domains of the topology.

    A capital letter is a GPU that a gang holds, a small one is reserved for it, a dot is free, a dash is free on a node
    that takes no pods. With --sort-by nodes are not grouped.

    Exit codes: 0 drawn, also if there are none; 1 Muster cannot be asked; 2 refused arguments; 3 no such node.
    """
    flat = options.sort_by is not None
    listing = Listing(
        "nodes",
        "/api/v1/nodes",
        NodesDocument,
        "nodes",
        NodeItem,
        lambda row: row.name,
        lambda wide: _columns(wide=wide),
        lambda _, rows, wide: _rows(rows, wide=wide, flat=flat),
        nothing="no nodes with free GPUs" if free else "no nodes",
        names=names or (),
        keep=lambda node: not free or bool(node.schedulable and node.gpus.free),
        framed=_listed if flat else _grouped,
    )
    run(listing, options, connection)


@dataclass(frozen=True, slots=True)
class Legend:
    """Letters and colours of those who hold GPUs, most GPUs first."""

    holders: Sequence[tuple[str, int]]

    @classmethod
    def of(cls, nodes: Sequence[NodeItem]) -> Legend:
        """Count who holds how many."""
        held = Counter(holder for node in nodes for holder in node.holders if holder)
        return cls(sorted(held.items(), key=lambda one: (-one[1], one[0])))

    def marks(self) -> dict[str, tuple[str, str]]:
        """Return the letter and the colour of each."""
        return {
            holder: (_LETTERS[place] if place < len(_LETTERS) else _OTHER, _STYLES[place % len(_STYLES)])
            for place, (holder, _) in enumerate(self.holders)
        }


def _columns(*, wide: bool) -> Sequence[Column]:
    more = [Column(heading, right=True) for heading in ("RESERVED", "CPU FREE", "MEMORY FREE")] if wide else []
    columns = [Column("NODE"), Column("GPUS"), Column("FREE", right=True), *more, Column("PRODUCT")]
    return [*columns, Column("TAKES PODS")] if wide else columns


def _rows(found: Sequence[NodeItem], *, wide: bool, flat: bool) -> Iterator[tuple[NodeItem, list[Cell]]]:
    """Yield the cells of nodes, those of a domain together unless they are to be in the order that they have."""
    from extender.objects.text import natural_key

    marks = Legend.of(found).marks()
    if not flat:
        found = sorted(found, key=lambda node: ([*map(natural_key, node.domains)], natural_key(node.name)))
    return ((node, _cells(node, marks, wide=wide)) for node in found)


def _listed(_: NodesDocument, drawn: Iterator[tuple[NodeItem | None, Text]], headers: bool) -> Iterator[Text]:
    """Yield the lines of nodes, then who the letters are."""
    found: list[NodeItem] = []
    for node, line in drawn:
        found += [] if node is None else [node]
        yield line
    legend = Legend.of(found)
    if headers and legend.holders:
        yield Text()
        yield from _explained(legend, legend.marks())


def _grouped(document: NodesDocument, drawn: Iterator[tuple[NodeItem | None, Text]], headers: bool) -> Iterator[Text]:
    """Yield the lines of nodes under the innermost domain that they are in, then who the letters are."""

    def headed() -> Iterator[tuple[NodeItem | None, Text]]:
        for place, together in groupby(drawn, lambda one: "" if one[0] is None else _place(document.levels, one[0])):
            if place and headers:
                yield None, Text(one_line(place), "bold")
            yield from together

    return _listed(document, headed(), headers)


def _cells(node: NodeItem, marks: Mapping[str, tuple[str, str]], *, wide: bool) -> list[Cell]:
    text = Text()
    for holder, reserved in zip(node.holders, node.reserved, strict=True):
        letter, style = marks.get(holder, (_FREE if node.schedulable else _CLOSED, "dim"))
        text.append(letter.lower() if reserved else letter, style)
    row: list[Cell] = [node.name, text, f"{node.gpus.free}/{node.gpus.allocatable}", node.product or "-"]
    if wide:
        row[3:3] = [str(node.gpus.reserved), _free(node, "cpu"), _free(node, "memory")]
        row.append("yes" if node.schedulable else "no")
    return row


def _free(node: NodeItem, resource: str) -> str:
    known = node.resources.get(resource)
    return "-" if known is None else amount(resource, known.free)


def _place(levels: Sequence[str], node: NodeItem) -> str:
    """Return where a node is, from the outside in: `block b0, rack r1`."""
    domains = zip(levels, node.domains, strict=False)
    return ", ".join(f"{level} {domain.rpartition('/')[2]}" for level, domain in domains if domain)


def _explained(legend: Legend, marks: Mapping[str, tuple[str, str]]) -> Iterator[Text]:
    """Yield who the letters are, and how many others there are."""
    named = legend.holders[: len(_LETTERS)]
    for holder, count in named:
        letter, style = marks[holder]
        yield Text.assemble((letter, style), f" {one_line(holder)}: {count} GPU{'s' if count > 1 else ''}")
    if others := legend.holders[len(named) :]:
        yield Text(f"{_OTHER} {len(others)} others: {sum(count for _, count in others)} GPUs")
