"""Specification of starts: when a gang that waits will start, where, and what is kept for it until then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.table import NodeTable
from extender.cluster.whatif import WhatIf
from extender.objects.nodetopology import TopologyPolicy
from extender.objects.pod import Shape
from extender.objects.topology import TopologyRequest
from extender.placement.backfill import start as start_module
from extender.placement.backfill.outlook import Calendar, Outlook, Release
from extender.placement.backfill.start import Start, earliest_start
from extender.placement.candidates import PlacementTerms
from extender.placement.plan import Plan, plan
from tests.cluster.conftest import GPU, pod, shape
from tests.examples import share
from tests.hardware.nodes import guaranteed, topology
from tests.placement.backfill.conftest import RACKS, found, mixed, site, workers
from tests.placement.conftest import SHAPES, ground_of, tables

IN_A_RACK = PlacementTerms(topology=TopologyRequest(required="rack"))


def test_start_is_the_first_end_that_makes_room() -> None:
    """A gang of two nodes starts when the second of three nodes is free, and its start says whose end that is."""
    here = site(3)
    here.run("long", 900, a_0=8)
    here.run("short", 300, a_1=8)
    here.run("middle", 600, a_2=8)
    start = found(here.start(workers(2)))
    assert (start.at, start.because, start.overdue) == (600, "middle", False)
    assert set(start.nodes.values()) == {"a-1", "a-2"}


def test_ends_add_up() -> None:
    """Room that several ends leave on one node counts together, and so does what is free already."""
    here = site(1)
    here.run("one", 100, a_0=3)
    here.run("two", 200, a_0=3)
    start = found(here.start(workers(1)))
    assert (start.at, start.because) == (200, "two")


def test_work_without_runtime_is_not_waited_for() -> None:
    """Where only work that does not say how long it runs is in the way, there is no start."""
    here = site(2)
    here.run("who-knows", None, a_0=8)
    here.run("job", 100, a_1=8)
    assert found(here.start(workers(1))).at == 100
    assert here.start(workers(2)) is None


def test_no_start_for_what_never_fits() -> None:
    """A gang that is too large, or requires a level that nobody knows, has no start."""
    here = site(1)
    here.run("job", 100, a_0=8)
    assert here.start(workers(2)) is None
    assert here.start(workers(1), PlacementTerms(topology=TopologyRequest(required="planet"))) is None


def test_what_fits_starts_now() -> None:
    """A gang that need not wait starts now and waits for nobody."""
    here = site(1)
    start = found(here.start(workers(1), now=50.0))
    assert (start.at, start.because, here.gpus(start.kept)) == (50, "", {"a-0": 8})


def test_required_domain_decides() -> None:
    """A gang that needs one rack waits until a rack is free, though as many nodes are free before."""
    here = site(2, 2)
    here.run("a", 500, a_0=8)
    here.run("b", 300, b_0=8)
    here.run("other", 400, b_1=8)
    assert found(here.start(workers(2))).at == 300
    start = found(here.start(workers(2), IN_A_RACK))
    assert (start.at, set(start.nodes.values())) == (400, {"b-0", "b-1"})


def test_shapes_that_fit_only_each_by_itself_wait_on() -> None:
    """Pods of several shapes wait until there is room for all of them, together."""
    here = site(1)
    here.run("one", 100, a_0=4)
    here.run("two", 200, a_0=2)
    assert found(here.start(mixed(4, 2))).at == 100
    assert found(here.start(mixed(4, 4))).at == 200


def test_room_that_is_free_now_is_kept() -> None:
    """What the gang takes of nodes that are free now is kept from whoever stays; what is taken now need not be."""
    here = site(3)
    here.run("job", 100, a_0=8)
    here.run("other", 900, a_2=8)
    assert here.gpus(found(here.start(workers(2))).kept) == {"a-1": 8}


def test_room_that_the_gang_will_leave_is_not_kept() -> None:
    """Of a node that is half free, only what its other half will not give the gang is kept."""
    here = site(1)
    here.run("job", 100, a_0=5)
    assert here.gpus(found(here.start(workers(1, gpus=6))).kept) == {"a-0": 1}
    assert here.gpus(found(here.start(workers(1, gpus=5))).kept) == {}


def test_node_whose_kubelet_aligns_pods_is_kept_whole() -> None:
    """Where GPUs of one zone are needed, anybody who stays could have the wrong ones: he stays away."""
    here = site(1)
    here.table.occupancy.put_topology(replace(topology(TopologyPolicy.SINGLE_NUMA_NODE), node="a-0"))
    here.table.claim("job", "a-0", guaranteed(4, 2))
    here.releases.append(Release(100, ("job",), "job"))
    here.table.claim("other", "a-0", guaranteed(1, 2))
    start = found(here.start([pod("w", shape=guaranteed(4, 2))]))
    assert start.at == 100
    assert here.gpus(start.kept) == {"a-0": 3}


def test_overdue_work_is_waited_for_and_named() -> None:
    """A start that waits for work that should have ended says so, and moves to when that is expected now."""
    here = site(1)
    here.run("tardy", 100, a_0=8)
    before = found(here.start(workers(1)))
    start = found(here.start(workers(1), now=130.0, promised=before))
    assert (before.at, start.at, start.because, start.overdue) == (100, 160, "tardy", True)


def test_promise_is_kept_where_nothing_is_earlier() -> None:
    """A gang keeps the nodes that it was promised, though a new search might choose others."""
    here = site(3)
    here.run("one", 100, a_0=8)
    here.run("two", 100, a_1=8)
    here.run("three", 100, a_2=8)
    promised = replace(found(here.start(workers(1))), nodes={"uid-w-0": "a-2"})
    start = found(here.start(workers(1), now=20.0, promised=promised))
    assert (start.at, dict(start.nodes)) == (100, {"uid-w-0": "a-2"})


def test_earlier_start_replaces_a_promise() -> None:
    """When somebody ends before he was expected to, the start moves forward."""
    here = site(2)
    here.run("one", 100, a_0=8)
    here.run("two", 200, a_1=8)
    promised = found(here.start(workers(2)))
    here.table.release("two-a_1")
    assert (promised.at, found(here.start(workers(2), now=20.0, promised=promised)).at) == (200, 100)


def test_promise_that_is_due_can_be_taken() -> None:
    """A start that is due is one now, on the nodes that were promised."""
    here = site(1)
    here.run("job", 100, a_0=8)
    promised = found(here.start(workers(1)))
    here.table.release("job-a_0")
    start = found(here.start(workers(1), now=101.0, promised=promised))
    assert (start.at, dict(start.nodes)) == (101, {"uid-w-0": "a-0"})


@pytest.mark.parametrize("change", ["node gone", "room taken", "another member"])
def test_promise_that_cannot_be_kept_is_made_anew(change: str) -> None:
    """A promise ends with its node, with room that somebody else has after all, and with other members."""
    here = site(2)
    here.run("job", 100, a_0=8)
    here.run("other", 200, a_1=8)
    gang = workers(1)
    promised = found(here.start(gang))
    match change:
        case "node gone":
            here.table.remove("a-0")
        case "room taken":
            here.table.claim("thief", "a-0", shape(1))
        case _:
            gang = workers(1, name="new")
    start = found(here.start(gang, promised=promised))
    assert start.at == (100 if change == "another member" else 200)
    assert set(start.nodes) == {gang[0].uid}


def test_those_ahead_are_not_delayed() -> None:
    """The second gang starts beside the first: after it where that declares a runtime, elsewhere where it does not."""
    here = site(2)
    here.run("one", 100, a_0=8)
    here.run("two", 300, a_1=8)
    free, calendar, candidates = WhatIf(here.table), here.calendar(), here.candidates
    for duration, expected in ((50.0, 150), (None, 300)):
        first = found(earliest_start(workers(1), free, candidates, PlacementTerms(), calendar, duration=duration))
        second = found(
            earliest_start(workers(1, name="v"), free, candidates, PlacementTerms(), calendar, ahead=[first])
        )
        assert (first.at, second.at) == (100, expected)


def test_second_gang_goes_before_the_first_where_it_is_gone_in_time() -> None:
    """A gang behind another starts before it on the same nodes if it says that it ends in time."""
    here = site(2)
    here.run("one", 500, a_0=8)
    free, calendar, candidates = WhatIf(here.table), here.calendar(), here.candidates
    first = found(earliest_start(workers(2), free, candidates, PlacementTerms(), calendar))
    for duration, expected in ((500.0, 0), (501.0, None)):
        second = earliest_start(
            workers(1, name="v"), free, candidates, PlacementTerms(), calendar, duration=duration, ahead=[first]
        )
        assert (None if second is None else second.at) == expected


def test_what_is_kept_for_several_adds_up() -> None:
    """Two gangs that count on the same end of others on a node are kept, together, what that end does not cover."""
    here = site(1)
    here.run("job", 100, a_0=4)
    free, calendar, candidates = WhatIf(here.table), here.calendar(), here.candidates
    first = found(earliest_start(workers(1, gpus=4), free, candidates, PlacementTerms(), calendar))
    assert first.at == 0
    here.run("other", None, a_0=2)
    free = WhatIf(here.table)
    first = found(earliest_start(workers(1, gpus=4), free, candidates, PlacementTerms(), calendar))
    second = found(
        earliest_start(workers(1, gpus=2, name="v"), free, candidates, PlacementTerms(), calendar, ahead=[first])
    )
    assert (first.at, here.gpus(first.kept)) == (100, {})
    assert (second.at, here.gpus(second.kept)) == (0, {"a-0": 2})


def test_snapshot_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is found, the snapshot is the same afterwards."""
    monkeypatch.setattr(start_module, "MOST_IN_TURN", 2)
    here = site(2)
    for index in range(8):
        here.run(f"job-{index}", 100.0 * index + 100, a_0=1, a_1=1)
    free, before = WhatIf(here.table), WhatIf(here.table)
    for gang in (mixed(5, 5), mixed(6, 5, 5), mixed(8, 8, 8), workers(2)):
        earliest_start(gang, free, here.candidates, PlacementTerms(), here.calendar())
        assert np.array_equal(free.free, before.free)
        assert np.array_equal(free.states, before.states)


