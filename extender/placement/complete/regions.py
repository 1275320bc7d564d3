"""How much of which kinds some nodes hold together: every combination that they hold, as one table.

A region has, for each number of all kinds but the last, the greatest number of the last kind that goes with them;
`NONE` where there is no room even without any. What holds some holds less: values fall along every axis.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Region: TypeAlias = NDArray[np.int64]
"""(numbers of the first kind, of the second, ...): how many of the last. With one kind the only axis has length 1."""

Counts: TypeAlias = tuple[int, ...]
"""A number of each kind."""

#: No combination with such numbers has room; so low that adding to it changes nothing.
NONE: Final = np.int64(-(1 << 50))

#: What one operation on an array costs beside its cells, in steps: a step is about 5 ns on one core.
OPERATION: Final = 2_000

#: Combinations that a table may have: 8 MB.
_MOST_CELLS: Final = 1 << 20

#: Nodes, no two of them alike, of which it is remembered what they hold.
_MOST_NODES: Final = 10_000

#: What regions that are remembered may take (bytes); beyond, all are forgotten.
MOST_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class AlikeNodes:
    """The nodes that hold any pods: (nodes,) their rows, the kind of each, and the region of each kind.

    `asked` is (shapes, resources) what one pod asks for.
    """

    rows: NDArray[np.intp]
    kinds: NDArray[np.intp]
    regions: Sequence[Region]
    asked: NDArray[np.int64]


class OutOfStepsError(Exception):
    """The search has done as much as it may."""


class Steps:
    """Count what a search does, the same on every machine.

    Attributes:
        done: how many steps it has taken.
        most: how many it may take.
    """

    def __init__(self, most: int) -> None:
        """Allow `most` steps."""
        self.most = most
        self.done = 0

    def take(self, operations: int, cells: int) -> None:
        """Take the steps for so many operations on so many cells each; raise OutOfStepsError if these are too many."""
        steps = operations * (cells + OPERATION)
        if self.done + steps > self.most:
            self.done = self.most
            raise OutOfStepsError
        self.done += steps


def nothing(kinds: int) -> Region:
    """Return the region of no nodes at all."""
    return np.zeros((1,) * max(kinds - 1, 1), dtype=np.int64)


def place_of(counts: Counts) -> tuple[int, ...]:
    """Return the cell that says how many of the last kind go with the others."""
    return counts[:-1] or (0,)


def holds(region: Region, counts: Counts) -> bool:
    """Tell whether that much has room together."""
    cell = place_of(counts)
    inside = all(at < length for at, length in zip(cell, region.shape, strict=True))
    return inside and bool(region[cell] >= counts[-1])


def best(region: Region) -> NDArray[np.intp]:
    """Return (cells, axes) the cells of combinations to which nothing can be added."""
    mask = region >= 0
    for axis in range(region.ndim):
        lower = tuple(slice(None, -1) if at == axis else slice(None) for at in range(region.ndim))
        upper = tuple(slice(1, None) if at == axis else slice(None) for at in range(region.ndim))
        mask[lower] &= region[lower] != region[upper]
    return np.argwhere(mask)


def combinations(region: Region, kinds: int) -> list[Counts]:
    """Return the combinations to which nothing can be added."""
    cells = best(region)
    return [(*cell[: kinds - 1], int(region[tuple(cell)])) for cell in cells.tolist()]


# Example. Two kinds, 2 workers and 2 servers wanted. A node holds both servers, or one of each, or two workers:
#
#   node          [2, 1, 0]      by number of workers 0, 1, 2: so many servers
#   two of them   [2, 2, 2]      with 2 workers: 1 + 1 of each node, so 2 servers; never more than are wanted
#   without 1+1   [2, NONE, 0]   is no region: its table would be closed to [2, 0, 0]
class RegionSum:
    """What two sets of nodes hold together, computed in as many turns as it takes."""

    def __init__(self, one: Region, other: Region, caps: Counts) -> None:
        """Begin to add two regions; of each kind never more than `caps` count. Raises OutOfStepsError if too large."""
        some, others = best(one), best(other)
        if some.shape[0] * other.size > others.shape[0] * one.size:
            one, other, some = other, one, others
        axes = place_of(caps) if len(caps) > 1 else (0,)
        lengths = [min(a + b - 2, cap) + 1 for a, b, cap in zip(one.shape, other.shape, axes, strict=True)]
        if prod(lengths) > _MOST_CELLS:
            raise OutOfStepsError
        self._one, self._other, self._cells, self._most = one, other, some.tolist(), caps[-1]
        self._found: Region = np.full(lengths, NONE, dtype=np.int64)

    def finish(self, steps: Steps) -> Region:
        """Go on, and return the sum; raise OutOfStepsError if there is more to do for another turn."""
        steps.take(4, self._found.size)
        while self._cells:
            steps.take(1, self._other.size)
            cell = tuple(self._cells.pop())
            part = self._found[tuple(slice(at, at + n) for at, n in zip(cell, self._other.shape, strict=True))]
            np.maximum(part, self._other[tuple(map(slice, part.shape))] + self._one[cell], out=part)
        return closed(self._found, self._most)


def closed(region: Region, most: int) -> Region:
    """Return the table in which what holds some holds less, with `most` as the greatest value."""
    for axis in range(region.ndim):
        backwards = (*[slice(None)] * axis, slice(None, None, -1))
        region = np.maximum.accumulate(region[backwards], axis=axis)[backwards]
    return np.where(region < 0, NONE, np.minimum(region, most))


def trimmed(region: Region) -> Region:
    """Return the region without the ends of axes on which there is no room; of a closed one that holds nothing."""
    lengths = []
    for axis in range(region.ndim):
        along = tuple(slice(None) if at == axis else 0 for at in range(region.ndim))
        lengths.append(max(int(np.count_nonzero(region[along] >= 0)), 1))
    return region[tuple(map(slice, lengths))]


def behind(
    region: Region, caps: Counts, opened: Sequence[Sequence[tuple[int, int]]], closed_here: Sequence[bool], steps: Steps
) -> Region:
    """Return a region in terms of what is opened to its own kinds.

    Args:
        region: what there is room for, once all is opened.
        caps: how many of each kind there are that is opened.
        opened: for each of those, its content in the kinds of `region`: (index, count).
        closed_here: those of which nothing may be here.
        steps: counts the work.
    """
    kinds = len(caps)
    matrix = np.zeros((kinds, 1 + max(index for parts in opened for index, _ in parts)), dtype=np.int64)
    for place, parts in enumerate(opened):
        for index, count in parts:
            matrix[place, index] += count
    lengths = [1 if shut else cap + 1 for cap, shut in zip(caps[:-1], closed_here, strict=False)] or [1]
    steps.take(1 + int(caps[-1]).bit_length(), prod(lengths) * (kinds + 1))
    cells = np.indices(lengths).reshape(len(lengths), -1).T
    base = cells[:, : kinds - 1] @ matrix[: kinds - 1]
    low = np.where(_all_hold(region, base), 0, -1)
    high = np.where(low < 0, -1, 0 if closed_here[-1] else caps[-1])
    while (low < high).any():  # the greatest number of the last kind: what holds some holds less
        middle = (low + high + 1) // 2
        fits = _all_hold(region, base + np.maximum(middle, 0)[:, None] * matrix[-1])
        low, high = np.where((low < high) & fits, middle, low), np.where((low < high) & ~fits, middle - 1, high)
    return trimmed(np.where(low < 0, NONE, low).reshape(lengths))


def _all_hold(region: Region, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return (combinations,) which of them, (combinations, kinds), have room."""
    axes = counts[:, :-1] if counts.shape[1] > 1 else np.zeros((counts.shape[0], 1), dtype=np.int64)
    inside = np.all(axes < np.array(region.shape), axis=1)
    there = np.where(inside[:, None], axes, 0)
    found: NDArray[np.bool_] = inside & (region[tuple(there.T)] >= counts[:, -1])
    return found


