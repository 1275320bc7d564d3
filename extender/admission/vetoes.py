"""Nodes that kube-scheduler refused although Muster thought they would do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from cachetools import TTLCache
from numpy.typing import NDArray

from extender.cluster.table import NodeTable
from extender.domain.pod import Shape
from extender.placement.plan import Eligible

Vetoed: TypeAlias = dict[str, dict[Shape, list[int]]]
"""Gang UID -> shape -> rows that kube-scheduler refused."""


class Vetoes:
    """Remember for a while which nodes a gang's pods of some shape should not be sent to.

    A shape leaves out what Muster does not model (pod affinity, spread, volumes), and just that is what kube-scheduler
    refused a node for: so a veto counts for the gang that met with it, and not for others of the same shape.

    Advisory: a forgotten veto costs one more refusal, so a cache that drops entries when full is the right store.
    """

    #: Vetoes remembered: 5,000 nodes refused to 20 gangs.
    CAPACITY = 100_000

    def __init__(self, seconds: float, timer: Callable[[], float]) -> None:
        """Remember each veto for `seconds` by `timer` (seconds, monotonic)."""
        self._until: TTLCache[tuple[str, Shape, str], float] = TTLCache(self.CAPACITY, seconds, timer=timer)
        self._ends: deque[float] = deque(maxlen=self.CAPACITY)
        self._seconds = seconds
        self._timer = timer

    def __len__(self) -> int:
        """Count the vetoes in force."""
        return len(self._until)

    def add(self, gang_uid: str, shape: Shape, node: str) -> None:
        """Keep the gang's pods of `shape` away from `node` from now on."""
        until = self._timer() + self._seconds
        self._until[gang_uid, shape, node] = until
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

    def by_gang(self, table: NodeTable) -> Vetoed:
        """Return the vetoes in force as rows of `table`: gang UID -> shape -> rows."""
        vetoed: Vetoed = {}
        for gang_uid, shape, node in self._until:
            row = table.row(node)
            if row is not None:
                vetoed.setdefault(gang_uid, {}).setdefault(shape, []).append(row)
        return vetoed


def leave_out(admitted: Eligible, vetoed: Mapping[Shape, list[int]] | None) -> Eligible:
    """Return `admitted` without one gang's vetoed rows, or `admitted` itself if there are none."""
    if not vetoed:
        return admitted

    def eligible(shape: Shape) -> NDArray[np.bool_]:
        mask = admitted(shape)
        if shape in vetoed:
            mask = mask.copy()
            mask[vetoed[shape]] = False
        return mask

    return eligible
