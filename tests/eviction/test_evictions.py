"""Evictions that were allowed count as made until they are heard of."""

from __future__ import annotations

import pytest

from extender.admission.events import PodGone, Preempt
from extender.clock import ManualClock
from extender.eviction.sent import AllowedEvictions, SentEvictions
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


class TestSentEvictions:
    """Which spared pods leave nevertheless."""

    def test_only_what_was_sent_leaves_although_it_is_spared(self, world: World) -> None:
        """Another one stays at once."""
        sent, waiting = world.pod("sent", 1), world.pod("waiting", 1)
        evictions = SentEvictions(world.clock)
        evictions.send(sent.uid)
        assert evictions.spare([sent, waiting]) == {waiting.uid}
        assert list(evictions.leaving()) == [sent]
        assert evictions.settle(lambda _: False) == set()

    def test_what_is_not_seen_to_leave_stays(self, world: World) -> None:
        """After ten seconds an eviction was lost on its way."""
        pod, evictions = world.pod("pod", 1), SentEvictions(world.clock)
        evictions.send(pod.uid)
        world.clock.advance(6)
        evictions.spare([pod])
        assert evictions.next_turn() == pytest.approx(world.clock.monotonic() + 4)
        world.clock.advance(4)
        assert evictions.settle(lambda _: False) == {pod.uid}
        assert not evictions.spared
        assert evictions.spare([pod]) == {pod.uid}

    def test_what_the_api_server_denies_stays(self, world: World) -> None:
        """That is certain at once, before it is spared and afterwards."""
        pod, evictions = world.pod("pod", 1), SentEvictions(world.clock)
        evictions.send(pod.uid)
        evictions.spare([pod])
        evictions.turn_back(pod.uid)
        assert evictions.next_turn() < world.clock.monotonic()
        assert evictions.settle(lambda _: False) == {pod.uid}
        evictions.send(pod.uid)
        evictions.turn_back(pod.uid)
        assert evictions.spare([pod]) == {pod.uid}

    def test_who_is_gone_does_not_stay(self, world: World) -> None:
        """Whatever became of its eviction."""
        pod, evictions = world.pod("pod", 1), SentEvictions(world.clock)
        evictions.send(pod.uid)
        evictions.spare([pod])
        assert evictions.settle(lambda _: True) == set()
        assert list(evictions.leaving()) == []
