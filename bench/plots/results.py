"""The JSON that `python -m bench --output json` has printed, read back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from bench.figures import Figure

#: Figures by name.
Results: TypeAlias = Mapping[str, Figure]

#: Figures that are missing, by the arguments of `python -m bench` that measure them.
Missing: TypeAlias = Mapping[str, Sequence[str]]

#: Stands for the size in the names of the figures of one curve.
SIZE = "{size}"


class ResultsError(Exception):
    """Report results that cannot be read or drawn; the message names the file or the figure."""


class _Entry(msgspec.Struct, frozen=True):
    """One figure under the keys of `Figure.as_json`."""

    value: float
    low: float = msgspec.field(name="min")
    high: float = msgspec.field(name="max")
    unit: str


class _Document(msgspec.Struct, frozen=True):
    """What one run of `python -m bench --output json` has printed."""

    figures: dict[str, _Entry]


def load(files: Sequence[Path]) -> dict[str, Figure]:
    """Return the figures of all files, by name; where two have the same one, the later file counts.

    Bounds are left out: those that are drawn are the budget's own. Raises ResultsError that names the file, and the
    field that is wrong.
    """
    figures: dict[str, Figure] = {}
    for file in files:
        try:
            document = msgspec.json.decode(file.read_bytes(), type=_Document)
        except OSError as error:
            raise ResultsError(f"{file} cannot be read: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ResultsError(f"{file} is not what `make bench` prints with --output json: {error}") from error
        for name, entry in document.figures.items():
            figures[name] = Figure(name, entry.unit, entry.value, entry.low, entry.high)
    return figures


def points(results: Results, pattern: str) -> dict[int, Figure]:
    """Return the figures that are named like `pattern`, such as `plan_{size}`, by their size, the smallest first.

    Raises ResultsError for one that has no place on a logarithmic axis.
    """
    before, _, after = pattern.partition(SIZE)
    named = re.compile(rf"{re.escape(before)}(\d+){re.escape(after)}")
    found = {int(match[1]): figure for name, figure in results.items() if (match := named.fullmatch(name))}
    if flat := [figure.name for figure in found.values() if figure.low <= 0]:
        raise ResultsError(f"{', '.join(flat)}: 0 or less has no place on a logarithmic axis; measure again")
    return dict(sorted(found.items()))
