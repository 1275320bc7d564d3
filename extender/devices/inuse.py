"""Which devices claims have, whole or in part: allocated, or promised."""

from __future__ import annotations

from collections.abc import Iterable

from extender.objects.dradevices import DeviceKey
from extender.objects.resourceclaim import ClaimAllocation, GivenDevice


class DevicesInUse:
    """Count what claims have of each device; access as administrator counts as nothing.

    Source: kube-scheduler's dynamicresources foreachAllocatedDevice.
    """

    __slots__ = ("_consumed", "_shares", "_whole")

    def __init__(self, allocations: Iterable[ClaimAllocation] = ()) -> None:
        """Start with what some claims have, each counted once."""
        self._whole: dict[DeviceKey, int] = {}
        self._shares: dict[DeviceKey, int] = {}
        self._consumed: dict[DeviceKey, dict[str, int]] = {}
        for allocation in allocations:
            self.take(allocation)

    def take(self, allocation: ClaimAllocation) -> None:
        """Count what a claim has."""
        for given in allocation.devices:
            self._count(given, 1)

    def give_back(self, allocation: ClaimAllocation) -> None:
        """Count it no more."""
        for given in allocation.devices:
            self._count(given, -1)

    def copied(self) -> DevicesInUse:
        """Return the same counts, which change apart from these."""
        twin = DevicesInUse()
        twin._whole = dict(self._whole)
        twin._shares = dict(self._shares)
        twin._consumed = {device: dict(amounts) for device, amounts in self._consumed.items()}
        return twin

    def is_whole(self, device: DeviceKey) -> bool:
        """Tell whether a claim has a device to itself."""
        return device in self._whole

    def is_shared(self, device: DeviceKey) -> bool:
        """Tell whether anybody has a part of a device."""
        return device in self._shares

    def holds(self, device: DeviceKey) -> bool:
        """Tell whether anybody has anything of a device."""
        return device in self._whole or device in self._shares

    def consumed(self, device: DeviceKey, capacity: str) -> int:
        """Return how much of a capacity is given out (billionths)."""
        return self._consumed.get(device, {}).get(capacity, 0)

    @property
    def devices(self) -> frozenset[DeviceKey]:
        """Return the devices of which anybody has anything."""
        return frozenset(self._whole) | frozenset(self._shares)

    def _count(self, given: GivenDevice, by: int) -> None:
        if given.admin:
            return
        counts = self._shares if given.share else self._whole
        counts[given.device] = counts.get(given.device, 0) + by
        if not counts[given.device]:
            del counts[given.device]
        if given.share and given.consumed:
            amounts = self._consumed.setdefault(given.device, {})
            for name, amount in given.consumed:
                amounts[name] = amounts.get(name, 0) + by * amount
        if given.device not in self._shares:
            self._consumed.pop(given.device, None)
