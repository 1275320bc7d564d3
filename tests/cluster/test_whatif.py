"""WhatIf: trying placements on a snapshot and taking them back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.cluster.occupancy import HoldingScope
from extender.cluster.table import NodeTable
from extender.cluster.whatif import Mark, WhatIf
from extender.objects import holdings
from extender.objects.nodetopology import TopologyPolicy
from extender.objects.pod import Shape
from tests.cluster.conftest import GPU, node, shape, table_of
from tests.examples import share
from tests.hardware.nodes import guaranteed, topology

EVERYWHERE = np.ones(2, dtype=np.bool_)


def two_nodes() -> NodeTable:
    """Return a table of two nodes with 8 and 4 GPUs."""
    return table_of([node("a", gpus=8), node("b", gpus=4)])


def test_snapshot_is_independent_of_the_table() -> None:
    """Taking from a snapshot leaves the table alone, and the table's later claims leave the snapshot alone."""
    table = two_nodes()
    whatif = WhatIf(table)
    before = table.free()
    whatif.take(0, table.vector(((GPU, 3),)))
    assert np.array_equal(table.free(), before)
    table.claim("pod", "b", Shape(((GPU, 1),)))
    assert whatif.free[table.resources.index(GPU)].tolist() == [5, 4]


def test_given_capacity_is_copied() -> None:
    """A snapshot may start from any matrix, which stays as it is."""
    table = two_nodes()
    given_free = table.free()
    whatif = WhatIf(table, given_free)
    whatif.take(1, table.vector(((GPU, 1),)), 2)
    assert np.array_equal(given_free, table.free())
    assert whatif.free[table.resources.index(GPU)].tolist() == [8, 2]


def test_counts_is_the_scarcest_resource() -> None:
    """A node takes as many pods as its scarcest requested resource allows."""
    table = two_nodes()
    whatif = WhatIf(table)
    assert whatif.counts(table.vector(((GPU, 2), ("cpu", 30_000))), EVERYWHERE).tolist() == [2, 2]
    assert whatif.counts(table.vector(((GPU, 3), ("pods", 1))), EVERYWHERE).tolist() == [2, 1]


def test_counts_outside_the_eligible_nodes_is_zero() -> None:
    """Nodes that do not admit the pod take none of it."""
    table = two_nodes()
    assert WhatIf(table).counts(table.vector(((GPU, 1),)), np.array([False, True])).tolist() == [0, 4]


def test_counts_of_a_resource_nobody_has_is_zero() -> None:
    """A request for a resource that no node ever listed fits nowhere."""
    table = two_nodes()
    vector = table.vector((("pods", 1), ("amd.com/gpu", 1)))
    assert WhatIf(table).counts(vector, EVERYWHERE).tolist() == [0, 0]


def test_counts_on_overcommitted_nodes_is_zero() -> None:
    """A node with less than nothing free takes nothing that asks for it, and anything that does not."""
    table = two_nodes()
    table.claim("pod", "a", Shape(((GPU, 9),)))
    whatif = WhatIf(table)
    assert whatif.counts(table.vector(((GPU, 1),)), EVERYWHERE).tolist() == [0, 4]
    assert whatif.counts(table.vector((("pods", 1),)), EVERYWHERE).tolist() == [110, 110]


def test_counts_without_nodes_or_requests() -> None:
    """Without nodes there is nothing to count; a request for nothing, or for zero of something, fits without end."""
    empty = NodeTable()
    assert WhatIf(empty).counts(empty.vector((("cpu", 1),)), np.ones(0, dtype=np.bool_)).tolist() == []
    table = two_nodes()
    assert WhatIf(table).counts(table.vector(((GPU, 0),)), EVERYWHERE).min() == np.iinfo(np.int64).max


def test_take_from_several_nodes() -> None:
    """Several nodes give their shares in one step, which is undone in one step."""
    table = two_nodes()
    whatif = WhatIf(table)
    vector = table.vector(((GPU, 2), ("pods", 1)))
    whatif.take_from(np.array([0, 1], dtype=np.intp), vector, np.array([3, 1], dtype=np.int64))
    assert whatif.free[table.resources.index(GPU)].tolist() == [2, 2]
    assert whatif.free[table.resources.index("pods")].tolist() == [107, 109]
    whatif.undo(Mark(0))
    assert np.array_equal(whatif.free, table.free())


