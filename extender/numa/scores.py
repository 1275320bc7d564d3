"""The scores of NodeResourceTopologyMatch, for sites that chose their nodes by them.

0 to 100, higher is better; only Guaranteed pods differ. Source: scheduler-plugins pkg/noderesourcetopology score.go,
most_allocated.go, least_allocated.go, balanced_allocation.go, least_numa.go. Two faults of theirs are left out: the
balance of a single resource is 100, not the smallest integer, and LeastNUMANodes passes over what no zone lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import combinations
from statistics import variance
from types import MappingProxyType
from typing import TypeAlias

from extender.domain.alignment import ContainerRequest, pod_request
from extender.domain.pod import Shape
from extender.domain.requests import PODS
from extender.numa.nodetopology import NodeTopology, Policy, Scope


class Strategy(StrEnum):
    """How a node is scored by its zones: named as `scoringStrategy.type` of the plugin."""

    MOST_ALLOCATED = "MostAllocated"
    LEAST_ALLOCATED = "LeastAllocated"
    BALANCED_ALLOCATION = "BalancedAllocation"
    LEAST_NUMA_NODES = "LeastNUMANodes"


MAX_SCORE = 100

#: SLIT distance that is not known. Source: ACPI, System Locality Information Table.
_UNKNOWN_DISTANCE = 255

_MILLI = 1000

Amounts: TypeAlias = Mapping[str, int]
"""Resource -> milli-CPU, bytes or count."""

_ZoneScore: TypeAlias = Callable[[Amounts, Amounts, Amounts], int]

_EQUAL_WEIGHTS: Amounts = MappingProxyType({})


def score(
    strategy: Strategy,
    topology: NodeTopology | None,
    available: Mapping[int, Amounts],
    shape: Shape,
    weights: Amounts = _EQUAL_WEIGHTS,
) -> int:
    """Return the score of a node for a pod.

    Args:
        strategy: which of the plugin's four.
        topology: the node's zones and policy; None or without zones scores 0.
        available: what each zone has left, by zone id.
        shape: what the pod asks for.
        weights: weight of a resource, 1 where it is missing or less; LeastNUMANodes has none.

    All strategies but LeastNUMANodes score 0 on nodes of another policy than single-numa-node.
    """
    if not shape.guaranteed:
        return MAX_SCORE
    if topology is None or not topology.zones:
        return 0
    units = [_without_pods(request) for request in _units(topology.scope, shape)]
    left = {zone.id: dict(available.get(zone.id, {})) for zone in topology.zones}
    if strategy is Strategy.LEAST_NUMA_NODES:
        return _least_zones(topology, left, units)
    if topology.policy is not Policy.SINGLE_NUMA_NODE:
        return 0
    zone_score = _ZONE_SCORES[strategy]
    scores = [min(filter(None, (zone_score(r, zone, weights) for zone in left.values())), default=0) for r in units]
    return sum(scores) // len(scores)


def _units(scope: Scope, shape: Shape) -> list[Amounts]:
    """Return what is scored one by one: containers, or the pod."""
    containers = shape.containers or (ContainerRequest(shape.requests),)
    if scope is Scope.POD:
        return [pod_request(containers)]
    return [dict(container.requests) for container in containers]


def _without_pods(request: Amounts) -> Amounts:
    return {resource: amount for resource, amount in request.items() if resource != PODS}


def _value(resource: str, amount: int) -> int:
    """Return what Go's Quantity.Value gives: whole units, CPUs rounded up."""
    return -(-amount // _MILLI) if resource == "cpu" else amount


def _weighted(request: Amounts, weights: Amounts, part: Callable[[str, int], int]) -> int:
    """Return the weighted mean over resources, rounded down."""
    weight = {resource: max(1, weights.get(resource, 1)) for resource in request}
    total = sum(weight[resource] * part(resource, amount) for resource, amount in request.items())
    return total // sum(weight.values())


def _most_allocated(request: Amounts, zone: Amounts, weights: Amounts) -> int:
    def part(resource: str, amount: int) -> int:
        has = zone.get(resource, 0)
        return _value(resource, amount) * MAX_SCORE // _value(resource, has) if 0 < amount <= has else 0

    return _weighted(request, weights, part)


def _least_allocated(request: Amounts, zone: Amounts, weights: Amounts) -> int:
    def part(resource: str, amount: int) -> int:
        has = zone.get(resource, 0)
        rest = _value(resource, has) - _value(resource, amount)
        return rest * MAX_SCORE // _value(resource, has) if 0 < amount <= has else 0

    return _weighted(request, weights, part)


def _balanced(request: Amounts, zone: Amounts, _weights: Amounts) -> int:
    fractions = []
    for resource, amount in request.items():
        has = _value(resource, zone.get(resource, 0))
        fractions.append(_value(resource, amount) / has if has else 1.0)
    if max(fractions) > 1:
        return 0
    spread = variance(fractions) if len(fractions) > 1 else 0.0
    return int((1 - spread) * MAX_SCORE)


_ZONE_SCORES: Mapping[Strategy, _ZoneScore] = MappingProxyType(
    {
        Strategy.MOST_ALLOCATED: _most_allocated,
        Strategy.LEAST_ALLOCATED: _least_allocated,
        Strategy.BALANCED_ALLOCATION: _balanced,
    }
)


def _least_zones(topology: NodeTopology, left: dict[int, dict[str, int]], units: Iterable[Amounts]) -> int:
    """Score by how many zones the neediest container takes, and whether they are as close as so many can be."""
    most, closest = 0, True
    for request in units:
        wanted = {r: amount for r, amount in request.items() if any(r in zone for zone in left.values())}
        if not wanted:
            continue
        zones, closest_here = _zones_needed(topology, left, wanted)
        if not zones:
            return 0
        most, closest = max(most, len(zones)), closest and closest_here
        _subtract(wanted, [left[zone] for zone in zones])
    if not most:
        return MAX_SCORE
    share = MAX_SCORE // topology.max_zones
    return MAX_SCORE - most * share + (share // 2 if closest else 0)


def _zones_needed(
    topology: NodeTopology, left: Mapping[int, Amounts], request: Amounts
) -> tuple[tuple[int, ...], bool]:
    """Return the fewest and closest zones that cover `request`, and whether no other so many zones are closer."""
    for number in range(1, len(left) + 1):
        distances = {zones: _distance(topology, zones) for zones in combinations(left, number)}
        fitting = [zones for zones in distances if _covers([left[zone] for zone in zones], request)]
        if fitting:
            best = min(fitting, key=distances.__getitem__)
            return best, distances[best] == min(_UNKNOWN_DISTANCE, *distances.values())
    return (), False


def _distance(topology: NodeTopology, zones: Sequence[int]) -> float:
    """Return the mean SLIT distance between zones, that of each to itself included."""
    costs = {zone.id: zone.costs for zone in topology.zones}
    total = sum(costs[one].get(other, _UNKNOWN_DISTANCE) for one in zones for other in zones)
    return total / len(zones) ** 2


def _covers(zones: Sequence[Amounts], request: Amounts) -> bool:
    return all(sum(zone.get(resource, 0) for zone in zones) >= amount for resource, amount in request.items())


def _subtract(request: Amounts, zones: Sequence[dict[str, int]]) -> None:
    """Take a container's request away, from the lowest zone first."""
    for resource, amount in request.items():
        missing = amount
        for zone in zones:
            taken = min(missing, zone.get(resource, 0))
            zone[resource] = zone.get(resource, 0) - taken
            missing -= taken