def test_every_moment_is_tried_at_first_and_some_of_those_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are tried one after the other, then with growing steps, and always at the last moment."""
    monkeypatch.setattr(start_module, "MOST_IN_TURN", 3)
    assert list(start_module._in_turn(list(range(3)))) == [0, 1, 2]  # noqa: SLF001 - its order is the specification
    assert list(start_module._in_turn(list(range(14)))) == [0, 1, 2, 4, 8, 13]  # noqa: SLF001 - the same
    assert list(start_module._in_turn([])) == []  # noqa: SLF001 - the same


@share(0.6)
@given(tables(), st.lists(SHAPES, min_size=1, max_size=5), st.data())
def test_no_earlier_end_makes_room(table: NodeTable, shapes: list[Shape], data: st.DataObject) -> None:
    """The start is the very first end after which there is a plan, with its claims given back in the table itself."""
    pods = [pod(f"m-{index}", shape=each) for index, each in enumerate(shapes)]
    uids = [uid for each in table.nodes() for uid in sorted(uid for uid, _ in table.claims_on(each.name))]
    ends = [(data.draw(st.sampled_from([100.0, 200.0, 300.0, None])), uid) for uid in uids]
    calendar = Calendar([Release(at, (uid,), uid) for at, uid in ends if at is not None], now=0)
    start = earliest_start(pods, WhatIf(table), ground_of(table, RACKS), PlacementTerms(), calendar)
    first = None
    for at in (0.0, 100.0, 200.0, 300.0):
        for end, uid in ends:
            if end == at:
                table.release(uid)
        if first is None and isinstance(plan(pods, WhatIf(table), ground_of(table, RACKS), PlacementTerms()), Plan):
            first = at
            assert start is not None
            assert (start.reservation.takes[table.resources.index(GPU)] >= 0).all() if GPU in table.resources else True
    assert (None if start is None else start.at) == first


@share(0.6)
@given(tables(), st.lists(st.tuples(SHAPES, st.integers(1, 2)), min_size=2, max_size=4), st.data())
def test_whoever_leaves_what_is_kept_delays_nobody(
    table: NodeTable, gangs: list[tuple[Shape, int]], data: st.DataObject
) -> None:
    """If somebody takes all but what is kept for those whom he outlasts, they still have their room when it is due."""
    uids = [uid for each in table.nodes() for uid in sorted(uid for uid, _ in table.claims_on(each.name))]
    ends = [(data.draw(st.sampled_from([100.0, 200.0, 300.0, None])), uid) for uid in uids]
    calendar = Calendar([Release(at, (uid,), uid) for at, uid in ends if at is not None], now=0)
    free, candidates = WhatIf(table), ground_of(table, RACKS)
    starts: list[Start] = []
    for number, (each, count) in enumerate(gangs):
        pods = [pod(f"g{number}-{index}", shape=each) for index in range(count)]
        duration = data.draw(st.sampled_from([None, 50.0, 150.0]))
        start = earliest_start(pods, free, candidates, PlacementTerms(), calendar, duration=duration, ahead=starts)
        starts += [] if start is None else [start]
    outlook = Outlook(free, calendar)
    for leaves in (50.0, 150.0, 250.0, 1000.0):
        outlasted = [start for start in starts if start.at < leaves]
        taken = np.maximum(free.free - sum((start.kept for start in outlasted), np.zeros_like(free.free)), 0)
        for moment in {start.at for start in outlasted}:
            there = free.free + outlook.gained(calendar.count(moment)) - taken
            takes = [s.reservation.takes for s in outlasted if s.at <= moment < s.reservation.until]
            asked = sum(takes, np.zeros_like(free.free))
            assert (there >= asked)[asked > 0].all()
