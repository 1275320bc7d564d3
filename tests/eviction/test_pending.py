"""Places that are being cleared: notice, patience, and what ends them."""

from __future__ import annotations

from dataclasses import replace

from extender.admission.events import EvictionRefused, GroupGone, PodGone, PodSeen, QueueGone, Rebuild, StandDown
from extender.objects import keys
from extender.objects.pod import Phase
from extender.objects.queue import PreemptionPolicy, QueueingStrategy, StopPolicy
from extender.objects.reason import Reason
from tests.eviction.test_preemptions import RECLAIM, evicted, leave, running
from tests.queues.test_sharing import gang, queue, tell
from tests.worlds import Job, World


def warned(world: World, strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO) -> tuple[Job, Job]:
    """Return a gang that was given notice of two minutes, and the one it is to leave for in a queue of a strategy."""
    world.nodes(2)
    tell(
        world,
        queue("all"),
        queue("red", 8, parent="all", preemption=RECLAIM, strategy=strategy),
        queue("blue", 8, parent="all", preemption=replace(RECLAIM, grace=120.0)),
    )
    jobs = [gang(world, f"blue-{index}", 1, "blue") for index in range(2)]
    for job in jobs:
        job.run()
    world.effects()
    red = gang(world, "red", 1, "red")
    effects = world.effects()
    assert not effects.evictions
    (note,) = (note for note in effects.notes if note.reason == "EvictionNotice")
    assert note.message == "1 pod to be evicted in 120 s for default/red: queue red reclaims its quota from queue blue"
    (victim,) = (job for job in jobs if job.ref == note.about)
    return victim, red


class TestNotice:
    """Gangs of a queue with grace are warned."""

    def test_nobody_is_evicted_whose_place_is_not_needed_any_more(self, world: World) -> None:
        """If the gang it was for goes, the notice is taken back."""
        victim, red = warned(world)
        uid = red.gang.uid
        leave(world, red)
        world.tell(GroupGone(red.ref, uid))
        world.judge()
        (note,) = (note for note in world.effects().notes if note.reason == "EvictionCancelled")
        assert (note.about, note.message) == (victim.ref, "no pod is evicted: the gang is gone")
        world.later(1000)
        assert not evicted(world)

    def test_who_ends_within_its_notice_need_not_be_evicted(self, world: World) -> None:
        """Its place is the other's."""
        victim, red = warned(world)
        victim.finish()
        world.judge()
        assert red.reserved
        world.later(1000)
        assert not evicted(world)

    def test_nobody_leaves_for_a_gang_that_finds_room_elsewhere(self, world: World) -> None:
        """Another gang of the same queue ends: its quota and nodes are as good."""
        victim, red = warned(world)
        other = "blue-1" if victim.ref.name == "blue-0" else "blue-0"
        uid = next(pod.uid for pod in world.state.pods() if pod.name == f"{other}-0")
        world.tell(PodGone(uid))
        world.judge()
        if not red.reserved:  # its own place is kept for it alone; it takes what comes first
            world.later(121)
        assert red.reserved or evicted(world)

    def test_who_comes_ahead_in_a_strict_queue_meanwhile_does_not_take_the_turn(self, world: World) -> None:
        """Others leave for a gang that was the first; one of a higher priority that lacks quota comes after it."""
        victim, red = warned(world, QueueingStrategy.STRICT_FIFO)
        urgent = gang(world, "urgent", 2, "red", priority=10)
        behind = gang(world, "behind", 1, "red")
        assert urgent.reason is Reason.QUOTA_EXCEEDED
        assert (red.reason, behind.reason) == (Reason.PREEMPTING, Reason.BEHIND_IN_QUEUE)
        world.later(121)
        assert evicted(world) == {"Reclaimed": {pod.name for pod in victim.pods}}
        leave(world, victim)
        assert red.reserved
        assert not behind.reserved

    def test_a_change_of_mind_about_the_queue_ends_it(self, world: World) -> None:
        """If the gang's queue is deleted it may not start, and nobody leaves for it."""
        victim, red = warned(world)
        world.tell(QueueGone("red"))
        world.judge()
        assert red.reason is Reason.UNKNOWN_QUEUE
        assert any(note.reason == "EvictionCancelled" and note.about == victim.ref for note in world.effects().notes)
        world.later(1000)
        assert not evicted(world)


