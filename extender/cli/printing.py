"""What commands print: documents as Muster sent them, plain tables, amounts and times as kubectl writes them, bars."""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import Progress

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 365 * 86_400
#: How Muster writes times in documents and in the sentences in them. Source: extender.objects.meta.write_timestamp.
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
_BYTES = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_KIB = 1024
#: CPU is counted in thousandths.
_MILLI = 1000


class OutputFormat(StrEnum):
    """How the result is printed."""

    TABLE = "table"
    JSON = "json"


class SteadyConsole(Console):
    """A console that no text steers: what is printed may be from any user, its colours are Muster's."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield what is printed, without what would steer a terminal."""
        for each in super().render(renderable, options):
            yield each if each.control else Segment(steady(each.text), each.style)


def console(*, stderr: bool = False) -> Console:
    """Return where people read: with colours only on a terminal, and not with NO_COLOR; lines are never broken."""
    return SteadyConsole(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


def note(message: str) -> None:
    """Say something to people in one line that is not part of the result, as that there is none."""
    say(one_line(message), err=True)


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print lines, without what would steer a terminal."""
    typer.echo(steady(text), err=err, nl=nl)  # noqa: TID251 - here it is steady


def give(text: str, *, nl: bool = True) -> None:
    """Print what a program reads, as it is; where the program is a terminal, without what would steer it."""
    typer.echo(steady(text) if sys.stdout.isatty() else text, nl=nl)  # noqa: TID251 - a program reads it


def steady(text: str, spared: str = "\n\t") -> str:
    """Return lines without what would steer a terminal: control characters, and those that turn or hide others."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in spared else "\ufffd" for one in text)


def one_line(text: str) -> str:
    """Return a text in one line without what would steer a terminal; also line ends and tabs are replaced."""
    return steady(text, spared="")


def hidden_gangs(count: int) -> str:
    """Say how many gangs are of namespaces that the caller may not list."""
    are = "gang of other namespaces is" if count == 1 else "gangs of other namespaces are"
    return f"{count} {are} not shown: you may not list podgroups there"


def duration(seconds: float) -> str:
    """Write a time in two units at most, coarser the longer it is. Source: k8s.io/apimachinery HumanDuration."""
    whole = max(int(seconds), 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 3 * _HOUR:
        return _units(whole, (_MINUTE, "m"), (1, "s"), whole < 10 * _MINUTE)
    if whole < 2 * _DAY:
        return _units(whole, (_HOUR, "h"), (_MINUTE, "m"), whole < 8 * _HOUR)
    if whole < 2 * _YEAR:
        return _units(whole, (_DAY, "d"), (_HOUR, "h"), whole < 8 * _DAY)
    return _units(whole, (_YEAR, "y"), (_DAY, "d"), whole < 8 * _YEAR)


def age(since: str | None, now: dt.datetime) -> str:
    """Write how long ago a time of Muster's was, `-` for none."""
    moment = read_time(since)
    return "-" if moment is None else duration((now - moment).total_seconds())


def until(at: str | None, now: dt.datetime) -> str:
    """Write how far a time of Muster's lies ahead: `in 5m`, `now`, `-` for none."""
    moment = read_time(at)
    if moment is None:
        return "-"
    seconds = (moment - now).total_seconds()
    return f"in {duration(seconds)}" if seconds >= 1 else "now"


def clock_time(at: str | None) -> str:
    """Write a time of Muster's as the time of day where the reader is."""
    moment = read_time(at)
    return "-" if moment is None else moment.astimezone().strftime("%H:%M:%S")


def local_time(at: str | None) -> str:
    """Write a time of Muster's as date and time where the reader is: `2026-11-21T13:00:00+01:00`, `-` for none."""
    moment = read_time(at)
    return "-" if moment is None else moment.astimezone().isoformat(timespec="seconds")


def with_local_times(text: str) -> str:
    """Write the times within a sentence of Muster's as those where the reader is."""
    return _TIME.sub(lambda found: local_time(found[0]), text)


def read_time(text: str | None) -> dt.datetime | None:
    """Return a time in RFC 3339, None for none and for what is no such time."""
    try:
        moment = dt.datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


def amount(resource: str, value: int) -> str:
    """Write an amount short: `96` or `500m` CPU, `1.5Ti` of memory, plain counts."""
    if resource == "cpu":
        return f"{value}m" if 0 < value < _MILLI else f"{value / _MILLI:.10g}"
    if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-"):
        return size(value)
    return str(value)


def size(value: float) -> str:
    """Write bytes in the largest unit that leaves one before the point: `1.5Gi`."""
    for unit in _BYTES:
        if abs(value) < _KIB or unit == _BYTES[-1]:
            return f"{value:.3g}{unit}" if abs(value) < 1000 else f"{value:.0f}{unit}"  # noqa: PLR2004 - 3 digits
        value /= _KIB
    return f"{value:.0f}"


def milliseconds(value: float | None) -> str:
    """Write milliseconds with three digits, `-` for none."""
    return "-" if value is None else f"{value:.3g} ms"


def _units(whole: int, large: tuple[int, str], small: tuple[int, str], both: bool) -> str:
    count, rest = divmod(whole, large[0])
    rest //= small[0]
    return f"{count}{large[1]}{rest}{small[1]}" if both and rest else f"{count}{large[1]}"


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


def show_titled(console: Console, title: str, headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Print a table under its title, and a blank line; a heading that begins with `>` is of cells at the right."""
    columns = [Column(heading.removeprefix(">").upper(), right=heading.startswith(">")) for heading in headings]
    if title:
        console.print(Text(title, "bold"))
    show(console, columns, rows, headers=any(headings))
    console.print()


def progress_bars() -> Progress:
    """Return bars for long work, on standard error, and only on a terminal; they are gone when it is done."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    shown = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    return Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal)


def phase(name: str) -> Text:
    """Return the phase of a gang in its colour."""
    return Text(one_line(name), _PHASE_STYLES.get(name, ""))


def cleaned(cell: Cell) -> Text:
    """Return a cell in one line without what would steer a terminal: texts in it may be from any user."""
    return cell if isinstance(cell, Text) else Text(one_line(cell))


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
