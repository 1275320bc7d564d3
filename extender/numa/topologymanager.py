"""Predict what the kubelet's Topology Manager will say to a pod, and from which NUMA zones it will serve it.

The rule, for each container or for the pod as a whole (the kubelet's scope): a mask of zones suits a resource if what
is free in the mask covers the request, and is preferred if no narrower mask could cover it on the empty node. A
preferred alignment is one mask that is preferred for every resource that takes part; `restricted` admits nothing else,
`single-numa-node` only such a mask of one zone, `best-effort` anything. Source: k8s.io/kubernetes pkg/kubelet/cm,
topologymanager/policy.go and the hints of devicemanager, cpumanager and memorymanager, 1.36.

Not modelled, because no object in the cluster tells: policy options (prefer-closest-numa-nodes, those of the CPU
manager), and that the memory manager keeps zones that a pod holds together from pods that need one of them alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from types import MappingProxyType

from extender.domain.alignment import ContainerRequest, pod_request
from extender.domain.pod import Shape
from extender.numa.ledger import Ledger, bits, masks
from extender.numa.nodetopology import NodeTopology, Policy, Scope, is_device, is_memory
from extender.numa.refusal import Cause, Refusal

#: Masks double with each zone; beyond so many an alignment that is not preferred is taken for "any zone".
_MAX_ENUMERATED_ZONES = 8

_MILLI = 1000

_Demand = Mapping[str, int]
"""What one manager is asked for at a time: one kind of device, CPUs, or memory of all sizes."""


@dataclass(frozen=True, slots=True)
class Admission:
    """How the kubelet would serve a pod.

    `zones` are, for each container in order of admission, those it may draw from; a container that asks for nothing
    that zones list has none. `taken` is what the pod then holds of each resource, by zone: exact where a container
    draws from one zone. Which devices of several zones it gets is the device plugin's word, here lowest zones first.
    """

    zones: tuple[tuple[int, ...], ...] = ()
    taken: Mapping[int, Mapping[str, int]] = field(default_factory=lambda: MappingProxyType({}))


def admit(topology: NodeTopology, free: Mapping[int, Mapping[str, int]], shape: Shape) -> Admission | Refusal:
    """Predict whether the kubelet of a node admits a pod of `shape`, and from which zones it will serve it.

    Args:
        topology: the node's zones and policy; without zones every pod is admitted.
        free: what no pod holds, by zone id and resource, in milli-CPU, bytes and counts; left as it is.
        shape: what the pod asks for.

    What zones do not list is not looked at: whether it fits on the node at all is for others to say.
    """
    containers = shape.containers or (ContainerRequest(shape.requests),)
    parts = [ContainerRequest(_taking_part(topology, shape, c.requests), c.stage) for c in containers]
    ledger = Ledger(topology, free)
    aligner = _Aligner(topology, ledger)
    as_one = topology.scope is Scope.POD and topology.policy is not Policy.NONE
    shared = aligner.align(pod_request(parts)) if as_one else None
    if isinstance(shared, Refusal):
        return shared
    zones = []
    for part in parts:
        request = dict(part.requests)
        mask = shared if as_one else aligner.align(request)
        if isinstance(mask, Refusal):
            return mask
        if (short := aligner.reach(request, mask or 0)) is not None:
            return short
        zones.append(tuple(bits(ledger.take(part, mask))))
    return Admission(tuple(zones), ledger.held)


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

    def __init__(self, topology: NodeTopology, ledger: Ledger) -> None:
        self._topology = topology
        self._ids = tuple(zone.id for zone in topology.zones)
        self._ledger = ledger

    def reach(self, request: _Demand, mask: int = 0) -> Refusal | None:
        """Refuse what cannot be served from `mask` with all other zones to help."""
        for demand in _demands(request):
            if not self._ledger.within_reach(demand, mask):
                return self._refuse(Cause.SHORT, demand)
        return None

    def align(self, request: _Demand) -> int | Refusal | None:
        """Return the mask from which the kubelet will serve `request`, None if it does not care."""
        policy = self._topology.policy
        refusal = self.reach(request)
        if refusal is not None or policy is Policy.NONE or not request:
            return refusal
        demands = _demands(request)
        widths = [self._least_width(demand) for demand in demands]
        preferred = self._preferred(demands, widths)
        if preferred is not None and (policy is not Policy.SINGLE_NUMA_NODE or widths[0] == 1):
            return preferred
        return self._loose(demands) if policy is Policy.BEST_EFFORT else self._explain(demands, widths)

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

    def _explain(self, demands: Sequence[_Demand], widths: Sequence[int]) -> Refusal:
        """Say why no mask is preferred for all demands."""
        for demand, width in zip(demands, widths, strict=True):
            if self._topology.policy is Policy.SINGLE_NUMA_NODE and width > 1:
                return self._refuse(Cause.TOO_WIDE, demand, width)
            if self._preferred([demand], [width]) is None:
                return self._refuse(Cause.SCATTERED, demand, width)
        narrow, wide = widths.index(min(widths)), widths.index(max(widths))
        if widths[narrow] != widths[wide]:
            return self._refuse(
                Cause.WIDTHS_DIFFER, demands[wide], widths[wide], _name(demands[narrow]), widths[narrow]
            )
        others = " and ".join(_name(demand) for demand in demands[1:])
        return self._refuse(Cause.APART, demands[0], widths[0], others, widths[0])

    def _refuse(self, cause: Cause, demand: _Demand, width: int = 0, other: str = "", other_width: int = 0) -> Refusal:
        resource, asked = next(iter(demand.items()))
        for candidate, amount in demand.items():  # of memory the size that stands in the way
            if sum(self._ledger.free(candidate)) < amount:
                resource, asked = candidate, amount
        free = self._ledger.free(resource)
        return Refusal(cause, self._topology.policy, resource, asked, free, width, other, other_width)


def _name(demand: _Demand) -> str:
    return next(iter(demand))


def _demands(request: _Demand) -> list[_Demand]:
    """Split what one container asks for by manager, devices first: they are what people look for."""
    memory = {resource: asked for resource, asked in request.items() if is_memory(resource)}
    counted = sorted((r for r in request if r not in memory), key=lambda r: (not is_device(r), r))
    return [*({resource: request[resource]} for resource in counted), *([memory] if memory else [])]
