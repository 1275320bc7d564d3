"""The device, CPU and memory managers of one simulated kubelet: where a request could be served, and serving it.

Written the way the kubelet is, hint by hint and device by device, and on purpose not the way Muster predicts it: each
checks the other. Source: k8s.io/kubernetes pkg/kubelet/cm, release 1.36. A device plugin without preferences is
assumed, and so are the lowest free indices; the groups of zones of the memory manager are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from extender.objects.nodetopology import Zone
from extender.objects.requests import ContainerRequest, Stage
from muster_lab.simulation.hints import DO_NOT_CARE, IMPOSSIBLE, Hint, Mask, affinities, narrowness, unexpected

_MILLI = 1000
_CPU = "cpu"
_MEMORY = "memory"
_HUGEPAGES = "hugepages-"


@dataclass(slots=True)
class _Units:
    """Things that are given out one by one: where each is, and who has it."""

    zone_of: list[int]
    usable: set[int]
    holder: dict[int, str] = field(default_factory=dict)
    reusable: set[int] = field(default_factory=set)

    @property
    def available(self) -> set[int]:
        return self.usable - self.holder.keys()

    def hints(self, request: int, zones: Sequence[int]) -> Sequence[Hint]:
        """Generate hints. Source: generateDeviceTopologyHints, generateCPUTopologyHints, which are alike."""
        total = Counter(self.zone_of)
        available = Counter(self.zone_of[unit] for unit in self.available)
        reusable = {self.zone_of[unit] for unit in self.reusable}
        narrowest = len(zones)
        masks = []
        for mask in affinities(zones):
            if sum(total[zone] for zone in mask) >= request:
                narrowest = min(narrowest, len(mask))
            matching = len(self.reusable) + sum(available[zone] for zone in mask)
            if reusable <= mask and matching >= request:
                masks.append(mask)
        return [Hint(mask, preferred=len(mask) == narrowest) for mask in masks] or IMPOSSIBLE

    def give(self, uid: str, taken: set[int], stage: Stage) -> None:
        """Hand units over; those of an init container stay reusable for the pod's next containers."""
        self.holder.update(dict.fromkeys(taken, uid))
        self.reusable = self.reusable | taken if stage is Stage.INIT else self.reusable - taken

    def held(self, uid: str) -> dict[int, int]:
        amounts: dict[int, int] = {}
        for unit, holder in self.holder.items():
            if holder == uid:
                amounts[self.zone_of[unit]] = amounts.get(self.zone_of[unit], 0) + 1
        return amounts

    def release(self, uid: str) -> None:
        self.holder = {unit: holder for unit, holder in self.holder.items() if holder != uid}