class TestPatience:
    """Pods that do not go."""

    def test_a_place_is_given_up_that_is_not_cleared_in_time(self, world: World) -> None:
        """After a quarter of an hour whoever has not been evicted yet is spared, and nobody is asked for as long."""
        world.nodes(1)
        low = running(world, "low", 1, priority=1)
        high = world.gang("high", 1, priority=5)
        assert evicted(world) == {"Preempted": {"low-0"}}
        reasons = []
        for seconds in (899, 1):
            world.later(seconds)
            reasons.append(high.reason)
        assert reasons == [Reason.PREEMPTING, Reason.INSUFFICIENT_CAPACITY]
        assert world.effects().spared == {low.pods[0].uid}
        world.later(800)
        assert not evicted(world)

    def test_who_leaves_by_itself_is_waited_for(self, world: World) -> None:
        """A place whose pods are being deleted is kept, and nobody else is evicted."""
        world.nodes(2)
        low, other = running(world, "low", 1, priority=1), running(world, "other", 1, priority=1)
        low.see(0, deleting=True)
        world.judge()
        world.effects()
        high = world.gang("high", 1, priority=5)
        assert high.reason is Reason.PREEMPTING
        assert not evicted(world)
        leave(world, low)
        assert high.reserved
        assert other.pods[0].bound

    def test_a_pod_without_gang_that_is_not_gone_in_time_is_spared(self, world: World) -> None:
        """Like a gang."""
        world.nodes(1)
        single = world.pod("single", 8, node_name="node-0", phase=Phase.RUNNING, priority=1)
        world.tell(PodSeen(single))
        high = world.gang("high", 1, priority=5)
        assert evicted(world) == {"Preempted": {"single"}}
        world.tell(EvictionRefused("nobody", "it is not there"))
        world.judge()
        assert high.reason is Reason.PREEMPTING
        world.later(900)
        assert world.effects().spared == {single.uid}


class TestDrain:
    """Queues that are drained."""

    def test_pods_without_gang_are_evicted_too(self, world: World) -> None:
        """Once, and with the queue's name."""
        world.nodes(1)
        tell(world, queue("team", 8))
        single = world.pod("single", 8, options=keys.Options(queue="team"), node_name="node-0", phase=Phase.RUNNING)
        world.tell(PodSeen(single))
        world.judge()
        tell(world, queue("team", 8, stop_policy=StopPolicy.HOLD_AND_DRAIN))
        world.judge()
        (evict,) = world.effects().evictions.values()
        assert evict.message == "evicted because Queue team is drained: its stopPolicy is HoldAndDrain"
        world.tell(PodSeen(replace(single, deleting=True)))
        world.later(60)
        assert not evicted(world)

    def test_a_drained_parent_drains_its_children(self, world: World) -> None:
        """And says which queue it is."""
        world.nodes(1)
        tell(world, queue("all"), queue("team", 8, parent="all"))
        job = gang(world, "job", 1, "team")
        job.run()
        world.effects()
        tell(world, queue("all", stop_policy=StopPolicy.HOLD_AND_DRAIN))
        world.judge()
        (evict,) = world.effects().evictions.values()
        assert "Queue all is drained" in evict.message
        world.nodes(1, prefix="new")
        world.judge()
        assert not evicted(world)


class TestStandDown:
    """Another process decides."""

    def test_what_was_under_way_is_left_to_the_next(self, world: World) -> None:
        """Whoever decides next sees the victims leave, and keeps their place and quota again."""
        world.nodes(2)
        tell(world, queue("team", 16, preemption=PreemptionPolicy()))
        low = gang(world, "low", 2, "team", priority=1)
        low.run()
        high = gang(world, "high", 2, "team", priority=5)
        assert high.reason is Reason.PREEMPTING
        world.tell(StandDown())
        low.see(0, deleting=True)
        low.see(1, deleting=True)
        world.tell(Rebuild())
        world.effects()
        world.judge()
        assert high.reason is Reason.PREEMPTING
        assert not evicted(world)
        thief = gang(world, "thief", 1, "team", priority=5)
        leave(world, low)
        assert len(high.reserved) == 2
        assert not thief.reserved
