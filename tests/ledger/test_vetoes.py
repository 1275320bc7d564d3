"""Vetoes that depend on where the gang's other members are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.admission.events import BindVerdict, Outcome
from extender.clock import ManualClock
from extender.ledger.rejections import Vetoes
from extender.objects.pod import Shape
from extender.objects.reason import Reason
from tests.worlds import World

SHAPE = Shape((("cpu", 1000),))


def vetoes() -> Vetoes:
    """Return an empty memory of half a minute."""
    return Vetoes(30.0, ManualClock().monotonic)


def test_a_veto_is_outdated_once_another_member_has_passed() -> None:
    """What kube-scheduler refused before a member passed its filters may do now; what it refused since may not."""
    memory = vetoes()
    memory.add("gang", SHAPE, "node-0")
    assert not memory.lift_outdated("gang")
    memory.passed("gang")
    memory.add("gang", SHAPE, "node-1")
    assert memory.lift_outdated("gang")
    assert len(memory) == 1
    assert not memory.lift_outdated("gang")


def test_members_of_other_gangs_outdate_nothing() -> None:
    """A gang's vetoes are about its own members."""
    memory = vetoes()
    memory.add("gang", SHAPE, "node-0")
    memory.passed("other")
    assert not memory.lift_outdated("gang")
    assert not memory.lift_outdated("other")
    assert len(memory) == 1


def test_members_that_must_spread_over_fewer_nodes_than_they_are_start(world: World) -> None:
    """kube-scheduler refuses the fuller of two nodes to every member; four members end up two and two."""
    names = world.nodes(2)
    job = world.gang("a", 4, gpus=1)
    taken = dict.fromkeys(names, 0)
    for index, pod in enumerate(job.pods):
        offered = [name for name in names if taken[name] == min(taken.values())]
        planned = job.reserved[pod.name]
        answer = world.filter(replace(pod, nominated_node=planned), offered)
        assert answer.outcome is Outcome.PINNED
        taken[answer.accepted[0]] += 1
        assert job.bind(index).verdict is (BindVerdict.WRITE if index == 3 else BindVerdict.HOLD)
    assert taken == {"node-0": 2, "node-1": 2}


def test_a_gang_that_is_refused_everywhere_waits_for_its_vetoes_to_end(world: World) -> None:
    """Lifting does not go on for ever: nodes refused since the last member passed stay vetoed, and the gang says so."""
    names = world.nodes(3)
    elsewhere = world.nodes(1, gpus=0, prefix="cpu")
    job = world.gang("a", 2, gpus=1)
    (first, second) = (replace(pod, nominated_node=job.reserved[pod.name]) for pod in job.pods)
    assert world.filter(first, names).outcome is Outcome.PINNED
    job.bind(0)
    rounds = 0
    while "a-1" in job.reserved:
        planned = job.reserved["a-1"]
        assert world.filter(replace(second, nominated_node=planned), elsewhere).outcome is Outcome.REFUSED
        rounds += 1
        assert rounds <= 6
    assert job.reason is Reason.REFUSED_BY_SCHEDULER
    assert job.reserved == {}
    world.later(31)
    assert len(job.reserved) == 2


def test_a_veto_ends_after_its_time_and_says_whose_it_was() -> None:
    """It is reported once, though learned again meanwhile: then it holds until the end of the later one."""
    clock = ManualClock()
    memory = Vetoes(30.0, clock.monotonic)
    memory.add("gang", SHAPE, "node-0")
    clock.advance(20)
    memory.add("gang", SHAPE, "node-0")
    assert memory.next_end() == 30
    clock.advance(10)
    assert memory.ended(clock.monotonic()) == ["gang"]
    assert len(memory) == 1
    assert memory.next_end() == 50
    clock.advance(20)
    assert memory.ended(clock.monotonic()) == ["gang"]
    assert len(memory) == 0
    assert memory.next_end() is None


def test_of_too_many_vetoes_the_oldest_are_dropped_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever loses a veto before its time is told of among those that have ended."""
    monkeypatch.setattr(Vetoes, "CAPACITY", 2)
    memory = vetoes()
    for gang in ("first", "second", "third"):
        memory.add(gang, SHAPE, "node-0")
    assert len(memory) == 2
    assert memory.ended(0.0) == ["first"]
    assert memory.ended(0.0) == []


def test_only_a_gang_with_vetoes_has_any_to_outdate() -> None:
    """Passing says whether the gang may find a place now that it was refused."""
    memory = vetoes()
    memory.add("gang", SHAPE, "node-0")
    assert memory.passed("gang")
    assert not memory.passed("other")
