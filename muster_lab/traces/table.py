"""CSV tables whose cells are read one by one, so that a mistake is named by file, line and column."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

from muster_lab.traces.trace import TraceError

#: What traces write for "not known".
_UNKNOWN = frozenset({"", "nan", "none", "null", "na"})


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One line of a table: its cells by column, and where it stands, for messages."""

    file: str
    line: int
    cells: Mapping[str, str]

    def fail(self, column: str, message: str) -> NoReturn:
        """Raise TraceError about one cell."""
        raise TraceError(f"{self.file}:{self.line}: column '{column}': {message}")

    def text(self, column: str) -> str:
        """Return a cell without the space around it; "" where the table does not have that column."""
        return self.cells.get(column, "").strip()

    def is_known(self, column: str) -> bool:
        """Tell whether a cell holds something: neither nothing nor one of the words for it."""
        return self.text(column).lower() not in _UNKNOWN

    def number(self, column: str, *, least: float = 0.0) -> float:
        """Return a finite number that is at least `least`."""
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            self.fail(column, f"{text!r} is not a number")
        if not math.isfinite(value):
            self.fail(column, f"{text!r} is not a finite number")
        if value < least:
            self.fail(column, f"{text} is less than {least:g}")
        return value

    def count(self, column: str, *, least: int = 0) -> int:
        """Return a whole number that is at least `least`; `2.0` is one, as tables have it that were floats once."""
        value = self.number(column, least=least)
        if not value.is_integer():
            self.fail(column, f"{self.text(column)!r} is not a whole number")
        return int(value)


def read_rows(file: Path, required: Sequence[str], optional: Sequence[str] | None = None) -> Iterator[TraceRow]:
    """Read a table that names its columns in the first line.

    Args:
        file: the table, in UTF-8.
        required: the columns that have to be there.
        optional: those that may be there besides; None for any.

    Raises TraceError for a file that cannot be read, lacks a column, or has a line that is too short or too long.
    """
    reader = _lines(file)
    header = [name.strip() for name in next(reader, (0, []))[1]]
    if not header:
        raise TraceError(f"{file}:1: the file is empty; the first line names the columns: {', '.join(required)}")
    _check_header(file, header, required, optional)
    yield from _rows(file, header, reader)


def read_rows_without_header(file: Path, columns: Sequence[str]) -> Iterator[TraceRow]:
    """Read a table of these columns whose first line may name them, or may be data already. Raises TraceError."""
    reader = _lines(file)
    first = next(reader, None)
    if first is None:
        raise TraceError(f"{file}:1: the file is empty; its columns are {', '.join(columns)}")
    if [name.strip() for name in first[1]] != [*columns]:
        yield _row(file, columns, *first)
    yield from _rows(file, columns, reader)


def _lines(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Iterate over line numbers and cells, lines without any left out."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            reader = csv.reader(opened, strict=True)
            try:
                for cells in reader:
                    if cells:
                        yield reader.line_num, cells
            except csv.Error as error:
                raise TraceError(f"{file}:{reader.line_num}: not CSV: {error}") from error
    except OSError as error:
        raise TraceError(f"{file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{file}: not UTF-8: {error.reason} at byte {error.start}") from error


def _rows(file: Path, columns: Sequence[str], lines: Iterator[tuple[int, list[str]]]) -> Iterator[TraceRow]:
    for line, cells in lines:
        yield _row(file, columns, line, cells)


def _row(file: Path, columns: Sequence[str], line: int, cells: Sequence[str]) -> TraceRow:
    if len(cells) != len(columns):
        raise TraceError(
            f"{file}:{line}: {len(cells)} cells, but there are {len(columns)} columns: {','.join(columns)}"
        )
    return TraceRow(str(file), line, dict(zip(columns, cells, strict=True)))


def _check_header(file: Path, header: Sequence[str], required: Sequence[str], optional: Sequence[str] | None) -> None:
    for name in required:
        if name not in header:
            found = ", ".join(header)
            raise TraceError(f"{file}:1: column '{name}' is missing; found {found}; needed {', '.join(required)}")
    for index, name in enumerate(header):
        if name in header[:index]:
            raise TraceError(f"{file}:1: column '{name}' is there twice")
        known = [*required, *(optional or ())]
        if optional is not None and name not in known:
            similar = get_close_matches(name, known, n=1)
            hint = f"did you mean '{similar[0]}'?" if similar else f"known: {', '.join(known)}"
            raise TraceError(f"{file}:1: there is no column '{name}'; {hint}")
