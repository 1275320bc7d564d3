"""Which devices go together: what they must have in common, and counters of which each takes a part.

Source: dynamic-resource-allocation/structured/internal/incubating constraint.go, matchAttributeConstraint,
checkAvailableCounters; release 1.37.
"""

from __future__ import annotations

from typing import TypeAlias

from extender.devices.inuse import DevicesInUse
from extender.devices.inventory import NodePool
from extender.objects.dradevices import PoolKey
from extender.objects.resourceclaim import DeviceConstraint
from extender.objects.resourceslice import AttributeValue, PoolDevice, typed_value

_Typed: TypeAlias = tuple[type, AttributeValue]


class AttributeConstraint:
    """One constraint (matchAttribute, distinctAttribute), and the values that the devices chosen so far have."""

    __slots__ = ("_constraint", "_values")

    def __init__(self, constraint: DeviceConstraint) -> None:
        """Start without devices."""
        self._constraint = constraint
        self._values: list[_Typed] = []

    def add(self, request: str, device: PoolDevice) -> bool:
        """Count a device in that is to be given to `request`, unless it violates the constraint."""
        if not self._concerns(request):
            return True
        value = device.attributes.value(self._constraint.attribute)
        if value is None:
            return False
        typed = typed_value(value)
        if self._values and not self._agrees(typed):
            return False
        self._values.append(typed)
        return True

    def remove(self, request: str) -> None:
        """Count the last device out again that was given to `request`."""
        if self._concerns(request):
            self._values.pop()

    def _agrees(self, typed: _Typed) -> bool:
        if isinstance(typed[1], tuple):  # lists are alpha: kube-scheduler compares none
            return False
        if self._constraint.distinct:
            return typed not in self._values
        return typed == self._values[0]

    def _concerns(self, request: str) -> bool:
        """Tell whether a request, named whole, is one of those that the constraint names, all without any."""
        requests = self._constraint.requests
        return not requests or request in requests or request.partition("/")[0] in requests


_Counts: TypeAlias = dict[tuple[str, str], int]
"""(counter set, counter) -> billionths."""


class CounterBook:
    """What is left of the counters of pools: parts of one GPU take its memory and slices.

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
