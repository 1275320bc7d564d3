"""Gangs whose verdict stands, thousands of which may each be of a kind of its own: the walk of a pass goes by them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.admission.events import GroupGone, HoldOff, NodeSeen, PodGone, PodSeen, QueueSeen
from extender.objects.node import Node
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason, Wait
from tests.admission.test_steps import assert_as_afresh, come, judge, stepping
from tests.counting import calls
from tests.queues.test_sharing import queue
from tests.worlds import GPU, Job, World, elastic

#: What a decision costs at most for each gang that is parked.
_NOTHING = 0.2


def full(*gpus: int, single: bool = True) -> tuple[World, list[Job], list[Job]]:
    """Return a world of two full nodes, what runs there, and gangs that wait for so many GPUs, each of its own size.

    What runs has one GPU each, eight on a node, and one pod that wants none.
    """
    world = World()
    world.nodes(2)
    running = [world.gang(f"running-{number}", 1, gpus=1, priority=5) for number in range(16)] + [
        world.gang("none", 1, gpus=0, priority=5)
    ]
    for job in running:
        job.run()
    waiting = [come(world, f"waiting-{number}", 1 if single else 2, each) for number, each in enumerate(gpus)]
    judge(world)
    return world, running, waiting


def looked_at(world: World) -> int:
    """Return how many gangs the walk comes by until what has just come has its nodes."""
    return calls(lambda: judge(world), "goes_by")


def test_what_is_parked_is_looked_at_once() -> None:
    """The head that keeps its place is not parked; all others are, and count as one, and so does the newcomer."""
    world, _, waiting = full(*[8] * 30)
    come(world, "newcomer", 1, 0)
    assert looked_at(world) == 3
    assert {job.reason for job in waiting} == {Reason.INSUFFICIENT_CAPACITY}
    assert_as_afresh(world)


def test_what_is_too_little_for_all_helps_none() -> None:
    """One GPU is free, and each of them asks for two at least: what comes beside them starts at once."""
    world, running, _ = full(*[2, 3, 4] * 10)
    running[0].finish()
    newcomer = come(world, "newcomer", 1, 0)
    assert looked_at(world) < 10
    assert newcomer.reserved
    assert_as_afresh(world)


def test_what_is_enough_for_one_starts_that_one() -> None:
    """The walk comes by each, in their order: the first that it is enough for starts beside what the head keeps."""
    world, running, waiting = full(8, 4, 1, 3, 1)
    running[0].finish()
    running[8].finish()
    judge(world)
    assert [bool(job.reserved) for job in waiting] == [False, False, True, False, False]
    assert_as_afresh(world)


def test_what_is_freed_where_they_may_not_use_it_is_looked_at_by_each() -> None:
    """Memory or CPU may be what is too little, where there are GPUs enough; then each is judged for itself."""
    world, running, waiting = full(8, 8, 8)
    for job in running[:8]:
        job.finish()
    judge(world)
    assert [bool(job.reserved) for job in waiting] == [True, False, False]
    assert_as_afresh(world)


@pytest.mark.parametrize("how", ["goes", "shrinks"])
def test_the_next_one_keeps_its_place_when_the_head_goes(how: str) -> None:
    """What the others may use rests on what is kept for the head: the walk comes by those behind it."""
    world, _, waiting = full(*[8] * 6, single=False)
    assert {job.reason for job in waiting} == {Reason.INSUFFICIENT_CAPACITY}
    head = waiting[0]
    if how == "goes":
        for pod in head.pods:
            world.tell(PodGone(pod.uid))
        world.tell(GroupGone(head.ref, head.gang.uid))
    else:
        head.see(0, shape=replace(head.pods[0].shape, requests=(("cpu", 1000), (GPU, 9), ("pods", 1))))
    assert_as_afresh(world)
    newcomer = come(world, "newcomer", 1, 0)
    assert looked_at(world) < 10
    assert newcomer.reserved


def test_those_that_are_too_large_wait_for_a_node() -> None:
    """Nothing that ends helps them. A node that is large enough does, and a smaller one has each looked at again."""
    world, running, waiting = full(*[9] * 20)
    for job in running:
        job.finish()
    come(world, "newcomer", 1, 4)
    assert looked_at(world) <= 4
    world.nodes(1, prefix="small")
    assert_as_afresh(world)
    large = Node("large", uid="large", allocatable={"cpu": 64_000, "memory": 2**40, "pods": 110, GPU: 16})
    world.tell(NodeSeen(large))
    judge(world)
    assert [bool(job.reserved) for job in waiting] == [True, *[False] * 19]
    assert_as_afresh(world)


def test_an_obstacle_is_told_to_all_of_them() -> None:
    """While writes are backlogged that is why they wait; afterwards it is again what it was."""
    world, _, waiting = full(8, 8, 9, 9, 4)
    before = [job.reason for job in waiting]
    world.tell(HoldOff(Wait(Reason.WRITES_BACKLOGGED)))
    judge(world)
    assert {job.reason for job in waiting} == {Reason.WRITES_BACKLOGGED}
    world.tell(HoldOff(None))
    judge(world)
    assert [job.reason for job in waiting] == before
    assert_as_afresh(world)


def test_a_newcomer_of_a_kind_that_is_parked_is_told_what_the_others_were() -> None:
    """Its line is parked no more until it has been told."""
    world, _, waiting = full(8, 8, 8)
    twin = Job(world, GroupRef(waiting[2].ref.api, waiting[2].ref.namespace, "twin"))
    world.group(twin.ref, 1)
    twin.pods.append(world.pod("twin-0", 8, group=twin.ref, shape=waiting[2].pods[0].shape))
    world.tell(PodSeen(twin.pods[0]))
    judge(world)
    assert twin.wait == waiting[2].wait is not None
    assert_as_afresh(world)


def test_a_change_in_the_middle_of_a_walk_counts_for_those_behind_it() -> None:
    """A gang that keeps its place comes between parked ones: those behind it may not use that place."""
    world, running, _ = full(2, 2, 2, 2)
    between = come(world, "waiting-1-b", 2, 1)  # its name says that it is older than the third
    running[0].finish()
    judge(world)
    running[1].finish()
    judge(world)
    assert not between.slots or len(between.slots) == 2
    assert_as_afresh(world)


def test_a_replica_that_takes_up_deciding_knows_of_none() -> None:
    """All verdicts are forgotten, and what was parked with them."""
    world, running, waiting = full(8, 8, 9)
    world.state.forget_verdicts()
    judge(world)
    for job in running[:8]:
        job.finish()
    judge(world)
    assert [bool(job.reserved) for job in waiting] == [True, False, False]


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("comes"), st.integers(1, 3), st.integers(0, 9)),
            st.tuples(st.just("ends"), st.integers(0, 20), st.just(0)),
            st.tuples(st.just("goes"), st.integers(0, 20), st.just(0)),
            st.tuples(st.just("node"), st.integers(0, 9), st.just(0)),
            st.tuples(st.just("quota"), st.integers(0, 9), st.integers(0, 9)),
            st.tuples(st.just("holds off"), st.integers(0, 1), st.just(0)),
        ),
        max_size=30,
    ),
    st.booleans(),
)
def test_all_is_as_if_everything_were_judged_afresh(events: list[tuple[str, int, int]], queues: bool) -> None:
    """Whatever came, ended, went or changed before, in queues with quota or without; and each starts that could."""
    world = stepping(2)
    jobs = [come(world, f"first-{number}", 1, gpus) for number, gpus in enumerate((8, 8, 8, 9, 4, 2, 2, 1))]
    for number, (what, first, second) in enumerate(events):
        job = jobs[first % len(jobs)]
        match what:
            case "comes":
                jobs.append(come(world, f"gang-{number}", first, second))
            case "ends" if job.pods and len(job.reserved) == len(job.pods):
                job.run()
                job.finish()
            case "goes":
                for pod in job.pods:
                    world.tell(PodGone(pod.uid))
                job.pods.clear()
            case "node":
                world.nodes(1, prefix=f"late-{number}", gpus=first)
            case "quota" if queues:
                world.tell(QueueSeen(queue("default", first + second, default=True)))
            case "holds off":
                world.tell(HoldOff(Wait(Reason.WRITES_BACKLOGGED) if first else None))
        judge(world)
    world.tell(HoldOff(None))
    assert_as_afresh(world)


def test_what_they_cost_does_not_grow() -> None:
    """A decision beside 200 of them looks at as many as one beside 20."""

    def work(count: int) -> int:
        world, running, _ = full(*[8] * count)
        running[-1].finish()
        come(world, "newcomer", 1, 0)
        return looked_at(world)

    assert work(200) - work(20) <= _NOTHING * 180


def test_a_reason_that_was_given_to_all_is_not_kept_where_one_waits_for_something_of_its_own() -> None:
    """A gang keeps its place, loses it to a more important one, and writes are backlogged twice for a while."""

    def hold_off(*, on: bool) -> None:
        world.tell(HoldOff(Wait(Reason.WRITES_BACKLOGGED) if on else None))
        judge(world)

    world, _, waiting = full(2)
    hold_off(on=True)
    gang = world.gang("important", 2, gpus=1, priority=1)
    hold_off(on=False)
    world.gang("most-important", 1, gpus=1, priority=2)
    hold_off(on=True)
    assert gang.reason is Reason.WRITES_BACKLOGGED
    hold_off(on=False)
    assert {gang.reason, waiting[0].reason} == {Reason.INSUFFICIENT_CAPACITY}
    assert_as_afresh(world)


def test_a_gang_unlike_others_is_told_that_it_can_never_fit_once_writes_get_through() -> None:
    """Where its node was refused before it became too small: nothing has changed since it was told that first."""
    world = World()
    world.nodes(1)
    job = come(world, "job", 1, 8)
    judge(world)
    world.refuse(job.pods[0])
    (node,) = world.state.nodes()
    world.tell(NodeSeen(replace(node, allocatable={**node.allocatable, GPU: 4})))
    reasons = []
    for on in (False, True, False):
        world.tell(HoldOff(Wait(Reason.WRITES_BACKLOGGED) if on else None))
        judge(world)
        judge(world)
        reasons.append(job.reason)
    assert reasons == [Reason.EXCEEDS_CLUSTER, Reason.WRITES_BACKLOGGED, Reason.EXCEEDS_CLUSTER]
    assert_as_afresh(world)


def test_what_is_freed_may_be_enough_for_another_member_to_start_with(world: World) -> None:
    """The first of two is too large for it: it comes before a gang of lower priority all the same."""
    world.nodes(1)
    world.nodes(1, gpus=0, prefix="plain")
    cpu = world.state.nodes()[0].allocatable["cpu"]
    taken = (("node-0", 8, cpu), ("plain-0", 0, cpu - 1_000), ("plain-0", 0, 1_000))
    others = [world.pod("other", gpus, cpu=of, scheduler_name="other", node_name=node) for node, gpus, of in taken]
    for pod in others:
        world.tell(PodSeen(pod))
    world.gang("first", 1, priority=9)  # what becomes free of the node with GPUs is kept for it
    high, low = elastic(world, "high", 0), world.gang("low", 1, gpus=0)
    high.pods += [world.pod(f"high-{index}", gpus, group=high.ref, priority=5) for index, gpus in enumerate((8, 0))]
    for pod in high.pods:
        world.tell(PodSeen(pod))
    judge(world)
    assert {high.reason, low.reason} == {Reason.INSUFFICIENT_CAPACITY}
    world.tell(PodGone(others[2].uid))
    judge(world)
    assert high.reserved == {"high-1": "plain-0"}
    assert not low.reserved


def test_room_is_kept_for_the_first_that_waits_though_it_was_gone_by(world: World) -> None:
    """Nothing could be kept for any of them before; a gang of lower priority, which may fit now, is judged earlier."""
    world.nodes(1)
    other = world.pod("other", 8, scheduler_name="other", node_name="node-0")
    world.tell(PodSeen(other))
    jobs = [come(world, name, 1, gpus, priority=1) for name, gpus in (("small", 5), ("large", 6))]
    jobs.append(come(world, "low", 2, 3))
    judge(world)
    assert not world.admission.heads
    world.tell(PodGone(other.uid))
    judge(world)
    judge(world)
    assert [bool(job.reserved) for job in jobs] == [True, False, False]
    assert [keep.gang.ref.name for keep in world.admission.heads] == ["large"]
    assert_as_afresh(world)