class Regions:
    """Regions that have been computed for one set of kinds, numbered by what they are the regions of.

    What a search that gave up has computed is there for the next, as far as nodes hold what they held.

    Attributes:
        nodes: what single nodes hold, by what is free of them and how many of each shape have room there.
    """

    def __init__(self) -> None:
        """Know no region."""
        self._numbers: dict[Hashable, int] = {}
        self._regions: list[Region] = []
        self._begun: dict[Hashable, RegionSum] = {}
        self.nodes: dict[bytes, Region] = {}
        self._bytes = 0

    def __getitem__(self, number: int) -> Region:
        """Return the region with a number."""
        return self._regions[number]

    def find(self, key: Hashable) -> int | None:
        """Return the number of what `key` stands for, None if it has not been computed."""
        return self._numbers.get(key)

    def keep(self, key: Hashable, region: Region) -> int:
        """Remember the region of `key`; return its number."""
        number = self._numbers[key] = len(self._regions)
        self._regions.append(region)
        self._bytes += region.nbytes + 500
        return number

    def of_node(self, region: Region) -> int:
        """Return the number of a node's region: nodes that hold the same have one."""
        key = region.shape, region.tobytes()
        found = self._numbers.get(key)
        return self.keep(key, region) if found is None else found

    def together(self, key: Hashable, numbers: tuple[int, int], caps: Counts, steps: Steps) -> int:
        """Return the number of what two regions hold together, which `key` stands for; go on where that was begun."""
        found = self._numbers.get(key)
        if found is not None:
            return found
        if key not in self._begun:
            one, other = (self._regions[number] for number in numbers)
            self._begun[key] = RegionSum(one, other, caps)
        region = self._begun[key].finish(steps)
        del self._begun[key]
        return self.keep(key, region)

    @property
    def is_too_much(self) -> bool:
        """Tell whether so much is known that a search is to begin afresh."""
        return self._bytes > MOST_BYTES or len(self.nodes) > _MOST_NODES
