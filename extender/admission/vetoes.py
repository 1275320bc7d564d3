"""Nodes that kube-scheduler refused although Muster thought they would do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
from cachetools import TTLCache
from numpy.typing import NDArray

from extender.cluster.table import NodeTable
from extender.domain.pod import Shape
from extender.placement.plan import Eligible


class Vetoes:
    """Remember for a while which nodes a shape should not be sent to.

    Advisory: a forgotten veto costs one more refusal, so a cache that drops entries when full is the right store.
    """

    #: Distinct (shape, node) pairs remembered: 5,000 nodes refused for 20 shapes.
    CAPACITY = 100_000

    def __init__(self, seconds: float, timer: Callable[[], float]) -> None:
        """Remember each veto for `seconds` by `timer` (seconds, monotonic)."""
        self._until: TTLCache[tuple[Shape, str], float] = TTLCache(self.CAPACITY, seconds, timer=timer)
        self._ends: deque[float] = deque(maxlen=self.CAPACITY)
        self._seconds = seconds
        self._timer = timer

    def __len__(self) -> int:
        """Count the vetoes in force."""
        return len(self._until)

    def add(self, shape: Shape, node: str) -> None:
        """Keep pods of `shape` away from `node` from now on."""
        until = self._timer() + self._seconds
        self._until[shape, node] = until
        self._ends.append(until)

    def next_end(self) -> float | None:
        """Return when the next veto ends that `ended` has not reported yet, or None."""
        return self._ends[0] if self._ends else None

    def ended(self, now: float) -> bool:
        """Tell whether any veto has ended since last asked."""
        before = len(self._ends)
        while self._ends and self._ends[0] <= now:
            self._ends.popleft()
        return len(self._ends) < before

    def apply(self, table: NodeTable, eligible: Eligible) -> Eligible:
        """Return `eligible` with the vetoed nodes left out."""
        if not self._until:
            return eligible
        vetoed: dict[Shape, list[int]] = {}
        for shape, node in self._until:
            row = table.row(node)
            if row is not None:
                vetoed.setdefault(shape, []).append(row)

        def without_vetoed(shape: Shape) -> NDArray[np.bool_]:
            mask = eligible(shape)
            if shape in vetoed:
                mask = mask.copy()
                mask[vetoed[shape]] = False
            return mask

        return without_vetoed
