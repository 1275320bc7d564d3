"""Gangs are told before they are evicted, go when they are ready or when their time is over, and are told once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.admission.events import GroupGone, PodSeen, Rebuild
from extender.cluster.gangs import Gang
from extender.eviction.policies import notice_of
from extender.objects.jobsigns import JobSigns, NoticePeriod, read_signs
from extender.objects.keys import NO_OPTIONS, Options
from extender.objects.podgroup import GroupRef
from extender.objects.queue import PreemptionPolicy, StopPolicy
from extender.objects.reason import Reason
from tests.eviction.test_losses import ASKING, lose, silent
from tests.eviction.test_preemptions import evicted, leave, running
from tests.queues.test_sharing import queue, tell
from tests.worlds import Job, World


def heed(world: World, *jobs: Job) -> list[str]:
    """Let pods carry what was written on them, as the watch tells; return what, the newest last."""
    wishes, said = world.effects().notices, []
    for job in jobs:
        for index, pod in enumerate(job.pods):
            wish = wishes.get(pod.uid)
            if wish is not None:
                said.append(wish.planned or wish.message)
                planned = read_signs({"muster.dev/eviction-planned": wish.planned}).planned
                job.see(index, signs=replace(pod.signs, planned=planned))
    world.judge()
    return said


def told(world: World, members: int = 2) -> tuple[Job, Job]:
    """Return a gang that has two minutes of notice, and carries it, and the one it is to leave for."""
    world.nodes(members)
    low = running(world, "low", members, priority=1, options=ASKING)
    world.effects()
    high = world.gang("high", members, priority=5)
    assert high.reason is Reason.PREEMPTING
    effects = world.effects()
    assert not effects.evictions
    assert {wish.planned for wish in effects.notices.values()} == {str(period(world))}
    for index in range(members):
        low.see(index, signs=JobSigns(planned=period(world)))
    world.judge()
    return low, high


def period(world: World, seconds: float = 120.0) -> NoticePeriod:
    """Return a period that begins now."""
    return NoticePeriod(world.now, world.now + seconds)


class TestNotice:
    """Asked for by the gang."""

    def test_who_says_nothing_goes_when_the_time_is_over(self, world: World) -> None:
        """Not a second before, and then whole."""
        told(world)
        world.later(119)
        assert not evicted(world)
        world.later(1)
        effects = world.effects()
        assert {each.pod.name for each in effects.evictions.values()} == {"low-0", "low-1"}
        assert effects.notices_ended == ["expired"]

    @pytest.mark.parametrize("how", ["acknowledges", "saves its work", "PodGroup acknowledges"])
    def test_who_is_ready_goes_at_once(self, world: World, how: str) -> None:
        """One member is enough: rank 0 knows; and so is a checkpoint that is newer than the notice."""
        low, _ = told(world)
        given = low.pods[0].signs.planned
        assert given is not None
        world.later(10)
        if how == "acknowledges":
            low.see(1, signs=JobSigns(planned=given, acknowledged=given))
        elif how == "saves its work":
            low.see(1, signs=JobSigns(planned=given, last_checkpoint=world.now - 1))
        else:
            world.group(low.ref, 2, options=Options(signs=JobSigns(acknowledged=given)))
        world.judge()
        effects = world.effects()
        assert {each.pod.name for each in effects.evictions.values()} == {"low-0", "low-1"}
        assert effects.notices_ended == ["acknowledged"]

    def test_what_was_said_before_is_no_answer(self, world: World) -> None:
        """Neither the acknowledgement of another notice, nor a checkpoint before it, nor one from the future."""
        low, _ = told(world)
        given = low.pods[0].signs.planned
        assert given is not None
        old = NoticePeriod(given.given - 1000, given.until - 1000)
        for signs in (
            JobSigns(planned=given, acknowledged=old),
            JobSigns(planned=given, last_checkpoint=given.given),
            JobSigns(planned=given, last_checkpoint=given.given + 10_000),
        ):
            low.see(0, signs=signs)
            world.judge()
            assert not evicted(world)

    def test_it_is_withdrawn_when_the_need_ends(self, world: World) -> None:
        """The pods say so, and nothing is evicted."""
        low, high = told(world)
        uid = high.gang.uid
        leave(world, high)
        world.tell(GroupGone(high.ref, uid))
        world.judge()
        effects = world.effects()
        assert effects.notices_ended == ["withdrawn"]
        assert {wish.planned for wish in effects.notices.values()} == {""}
        assert {wish.reason for wish in effects.notices.values()} == {"Withdrawn"}
        assert effects.notices.keys() == {pod.uid for pod in low.pods}
        world.later(1000)
        assert not evicted(world)

    def test_its_place_is_kept_meanwhile(self, world: World) -> None:
        """What is free there already goes to no other gang."""
        low, high = told(world)
        thief = world.gang("thief", 1, priority=5)
        low.see(0, signs=replace(low.pods[0].signs, acknowledged=low.pods[0].signs.planned))
        world.judge()
        assert evicted(world)
        leave(world, low)
        assert len(high.reserved) == 2
        assert not thief.reserved

    def test_none_goes_before_all_can(self, world: World) -> None:
        """Of two gangs that leave for one, the first that is ready waits for the other: it may yet stay."""
        world.nodes(2)
        first, second = (running(world, name, 1, priority=1, options=ASKING) for name in ("first", "second"))
        world.effects()
        world.gang("high", 2, priority=5)
        heed(world, first, second)
        first.see(0, signs=replace(first.pods[0].signs, acknowledged=first.pods[0].signs.planned))
        world.judge()
        assert not evicted(world)
        second.see(0, signs=replace(second.pods[0].signs, acknowledged=second.pods[0].signs.planned))
        world.judge()
        assert evicted(world) == {"Preempted": {"first-0", "second-0"}}


class TestLostNodes:
    """While a gang has notice."""

    def test_a_place_on_one_is_given_up(self, world: World) -> None:
        """No gang leaves for it any more, and the members that were there are replaced."""
        low, _ = told(world)
        world.nodes(3)
        silent(world, low.pods[0].node_name)
        world.effects()
        world.later(40)
        effects = world.effects()
        assert effects.notices_ended == ["withdrawn"]
        assert {wish.planned for wish in effects.notices.values()} == {""}
        assert "no pod is evicted: nodes of its place are lost" in {note.message for note in effects.notes}
        assert {each.pod.name: each.reason for each in effects.evictions.values()} == {"low-0": "NodeLost"}

    def test_who_cannot_run_any_more_goes_at_once(self, world: World) -> None:
        """Its other member has nothing to save by itself."""
        world.nodes(2)
        low = running(world, "low", 2, priority=1, options=ASKING)
        world.effects()
        world.gang("high", 1, priority=5)
        assert not evicted(world)
        lose(world, low.pods[1].node_name)
        assert evicted(world) == {"Preempted": {"low-0", "low-1"}}


class TestGrace:
    """Of the Queue, for gangs that ask for nothing."""

    def test_it_is_exact_and_no_pod_is_written_to(self, world: World) -> None:
        """Not until the next whole second, in which times are written: every gang behind would start later."""
        low = patient(world)
        world.clock.advance(0.25)
        world.gang("high", 1, priority=5, options=Options(queue="team"))
        world.later(1.75)
        assert not evicted(world)
        world.later(0.25)
        effects = world.effects()
        assert {each.pod.name for each in effects.evictions.values()} == {low.pods[0].name}
        assert effects.notices_ended == ["expired"]

    def test_it_is_withdrawn_without_a_write(self, world: World) -> None:
        """Nothing stands on its pods."""
        patient(world)
        high = world.gang("high", 1, priority=5, options=Options(queue="team"))
        uid = high.gang.uid
        leave(world, high)
        world.tell(GroupGone(high.ref, uid))
        world.judge()
        effects = world.effects()
        assert effects.notices_ended == ["withdrawn"]
        assert not effects.notices
        assert not effects.evictions

    @pytest.mark.parametrize(
        ("options", "signs"), [(Options(eviction_notice=0.0), JobSigns()), (Options(), JobSigns(last_checkpoint=1.0))]
    )
    def test_the_pods_of_a_gang_that_listens_say_it(self, world: World, options: Options, signs: JobSigns) -> None:
        """It asks for notice, be it none of its own, or says when it saves its work."""
        low = patient(world, options)
        low.see(0, signs=signs)
        world.judge()
        world.clock.advance(0.25)
        world.gang("high", 1, priority=5, options=Options(queue="team"))
        (wish,) = world.effects().notices.values()
        assert wish.planned == str(NoticePeriod(world.now + 0.75, world.now + 1.75))

    def test_who_has_less_hears_when_all_go(self, world: World) -> None:
        """But keeps no other waiting: when the other is ready, both go."""
        other = patient(world, ASKING, 2)
        running(world, "without", 1, priority=1, options=Options(queue="team"))
        world.effects()
        world.gang("high", 2, priority=5, options=Options(queue="team"))
        told = [note.message for note in world.effects().notes if note.reason == "EvictionNotice"]
        assert [message.partition(" for ")[0] for message in told] == ["1 pod to be evicted in 120 s"] * 2
        other.see(0, signs=JobSigns(last_checkpoint=world.now + 1))
        world.later(2)
        assert evicted(world) == {"Preempted": {"low-0", "without-0"}}


def patient(world: World, options: Options = NO_OPTIONS, nodes: int = 1) -> Job:
    """Return a gang on one of the nodes, of a Queue with two seconds of grace."""
    world.nodes(nodes)
    tell(world, queue("team", 8 * nodes, preemption=PreemptionPolicy(grace=2.0)))
    low = running(world, "low", 1, priority=1, options=replace(options, queue="team"))
    world.effects()
    return low


@given(now=st.floats(0, 4e9), seconds=st.floats(1, 1e6))
def test_what_is_written_is_given_after_the_fact_and_ends_before(now: float, seconds: float) -> None:
    """In whole seconds; work that was saved before is no answer, and no gang goes before the time that it was told."""
    period = NoticePeriod.from_now(now, seconds)
    assert now <= period.given <= now + 1
    assert period.given <= period.until <= now + seconds <= period.until + 1
    text = str(period)
    assert read_signs({"muster.dev/eviction-planned": text}).planned == period


class TestRestart:
    """The process that decides is another one."""

    def test_there_is_no_second_notice(self, world: World) -> None:
        """What pods carry counts on, to the second."""
        low, high = told(world)
        world.later(100)
        world.effects()
        successor = restart(world, low, high)
        effects = successor.effects()
        assert not effects.evictions
        assert not effects.notices
        assert not [note for note in effects.notes if note.reason == "EvictionNotice"]
        successor.later(19)
        assert not evicted(successor)
        successor.later(1)
        assert evicted(successor) == {"Preempted": {"low-0", "low-1"}}

    def test_an_answer_from_before_counts(self, world: World) -> None:
        """Who acknowledged to the process before goes at once."""
        low, high = told(world)
        low.pods[0] = replace(low.pods[0], signs=replace(low.pods[0].signs, acknowledged=low.pods[0].signs.planned))
        assert evicted(restart(world, low, high)) == {"Preempted": {"low-0", "low-1"}}

    def test_it_is_taken_back_where_the_need_has_gone(self, world: World) -> None:
        """A minute later: until then the gang that it was for may not have been looked at."""
        low, _ = told(world)
        successor = restart(world, low)
        assert not successor.effects().notices
        successor.later(61)
        assert heed(successor, low) == ["no pod is evicted: nothing asks for its place any more"] * 2
        successor.later(1000)
        effects = successor.effects()
        assert not effects.evictions
        assert not effects.notices


def restart(world: World, *jobs: Job) -> World:
    """Return another process that has been told of the same nodes, gangs and pods."""
    successor = world.restart()
    successor.nodes(2)
    for job in jobs:
        job.world = successor
        priority = job.pods[0].priority
        successor.group(job.ref, len(job.pods))
        for pod in job.pods:
            successor.tell(PodSeen(replace(pod, priority=priority)))
    successor.tell(Rebuild())
    successor.judge()
    return successor


def test_a_drained_queue_gives_notice_too(world: World) -> None:
    """And takes it back if it is not drained after all."""
    world.nodes(1)
    tell(world, queue("team", 8))
    job = running(world, "job", 1, options=replace(ASKING, queue="team"))
    world.effects()
    for policy, ended in ((StopPolicy.HOLD_AND_DRAIN, None), (StopPolicy.NONE, "no pod is evicted")):
        tell(world, queue("team", 8, stop_policy=policy))
        world.judge()
        world.later(61)
        (said,) = heed(world, job)
        assert ended is None or said.startswith(ended)
    tell(world, queue("team", 8, stop_policy=StopPolicy.HOLD_AND_DRAIN))
    world.judge()
    heed(world, job)
    world.later(121)
    assert evicted(world) == {"QueueDrained": {"job-0"}}


@given(asked=st.floats(0, 1e6), grace=st.floats(0, 1e4), most=st.floats(0, 1e4))
def test_a_gang_gets_what_it_asks_for_within_what_its_queue_allows(asked: float, grace: float, most: float) -> None:
    """Never less than the queue gives to all, and never more than the larger of both bounds."""
    gang = Gang(GroupRef("x", "ns", "job"), "uid", 0.0)
    policy = PreemptionPolicy(grace=grace, max_notice=most)
    assert notice_of(gang, policy) == grace
    pod = World().pod("job-0", options=Options(eviction_notice=asked or None))
    gang.join(pod)
    assert grace <= notice_of(gang, policy) <= max(grace, most)
    assert notice_of(gang, policy) >= min(asked, most)


def test_a_gang_that_a_drain_did_not_move_has_notice_again(world: World) -> None:
    """A budget has kept it until its Queue was resumed: nothing evicts it any more, and the next one tells it first."""
    world.nodes(1)
    tell(world, queue("team", 8, preemption=PreemptionPolicy()))
    job = running(world, "job", 1, priority=1, options=replace(ASKING, queue="team"))
    world.effects()
    tell(world, queue("team", 8, preemption=PreemptionPolicy(), stop_policy=StopPolicy.HOLD_AND_DRAIN))
    world.judge()
    assert len(heed(world, job)) == 1
    world.later(121)
    assert evicted(world)
    tell(world, queue("team", 8, preemption=PreemptionPolicy()))
    world.judge()
    assert set(world.effects().spared) == {pod.uid for pod in job.pods}
    job.see(0, signs=JobSigns())
    world.later(3600)
    assert not evicted(world)
    high = world.gang("high", 1, priority=5, options=Options(queue="team"))
    assert high.reason is Reason.PREEMPTING
    effects = world.effects()
    assert not effects.evictions
    assert {wish.planned for wish in effects.notices.values()} == {str(period(world))}
