"""Scores: how good each node is for a pod without gang."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.occupancy import Holding as OccupancyHolding
from extender.cluster.table import NodeTable
from extender.domain.holdings import Holding
from extender.domain.keys import Packing
from extender.domain.pod import Shape
from extender.domain.topology import Objective
from extender.fabric.bandwidth import step
from extender.numa.nodetopology import NodeTopology, Policy, Zone
from extender.numa.scores import Strategy
from extender.placement.packing import strands
from extender.placement.scoring import Wish, score
from tests.cluster.conftest import GPU, node, shape, table_of
from tests.placement.conftest import SHAPES, THOROUGH, room, tables

BINPACK, SPREAD = Wish(Packing.BINPACK), Wish(Packing.SPREAD)


def scores(table: NodeTable, wanted: Shape, wish: Wish, *names: str) -> list[int]:
    """Return the scores of some nodes, by default of all."""
    rows = table.rows_of(names or [each.name for each in table.nodes()])
    result: list[int] = score(table, rows, wanted, wish).tolist()
    return result


def gpu_nodes(*used: int) -> NodeTable:
    """Return a table of nodes with 8 GPUs of which some are used: `node-0`, `node-1`, ..."""
    table = table_of(node(f"node-{index}", gpus=8) for index in range(len(used)))
    for index, gpus in enumerate(used):
        table.claim(f"other-{index}", f"node-{index}", Shape(((GPU, gpus),)))
    return table


def test_binpack_prefers_the_fuller_node() -> None:
    """Of nodes on which as much is lost, binpack goes to that of whose accelerators the greater share is used."""
    table = table_of([node("small", gpus=4), node("large", gpus=8)])
    table.claim("other", "large", shape(gpus=4))
    assert scores(table, shape(gpus=2), BINPACK) == [0, 10]


def test_spread_prefers_the_emptier_node() -> None:
    """Under spread scores fall evenly with the share of the accelerators that is used, from 10 to 0."""
    assert scores(gpu_nodes(0, 2, 4), shape(gpus=2), SPREAD) == [10, 5, 0]


def test_binpack_leaves_large_sets_whole() -> None:
    """What future requests lose goes before fullness: 2 of 6 cost no set of four, 2 of 4 do, 2 of 8 one of eight."""
    first, second, third = scores(gpu_nodes(2, 4, 0), shape(gpus=2), BINPACK)
    assert first > second > third
    assert (first, third) == (10, 0)


def test_single_gpus_fill_what_is_broken() -> None:
    """One GPU of seven leaves three pairs, as seven did; one of six leaves two."""
    assert scores(gpu_nodes(1, 2), shape(gpus=1), BINPACK) == [10, 0]


def test_faster_gpus_go_first() -> None:
    """Two GPUs of an H100 node reduce faster than two of an A100 node, however full; who does not care is packed."""
    fast, slow = (
        node(product, gpus=8, labels={"nvidia.com/gpu.product": product})
        for product in ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB")
    )
    table = table_of([fast, slow])
    table.claim("other", slow.name, shape(gpus=2))
    assert scores(table, shape(gpus=2), BINPACK) == [10, 0]
    assert scores(table, shape(gpus=2), SPREAD) == [10, 0]
    assert scores(table, shape(gpus=2), Wish(objective=Objective.NONE)) == [0, 10]
    assert scores(table, shape(gpus=1), BINPACK) == [0, 10]


def test_nodes_whose_kubelet_would_refuse_come_last() -> None:
    """Whoever asks about such a node is told that it is the worst, whatever else speaks for it."""
    table = table_of([node("broken", gpus=8), node("whole", gpus=8)])
    zones = tuple(Zone(number, f"node-{number}", {GPU: 4}) for number in range(2))
    table.occupancy.put_topology(NodeTopology("broken", Policy.RESTRICTED, zones=zones))
    for number in range(2):
        table.claim(f"other-{number}", "broken", shape(gpus=2), observed=Holding((4 * number,), (number,)))
    assert scores(table, shape(gpus=4), BINPACK) == [0, 10]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Strategy.MOST_ALLOCATED, [10, 5, 0]),
        (Strategy.LEAST_ALLOCATED, [0, 10, 0]),
        (Strategy.LEAST_NUMA_NODES, [10, 10, 0]),
        (None, [10, 4, 0]),
    ],
)
def test_zones_are_scored_as_node_resource_topology_match_does(strategy: Strategy | None, expected: list[int]) -> None:
    """With a strategy its scores take the place of fullness; a node without zones scores 0."""
    table = table_of([node("half", gpus=8), node("whole", gpus=8), node("unknown", gpus=8)])
    zones = tuple(Zone(number, f"node-{number}", {GPU: 4}, costs={number: 10, 1 - number: 21}) for number in range(2))
    for name in ("half", "whole"):
        table.occupancy.put_topology(NodeTopology(name, Policy.SINGLE_NUMA_NODE, zones=zones))
    for number in range(2):
        table.claim(f"other-{number}", "half", shape(gpus=2), observed=Holding((4 * number, 4 * number + 1), (number,)))
    wanted = Shape(((GPU, 2),), guaranteed=True)
    assert scores(table, wanted, Wish(objective=Objective.NONE, numa=strategy)) == expected


def test_accelerators_alone_decide_where_the_pod_asks_for_them() -> None:
    """How full a node's CPUs are does not matter to a GPU pod."""
    table = gpu_nodes(2, 1)
    table.claim("cpu-hog", "node-1", Shape((("cpu", 60_000),)))
    assert scores(table, shape(gpus=1), SPREAD) == [0, 10]


