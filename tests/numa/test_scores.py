"""Scores are those that NodeResourceTopologyMatch gives, in its own published cases."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from extender.domain.alignment import ContainerRequest
from extender.domain.pod import Shape
from extender.numa.nodetopology import NodeTopology, Policy, Scope, Zone
from extender.numa.scores import Strategy, score
from tests.builders import GPU

MIB = 2**20

#: CPUs and MiB of each of two equal zones. Source: scheduler-plugins score_test.go, defaultNUMANodes.
NODES = {"Node1": (4, 500), "Node2": (2, 50), "Node3": (6, 60)}

#: GPUs of four zones in two pairs, 12 apart within a pair and 20 between. Source: the same, fourNUMANodes.
QUADS = {"Node1": (1, 1, 0, 0), "Node2": (1, 0, 1, 0)}


def pairs(policy: Policy = Policy.SINGLE_NUMA_NODE, scope: Scope = Scope.CONTAINER) -> dict[str, NodeTopology]:
    """Build the plugin's three nodes of two zones each."""
    return {
        name: NodeTopology(
            name, policy, scope, tuple(Zone(i, "", {"cpu": cpus * 1000, "memory": mib * MIB}) for i in range(2))
        )
        for name, (cpus, mib) in NODES.items()
    }


def quads() -> dict[str, NodeTopology]:
    """Build the plugin's two nodes of four zones each."""

    def zone(index: int, gpus: int) -> Zone:
        costs = {other: 10 if other == index else 12 if other // 2 == index // 2 else 20 for other in range(4)}
        return Zone(index, "", {"cpu": 2000, "memory": 50 * MIB, GPU: gpus}, costs=costs)

    return {
        name: NodeTopology(name, Policy.BEST_EFFORT, zones=tuple(zone(i, number) for i, number in enumerate(gpus)))
        for name, gpus in QUADS.items()
    }


def pod(*containers: Mapping[str, int]) -> Shape:
    """Build a Guaranteed pod whose containers ask for that."""
    parts = tuple(ContainerRequest(tuple(sorted(container.items()))) for container in containers)
    total: dict[str, int] = {"pods": 1}
    for container in containers:
        for resource, amount in container.items():
            total[resource] = total.get(resource, 0) + amount
    return Shape(tuple(sorted(total.items())), containers=parts if len(parts) > 1 else (), guaranteed=True)


def cpu(cpus: float, gpus: int = 0, mib: int = 50) -> dict[str, int]:
    """Build a container's request."""
    return {"cpu": round(cpus * 1000), "memory": mib * MIB} | ({GPU: gpus} if gpus else {})


def scores(strategy: Strategy, nodes: Mapping[str, NodeTopology], shape: Shape) -> dict[str, int]:
    """Score empty nodes."""
    return {name: score(strategy, node, node.allocatable(), shape) for name, node in nodes.items()}


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Strategy.MOST_ALLOCATED, {"Node1": 27, "Node2": 70, "Node3": 33}),
        (Strategy.LEAST_ALLOCATED, {"Node1": 73, "Node2": 30, "Node3": 66}),
        (Strategy.BALANCED_ALLOCATION, {"Node1": 89, "Node2": 82, "Node3": 100}),
    ],
)
def test_allocation_is_scored_as_published(strategy: Strategy, expected: dict[str, int]) -> None:
    """Two CPUs and 20 MiB: 70 most allocated on Node2, 73 least allocated on Node1, 100 balanced on Node3."""
    assert scores(strategy, pairs(), pod(cpu(2, mib=20))) == expected


@pytest.mark.parametrize("strategy", [s for s in Strategy if s is not Strategy.LEAST_NUMA_NODES])
def test_a_zone_that_is_too_small_does_not_count(strategy: Strategy) -> None:
    """The score is the least of the zones that can hold the pod, 0 if none can."""
    node = pairs()["Node1"]
    small = {0: {"cpu": 1000, "memory": 10 * MIB}, 1: {"cpu": 4000, "memory": 500 * MIB}}
    both = node.allocatable()
    assert score(strategy, node, small, pod(cpu(2, mib=20))) == score(strategy, node, both, pod(cpu(2, mib=20)))
    assert score(strategy, node, small, pod(cpu(8, mib=600))) == 0


