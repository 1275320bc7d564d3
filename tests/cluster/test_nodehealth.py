"""A node is lost when it has not answered for too long, and well again when it has been for as long."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.clock import ManualClock
from extender.cluster.nodehealth import OFTEN_LOST, HealthPolicy, NodeHealth
from extender.objects.node import NOT_READY_TAINT, UNREACHABLE_TAINT, Ailment, Node
from extender.objects.podspec import DRAIN, LOST, Taint

WELL = Node("a")
SECONDS = 40.0


def silent(clock: ManualClock, since: float = 0.0) -> Node:
    """Return the node as it does not answer since some seconds ago."""
    return Node("a", taints=(UNREACHABLE_TAINT,), ailments=(Ailment("Ready", clock.now().timestamp() - since),))


class Watch:
    """A node that is watched on a clock."""

    def __init__(self, policy: HealthPolicy | None = None) -> None:
        self.clock = ManualClock()
        self.health = NodeHealth(
            policy or HealthPolicy(SECONDS, frozenset({"GpuMemWatch"}), frozenset({"x/broken"})), self.clock
        )
        self.node = self.see(WELL, known=False)

    def see(self, node: Node, *, known: bool = True) -> Node:
        """Take in what the node says."""
        self.node = self.health.seen(node, known=known)
        return self.node

    def later(self, seconds: float) -> None:
        """Let time pass, and look when there is something to do."""
        end = self.clock.monotonic() + seconds
        while (turn := self.health.next_turn()) is not None and turn <= end:
            self.clock.advance(max(turn - self.clock.monotonic(), 0.0))
            for node in self.health.ended():
                self.node = node
        self.clock.advance(end - self.clock.monotonic())

    def is_lost(self) -> bool:
        """Tell whether it counts as lost, which all that is told of it agrees about."""
        lost = any(taint.key == LOST for taint in self.node.taints)
        assert lost == ("a" in self.health.lost)
        assert lost == ("it counts as lost" in self.node.doomed)
        return lost

    def fail(self) -> None:
        """Let it be silent until it is lost, and come back for good."""
        self.see(silent(self.clock))
        self.later(SECONDS)
        assert self.is_lost()
        self.see(WELL)
        self.later(SECONDS)
        assert not self.is_lost()


def test_a_node_that_does_not_answer_is_lost_when_time_is_up() -> None:
    """Not before; at once where its condition says that it has been so for as long, as after a restart."""
    watch = Watch()
    watch.see(silent(watch.clock))
    watch.later(SECONDS - 1)
    assert not watch.is_lost()
    watch.later(1)
    assert watch.is_lost()
    assert watch.health.is_failing("a")
    assert watch.node.doomed == "it counts as lost: unreachable"
    after = Watch()
    after.see(silent(after.clock, since=SECONDS + 60), known=False)
    assert after.is_lost()
    assert after.health.lost["a"] == after.clock.monotonic() - 60


def test_the_condition_that_changes_begins_nothing_anew() -> None:
    """From not ready to unreachable, with a new time of transition, it is the same silence."""
    watch = Watch()
    watch.see(Node("a", taints=(NOT_READY_TAINT,), ailments=(Ailment("Ready", watch.clock.now().timestamp()),)))
    watch.later(30)
    watch.see(silent(watch.clock))
    watch.later(10)
    assert watch.is_lost()


def test_a_taint_alone_counts_from_when_it_is_seen() -> None:
    """As a condition without a time does."""
    for node in (
        Node("a", taints=(UNREACHABLE_TAINT,)),
        Node("a", taints=(NOT_READY_TAINT,), ailments=(Ailment("Ready"),)),
    ):
        watch = Watch()
        watch.see(node)
        watch.later(SECONDS - 1)
        assert not watch.is_lost()
        watch.later(1)
        assert watch.is_lost()


@pytest.mark.parametrize(
    "node",
    [
        Node("a", ailments=(Ailment("GpuMemWatch"),)),
        Node("a", taints=(Taint("x/broken", "", "NoSchedule"),)),
        Node("a", soft_taints=(Taint("x/broken", "", "PreferNoSchedule"),)),
    ],
)
def test_what_is_listed_loses_a_node_at_once(node: Node) -> None:
    """A condition or a taint of the lists; any other says nothing."""
    watch = Watch()
    watch.see(node)
    assert watch.is_lost()
    other = Watch()
    other.see(Node("a", ailments=(Ailment("GpuThermalWatch"),), taints=(Taint("x/other", "", "NoSchedule"),)))
    other.later(1000)
    assert not other.is_lost()


def test_nothing_is_lost_where_that_is_switched_off() -> None:
    """With 0 seconds no node ever counts as lost, whatever it says."""
    watch = Watch(HealthPolicy(0.0, frozenset({"GpuMemWatch"})))
    watch.see(replace(silent(watch.clock), ailments=(Ailment("GpuMemWatch"), Ailment("Ready", 0.0))))
    watch.later(1000)
    assert not watch.is_lost()


def test_a_node_that_comes_and_goes_is_lost_once() -> None:
    """It is well again only after it has been well for as long as it takes to be lost."""
    watch = Watch()
    watch.see(silent(watch.clock))
    watch.later(SECONDS)
    for _ in range(10):
        watch.see(WELL)
        assert not watch.health.is_failing("a")
        watch.later(SECONDS - 1)
        assert watch.is_lost()
        assert watch.node.doomed == "it counts as lost: well again, but not for long enough"
        watch.see(silent(watch.clock))
        watch.later(5)
    watch.see(WELL)
    watch.later(SECONDS)
    assert not watch.is_lost()
    assert not watch.node.soft_taints


def test_a_node_that_is_short_of_breath_is_not_lost() -> None:
    """However often it does not answer for less than the time."""
    watch = Watch()
    for _ in range(20):
        watch.see(silent(watch.clock))
        watch.later(SECONDS - 1)
        watch.see(WELL)
        watch.later(1)
    assert not watch.is_lost()
    assert watch.health.next_turn() is None


def test_a_node_that_is_lost_often_is_used_last() -> None:
    """From the second loss within a day on, twice as long each time; it says so, and a day later all is forgotten."""
    watch = Watch()
    watch.fail()
    assert not watch.node.soft_taints
    for times, seconds in ((2, 600), (3, 1200)):
        watch.fail()
        assert watch.node.soft_taints == (Taint(OFTEN_LOST, f"lost {times} times within a day", "PreferNoSchedule"),)
        watch.later(seconds - 1)
        assert watch.node.soft_taints
        watch.later(1)
        assert not watch.node.soft_taints
    watch.later(25 * 3600)
    watch.fail()
    assert not watch.node.soft_taints


def test_the_penalty_is_bounded() -> None:
    """A node that fails all day is used last for four hours at most."""
    watch = Watch()
    for _ in range(12):
        watch.fail()
    watch.later(4 * 3600)
    assert not watch.node.soft_taints


def test_a_node_that_only_starts_is_used_as_soon_as_it_is_ready() -> None:
    """One that has never been seen well has not failed."""
    watch = Watch()
    node = replace(silent(watch.clock), name="a")
    watch.health.gone("a")
    watch.see(node, known=False)
    watch.later(100)
    assert watch.is_lost()
    watch.see(WELL)
    assert not watch.is_lost()
    assert watch.health.next_turn() is None


def test_a_node_that_is_gone_is_forgotten_but_for_its_failures() -> None:
    """A machine that comes back under its name is the same one."""
    watch = Watch()
    watch.fail()
    watch.see(silent(watch.clock))
    watch.later(SECONDS)
    watch.health.gone("a")
    assert not watch.health.lost
    watch.see(WELL, known=False)
    watch.fail()
    assert watch.node.soft_taints
    watch.health.gone("b")
    watch.see(silent(watch.clock))
    watch.health.gone("a")
    assert not watch.health.is_failing("a")


@given(st.lists(st.tuples(st.booleans(), st.floats(0.5, 90.0)), max_size=30))
def test_it_is_what_the_last_long_stretch_was(steps: list[tuple[bool, float]]) -> None:
    """Whatever a node does: it is lost from when it was silent for long enough until it was well for as long."""
    watch = Watch()
    expected, stretch, before = False, 0.0, True
    for well, seconds in steps:
        watch.see(WELL if well else silent(watch.clock))
        stretch = seconds if well != before else stretch + seconds
        before = well
        watch.later(seconds)
        if stretch >= SECONDS + 0.001:
            expected = not well
        elif stretch > SECONDS - 0.001:
            return  # to the millisecond it does not matter
        assert watch.is_lost() == expected


def test_a_node_that_people_have_drained_is_lost_until_they_resume_it() -> None:
    """At once, also where nothing else makes a node lost; that is no failure, and it is well again at once."""
    for seconds in (0.0, SECONDS):
        watch = Watch(HealthPolicy(seconds))
        for _ in range(3):
            drained = watch.see(replace(WELL, taints=(Taint(DRAIN, "", "NoSchedule"),)))
            assert any(taint.key == LOST and taint.value == "drained" for taint in drained.taints)
            assert watch.health.is_drained(WELL.name)
            assert watch.see(WELL) == WELL
            assert not watch.health.is_drained(WELL.name)
