"""Scores: how good each node is for a pod without gang."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.table import NodeTable
from extender.domain.keys import Packing
from extender.domain.pod import Shape
from extender.placement.packing import strands
from extender.placement.scoring import score
from tests.cluster.conftest import GPU, node, shape, table_of
from tests.placement.conftest import SHAPES, THOROUGH, room, tables


def scores(table: NodeTable, wanted: Shape, packing: Packing, *names: str) -> list[int]:
    """Return the scores of some nodes, by default of all."""
    rows = table.rows_of(names or [each.name for each in table.nodes()])
    result: list[int] = score(table, rows, wanted, packing).tolist()
    return result


def gpu_nodes(*used: int) -> NodeTable:
    """Return a table of nodes with 8 GPUs of which some are used: `node-0`, `node-1`, ..."""
    table = table_of(node(f"node-{index}", gpus=8) for index in range(len(used)))
    for index, gpus in enumerate(used):
        table.claim(f"other-{index}", f"node-{index}", ((GPU, gpus),))
    return table


def test_binpack_prefers_the_fuller_node() -> None:
    """Under binpack scores rise evenly with the share of the accelerators that is used, from 0 to 10."""
    assert scores(gpu_nodes(0, 2, 4), shape(gpus=2), Packing.BINPACK) == [0, 5, 10]


def test_spread_prefers_the_emptier_node() -> None:
    """Under spread it is the other way round."""
    assert scores(gpu_nodes(0, 2, 4), shape(gpus=2), Packing.SPREAD) == [10, 5, 0]


def test_accelerators_alone_decide_where_the_pod_asks_for_them() -> None:
    """How full a node's CPUs are does not matter to a GPU pod."""
    table = gpu_nodes(2, 1)
    table.claim("cpu-hog", "node-1", (("cpu", 60_000),))
    assert scores(table, shape(gpus=1), Packing.BINPACK) == [10, 0]


def test_cpu_and_memory_decide_otherwise() -> None:
    """A pod without accelerators goes by CPU and memory, half each."""
    table = table_of(node(name) for name in ("cpu", "memory", "both", "none"))
    table.claim("a", "cpu", (("cpu", 32_000),))
    table.claim("b", "memory", (("memory", 2**39),))
    table.claim("c", "both", (("cpu", 32_000), ("memory", 2**39)))
    assert scores(table, shape(), Packing.BINPACK) == [5, 5, 10, 0]


def test_unknown_nodes_score_zero() -> None:
    """A node that is not in the model scores 0 and does not disturb the others."""
    table = gpu_nodes(0, 4)
    assert scores(table, shape(gpus=1), Packing.BINPACK, "node-1", "stranger", "node-0") == [10, 0, 0]
    assert scores(table, shape(gpus=1), Packing.BINPACK, "stranger") == [0]
    assert score(table, np.array([], dtype=np.intp), shape(), Packing.BINPACK).tolist() == []


def test_equal_nodes_score_alike() -> None:
    """Where Muster has nothing to say, every node scores 0 and kube-scheduler decides."""
    assert scores(gpu_nodes(3, 3, 3), shape(gpus=1), Packing.BINPACK) == [0, 0, 0]


@pytest.mark.parametrize("packing", Packing)
def test_stranding_nodes_come_last(packing: Packing) -> None:
    """The worst CPU node is better for a CPU-only pod than the best GPU node, the node's fullness notwithstanding."""
    table = table_of([node("cpu-empty"), node("cpu-full"), node("gpu-empty", gpus=8), node("gpu-full", gpus=8)])
    for name in ("cpu-full", "gpu-full"):
        table.claim(f"other-{name}", name, (("cpu", 63_000),))
    result = scores(table, shape(), packing)
    assert min(result[:2]) > max(result[2:])
    assert result[0] != result[1]
    assert (min(result), max(result)) == (0, 10)


def test_where_all_strand_equally_fullness_decides() -> None:
    """A CPU-only pod that only GPU nodes would take is packed among them."""
    table = table_of([node("a", gpus=8), node("b", gpus=4)])
    table.claim("other", "b", (("cpu", 32_000),))
    assert scores(table, shape(), Packing.BINPACK) == [0, 10]


@THOROUGH
@given(tables(), SHAPES, st.sampled_from(Packing))
def test_scores_are_whole_bounded_and_monotone(table: NodeTable, wanted: Shape, packing: Packing) -> None:
    """Scores are integers of 0 to 10; less stranding scores higher, then more (or less) fullness never scores lower."""
    names = [each.name for each in table.nodes() if room(table, each.name, wanted)]
    rows = table.rows_of(names)
    result = score(table, rows, wanted, packing)
    assert result.dtype == np.int64
    assert result.shape == rows.shape
    assert set(result.tolist()) <= set(range(11))
    lost = strands(table, table.vector(wanted.requests))[rows]
    columns = [table.resources.index(r) for r in ((GPU,) if wanted.request(GPU) else ("cpu", "memory"))]
    fullness = (table.used[columns][:, rows] / np.maximum(table.allocatable[columns][:, rows], 1)).mean(axis=0)
    asked = np.array([wanted.request(table.resources[column]) for column in columns])
    fullness += (asked[:, None] / np.maximum(table.allocatable[columns][:, rows], 1)).mean(axis=0)
    sign = 1 if packing is Packing.BINPACK else -1
    for i in range(len(names)):
        for j in range(len(names)):
            least = lost.min()
            if lost[i] == least < lost[j]:
                assert result[i] > result[j]
            elif (lost[i] > least) == (lost[j] > least) and sign * fullness[i] > sign * fullness[j]:
                assert result[i] >= result[j]
