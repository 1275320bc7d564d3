"""What a kubelet's resource managers hold for one pod while they serve its containers one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import combinations

from extender.domain.alignment import ContainerRequest, Stage
from extender.numa.nodetopology import NodeTopology, is_memory


class Ledger:
    """Free, reusable and held amounts by zone, in milli-CPU, bytes and counts.

    Masks are sets of zones as bits, zone 3 being `1 << 3`, as in the kubelet: of two masks of equal width the lower
    number is preferred. What init containers took is reused by later containers and stays the pod's in any case.

    Attributes:
        everywhere: the mask of all zones.
        held: what the pod has been given, by zone id and resource.
    """

    def __init__(self, topology: NodeTopology, free: Mapping[int, Mapping[str, int]]) -> None:
        """Start with nothing held; `free` is copied."""
        self._zones = {zone.id: zone for zone in topology.zones}
        self._free = {zone: dict(free.get(zone, {})) for zone in self._zones}
        self._reusable: dict[str, dict[int, int]] = {}
        self._reusable_memory: dict[tuple[int, str], int] = {}
        self.everywhere = sum(1 << zone for zone in self._zones)
        self.held: dict[int, dict[str, int]] = {}

    def free(self, resource: str) -> tuple[int, ...]:
        """Return what is free of `resource` in each zone, for the pod's own containers too."""
        reusable = self._reusable.get(resource, {})
        return tuple(amounts.get(resource, 0) + reusable.get(zone, 0) for zone, amounts in self._free.items())

    def offers(self, demand: Mapping[str, int], mask: int) -> bool:
        """Tell whether the zones of `mask` can serve all of `demand`, which is one manager's.

        Reusable devices and CPUs must lie within the mask, all of them: the managers offer no other. The memory manager
        reuses only what it gave for the very same mask.
        """
        return all(self._covers(resource, asked, mask) for resource, asked in demand.items())

    def within_reach(self, demand: Mapping[str, int], mask: int = 0) -> bool:
        """Tell whether any zones that include those of `mask` can serve `demand`: what none can, no policy admits."""
        every = (self.everywhere, *(given for given, _ in self._reusable_memory))
        return any(self.offers(demand, wider) for wider in every if wider & mask == mask)

    def take(self, part: ContainerRequest, mask: int | None) -> int:
        """Serve one container from `mask`, None being unaligned, and return the zones that it may draw from.

        What the mask does not have (best-effort) comes from elsewhere: of CPUs and devices the rest, memory all from a
        wider mask. It must be within reach.
        """
        drawn = 0
        memory = {resource: asked for resource, asked in part.requests if is_memory(resource)}
        for resource, asked in part.requests:
            if resource not in memory:
                drawn |= self._take_counted(resource, asked, part.stage, self.everywhere if mask is None else mask)
        if memory:
            drawn |= self._take_memory(memory, part.stage, mask or 0)
        return drawn

    def _covers(self, resource: str, asked: int, mask: int) -> bool:
        free = sum(self._free[zone].get(resource, 0) for zone in bits(mask))
        if is_memory(resource):
            return free + self._reusable_memory.get((mask, resource), 0) >= asked
        reusable = self._reusable.get(resource)
        if not reusable:
            return free >= asked
        return free + sum(reusable.values()) >= asked and not any(n for z, n in reusable.items() if not mask >> z & 1)

    def _take_counted(self, resource: str, asked: int, stage: Stage, mask: int) -> int:
        """Take CPUs or devices from the mask, then from other zones; return the mask with those.

        The device manager starts with what init containers left, the CPU manager goes zone by zone.
        """
        reusable = self._reusable.setdefault(resource, {})
        outside = self.everywhere & ~mask
        if resource == "cpu":
            inside = self._packed(mask, asked)
            order = [*inside, *self._packed(outside, asked - sum(map(self._cpus, inside)))]
            sources = [(zone, again) for zone in order for again in (True, False)]
        else:
            sources = [(zone, True) for zone in sorted(reusable)]
            sources += [(zone, False) for zone in (*bits(mask), *bits(outside))]
        need = asked
        for zone, again in sources:
            taken = min(need, reusable.get(zone, 0) if again else self._free[zone].get(resource, 0))
            if not taken:
                continue
            need -= taken
            mask |= 1 << zone
            if not again:
                self._hold(zone, resource, taken)
            if again and stage is not Stage.INIT:
                reusable[zone] -= taken
            elif not again and stage is Stage.INIT:
                reusable[zone] = reusable.get(zone, 0) + taken
        return mask

    def _packed(self, mask: int, need: int) -> list[int]:
        """Order zones as the CPU manager fills them: those that it takes whole, then those with the fewest CPUs free.

        Source: cpumanager/cpu_assignment.go takeByTopologyNUMAPacked, 1.36; of sockets with several zones each it
        would take whole ones first.
        """
        whole = []
        for zone in bits(mask):
            total = self._zones[zone].total("cpu")
            if need >= total == self._cpus(zone):
                whole.append(zone)
                need -= total
        rest = sorted((zone for zone in bits(mask) if zone not in whole), key=lambda zone: (self._cpus(zone), zone))
        return whole + rest

    def _cpus(self, zone: int) -> int:
        return self._free[zone].get("cpu", 0) + self._reusable.get("cpu", {}).get(zone, 0)

    def _take_memory(self, demand: Mapping[str, int], stage: Stage, mask: int) -> int:
        """Take memory of all sizes from one mask, the narrowest that has it and holds `mask`, lowest zones first.

        Source: memorymanager/policy_static.go, Allocate and extendTopologyManagerHint, 1.36.
        """
        ids = tuple(self._zones)
        wider = (m for width in range(1, len(ids) + 1) for m in masks(ids, width) if m & mask == mask)
        chosen = mask if mask and self.offers(demand, mask) else next(m for m in wider if self.offers(demand, m))
        for resource, asked in demand.items():
            key = (chosen, resource)
            reusable = self._reusable_memory.get(key, 0)
            need = max(0, asked - reusable)
            for zone in bits(chosen):
                taken = min(need, self._free[zone].get(resource, 0))
                need -= taken
                self._hold(zone, resource, taken)
            left = max(reusable, asked) if stage is Stage.INIT else max(0, reusable - asked)
            self._reusable_memory[key] = left
        return chosen

    def _hold(self, zone: int, resource: str, amount: int) -> None:
        if amount:
            self._free[zone][resource] -= amount
            held = self.held.setdefault(zone, {})
            held[resource] = held.get(resource, 0) + amount


def bits(mask: int) -> Iterator[int]:
    """Iterate over the zones of a mask, lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


@lru_cache(maxsize=1024)
def masks(zones: tuple[int, ...], width: int) -> tuple[int, ...]:
    """Return the masks of so many of the zones, in the order in which the kubelet prefers them."""
    return tuple(sorted(sum(1 << zone for zone in some) for some in combinations(zones, width)))