def test_settled_pods_take_gpus_and_zones() -> None:
    """Pods that are settled change the states of their nodes, in the snapshot alone, until that is undone."""
    table = two_nodes()
    whatif = WhatIf(table)
    before = whatif.states.copy()
    mark = whatif.mark()
    rows = np.array([0, 1], dtype=np.intp)
    whatif.settle(rows, shape(2), np.array([1, 2], dtype=np.int64))
    whatif.settle(rows[:1], shape(4), np.array([1], dtype=np.int64))
    assert [table.occupancy.offer(number, shape(1), 9).pods for number in whatif.states.tolist()] == [2, 0]
    assert np.array_equal(table.occupancy.states(HoldingScope.ALL), before)
    whatif.undo(mark)
    assert np.array_equal(whatif.states, before)


def test_pods_without_gpus_settle_nowhere() -> None:
    """A pod that asks for no GPUs changes no state where no node aligns anything, and there is nothing to undo."""
    whatif = WhatIf(two_nodes())
    mark = whatif.mark()
    whatif.settle(np.array([0], dtype=np.intp), shape(0), np.array([3], dtype=np.int64))
    assert whatif.mark() == mark


def test_states_go_with_the_claims_that_count() -> None:
    """A snapshot of what can be free has the states of the lasting claims, one of the empty cluster those of none."""
    table = two_nodes()
    table.claim("job", "a", shape(2))
    table.claim("daemon", "b", shape(2), lasting=True)
    empty = WhatIf(table, table.allocatable[:, : table.rows], HoldingScope.NONE).states
    potential = WhatIf(table, table.potential(), HoldingScope.LASTING).states
    now = WhatIf(table).states
    assert (potential == empty).tolist() == [True, False]
    assert (potential == now).tolist() == [False, True]


STEPS = st.one_of(
    st.tuples(
        st.integers(0, 1),
        st.dictionaries(st.sampled_from(["cpu", GPU, "pods", "none/such"]), st.integers(0, 5)),
        st.integers(1, 3),
    ),
    st.just("mark"),
    st.just("undo"),
)


@given(st.lists(STEPS, max_size=30))
def test_undo_restores_exactly(steps: list[tuple[int, dict[str, int], int] | str]) -> None:
    """Undoing to a mark gives back exactly what was taken since, through any nesting of marks."""
    table = two_nodes()
    whatif = WhatIf(table)
    marks = [(whatif.mark(), whatif.free.copy())]
    for step in steps:
        if step == "mark":
            marks.append((whatif.mark(), whatif.free.copy()))
        elif step == "undo":
            mark, expected = marks.pop() if len(marks) > 1 else marks[0]
            whatif.undo(mark)
            assert np.array_equal(whatif.free, expected)
        elif not isinstance(step, str):
            row, requests, count = step
            whatif.take(row, table.vector(tuple(requests.items())), count)
    whatif.undo(marks[0][0])
    assert np.array_equal(whatif.free, table.free())


def aligned_nodes() -> NodeTable:
    """Return a table of two nodes with 8 GPUs whose kubelets align pods with two zones of 4 GPUs."""
    table = table_of([node("a", gpus=8), node("b", gpus=8)])
    for name in "ab":
        table.occupancy.put_topology(replace(topology(TopologyPolicy.RESTRICTED), node=name))
    return table


def everything(whatif: WhatIf) -> tuple[list[list[int]], list[int]]:
    """Return what is free, and the states of GPUs and zones."""
    return whatif.free.tolist(), whatif.states.tolist()


@pytest.mark.parametrize("make", [two_nodes, aligned_nodes])
def test_vacated_claims_are_free_until_undone(make: Callable[[], NodeTable]) -> None:
    """What pods claim of columns, GPUs and zones is free once they are vacated, and taken again once that is undone."""
    table = make()
    empty = everything(WhatIf(table))
    table.claim("one", "a", guaranteed(2, 3))
    table.claim("two", "a", guaranteed(4, 2))
    table.claim("three", "b", guaranteed(4, 2))
    whatif = WhatIf(table)
    before = everything(whatif)
    mark = whatif.mark()
    whatif.vacate(["one", "three"])
    whatif.vacate(["two"])
    assert everything(whatif) == empty
    whatif.undo(mark)
    assert everything(whatif) == before
    assert everything(WhatIf(table)) == before


def test_each_claim_is_vacated_once() -> None:
    """A pod that is named twice, or vacated already, gives back nothing more, until that is undone; nor does nobody."""
    table = two_nodes()
    table.claim("one", "a", shape(2))
    table.claim("elsewhere", "gone", shape(2))
    whatif = WhatIf(table)
    mark = whatif.mark()
    whatif.vacate(["one", "one"])
    once = everything(whatif)
    inner = whatif.mark()
    whatif.vacate(["one", "elsewhere", "nobody"])
    assert everything(whatif) == once
    assert whatif.mark() == inner
    whatif.undo(mark)
    whatif.vacate(["one"])
    assert everything(whatif) == once


