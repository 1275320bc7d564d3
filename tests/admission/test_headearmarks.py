"""Backfill as gangs meet it: who may use what is kept for the first that wait, and until when."""

from __future__ import annotations

from typing import Any

import pytest

from extender.admission.events import GroupGone, PodSeen
from extender.objects import keys
from extender.objects.reason import Reason
from tests.eviction.test_preemptions import leave, running
from tests.worlds import GPU, Job, World

HOUR = 3600.0


def lasting(seconds: float) -> dict[str, Any]:
    """Return the fields of pods that say how long they run."""
    return {"options": keys.Options(expected_duration=seconds)}


def started(world: World, name: str, members: int, seconds: float | None, gpus: int = 8) -> Job:
    """Return a gang that has just begun to run, and may have said for how long."""
    job = running(world, name, members, gpus, **({} if seconds is None else lasting(seconds)))
    now = world.clock.now().timestamp()
    for index in range(members):
        job.see(index, started_at=now)
    return job


def blocked(world: World, **settings: Any) -> tuple[Job, Job]:
    """Return a gang that runs for an hour on one of two nodes, and the head, which waits for both."""
    world.nodes(2)
    first = started(world, "first", 1, HOUR)
    head = world.gang("head", 2, **settings)
    assert head.reason is Reason.INSUFFICIENT_CAPACITY
    return first, head


def start_of(world: World, job: Job) -> float:
    """Return in how many seconds a gang is expected to start."""
    (keep,) = (keep for keep in world.admission.heads if keep.gang is job.gang)
    assert keep.start is not None
    return keep.start.at - world.clock.now().timestamp()


