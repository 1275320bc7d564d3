"""Where everything goes: boxes within boxes, rows in columns. Lengths are in pixels of the picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from extender.explain.drawing.tree import Domain, PictureNode, Sum, walk

FONT = 11
#: How far a character of the fixed-width fonts goes, as a share of the font's size; DejaVu's are the widest.
ADVANCE = 0.61
ROW = 16
CELL = 11
PITCH = 13
ZONE_GAP = 5
PADDING = 8
HEADER = 20
GAP = 8
#: How wide a picture gets before it goes on below.
MOST_WIDTH = 1200
#: Rows of nodes above each other before another column begins.
_ROWS_PER_COLUMN = 16
#: Longest names and labels, in characters; longer ones lose their middle.
_LONGEST = 28
#: Width of the bar of a sum, in cells.
BAR_CELLS = 8


@dataclass(frozen=True, slots=True)
class LayoutRow:
    """A node, or a sum over nodes: its label, and what is beside it."""

    label: str
    content: PictureNode | Sum


@dataclass(frozen=True, slots=True)
class Box:
    """A domain with the places of what is in it, relative to its own corner."""

    level: str
    name: str
    width: float
    height: float
    boxes: tuple[tuple[float, float, Box], ...]
    rows: tuple[tuple[float, float, LayoutRow], ...]


@dataclass(frozen=True, slots=True)
class LayoutColumns:
    """The two columns of every row: how wide the labels are, and what stands beside them."""

    label: float
    content: float

    @property
    def width(self) -> float:
        """Return the width of a row."""
        return self.label + GAP + self.content


def text_width(text: str, size: float = FONT) -> float:
    """Return how wide a text is in a fixed-width font of that size."""
    return len(text) * size * ADVANCE


def shorten(text: str, longest: int = _LONGEST) -> str:
    """Return a text that fits, without its middle if need be: both ends of a node's name tell it from others."""
    if len(text) <= longest:
        return text
    head = (longest - 1) // 2
    return f"{text[:head]}…{text[len(text) - (longest - 1 - head) :]}"


def cells_width(node: PictureNode) -> float:
    """Return how wide a row of GPUs is."""
    return len(node.cells) * PITCH + len(zone_starts(node)) * ZONE_GAP


def zone_starts(node: PictureNode) -> tuple[int, ...]:
    """Return the GPUs before which another NUMA zone begins."""
    zones = node.zones[: len(node.cells)]
    return tuple(i for i in range(1, len(zones)) if zones[i] != zones[i - 1])


def place(root: Domain) -> tuple[Box, LayoutColumns]:
    """Return the boxes of a tree, and the columns of the rows within."""
    rows = [row for domain in walk(root) for row in _rows(domain)]
    columns = LayoutColumns(
        max((text_width(row.label) for row in rows), default=0.0),
        max((_content_width(row) for row in rows), default=0.0),
    )
    return _box(root, MOST_WIDTH, columns, outermost=True), columns


def _content_width(row: LayoutRow) -> float:
    return cells_width(row.content) if isinstance(row.content, PictureNode) else float(BAR_CELLS * PITCH)


def _rows(domain: Domain) -> list[LayoutRow]:
    nodes = [LayoutRow(shorten(node.name), node) for node in domain.nodes]
    return [*nodes, *(LayoutRow(f"{total.label} {total.used}/{total.gpus}", total) for total in domain.sums)]


def _box(domain: Domain, most: float, columns: LayoutColumns, *, outermost: bool = False) -> Box:
    """Place a domain's rows in columns, and below them its domains side by side, within a width of `most`."""
    edge, top = (0.0, 0.0) if outermost else (float(PADDING), float(HEADER))
    inside = most - 2 * edge
    rows, width, bottom = _columns(_rows(domain), (edge, top), inside, columns, balanced=outermost)
    boxes, right, bottom = _shelves(
        [_box(inner, inside, columns) for inner in domain.domains], (edge, bottom), inside, after=bool(rows)
    )
    width = max(width, right)
    if not outermost:
        width = max(width, edge + text_width(header(domain)))
    return Box(domain.level, domain.name, width + edge, bottom + edge, tuple(boxes), tuple(rows))


def header(domain: Domain | Box) -> str:
    """Return what stands at the top of a box: `rack r-7`, and rack-7 as it is."""
    if not domain.name:
        return f"without {domain.level}"
    name = shorten(domain.name)
    return name if name.startswith(domain.level) else f"{domain.level} {name}"


def _columns(
    rows: Sequence[LayoutRow], corner: tuple[float, float], inside: float, columns: LayoutColumns, *, balanced: bool
) -> tuple[list[tuple[float, float, LayoutRow]], float, float]:
    """Place rows below each other, in as many columns as it takes; return them, their right edge and their bottom."""
    left, top = corner
    if not rows:
        return [], left, top
    pitch = columns.width + 2 * GAP
    most = max(1, int((inside + 2 * GAP) // pitch))
    count = min(most, len(rows) if balanced else ceil(len(rows) / _ROWS_PER_COLUMN))
    height = ceil(len(rows) / count)
    placed = [(left + (i // height) * pitch, top + (i % height) * ROW, row) for i, row in enumerate(rows)]
    return placed, left + (ceil(len(rows) / height) - 1) * pitch + columns.width, top + height * ROW


def _shelves(
    boxes: Iterable[Box], corner: tuple[float, float], inside: float, *, after: bool
) -> tuple[list[tuple[float, float, Box]], float, float]:
    """Place boxes side by side, going on below where a row is full; return them, their right edge and their bottom."""
    left, top = corner
    x, y, right, bottom = left, top + (GAP if after else 0), left, top
    placed: list[tuple[float, float, Box]] = []
    for box in boxes:
        if x > left and x + box.width > left + inside:
            x, y = left, bottom + GAP
        placed.append((x, y, box))
        right, bottom = max(right, x + box.width), max(bottom, y + box.height)
        x += box.width + GAP
    return placed, right, bottom
