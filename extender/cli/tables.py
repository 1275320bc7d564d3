"""Plain tables: columns under headings, as kubectl prints them, which other programs can cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from rich.cells import cell_len
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

Cell: TypeAlias = Text | str
_GAP = 2

#: What a gang does, as a colour.
_PHASE_STYLES = {
    "Pending": "yellow",
    "Scheduling": "cyan",
    "Running": "green",
    "Finished": "blue",
    "Failed": "red",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, and whether its cells stand at the right, as numbers do."""

    heading: str
    right: bool = False


def lines(columns: Sequence[Column], rows: Iterable[Sequence[Cell]], *, headers: bool = True) -> list[Text]:
    """Return the lines of a table; only the last column may have cells longer than they look good."""
    texts = [[cleaned(cell) for cell in row] for row in rows]
    if headers:
        texts.insert(0, [Text(column.heading, "bold") for column in columns])
    widths = [max((cell_len(row[place].plain) for row in texts), default=0) for place in range(len(columns))]
    return [_line(columns, widths, row) for row in texts]


def show(console: Console, columns: Sequence[Column], rows: Iterable[Sequence[Cell]], *, headers: bool = True) -> None:
    """Print a table."""
    for line in lines(columns, rows, headers=headers):
        console.print(line)


def phase(name: str) -> Text:
    """Return the phase of a gang in its colour."""
    return Text(name, _PHASE_STYLES.get(name, ""))


def cleaned(cell: Cell) -> Text:
    """Return a cell without what would steer a terminal: texts in it may be anybody's."""
    if isinstance(cell, Text):
        return cell
    return Text(cell if cell.isprintable() else "".join(one if one.isprintable() else "\ufffd" for one in cell))


def bar(parts: Sequence[tuple[float, str, str]], whole: float, width: int) -> Text:
    """Draw a bar of `width` cells for `whole`: each part is an amount, the character that draws it, and its style.

    What is drawn of a part is rounded so that the sum is right; an amount above zero is seen if there is room for it.
    """
    text = Text()
    reached, drawn = 0.0, 0
    for value, mark, style in parts:
        reached += value
        end = min(round(width * reached / whole) if whole else 0, width)
        if value > 0 and end == drawn:
            end = min(drawn + 1, width)
        text.append(mark * max(end - drawn, 0), style)
        drawn = max(end, drawn)
    text.append("\u00b7" * (width - drawn), "dim")
    return text


def _line(columns: Sequence[Column], widths: Sequence[int], row: Sequence[Text]) -> Text:
    line = Text()
    last = len(columns) - 1
    for place, (column, width, cell) in enumerate(zip(columns, widths, row, strict=True)):
        space = " " * (width - cell_len(cell.plain))
        if column.right:
            line.append(space)
        line.append_text(cell)
        if place < last:
            line.append(("" if column.right else space) + " " * _GAP)
    line.rstrip()
    return line