class TestEasy:
    """A place is kept for the first that waits, and lent until it starts."""

    def test_the_head_is_given_a_start(self, world: World) -> None:
        """It starts when what is in its way has ended, by what that has declared."""
        _, head = blocked(world)
        assert start_of(world, head) == HOUR

    def test_who_ends_before_the_start_uses_the_place(self, world: World) -> None:
        """A short gang starts on a node that is kept for the head."""
        _, head = blocked(world)
        short = world.gang("short", 1, **lasting(1800))
        assert short.reserved
        assert start_of(world, head) == HOUR

    @pytest.mark.parametrize("fields", [{}, lasting(HOUR), lasting(HOUR - 59)], ids=["silent", "long", "margin"])
    def test_who_may_outlast_it_does_not(self, world: World, fields: dict[str, Any]) -> None:
        """Neither a gang that says nothing, nor one that would end later, or less than a minute before."""
        _, head = blocked(world)
        other = world.gang("other", 1, **fields)
        assert other.reason is Reason.BEHIND_HEAD
        assert other.wait is not None
        assert other.wait.message == "the free capacity is held for default/head, which is ahead in the queue"
        assert not head.reserved

    def test_who_does_not_touch_it_may_stay_for_ever(self, world: World) -> None:
        """Nodes that the head will not need are for everybody."""
        _, head = blocked(world)
        world.nodes(1, gpus=4, prefix="small")
        world.judge()
        assert world.gang("other", 1, gpus=4).reserved
        assert start_of(world, head) == HOUR

    @pytest.mark.parametrize(("deadline", "fits"), [(1800.0, True), (HOUR, False), (None, False)])
    def test_single_pods_use_the_place_by_the_same_rule(
        self, world: World, deadline: float | None, *, fits: bool
    ) -> None:
        """A pod without gang goes by its activeDeadlineSeconds."""
        blocked(world)
        single = world.pod("single", 8, active_deadline=deadline)
        world.tell(PodSeen(single))
        assert bool(world.filter(single).accepted) is fits

    def test_single_pods_may_say_it_in_an_annotation(self, world: World) -> None:
        """The annotation counts before activeDeadlineSeconds."""
        blocked(world)
        single = world.pod("single", 8, active_deadline=2 * HOUR, **lasting(60))
        world.tell(PodSeen(single))
        assert world.filter(single).accepted

    def test_the_head_starts_when_promised(self, world: World) -> None:
        """When all have ended as they said, the head has its place, whoever came meanwhile."""
        first, head = blocked(world)
        short = world.gang("short", 1, **lasting(1800))
        short.run()
        world.later(1800)
        short.finish()
        waiting = world.gang("waiting", 1)
        world.later(1800)
        assert not head.reserved
        first.finish()
        world.judge()
        assert len(head.reserved) == 2
        assert not waiting.reserved

    def test_a_single_pod_in_the_way_ends_as_declared(self, world: World) -> None:
        """What pods without gang declare counts for the start too."""
        world.nodes(1)
        single = world.pod(
            "single", 8, node_name="node-0", active_deadline=HOUR, started_at=world.clock.now().timestamp()
        )
        world.tell(PodSeen(single))
        assert start_of(world, world.gang("head", 1)) == HOUR

    def test_where_nobody_declares_anything_there_is_no_start(self, world: World) -> None:
        """The place of which least is taken is kept, and nobody uses it, however short."""
        world.nodes(2)
        started(world, "first", 1, None)
        world.gang("head", 2)
        (keep,) = world.admission.heads
        assert keep.start is None
        assert world.gang("short", 1, **lasting(60)).reason is Reason.BEHIND_HEAD

    def test_an_overrun_moves_the_start(self, world: World) -> None:
        """Who runs on beyond what it declared is expected to do so for as long again, and nobody is evicted for it."""
        first, head = blocked(world)
        world.later(HOUR + 1)
        assert start_of(world, head) == 59
        world.later(60)
        assert start_of(world, head) == 5 * 60 - 61
        assert world.gang("long", 1, **lasting(600)).reason is Reason.BEHIND_HEAD
        assert world.gang("short", 1, **lasting(100)).reserved
        assert not world.effects().evictions
        assert all(pod.bound for pod in first.pods)

    def test_an_early_end_moves_the_start_forward(self, world: World) -> None:
        """The head starts as soon as it can."""
        first, head = blocked(world)
        world.later(60)
        first.finish()
        world.judge()
        assert len(head.reserved) == 2

    def test_who_is_just_being_placed_counts_as_declared(self, world: World) -> None:
        """From its reservation on, before it is bound, a gang in the gap leaves the start where it is."""
        _, head = blocked(world)
        assert world.gang("short", 1, **lasting(1800)).reserved
        world.nodes(1, gpus=4, prefix="small")  # so that everybody is judged anew
        world.judge()
        assert start_of(world, head) == HOUR
        assert world.gang("gated", 1, gated=True, **lasting(60)).reason is Reason.MEMBERS_GATED
        world.nodes(2, gpus=4, prefix="small")
        world.judge()
        assert start_of(world, head) == HOUR

    def test_a_promise_stands_while_others_come_and_go(self, world: World) -> None:
        """Pods that come and go beside it leave the start where it is."""
        _, head = blocked(world)
        for index in range(3):
            short = world.gang(f"short-{index}", 1, **lasting(60))
            short.run()
            world.later(60)
            short.finish()
            world.judge()
            assert start_of(world, head) == HOUR - 60 * (index + 1)

    def test_nothing_is_kept_for_who_goes(self, world: World) -> None:
        """When the head is deleted its place is for everybody."""
        _, head = blocked(world)
        uid = head.gang.uid
        leave(world, head)
        world.tell(GroupGone(head.ref, uid))
        world.judge()
        assert world.admission.heads == ()
        assert world.gang("other", 1).reserved


