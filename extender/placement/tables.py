"""Sharing a number of pods out at the least cost: tables of costs by number of pods, folded into one another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

#: What cannot be done costs this much; sums of two still are an int64.
IMPOSSIBLE = np.int64(2**61)

Shares: TypeAlias = list[tuple[int, int]]
"""(position of a node, pods that it gets), nodes that get none left out."""


@dataclass(frozen=True, slots=True)
class Table:
    """What it costs to put 0, 1, 2, ... pods somewhere, and where they go then.

    `costs` is int64, by number of pods; `pick` returns the shares of a number that is possible.
    """

    costs: NDArray[np.int64]
    pick: Callable[[int], Shares]

    @property
    def possible(self) -> NDArray[np.intp]:
        """Return the numbers of pods that are possible."""
        return np.flatnonzero(self.costs < IMPOSSIBLE)


def leaf(position: int, costs: NDArray[np.int64]) -> Table:
    """Return the table of one node."""
    return Table(costs, lambda pods: [(position, pods)] if pods else [])


def merge(children: Sequence[Table], pods: int) -> Table:
    """Return the table, 0 to `pods`, of sharing pods out among `children`; of equal ways the first ones get most.

    Complexity: O(pods x sum of what is possible in the children).
    """
    costs = np.full(pods + 1, IMPOSSIBLE, dtype=np.int64)
    costs[0] = 0
    choices: list[NDArray[np.int64]] = []
    for child in children:
        best, choice = np.full_like(costs, IMPOSSIBLE), np.zeros(pods + 1, dtype=np.int64)
        for share in child.possible.tolist():
            if share > pods:
                break
            candidate = costs[: pods + 1 - share] + child.costs[share]
            better = candidate < best[share:]
            best[share:][better] = candidate[better]
            choice[share:][better] = share
        costs = np.minimum(best, IMPOSSIBLE)
        choices.append(choice)

    def pick(wanted: int) -> Shares:
        shares: Shares = []
        for child, choice in zip(reversed(children), reversed(choices), strict=True):
            own = int(choice[wanted])
            shares += child.pick(own)
            wanted -= own
        return shares

    return Table(costs, pick)


def fold(costs: NDArray[np.int64], share_costs: Iterable[tuple[int, int]], copies: int) -> NDArray[np.int64]:
    """Return the least costs once `copies` equal islands more may take pods, each one of `share_costs` (pods, cost)."""
    shares = [(pods, cost) for pods, cost in share_costs if 0 < pods < costs.shape[0]]
    for _ in range(copies if shares else 0):
        best = costs.copy()
        for pods, cost in shares:
            np.minimum(best[pods:], costs[:-pods] + cost, out=best[pods:])
        if np.array_equal(best, costs):
            break
        costs = best
    return costs


def reach(sums: int, shares: Iterable[int], copies: int, most: int) -> int:
    """Return which sums, as bits 0 to `most`, can be reached once `copies` equal islands more take one of `shares`."""
    within = (1 << (most + 1)) - 1
    allowed = [pods for pods in shares if 0 < pods <= most]
    for _ in range(copies if allowed else 0):
        before = sums
        for pods in allowed:
            sums |= before << pods
        sums &= within
        if sums == before:
            break
    return sums