def _units(zones: Sequence[Zone], resource: str, unit: int) -> _Units:
    """List the units of a resource, zone by zone; the last ones of a zone are those that it keeps back."""
    zone_of: list[int] = []
    usable: set[int] = set()
    for zone in zones:
        first = len(zone_of)
        allocatable = zone.allocatable.get(resource, 0) // unit
        zone_of += [zone.id] * max(allocatable, zone.capacity.get(resource, 0) // unit)
        usable |= set(range(first, first + allocatable))
    return _Units(zone_of, usable)


class DeviceManager:
    """Give out the devices of one resource."""

    def __init__(self, resource: str, zones: Sequence[Zone]) -> None:
        self.resource = resource
        self._zones = [zone.id for zone in zones]
        self._devices = _units(zones, resource, 1)

    def asked(self, container: ContainerRequest) -> dict[str, int]:
        """Return the number of devices that a container asks for."""
        return {name: amount for name, amount in container.requests if name == self.resource}

    def hints(self, asked: Mapping[str, int]) -> list[Sequence[Hint]]:
        """Return the hints for the devices."""
        return [self._devices.hints(request, self._zones) for request in asked.values()]

    def allocate(self, uid: str, asked: Mapping[str, int], stage: Stage, affinity: Mask | None) -> None:
        """Take reusable devices, then aligned ones, then others. Source: devicemanager devicesToAllocate."""
        for required in asked.values():
            devices = self._devices
            taken = set(sorted(devices.reusable)[:required])
            needed = required - len(taken)
            available = sorted(devices.available)
            if len(available) < needed:
                what = f"requested number of devices unavailable for {self.resource}"
                raise unexpected(f"{what}. Requested: {needed}, Available: {len(available)}")
            aligned = [d for d in available if affinity is None or devices.zone_of[d] in affinity]
            unaligned = [d for d in available if d not in aligned]
            taken |= set([*aligned, *unaligned][:needed])
            devices.give(uid, taken, stage)

    def begin(self) -> None:
        """Forget what an earlier pod's init containers left to reuse."""
        self._devices.reusable = set()

    def release(self, uid: str) -> None:
        """Take back a pod's devices."""
        self._devices.release(uid)

    def held(self, uid: str) -> dict[int, dict[str, int]]:
        """Return how many devices of each zone a pod holds."""
        return {zone: {self.resource: amount} for zone, amount in self._devices.held(uid).items()}

    def claim(self, uid: str, indices: Iterable[int]) -> None:
        """Give a pod those of the devices called `indices` that are free."""
        self._devices.give(uid, set(indices) & self._devices.available, Stage.APP)

    def indices(self, uid: str) -> tuple[int, ...]:
        """Return the indices of the devices that a pod holds, counted through the zones in order."""
        return tuple(sorted(device for device, holder in self._devices.holder.items() if holder == uid))


class CpuManager:
    """Give out whole CPUs to Guaranteed pods: the static policy."""

    def __init__(self, zones: Sequence[Zone]) -> None:
        self._zones = [zone.id for zone in zones]
        self._cpus = _units(zones, _CPU, _MILLI)

    def asked(self, container: ContainerRequest) -> dict[str, int]:
        """Return how many CPUs of its own a container asks for: none unless it is a whole number."""
        amounts = {name: amount for name, amount in container.requests if name == _CPU}
        return {name: amount // _MILLI for name, amount in amounts.items() if amount % _MILLI == 0}

    def hints(self, asked: Mapping[str, int]) -> list[Sequence[Hint]]:
        """Return the hints for the CPUs."""
        return [self._cpus.hints(request, self._zones) for request in asked.values()]

    def allocate(self, uid: str, asked: Mapping[str, int], stage: Stage, affinity: Mask | None) -> None:
        """Take aligned CPUs, then others. Source: cpumanager/policy_static.go allocateCPUs."""
        for required in asked.values():
            allocatable = self._cpus.available | self._cpus.reusable
            if len(allocatable) < required:
                raise unexpected("not enough cpus available to satisfy request")
            aligned = {cpu for cpu in allocatable if affinity is None or self._cpus.zone_of[cpu] in affinity}
            taken = self._pack(aligned, min(required, len(aligned)))
            taken |= self._pack(allocatable - taken, required - len(taken))
            self._cpus.give(uid, taken, stage)

    def begin(self) -> None:
        """Forget what an earlier pod's init containers left to reuse."""
        self._cpus.reusable = set()

    def release(self, uid: str) -> None:
        """Take back a pod's CPUs."""
        self._cpus.release(uid)

    def held(self, uid: str) -> dict[int, dict[str, int]]:
        """Return how many milli-CPU of each zone a pod holds."""
        return {zone: {_CPU: amount * _MILLI} for zone, amount in self._cpus.held(uid).items()}

    def _pack(self, free: set[int], number: int) -> set[int]:
        """Take whole zones, then CPUs of the zones with the fewest free. Source: takeByTopologyNUMAPacked."""
        zone_of = self._cpus.zone_of
        by_zone = {zone: sorted(cpu for cpu in free if zone_of[cpu] == zone) for zone in self._zones}
        taken: set[int] = set()
        for zone in self._zones:
            if len(by_zone[zone]) == zone_of.count(zone) <= number - len(taken):
                taken |= set(by_zone.pop(zone))
        for zone in sorted(by_zone, key=lambda zone: (len(by_zone[zone]), zone)):
            reused_first = sorted(by_zone[zone], key=lambda cpu: (cpu not in self._cpus.reusable, cpu))
            taken |= set(reused_first[: number - len(taken)])
        return taken


class MemoryManager:
    """Give memory and huge pages of fixed zones to Guaranteed pods: the Static policy."""

    def __init__(self, zones: Sequence[Zone]) -> None:
        self._zones = zones
        self._free = {zone.id: {r: a for r, a in zone.allocatable.items() if _is_memory(r)} for zone in zones}
        self._reusable: dict[tuple[Mask, str], int] = {}
        self._held: dict[str, dict[int, dict[str, int]]] = {}

    def asked(self, container: ContainerRequest) -> dict[str, int]:
        """Return the bytes that a container asks for, by size of pages."""
        listed = {resource for zone in self._zones for resource, amount in zone.allocatable.items() if amount}
        return {name: amount for name, amount in container.requests if _is_memory(name) and name in listed}

    def hints(self, asked: Mapping[str, int]) -> list[Sequence[Hint]]:
        """Return the same hints for each size; none are no preference. Source: policy_static.go calculateHints."""
        return [self._hints(asked) or DO_NOT_CARE] * len(asked)

    def allocate(self, uid: str, asked: Mapping[str, int], stage: Stage, affinity: Mask | None) -> None:
        """Take memory from one mask: the affinity, or one that holds it if that has too little."""
        if not asked:
            return
        mask = affinity
        if mask is None or not self._satisfies(mask, asked):
            inside = affinity or frozenset()
            mask = self._best(hint.mask for hint in self._hints(asked) if hint.mask is not None and hint.mask >= inside)
        for resource, size in asked.items():
            reusable = self._reusable.get((mask, resource), 0)
            needed = max(0, size - reusable)
            for zone in sorted(mask):
                taken = min(needed, self._free[zone].get(resource, 0))
                needed -= taken
                if taken:
                    self._free[zone][resource] -= taken
                    held = self._held.setdefault(uid, {}).setdefault(zone, {})
                    held[resource] = held.get(resource, 0) + taken
            left = max(reusable, size) if stage is Stage.INIT else max(0, reusable - size)
            self._reusable[mask, resource] = left

    def begin(self) -> None:
        """Forget what an earlier pod's init containers left to reuse."""
        self._reusable = {}

    def release(self, uid: str) -> None:
        """Take back a pod's memory."""
        for zone, amounts in self._held.pop(uid, {}).items():
            for resource, amount in amounts.items():
                self._free[zone][resource] += amount

    def held(self, uid: str) -> dict[int, dict[str, int]]:
        """Return the bytes of each zone that a pod holds."""
        return {zone: dict(amounts) for zone, amounts in self._held.get(uid, {}).items()}

    def _hints(self, asked: Mapping[str, int]) -> list[Hint]:
        allocatable = {zone.id: zone.allocatable for zone in self._zones}
        narrowest = len(self._zones)
        masks = []
        for mask in affinities(allocatable):
            if any(sum(allocatable[zone].get(r, 0) for zone in mask) < size for r, size in asked.items()):
                continue
            narrowest = min(narrowest, len(mask))
            if self._satisfies(mask, asked):
                masks.append(mask)
        return [Hint(mask, preferred=len(mask) == narrowest) for mask in masks]

    def _satisfies(self, mask: Mask, asked: Mapping[str, int]) -> bool:
        return all(
            sum(self._free[zone].get(resource, 0) for zone in mask) + self._reusable.get((mask, resource), 0) >= size
            for resource, size in asked.items()
        )

    def _best(self, masks: Iterable[Mask]) -> Mask:
        best = min(masks, key=narrowness, default=None)
        if best is None:
            raise unexpected("[memorymanager] failed to get the default NUMA affinity")
        return best


def _is_memory(resource: str) -> bool:
    return resource == _MEMORY or resource.startswith(_HUGEPAGES)