class TestConservative:
    """Several that wait are given a start, and nobody delays any of them."""

    def test_each_head_has_a_start(self) -> None:
        """The second waits for the end of the first, if that has declared one."""
        world = World(backfill="conservative")
        _, head = blocked(world, **lasting(HOUR))
        second = world.gang("second", 2, **lasting(HOUR))
        assert [keep.gang for keep in world.admission.heads] == [head.gang, second.gang]
        assert start_of(world, head) == HOUR
        assert start_of(world, second) >= 2 * HOUR

    def test_nobody_delays_the_second(self) -> None:
        """Who would end before the first but not before another that waits stays behind."""
        world = World(backfill="conservative")
        world.nodes(3)
        started(world, "hour", 1, HOUR)
        started(world, "half", 1, HOUR / 2)
        head = world.gang("head", 3)
        assert start_of(world, head) == HOUR
        second = world.gang("second", 2, **lasting(HOUR / 4))
        assert start_of(world, second) == HOUR / 2
        assert world.gang("late", 1, **lasting(HOUR / 2 + 60)).reason is Reason.BEHIND_HEAD
        assert world.gang("early", 1, **lasting(HOUR / 2 - 60)).reserved

    def test_with_easy_the_second_may_be_delayed(self, world: World) -> None:
        """Only the first has a start; the same gang may pass the second."""
        world.nodes(3)
        started(world, "hour", 1, HOUR)
        started(world, "half", 1, HOUR / 2)
        world.gang("head", 3)
        world.gang("second", 2, **lasting(HOUR / 4))
        assert len(world.admission.heads) == 1
        assert world.gang("late", 1, **lasting(HOUR / 2 + 60)).reserved

    def test_one_without_start_keeps_its_place_beside_the_others(self) -> None:
        """Nobody is promised what is kept for a gang that nobody knows the start of."""
        world = World(backfill="conservative")
        world.nodes(3)
        started(world, "silent", 1, None)
        first = started(world, "hour", 1, HOUR)
        unknown, later = world.gang("unknown", 3), world.gang("later", 2)
        starts = {keep.gang.ref: keep.start for keep in world.admission.heads}
        assert starts == {unknown.ref: None}
        first.finish()
        world.judge()
        assert later.reason is Reason.BEHIND_HEAD

    def test_beside_one_without_start_others_have_theirs(self) -> None:
        """What is not kept for that one is promised."""
        world = World(backfill="conservative")
        world.nodes(1)
        world.nodes(1, gpus=4, prefix="small")
        silent, hour = started(world, "silent", 1, None), started(world, "hour", 1, HOUR, gpus=4)
        unknown, later = world.gang("unknown", 1), world.gang("later", 1, gpus=4)
        starts = {keep.gang.ref: keep.start for keep in world.admission.heads}
        assert starts[unknown.ref] is None
        assert start_of(world, later) == HOUR
        hour.finish()
        world.judge()
        assert later.reserved
        silent.finish()
        world.judge()
        assert unknown.reserved

    def test_starts_stand_for_as_long_as_all_goes_as_declared(self) -> None:
        """Nobody's start moves to a later time."""
        world = World(backfill="conservative")
        first, head = blocked(world, **lasting(HOUR))
        second = world.gang("second", 2)
        promised = start_of(world, second)
        world.later(HOUR)
        first.finish()
        world.judge()
        assert len(head.reserved) == 2
        assert start_of(world, second) <= promised - HOUR


class TestNone:
    """Without backfill."""

    def test_nobody_uses_what_is_kept(self) -> None:
        """However short a gang is, and whatever has been declared."""
        world = World(backfill="none")
        blocked(world)
        assert world.gang("short", 1, **lasting(60)).reason is Reason.BEHIND_HEAD
        (keep,) = world.admission.heads
        assert keep.start is None

    def test_what_the_head_does_not_need_is_for_all(self) -> None:
        """Nodes that are not kept are used."""
        world = World(backfill="none")
        blocked(world)
        world.nodes(1, gpus=4, prefix="small")
        world.judge()
        assert world.gang("other", 1, gpus=4).reserved


def test_what_is_kept_is_counted_in_resources(world: World) -> None:
    """Of the head's two nodes the free one is kept whole, of the busy one nothing: it is not free now."""
    blocked(world)
    (keep,) = world.admission.heads
    kept = keep.kept[world.state.resource(GPU)]
    assert sorted(int(kept[row]) for row in world.state.rows("node-0", "node-1")) == [0, 8]
