"""Evictions that were allowed count as made until they are heard of."""

from __future__ import annotations

from extender.admission.events import PodGone, Preempt
from extender.clock import ManualClock
from extender.eviction.pending import AllowedEvictions
from tests.worlds import World


def test_allowed_evictions_are_expected_for_a_while() -> None:
    """An eviction is expected for ten seconds after it was last allowed."""
    clock = ManualClock()
    evictions = AllowedEvictions(clock)
    evictions.allow(["a", "b"])
    clock.advance(9)
    evictions.allow(["b"])
    assert set(evictions.expected()) == {"a", "b"}
    clock.advance(1)
    assert set(evictions.expected()) == {"b"}


def test_preempt_does_not_take_a_gang_apart_one_by_one(world: World) -> None:
    """Before the first eviction is heard of, a second member beyond the same minimum is spared."""
    world.nodes(3)
    gang = world.gang("gang", 3, min_member=2)
    gang.run()
    world.judge()
    urgent = world.pod("urgent", 8, priority=100, scheduler_name="default-scheduler")
    first, second, third = gang.pods
    assert world.tell(Preempt(urgent, {first.node_name: [first.uid]})) == [first.node_name]
    assert world.tell(Preempt(urgent, {second.node_name: [second.uid]})) == []
    world.clock.advance(10)  # nothing came of it
    assert world.tell(Preempt(urgent, {second.node_name: [second.uid]})) == [second.node_name]
    gang.see(1, deleting=True)
    assert world.tell(Preempt(urgent, {third.node_name: [third.uid]})) == []


def test_an_eviction_that_was_heard_of_is_no_longer_expected(world: World) -> None:
    """A victim that is gone counts once, not twice: the gang may lose what it still has to spare."""
    world.nodes(3)
    gang = world.gang("gang", 3, min_member=1)
    gang.run()
    world.judge()
    urgent = world.pod("urgent", 8, priority=100, scheduler_name="default-scheduler")
    first, second, _ = gang.pods
    assert world.tell(Preempt(urgent, {first.node_name: [first.uid]})) == [first.node_name]
    world.tell(PodGone(first.uid))
    other = world.pod("other", 8, priority=100, scheduler_name="default-scheduler")
    assert world.tell(Preempt(other, {second.node_name: [second.uid]})) == [second.node_name]
