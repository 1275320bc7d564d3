"""Gangs of a queue that a walk goes by all at once, however many kinds they are of."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar


class _Placed(Protocol):
    """Something with a place in the queue; places can be compared."""

    @property
    def position(self) -> tuple[object, ...]:
        """Return the place."""


_Entry = TypeVar("_Entry", bound=_Placed)


class ParkedLines(Generic[_Entry]):
    """Lines of gangs, each of one kind, that all wait for as long as the same holds.

    The lines are in the order in which they were parked.

    Attributes:
        terms: what has to hold.
        least: of each resource that all of them ask for, the least that any does. Lines that leave do not raise it.
    """

    def __init__(self, terms: object) -> None:
        """Hold no line yet, on `terms`."""
        self.terms = terms
        self.least: dict[str, int] = {}
        self._lines: dict[Hashable, list[_Entry]] = {}
        self._first: _Entry | None = None

    def __len__(self) -> int:
        """Count the lines."""
        return len(self._lines)

    def __contains__(self, kind: Hashable) -> bool:
        """Tell whether the line of a kind is parked here."""
        return kind in self._lines

    @property
    def lines(self) -> Sequence[list[_Entry]]:
        """Return the lines, those that were parked first first."""
        return list(self._lines.values())

    @property
    def oldest(self) -> _Entry:
        """Return the first of the line that was parked first. There has to be one."""
        return next(iter(self._lines.values()))[0]

    @property
    def newest(self) -> _Entry:
        """Return the first of the line that was parked last. There has to be one."""
        return next(reversed(self._lines.values()))[0]

    @property
    def first(self) -> _Entry:
        """Return whose place comes before all others. Complexity: O(lines) where that one has left, else O(1)."""
        if self._first is None:
            self._first = min((line[0] for line in self._lines.values()), key=lambda entry: entry.position)
        return self._first

    def line(self, kind: Hashable) -> list[_Entry]:
        """Return the line of a kind, an empty one where it is not parked here."""
        return self._lines.get(kind, [])

    def add(self, kind: Hashable, line: list[_Entry], asks: Mapping[str, int]) -> None:
        """Park a line behind the others, which `asks` for so much of each resource."""
        self._lines[kind] = line
        if len(self._lines) == 1:
            self.least, self._first = dict(asks), line[0]
            return
        self.least = {name: min(value, asks[name]) for name, value in self.least.items() if name in asks}
        if self._first is not None and line[0].position < self._first.position:
            self._first = line[0]

    def take(self, kind: Hashable) -> list[_Entry]:
        """Take out the line of a kind."""
        line = self._lines.pop(kind)
        if self._first is line[0]:
            self._first = None
        return line
