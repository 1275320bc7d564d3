"""Nodes that kube-scheduler refused although Muster thought they would do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from cachetools import LRUCache, TTLCache
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

    What is refused may depend on where the gang's other members are, as topology spread does. A veto that was learned
    before another member passed kube-scheduler's filters is outdated: it holds until the gang finds no place with it.

    Advisory: a forgotten veto costs one more refusal, so a cache that drops entries when full is the right store.
    """

    #: Vetoes remembered: 5,000 nodes refused to 20 gangs.
    CAPACITY = 100_000
    #: Gangs whose progress is remembered. One that falls out keeps outdated vetoes until they end.
    GANGS = 10_000

    def __init__(self, seconds: float, timer: Callable[[], float]) -> None:
        """Remember each veto for `seconds` by `timer` (seconds, monotonic)."""
        #: In force -> how often members of the gang had passed before it was learned.
        self._learned: TTLCache[tuple[str, Shape, str], int] = TTLCache(self.CAPACITY, seconds, timer=timer)
        self._passed: LRUCache[str, int] = LRUCache(self.GANGS)  # gang UID -> how often members have passed
        self._ends: deque[float] = deque(maxlen=self.CAPACITY)
        self._seconds = seconds
        self._timer = timer

    def __len__(self) -> int:
        """Count the vetoes in force."""
        return len(self._learned)

    def add(self, gang_uid: str, shape: Shape, node: str) -> None:
        """Keep the gang's pods of `shape` away from `node` from now on."""
        self._learned[gang_uid, shape, node] = self._passed.get(gang_uid, 0)
        self._ends.append(self._timer() + self._seconds)

    def passed(self, gang_uid: str) -> None:
        """Take in that a member of the gang is passing kube-scheduler's filters: what was refused before may do now."""
        if self._learned:
            self._passed[gang_uid] = self._passed.get(gang_uid, 0) + 1

    def lift_outdated(self, gang_uid: str) -> bool:
        """Forget the gang's vetoes that were learned before a member passed; return whether there were any."""
        passed = self._passed.get(gang_uid, 0)
        if not passed:
            return False
        outdated = [key for key, learned in self._learned.items() if key[0] == gang_uid and learned < passed]
        for key in outdated:
            self._learned.pop(key, None)
        return bool(outdated)

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
        for gang_uid, shape, node in self._learned:
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