def test_cpu_and_memory_decide_otherwise() -> None:
    """A pod without accelerators goes by CPU and memory, half each."""
    table = table_of(node(name) for name in ("cpu", "memory", "both", "none"))
    table.claim("a", "cpu", Shape((("cpu", 32_000),)))
    table.claim("b", "memory", Shape((("memory", 2**39),)))
    table.claim("c", "both", Shape((("cpu", 32_000), ("memory", 2**39))))
    assert scores(table, shape(), BINPACK) == [5, 5, 10, 0]


def test_unknown_nodes_score_zero() -> None:
    """A node that is not in the model scores 0 and does not disturb the others."""
    table = gpu_nodes(0, 4)
    assert scores(table, shape(gpus=1), BINPACK, "node-1", "stranger", "node-0") == [10, 0, 0]
    assert scores(table, shape(gpus=1), BINPACK, "stranger") == [0]
    assert score(table, np.array([], dtype=np.intp), shape(), BINPACK).tolist() == []


def test_equal_nodes_score_alike() -> None:
    """Where Muster has nothing to say, every node scores 0 and kube-scheduler decides."""
    assert scores(gpu_nodes(3, 3, 3), shape(gpus=1), BINPACK) == [0, 0, 0]


@pytest.mark.parametrize("wish", [BINPACK, SPREAD], ids=lambda wish: wish.packing)
def test_stranding_nodes_come_last(wish: Wish) -> None:
    """The worst CPU node is better for a CPU-only pod than the best GPU node, the node's fullness notwithstanding."""
    table = table_of([node("cpu-empty"), node("cpu-full"), node("gpu-empty", gpus=8), node("gpu-full", gpus=8)])
    for name in ("cpu-full", "gpu-full"):
        table.claim(f"other-{name}", name, Shape((("cpu", 63_000),)))
    result = scores(table, shape(), wish)
    assert min(result[:2]) > max(result[2:])
    assert result[0] != result[1]
    assert (min(result), max(result)) == (0, 10)


def test_where_all_strand_equally_fullness_decides() -> None:
    """A CPU-only pod that only GPU nodes would take is packed among them."""
    table = table_of([node("a", gpus=8), node("b", gpus=4)])
    table.claim("other", "b", Shape((("cpu", 32_000),)))
    assert scores(table, shape(), BINPACK) == [0, 10]


@THOROUGH
@given(tables(), SHAPES, st.sampled_from([BINPACK, SPREAD]))
def test_scores_are_whole_bounded_and_monotone(table: NodeTable, wanted: Shape, wish: Wish) -> None:
    """Scores are integers of 0 to 10; better classes score higher, then more (or less) fullness never scores lower."""
    names = [each.name for each in table.nodes() if room(table, each.name, wanted)]
    rows = table.rows_of(names)
    result = score(table, rows, wanted, wish)
    assert result.dtype == np.int64
    assert result.shape == rows.shape
    assert set(result.tolist()) <= set(range(11))
    classes = [class_of(table, row, wanted, wish) for row in rows.tolist()]
    better = [sum(other < own for other in set(classes)) for own in classes]
    columns = [table.resources.index(r) for r in ((GPU,) if wanted.request(GPU) else ("cpu", "memory"))]
    fullness = (table.used[columns][:, rows] / np.maximum(table.allocatable[columns][:, rows], 1)).mean(axis=0)
    asked = np.array([wanted.request(table.resources[column]) for column in columns])
    fullness += (asked[:, None] / np.maximum(table.allocatable[columns][:, rows], 1)).mean(axis=0)
    sign = 1 if wish is BINPACK else -1
    for i in range(len(names)):
        for j in range(len(names)):
            if better[i] < better[j] and better[i] < 3:
                assert result[i] > result[j]
            elif better[i] == better[j] and sign * fullness[i] > sign * fullness[j]:
                assert result[i] >= result[j]


def class_of(table: NodeTable, row: int, wanted: Shape, wish: Wish) -> tuple[float, int, float]:
    """Return what goes before fullness, better first: bandwidth in steps, what is stranded, what is lost."""
    stranded = int(strands(table, table.vector(wanted.requests))[row])
    if not wanted.request(GPU):
        return (0, stranded, 0)
    offer = table.occupancy.offer(int(table.occupancy.states(OccupancyHolding.ALL)[row]), wanted, 1)
    if not offer.pods:
        return (0, stranded, np.inf)
    return (-step(offer.inner[0]), stranded, offer.loss[0] if wish is BINPACK else 0)
