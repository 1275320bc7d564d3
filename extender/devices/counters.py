"""Counters that devices of a pool share: parts of one GPU take its memory and slices.

Source: dynamic-resource-allocation/structured/internal/incubating checkAvailableCounters.
"""

from __future__ import annotations

from typing import TypeAlias

from extender.devices.inuse import DevicesInUse
from extender.devices.inventory import NodePool
from extender.objects.dradevices import Amount, PoolKey
from extender.objects.resourceslice import PoolDevice

_Counts: TypeAlias = dict[tuple[str, str], Amount]
"""(counter set, counter) -> billionths."""


class CounterBook:
    """What is left of the counters of pools, and what a search has taken of it.

    More may be given out than there is; then nothing of the pool can be had that takes counters, whichever it takes.
    """

    def __init__(self, in_use: DevicesInUse) -> None:
        """Start with what claims have."""
        self._in_use = in_use
        self._left: dict[PoolKey, _Counts] = {}

    def take(self, pool: NodePool, device: PoolDevice) -> bool:
        """Take the counters of a device, if there are enough."""
        if not self.covers(pool, device):
            return False
        self._count(self._left_of(pool), device, -1)
        return True

    def give_back(self, pool: NodePool, device: PoolDevice) -> None:
        """Give back what `take` has taken."""
        self._count(self._left_of(pool), device, 1)

    def covers(self, pool: NodePool, device: PoolDevice) -> bool:
        """Tell whether there are enough counters for a device; always for one that takes none."""
        if not device.counters.uses:
            return True
        left = self._left_of(pool)
        taken: _Counts = {}
        self._count(taken, device, 1)
        return all(amount >= taken.get(counter, 0) for counter, amount in left.items())

    def _left_of(self, pool: NodePool) -> _Counts:
        left = self._left.get(pool.key)
        if left is None:
            left = {(each.name, name): amount for each in pool.counter_sets for name, amount in each.counters}
            for candidate in (*pool.candidates, *pool.elsewhere):
                if candidate.device.counters.uses and self._in_use.holds(candidate.key):
                    self._count(left, candidate.device, -1)
            self._left[pool.key] = left
        return left

    @staticmethod
    def _count(counts: _Counts, device: PoolDevice, by: int) -> None:
        for use in device.counters.uses:
            for name, amount in use.counters:
                counter = (use.counter_set, name)
                counts[counter] = counts.get(counter, 0) + by * amount
