"""Earmarks: what is kept for the blocked head of the queue."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from extender.cluster.occupancy import HoldingScope
from extender.cluster.table import NodeTable
from extender.cluster.whatif import WhatIf
from extender.objects.node import Node
from extender.objects.pod import Pod, Shape
from extender.placement.candidates import PlacementTerms
from extender.placement.earmark import earmark
from extender.placement.plan import Plan, plan
from tests.cluster.conftest import GPU, node, pod, shape, table_of
from tests.placement.conftest import SHAPES, THOROUGH, ZONE_A, ground_of, nodes, tables


def kept_for(table: NodeTable, pods: Sequence[Pod]) -> NDArray[np.int64] | None:
    """Return what is kept for the pods in the table as it stands."""
    later = WhatIf(table, table.potential(), HoldingScope.LASTING)
    return earmark(pods, WhatIf(table), later, ground_of(table), PlacementTerms())


def kept_gpus(table: NodeTable, pods: Sequence[Pod]) -> dict[str, int]:
    """Return node name -> GPUs kept there."""
    kept = kept_for(table, pods)
    assert kept is not None
    gpus = kept[table.resources.index(GPU)].tolist()
    return {each.name: gpus[row] for each in table.nodes() if gpus[row := table.rows_of([each.name])[0]]}


def workers(count: int, gpus: int = 8) -> list[Pod]:
    """Return equal pods."""
    return [pod(f"w-{index}", gpus) for index in range(count)]


def gpu_nodes(*used: int) -> NodeTable:
    """Return a table of nodes with 8 GPUs of which some are used by pods that will end: `node-0`, `node-1`, ..."""
    table = table_of(node(f"node-{index}", gpus=8) for index in range(len(used)))
    for index, gpus in enumerate(used):
        table.claim(f"other-{index}", f"node-{index}", Shape(((GPU, gpus),)))
    return table


def members_without_room(table: NodeTable, pods: Sequence[Pod]) -> int:
    """Return how many of the pods do not fit now."""
    result = plan(pods, WhatIf(table), ground_of(table), PlacementTerms())
    return 0 if isinstance(result, Plan) else result.needed - result.fits


# ------------------------------------------------------------------------------------------------------------ specimens


def test_room_that_is_free_now_is_kept_first() -> None:
    """What is free now is kept whole before anything that is still taken."""
    assert kept_gpus(gpu_nodes(8, 0, 8, 0), workers(3)) == {"node-0": 8, "node-1": 8, "node-3": 8}


def test_node_that_is_nearly_free_is_kept() -> None:
    """Of the nodes that are still taken, the one of which least is taken is kept: it will be free soonest."""
    assert kept_gpus(gpu_nodes(8, 5, 1, 8), workers(1)) == {"node-2": 8}


def test_few_nodes_are_kept_for_small_members() -> None:
    """Where every node lacks as much, those that will hold most are kept, so that the fewest are closed to others."""
    table = gpu_nodes(8, 8, 8)
    table.claim("daemon", "node-0", Shape(((GPU, 6),)), lasting=True)
    table.release("other-0")
    table.claim("job", "node-0", Shape(((GPU, 2),)))
    assert kept_gpus(table, workers(8, gpus=1)) == {"node-1": 8}


def test_free_and_later_room_of_one_node_add_up() -> None:
    """A node that is half free is kept whole when the gang will need all of it."""
    assert kept_gpus(gpu_nodes(4), workers(8, gpus=1)) == {"node-0": 8}


def test_nothing_is_kept_that_nothing_but_lasting_pods_leave() -> None:
    """Capacity that foreign pods hold is not waited for: None if the gang cannot fit beside them."""
    table = gpu_nodes(0, 0)
    table.claim("daemon", "node-0", Shape(((GPU, 1),)), lasting=True)
    assert kept_gpus(table, workers(1)) == {"node-1": 8}
    assert kept_for(table, workers(2)) is None


def test_cpu_only_members_keep_a_gpu_node_only_rather_than_wait() -> None:
    """A CPU-only launcher is kept room on a CPU node though GPU nodes have more, on a GPU node rather than wait."""
    table = table_of([node("cpu", cpu=4000), node("gpu", gpus=8)])
    for expected in ([2000, 0], [0, 2000]):
        kept = kept_for(table, [pod("launcher", cpu=2000)])
        assert kept is not None
        assert kept[table.resources.index("cpu")].tolist() == expected
        table.claim("other", "cpu", Shape((("cpu", 4000),)))


def test_cpu_only_members_wait_for_a_cpu_node() -> None:
    """Where a CPU-only launcher has to wait, it is for a CPU node, though a GPU node has less left to free."""
    table = table_of([node("gpu", gpus=8), node("cpu")])
    table.claim("most", "gpu", Shape((("cpu", 63_000),)))
    table.claim("all", "cpu", Shape((("cpu", 64_000),)))
    kept = kept_for(table, [pod("launcher", cpu=2000)])
    assert kept is not None
    assert kept[table.resources.index("cpu")].tolist() == [0, 2000]


def test_roomiest_node_is_kept_first() -> None:
    """Of the room that is free now, that of the roomiest nodes is kept, so that few nodes are closed to others."""
    assert kept_gpus(gpu_nodes(7, 0, 7), workers(2, gpus=1)) == {"node-1": 2}


def test_shapes_are_kept_in_the_order_in_which_they_are_planned() -> None:
    """A launcher that comes first by name does not take the CPUs that the workers behind it need."""
    table = table_of([node("gpu", gpus=8, cpu=8000), node("cpu", cpu=1000)])
    table.claim("other", "gpu", Shape(((GPU, 8), ("cpu", 8000))))
    pods = [pod("launcher", cpu=1000), pod("w-0", gpus=8, cpu=8000)]
    kept = kept_for(table, pods)
    assert kept is not None
    assert kept[table.resources.index("cpu")].tolist() == [8000, 1000]


def test_restricted_shapes_first_in_a_second_attempt() -> None:
    """Where the demanding members would take what restricted ones need, those go first."""
    table = table_of([node("a", gpus=2, labels={"zone": "a"}), node("b", gpus=2)])
    table.claim("other", "b", Shape(((GPU, 1),)))
    pods = [pod("any", gpus=2), pod("only-a", shape=shape(1, selector=ZONE_A))]
    assert kept_gpus(table, pods) == {"a": 1, "b": 2}


def test_tightest_nodes_where_the_roomiest_would_be_in_the_way() -> None:
    """Where keeping the roomiest nodes first leaves a member over, room is kept as the gang would be planned."""
    table = table_of([node("a", gpus=4, cpu=2000), node("b", gpus=4, cpu=1000)])
    kept = kept_for(table, [pod("launcher", cpu=2000), pod("w-0", gpus=2, cpu=1000)])
    assert kept is not None
    assert kept[[table.resources.index("cpu"), table.resources.index(GPU)]].tolist() == [[2000, 1000], [0, 2]]


def test_nothing_is_taken_where_nothing_can_be_kept() -> None:
    """When not even the potential suffices, both snapshots are as they were."""
    table = gpu_nodes(4, 0)
    now, potential = WhatIf(table), WhatIf(table, table.potential(), HoldingScope.LASTING)
    assert earmark([*workers(1), *[pod("z", gpus=9)]], now, potential, ground_of(table), PlacementTerms()) is None
    assert np.array_equal(now.free, table.free())
    assert np.array_equal(potential.free, table.potential())


def test_nothing_to_keep() -> None:
    """For no pods nothing is kept; for pods without requests neither."""
    table = gpu_nodes(8)
    kept = kept_for(table, [])
    assert kept is not None
    assert not kept.any()


# ----------------------------------------------------------------------------------------------------------- properties


@THOROUGH
@given(tables(), st.lists(SHAPES, min_size=1, max_size=5))
def test_what_is_kept_is_the_gangs_request(table: NodeTable, shapes: list[Shape]) -> None:
    """Exactly the sum of the requests is kept, nowhere more than there will be."""
    pods = [pod(f"m-{index}", shape=each) for index, each in enumerate(shapes)]
    kept = kept_for(table, pods)
    if kept is None:
        return
    assert (kept >= 0).all()
    assert (kept <= np.maximum(table.potential(), 0)).all()
    for index, resource in enumerate(table.resources):
        assert kept[index].sum() == sum(each.shape.request(resource) for each in pods)


@THOROUGH
@given(tables(), st.lists(SHAPES, min_size=1, max_size=5))
def test_whoever_could_be_planned_later_is_kept_room_for(table: NodeTable, shapes: list[Shape]) -> None:
    """Nothing is kept only for gangs that could not be planned even when everything that can end has ended."""
    pods = [pod(f"m-{index}", shape=each) for index, each in enumerate(shapes)]
    later = plan(pods, WhatIf(table, table.potential(), HoldingScope.LASTING), ground_of(table), PlacementTerms())
    if isinstance(later, Plan):
        assert kept_for(table, pods) is not None


@THOROUGH
@given(tables(), SHAPES, st.integers(1, 12))
def test_equal_pods_are_kept_room_for_whenever_there_will_be_enough(table: NodeTable, each: Shape, count: int) -> None:
    """For pods of one shape the answer is None exactly if the potential is too small."""
    pods = [pod(f"m-{index}", shape=each) for index in range(count)]
    potential = WhatIf(table, table.potential(), HoldingScope.LASTING)
    capacity = potential.counts(table.vector(pods[0].shape.requests), ground_of(table).eligible(pods[0].shape))
    assert (kept_for(table, pods) is None) == (int(np.minimum(capacity, count).sum()) < count)


@THOROUGH
@given(nodes(plain=True), st.integers(1, 3), st.integers(1, 6), st.data())
def test_members_without_room_never_grow(found: list[Node], gpus: int, count: int, data: st.DataObject) -> None:
    """While others start in what is not kept and end when they like, the gap closes, and at last the gang fits."""
    table = table_of(found)
    running: list[str] = []
    gang = workers(count, gpus)

    def start(room: NDArray[np.int64]) -> None:
        for each in found:
            requests = (("cpu", 1000), (GPU, data.draw(st.integers(0, 2))), ("pods", 1))
            row = table.row(each.name)
            vector = table.vector(requests)
            if not vector.unknown and (room[vector.columns, row] >= vector.amounts).all():
                running.append(f"other-{table.generation}")
                table.claim(running[-1], each.name, Shape(requests))
                room[vector.columns, row] -= vector.amounts

    start(table.free())
    start(table.free())
    gap = count
    for _ in range(5):
        before, gap = gap, members_without_room(table, gang)
        assert gap <= before
        kept = kept_for(table, gang)
        if kept is None:
            return
        start(table.free() - kept)
        for uid in data.draw(st.sets(st.sampled_from(running))) if running else ():
            running.remove(uid)
            table.release(uid)
    for uid in running:
        table.release(uid)
    assert members_without_room(table, gang) == 0
