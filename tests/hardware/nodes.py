"""Nodes with NUMA zones and the shapes of pods, for whoever asks a Topology Manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from extender.objects.nodetopology import Managers, NodeTopology, TopologyPolicy, TopologyScope, Zone
from extender.objects.pod import Shape
from extender.objects.requests import ContainerRequest, Stage
from tests.builders import GPU

GIB = 2**30

#: What is assumed of a node that does not say.
UNTOLD = Managers()


def topology(
    policy: TopologyPolicy = TopologyPolicy.RESTRICTED,
    *,
    gpus: Sequence[int] = (4, 4),
    cpus: Sequence[int] = (16, 16),
    gib: Sequence[int] = (),
    scope: TopologyScope = TopologyScope.CONTAINER,
    managers: Managers = UNTOLD,
) -> NodeTopology:
    """Build a node with so many GPUs, CPUs and GiB of memory in each zone; an empty list is a resource not listed."""
    amounts: dict[str, Sequence[int]] = {
        GPU: gpus,
        "cpu": [number * 1000 for number in cpus],
        "memory": [number * GIB for number in gib],
    }
    count = max(map(len, amounts.values()))
    zones = tuple(
        Zone(zone, f"node-{zone}", {resource: numbers[zone] for resource, numbers in amounts.items() if numbers})
        for zone in range(count)
    )
    return NodeTopology("node", policy, scope, zones, managers=managers)


def requests(gpus: int = 0, cpus: float = 0, gib: int = 0) -> tuple[tuple[str, int], ...]:
    """Build what a container asks for."""
    amounts = {GPU: gpus, "cpu": round(cpus * 1000), "memory": gib * GIB}
    return tuple(sorted((resource, amount) for resource, amount in amounts.items() if amount))


def guaranteed(gpus: int = 0, cpus: float = 0, gib: int = 0) -> Shape:
    """Build the shape of a Guaranteed pod of one container."""
    return Shape(requests(gpus, cpus, gib), guaranteed=True)


def burstable(gpus: int = 0, cpus: float = 0, gib: int = 0) -> Shape:
    """Build the shape of a pod of one container that has no CPUs of its own."""
    return Shape(requests(gpus, cpus, gib))


def of(*containers: tuple[tuple[tuple[str, int], ...], Stage]) -> Shape:
    """Build the shape of a Guaranteed pod of several containers."""
    total: dict[str, int] = {}
    for amounts, _ in containers:
        for resource, amount in amounts:
            total[resource] = total.get(resource, 0) + amount
    parts = tuple(ContainerRequest(amounts, stage) for amounts, stage in containers)
    return Shape(tuple(sorted(total.items())), containers=parts, guaranteed=True)


def left(topology: NodeTopology, **resources: Mapping[int, int]) -> dict[int, dict[str, int]]:
    """Return the empty node's amounts with some replaced: `gpus={0: 2}` leaves two GPUs in zone 0."""
    names = {"gpus": GPU, "cpus": "cpu", "gib": "memory"}
    units = {"gpus": 1, "cpus": 1000, "gib": GIB}
    free = topology.allocatable()
    for name, amounts in resources.items():
        for zone, number in amounts.items():
            free[zone][names[name]] = number * units[name]
    return free
