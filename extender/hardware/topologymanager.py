"""Predict whether the kubelet's Topology Manager admits a pod, and from which NUMA zones it serves the pod.

The rule, for each container or for the pod as a whole (the kubelet's scope): a mask of zones suits a resource if what
is free in the mask covers the request, and is preferred if no narrower mask could cover it on the empty node. A
preferred alignment is one mask that is preferred for every resource that takes part; `restricted` admits nothing else,
`single-numa-node` only such a mask of one zone, `best-effort` anything. Source: k8s.io/kubernetes pkg/kubelet/cm,
topologymanager/policy.go and the hints of devicemanager, cpumanager and memorymanager, 1.36.

Not modelled, because no object in the cluster tells: policy options (prefer-closest-numa-nodes, those of the CPU
manager), and that the memory manager keeps zones that a pod holds together from pods that need one of them alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from itertools import combinations
from types import MappingProxyType

from extender.objects.nodetopology import NodeTopology, TopologyPolicy, TopologyScope, is_device, is_memory
from extender.objects.pod import Shape
from extender.objects.requests import ContainerRequest, Stage, format_amount, pod_request


class ZoneLedger:
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


#: Masks double with each zone; beyond so many an alignment that is not preferred is taken for "any zone".
_MAX_ENUMERATED_ZONES = 8

_MILLI = 1000

_Demand = Mapping[str, int]
"""What one manager is asked for at a time: one kind of device, CPUs, or memory of all sizes."""


class TopologyCause(StrEnum):
    """What is in the way."""

    SHORT = "short"
    TOO_WIDE = "too wide"
    SCATTERED = "scattered"
    WIDTHS_DIFFER = "widths differ"
    APART = "apart"


@dataclass(frozen=True, slots=True)
class TopologyRefusal:
    """A pod that the kubelet would not admit.

    `resource` is what stands in the way: `asked` of it, `free` in each zone in order of ids, in milli-CPU, bytes or a
    count. `width` is the number of zones that the request needs on the empty node. `other` is the resource that it
    cannot be reconciled with, of `other_width`.
    """

    cause: TopologyCause
    policy: TopologyPolicy
    resource: str
    asked: int
    free: tuple[int, ...]
    width: int = 0
    other: str = ""
    other_width: int = 0

    @property
    def message(self) -> str:
        """Render one line that names the resource, the policy and the numbers."""
        asked, resource, policy = format_amount(self.resource, self.asked), self.resource, self.policy
        parts = "+".join(format_amount(resource, amount) for amount in self.free)
        total = format_amount(resource, sum(self.free))
        match self.cause:
            case TopologyCause.SHORT:
                return f"{asked} {resource} asked for, {total} free in the NUMA zones"
            case TopologyCause.TOO_WIDE:
                return f"{asked} {resource} never fit into {_zones(1)}, as {policy} needs"
            case TopologyCause.SCATTERED:
                return f"{total} {resource} free as {parts}, {policy} needs {asked} in {_zones(self.width)}"
            case TopologyCause.WIDTHS_DIFFER:
                widths = f"{asked} {resource} take {_zones(self.width)} and {self.other} {_zones(self.other_width)}"
                return f"{widths}, {policy} needs the same zones for both"
        same = "zone" if self.width == 1 else _zones(self.width)
        return f"{asked} {resource} and {self.other} are not free in the same {same}, as {policy} needs"


def _zones(width: int) -> str:
    return "one zone" if width == 1 else f"{width} zones"


@dataclass(frozen=True, slots=True)
class KubeletVerdict:
    """How the kubelet would serve a pod.

    `zones` are, for each container in order of admission, those it may draw from; a container that asks for nothing
    that zones list has none. `taken` is what the pod then holds of each resource, by zone: exact where a container
    draws from one zone. Which devices of several zones it gets is the device plugin's word, here lowest zones first.
    """

    zones: tuple[tuple[int, ...], ...] = ()
    taken: Mapping[int, Mapping[str, int]] = field(default_factory=lambda: MappingProxyType({}))


def admit(
    topology: NodeTopology, free: Mapping[int, Mapping[str, int]], shape: Shape
) -> KubeletVerdict | TopologyRefusal:
    """Predict whether the kubelet of a node admits a pod of `shape`, and from which zones it will serve it.

    Args:
        topology: the node's zones and policy; without zones every pod is admitted.
        free: what no pod holds, by zone id and resource, in milli-CPU, bytes and counts; left as it is.
        shape: what the pod asks for.

    What zones do not list is not looked at: whether it fits on the node at all is for others to say.
    """
    containers = shape.containers or (ContainerRequest(shape.requests),)
    parts = [ContainerRequest(_taking_part(topology, shape, c.requests), c.stage) for c in containers]
    ledger = ZoneLedger(topology, free)
    aligner = _Aligner(topology, ledger)
    as_one = topology.scope is TopologyScope.POD and topology.policy is not TopologyPolicy.NONE
    shared = aligner.align(pod_request(parts)) if as_one else None
    if isinstance(shared, TopologyRefusal):
        return shared
    zones = []
    for part in parts:
        request = dict(part.requests)
        mask = shared if as_one else aligner.align(request)
        if isinstance(mask, TopologyRefusal):
            return mask
        if (short := aligner.reach(request, mask or 0)) is not None:
            return short
        zones.append(tuple(bits(ledger.take(part, mask))))
    return KubeletVerdict(tuple(zones), ledger.held)


def _taking_part(
    topology: NodeTopology, shape: Shape, requests: tuple[tuple[str, int], ...]
) -> tuple[tuple[str, int], ...]:
    """Keep of a container's requests what a manager aligns.

    Devices always; CPUs of Guaranteed pods in whole numbers if the CPU manager is static; memory of Guaranteed pods if
    the memory manager is Static.
    """

    def takes_part(resource: str, asked: int) -> bool:
        if resource == "cpu":
            return shape.guaranteed and asked % _MILLI == 0 and topology.managers.cpu_static is not False
        if is_memory(resource):
            return shape.guaranteed and topology.managers.memory_static
        return is_device(resource)

    return tuple((name, asked) for name, asked in requests if takes_part(name, asked) and topology.lists(name))


class _Aligner:
    """Merge what the managers of one node offer."""

    def __init__(self, topology: NodeTopology, ledger: ZoneLedger) -> None:
        self._topology = topology
        self._ids = tuple(zone.id for zone in topology.zones)
        self._ledger = ledger

    def reach(self, request: _Demand, mask: int = 0) -> TopologyRefusal | None:
        """Refuse what cannot be served from `mask` with all other zones to help."""
        for demand in _demands(request):
            if not self._ledger.within_reach(demand, mask):
                return self._refuse(TopologyCause.SHORT, demand)
        return None

    def align(self, request: _Demand) -> int | TopologyRefusal | None:
        """Return the mask from which the kubelet will serve `request`, None if it does not care."""
        policy = self._topology.policy
        refusal = self.reach(request)
        if refusal is not None or policy is TopologyPolicy.NONE or not request:
            return refusal
        demands = _demands(request)
        widths = [self._least_width(demand) for demand in demands]
        preferred = self._preferred(demands, widths)
        if preferred is not None and (policy is not TopologyPolicy.SINGLE_NUMA_NODE or widths[0] == 1):
            return preferred
        return self._loose(demands) if policy is TopologyPolicy.BEST_EFFORT else self._explain(demands, widths)

    def _least_width(self, demand: _Demand) -> int:
        """Return how many zones the empty node needs for `demand`; all, if it has not got it."""
        totals = [{resource: zone.total(resource) for resource in demand} for zone in self._topology.zones]
        if len(demand) == 1:
            ((resource, missing),) = demand.items()
            ordered = sorted((total[resource] for total in totals), reverse=True)
            return next((k for k in range(1, len(ordered)) if sum(ordered[:k]) >= missing), len(ordered))
        every = (some for width in range(1, len(totals)) for some in combinations(totals, width))
        fitting = (some for some in every if all(sum(t[r] for t in some) >= asked for r, asked in demand.items()))
        return len(next(fitting, totals))

    def _preferred(self, demands: Sequence[_Demand], widths: Sequence[int]) -> int | None:
        """Return the lowest mask that is preferred for every demand; they must be equally wide for that."""
        if min(widths) != max(widths):
            return None
        candidates = masks(self._ids, widths[0])
        return next((mask for mask in candidates if all(self._ledger.offers(d, mask) for d in demands)), None)

    def _loose(self, demands: Sequence[_Demand]) -> int:
        """Return the mask of best-effort when none is preferred.

        Of all that can be had by intersecting one mask of each demand: as wide as the demand that needs most zones now,
        else narrower and as wide as can be, else wider and as narrow as can be; then the lowest. Source:
        topologymanager/policy.go, HintMerger.compare.
        """
        if len(self._ids) > _MAX_ENUMERATED_ZONES:
            return self._ledger.everywhere
        every = [mask for width in range(1, len(self._ids) + 1) for mask in masks(self._ids, width)]
        merged = {self._ledger.everywhere}
        aim = 0
        for demand in demands:
            offered = [mask for mask in every if self._ledger.offers(demand, mask)]
            aim = max(aim, offered[0].bit_count())
            merged = {mask & hint for mask in merged for hint in offered}

        def rank(mask: int) -> tuple[bool, int, int]:
            width = mask.bit_count()
            return width > aim, abs(width - aim), mask

        return min(merged - {0}, key=rank, default=self._ledger.everywhere)

    def _explain(self, demands: Sequence[_Demand], widths: Sequence[int]) -> TopologyRefusal:
        """Say why no mask is preferred for all demands."""
        for demand, width in zip(demands, widths, strict=True):
            if self._topology.policy is TopologyPolicy.SINGLE_NUMA_NODE and width > 1:
                return self._refuse(TopologyCause.TOO_WIDE, demand, width)
            if self._preferred([demand], [width]) is None:
                return self._refuse(TopologyCause.SCATTERED, demand, width)
        narrow, wide = widths.index(min(widths)), widths.index(max(widths))
        if widths[narrow] != widths[wide]:
            return self._refuse(
                TopologyCause.WIDTHS_DIFFER, demands[wide], widths[wide], _name(demands[narrow]), widths[narrow]
            )
        others = " and ".join(_name(demand) for demand in demands[1:])
        return self._refuse(TopologyCause.APART, demands[0], widths[0], others, widths[0])

    def _refuse(
        self, cause: TopologyCause, demand: _Demand, width: int = 0, other: str = "", other_width: int = 0
    ) -> TopologyRefusal:
        resource, asked = next(iter(demand.items()))
        for candidate, amount in demand.items():  # of memory the size that stands in the way
            if sum(self._ledger.free(candidate)) < amount:
                resource, asked = candidate, amount
        free = self._ledger.free(resource)
        return TopologyRefusal(cause, self._topology.policy, resource, asked, free, width, other, other_width)


def _name(demand: _Demand) -> str:
    return next(iter(demand))


def _demands(request: _Demand) -> list[_Demand]:
    """Split what one container asks for by manager, devices first: they are what users ask about."""
    memory = {resource: asked for resource, asked in request.items() if is_memory(resource)}
    counted = sorted((r for r in request if r not in memory), key=lambda r: (not is_device(r), r))
    return [*({resource: request[resource]} for resource in counted), *([memory] if memory else [])]
