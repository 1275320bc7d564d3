"""`muster nodes`: who holds which GPU of each node, domain by domain, asked of a running Muster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated

import typer
from rich.text import Text

from extender.cli.connecting import Connection, answered, connected
from extender.cli.printing import Cell, Column, Format, amount, console, lines, note, print_answer
from extender.service.board.documents import NodeItem, NodesDocument

_EPILOG = (
    "Examples: `muster nodes` draws the cluster; `muster nodes --free` only what has room; "
    "`muster nodes -o name --free | xargs kubectl describe node`."
)
#: Colours of the holders, the one with most GPUs first; then they come again.
_STYLES = ("green", "cyan", "magenta", "blue", "yellow", "bright_green", "bright_cyan", "bright_magenta", "bright_blue")
#: Letters of the holders; who has none is drawn as `#`.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_OTHER, _FREE, _CLOSED = "#", "\u00b7", "-"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=_EPILOG)(connected(nodes))


def nodes(
    *,
    free: Annotated[bool, typer.Option("--free", help="Only nodes that take pods and have a free GPU.")] = False,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to print them.")] = Format.TABLE,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Leave out headings and legend.")] = False,
    connection: Connection,
) -> None:
    """Draw who holds which GPU of each node, grouped by the domains of the topology.

    A capital letter is a GPU that a gang holds, a small one is reserved for it, a dot is free, a dash is free on a node
    that takes no pods. JSON and YAML are Muster's whole answer, whatever else is asked for. Exit codes: 0 drawn, also
    if there are none; 1 Muster cannot be asked; 2 refused arguments.
    """
    body, answer = answered("nodes", connection, "/api/v1/nodes", NodesDocument)
    if print_answer(body, output):
        return
    found = [node for node in answer.nodes if not free or (node.schedulable and node.gpus.free)]
    if output is Format.NAME:
        for node in found:
            typer.echo(node.name)
    elif not found:
        note("no nodes with free GPUs" if free else "no nodes")
    else:
        shown = console()
        for line in draw(answer.levels, found, wide=output is Format.WIDE, headers=not no_headers):
            shown.print(line)


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


def draw(levels: Sequence[str], found: Sequence[NodeItem], *, wide: bool, headers: bool) -> Iterator[Text]:
    """Yield the lines of the picture: nodes under the innermost domain that they are in, then the legend."""
    from extender.objects.text import natural_key

    legend = Legend.of(found)
    marks = legend.marks()
    columns = [Column("NODE"), Column("GPUS"), Column("FREE", right=True), Column("PRODUCT")]
    if wide:
        columns[3:3] = [
            Column("RESERVED", right=True),
            Column("CPU FREE", right=True),
            Column("MEMORY FREE", right=True),
        ]
        columns += [Column("TAKES PODS")]
    ordered = sorted(found, key=lambda node: ([*map(natural_key, node.domains)], natural_key(node.name)))
    drawn = lines(columns, [_cells(node, marks, wide=wide) for node in ordered], headers=headers)
    if headers:
        yield drawn.pop(0)
    rows = iter(drawn)
    for place, together in groupby(ordered, key=lambda node: _place(levels, node)):
        if place and headers:
            yield Text(place, "bold")
        for _ in together:
            yield next(rows)
    if headers and marks:
        yield Text()
        yield from _explained(legend, marks)


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
        yield Text.assemble((letter, style), f" {holder}: {count} GPU{'s' if count > 1 else ''}")
    if others := legend.holders[len(named) :]:
        yield Text(f"{_OTHER} {len(others)} others: {sum(count for _, count in others)} GPUs")