def test_weights_shift_the_mean() -> None:
    """CPUs at 50 % and memory at 4 % make 27; with CPUs three times as important 38."""
    node = pairs()["Node1"]
    shape = pod(cpu(2, mib=20))
    assert score(Strategy.MOST_ALLOCATED, node, node.allocatable(), shape, {"cpu": 3, "memory": 0}) == 38


def test_one_resource_is_in_balance() -> None:
    """A single fraction has no spread."""
    assert scores(Strategy.BALANCED_ALLOCATION, pairs(), pod({"cpu": 2000})) == dict.fromkeys(NODES, 100)
    assert scores(Strategy.BALANCED_ALLOCATION, pairs(), pod({"cpu": 2000, GPU: 1}))["Node1"] == 87


def test_containers_are_scored_one_by_one() -> None:
    """Under scope container the mean counts, under scope pod the sum."""
    shape = pod(cpu(1, mib=100), cpu(3, mib=100))
    assert scores(Strategy.MOST_ALLOCATED, pairs(), shape)["Node1"] == (22 + 47) // 2
    assert scores(Strategy.MOST_ALLOCATED, pairs(scope=Scope.POD), shape)["Node1"] == 70


@pytest.mark.parametrize("policy", [p for p in Policy if p is not Policy.SINGLE_NUMA_NODE])
def test_other_policies_have_no_allocation_score(policy: Policy) -> None:
    """Only LeastNUMANodes scores nodes whose kubelet does not insist on one zone."""
    assert scores(Strategy.MOST_ALLOCATED, pairs(policy), pod(cpu(2))) == dict.fromkeys(NODES, 0)


@pytest.mark.parametrize(
    ("scope", "containers", "expected"),
    [
        (Scope.CONTAINER, [cpu(2)], (94, 94, 94)),
        (Scope.CONTAINER, [cpu(4)], (94, 82, 94)),
        (Scope.CONTAINER, [cpu(6)], (82, 0, 94)),
        (Scope.CONTAINER, [cpu(2), cpu(2)], (94, 94, 94)),
        (Scope.CONTAINER, [cpu(1), cpu(3)], (94, 82, 94)),
        (Scope.CONTAINER, [cpu(5), cpu(3)], (82, 0, 94)),
        (Scope.CONTAINER, [{"non-numa-resource": 1}, {"non-numa-resource": 2}], (100, 100, 100)),
        (Scope.POD, [cpu(2), cpu(2)], (94, 82, 82)),
        (Scope.POD, [cpu(1), cpu(3)], (94, 82, 82)),
        (Scope.POD, [cpu(5), cpu(3)], (82, 0, 82)),
        (Scope.POD, [{"non-numa-resource": 1}], (100, 100, 100)),
    ],
)
def test_fewest_zones_are_scored_as_published(
    scope: Scope, containers: list[dict[str, int]], expected: tuple[int, ...]
) -> None:
    """One zone is 94, two are 82, a node without room is 0, a pod that asks for nothing of a zone 100."""
    found = scores(Strategy.LEAST_NUMA_NODES, pairs(Policy.BEST_EFFORT, scope), pod(*containers))
    assert tuple(found.values()) == expected


@pytest.mark.parametrize(
    ("containers", "expected"),
    [([cpu(2, 1)], (94, 94)), ([cpu(2, 2)], (82, 76)), ([cpu(2, 2), cpu(2)], (82, 76))],
)
def test_distant_zones_score_less(containers: list[dict[str, int]], expected: tuple[int, ...]) -> None:
    """Two GPUs of neighbouring zones are 82, of zones farther apart 76."""
    assert tuple(scores(Strategy.LEAST_NUMA_NODES, quads(), pod(*containers)).values()) == expected


def test_only_guaranteed_pods_and_known_zones_differ() -> None:
    """Other pods score 100 everywhere; a node of which nothing is known scores 0."""
    node = pairs()["Node1"]
    assert score(Strategy.MOST_ALLOCATED, node, {}, Shape((("cpu", 2000),))) == 100
    assert score(Strategy.MOST_ALLOCATED, None, {}, pod(cpu(2))) == 0
    assert score(Strategy.LEAST_NUMA_NODES, NodeTopology("n"), {}, pod(cpu(2))) == 0
