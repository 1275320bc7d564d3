"""What was decided lately."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest

from extender.clock import ManualClock
from extender.control.decisions import DecisionLog
from extender.explain.documents import DecisionKind, DecisionRow
from extender.ledger.effects import Effects, Evict, EvictionReason, GangStep, Milestone, Note
from extender.objects.meta import ObjectRef
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING
from tests.builders import pod

GANG = GroupRef(COSCHEDULING, "default", "train")


def placed(number: int = 1) -> Effects[None]:
    """Return that a gang was placed."""
    return Effects(None, milestones=[Milestone(GangStep.PLACED, GANG, f"d-{number}", 4)])


def only(effects: Effects[None]) -> DecisionRow:
    """Return the one entry that effects leave."""
    log = DecisionLog(ManualClock())
    log.take_in(effects)
    (entry,) = log.since(0)
    return entry


@pytest.mark.parametrize(
    ("step", "kind", "waited"),
    [
        (GangStep.PLACED, DecisionKind.RESERVED, None),
        (GangStep.STARTED, DecisionKind.STARTED, 7.5),
        (GangStep.RELEASED, DecisionKind.RELEASED, None),
        (GangStep.EXPIRED, DecisionKind.EXPIRED, None),
    ],
)
def test_steps_of_reservations(step: GangStep, kind: DecisionKind, waited: float | None) -> None:
    """Each step of a reservation is an entry of its kind; only a start says how long the gang waited."""
    entry = only(Effects(None, milestones=[Milestone(step, GANG, "d-1", 4, why="because", waited=7.5)]))
    assert (entry.kind, entry.gang, entry.decision, entry.members) == (kind, "default/train", "d-1", 4)
    assert (entry.message, entry.waited_seconds) == ("because", waited)


def test_evictions_name_the_pod_and_its_gang() -> None:
    """An eviction is a warning about a pod, for a reason that is one word."""
    victim = pod("train-0")
    found = Evict(victim, "default/urgent", EvictionReason.PREEMPTED, "preempted by default/urgent")
    entry = only(Effects(None, evictions={victim.uid: found}))
    assert (entry.kind, entry.about, entry.reason, entry.warning) == (
        DecisionKind.EVICTED,
        victim.key,
        "Preempted",
        True,
    )


def test_pods_of_a_gang_that_are_evicted_together_are_one_entry() -> None:
    """Whoever is evicted for one reason at one moment is told of once, with how many they are; others by themselves."""
    pods = [replace(pod(f"train-{number}"), group=GANG) for number in range(3)]
    effects = Effects(None, evictions={one.uid: Evict(one, "", EvictionReason.RECLAIMED, "reclaimed") for one in pods})
    entry = only(effects)
    assert (entry.about, entry.members, entry.gang) == ("default/train", 3, "default/train")
    log = DecisionLog(ManualClock())
    singles = [pod("a"), pod("b")]
    log.take_in(
        Effects(None, evictions={one.uid: Evict(one, "", EvictionReason.RECLAIMED, "reclaimed") for one in singles})
    )
    assert [entry.about for entry in log.since(0)] == [one.key for one in singles]


@pytest.mark.parametrize(
    ("about", "gang", "name"),
    [
        (GANG, "default/train", "default/train"),
        (pod("single"), "default/single", "default/single"),
        (ObjectRef("muster.dev/v1alpha1", "Queue", "", "team-a", "u"), "", "Queue team-a"),
    ],
)
def test_notes_say_what_they_are_about(about: GroupRef | ObjectRef, gang: str, name: str) -> None:
    """What people are told as an Event is an entry about the same object."""
    entry = only(Effects(None, notes=[Note(about, warning=True, reason="Odd", message="look")]))
    assert (entry.kind, entry.gang, entry.about, entry.reason) == (DecisionKind.NOTED, gang, name, "Odd")


def test_numbers_go_on_when_old_entries_are_dropped() -> None:
    """Whoever asks for what is gone gets what is left; the numbers tell that something is missing."""
    log = DecisionLog(ManualClock(), most=3)
    for number in range(5):
        log.take_in(placed(number))
    assert log.last == 5
    assert [entry.seq for entry in log.since(0)] == [3, 4, 5]
    assert [entry.seq for entry in log.since(4)] == [5]
    assert log.since(5) == []
    assert log.since(99) == []


def test_entries_have_the_time_of_the_decision() -> None:
    """The clock is read when something happens, and not otherwise."""
    clock = ManualClock(dt.datetime(2026, 5, 1, tzinfo=dt.UTC))
    log = DecisionLog(clock)
    log.take_in(Effects(None))
    clock.advance(60)
    log.take_in(placed())
    assert [entry.time for entry in log.since(0)] == ["2026-05-01T00:01:00Z"]