def test_what_is_settled_stays_settled() -> None:
    """A pod that was settled on a node keeps its GPUs when claims there are vacated, and they when it is vacated."""
    for table in (two_nodes(), aligned_nodes()):
        table.claim("one", "a", guaranteed(2, 1))
        whatif = WhatIf(table)
        rows = np.array([0], dtype=np.intp)
        whatif.settle(rows, guaranteed(2, 1), np.array([1], dtype=np.int64))
        whatif.vacate(["one"])
        assert table.occupancy.offer(int(whatif.states[0]), shape(1), 9).pods == 6


def test_vacating_goes_with_the_claims_that_count() -> None:
    """Where only lasting claims count, only they hold GPUs to be given back; on the empty cluster nobody does."""
    table = two_nodes()
    table.claim("job", "a", shape(2))
    table.claim("daemon", "a", shape(2), lasting=True)
    table.claim("agent", "a", shape(1), lasting=True)
    potential = WhatIf(table, table.potential(), HoldingScope.LASTING)
    potential.vacate(["job"])
    assert table.occupancy.offer(int(potential.states[0]), shape(1), 9).pods == 5
    potential.vacate(["daemon"])
    assert table.occupancy.offer(int(potential.states[0]), shape(1), 9).pods == 7
    empty = WhatIf(table, table.allocatable[:, : table.rows], HoldingScope.NONE)
    empty.vacate(["daemon"])
    assert table.occupancy.offer(int(empty.states[0]), shape(1), 9).pods == 8


CLAIMS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.builds(guaranteed, st.sampled_from([0, 1, 2, 3, 4]), st.sampled_from([0.5, 2, 6])),
        st.sampled_from([None, None, None, holdings.DeviceHolding((0, 1)), holdings.DeviceHolding((), (1,))]),
        st.booleans(),
    ),
    max_size=7,
)


@share(0.6)
@given(st.sampled_from([two_nodes, aligned_nodes]), CLAIMS)
def test_vacating_is_what_giving_back_will_be(
    make: Callable[[], NodeTable], claims: list[tuple[str, Shape, holdings.DeviceHolding | None, bool]]
) -> None:
    """Vacated pods leave what the table itself has once their claims are given back, disputed GPUs included."""
    table = make()
    for number, (name, asked, seen, _) in enumerate(claims):
        table.claim(f"pod-{number}", name, asked, observed=seen)
    going = [f"pod-{number}" for number, (*_, goes) in enumerate(claims) if goes]
    whatif = WhatIf(table)
    before = everything(whatif)
    mark = whatif.mark()
    whatif.vacate(going)
    expected = everything(whatif)
    whatif.undo(mark)
    assert everything(whatif) == before
    for uid in going:
        table.release(uid)
    assert everything(WhatIf(table)) == expected


@settings(deadline=None)
@given(st.data())
def test_rooms_follow_what_is_taken_and_given_back(data: st.DataObject) -> None:
    """Counted again only where something moved, they are what counting everything finds."""
    table = table_of(node(f"n{index}", gpus=gpus) for index, gpus in enumerate([8, 8, 4, 2, 0, 8, 8, 8, 8, 8]))
    for index in range(4):
        table.claim(f"claim-{index}", f"n{index}", shape(gpus=index % 3))
    whatif, marks = WhatIf(table), []
    shapes = [shape(gpus=1), shape(gpus=4), shape(cpu=30_000)]
    for _ in range(data.draw(st.integers(1, 12))):
        wanted = data.draw(st.sampled_from(shapes))
        row = data.draw(st.integers(0, 9))
        match data.draw(st.sampled_from(["take", "mark", "undo", "vacate", "withhold", "follow"])):
            case "take" if whatif.rooms(wanted).counts[row]:
                one, rows = np.ones(1, dtype=np.int64), np.array([row])
                whatif.take_from(rows, table.vector(wanted.requests), one)
                whatif.settle(rows, wanted, one)
            case "mark":
                marks.append(whatif.mark())
            case "undo" if marks:
                whatif.undo(marks.pop())
            case "vacate":
                whatif.vacate([f"claim-{row}"])
            case "withhold":
                kept = np.zeros_like(whatif.free)
                kept[:, row] = table.allocatable[:, row] // 4
                whatif.withhold(kept)
        again = WhatIf(table, whatif.free)
        again.states[:] = whatif.states
        found, expected = whatif.rooms(wanted), again.rooms(wanted)
        assert np.array_equal(found.counts, expected.counts)
        some = np.flatnonzero(found.counts)
        kinds = [[rooms.known[kind] for kind in rooms.kinds[some].tolist()] for rooms in (found, expected)]
        assert kinds[0] == kinds[1]
