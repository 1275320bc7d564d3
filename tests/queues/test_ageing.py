"""Who has waited for so long that it goes before others."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from math import inf

import pytest

from extender.clock import ManualClock
from extender.cluster.gangs import Gang
from extender.queues.ageing import Ageing
from tests.worlds import World

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def waiting(world: World, name: str, created: str) -> Gang:
    """Return a gang of that age."""
    return world.gang(name, 1, group={"created": created}).gang


def ageing(seconds: float = 60.0) -> tuple[Ageing, ManualClock]:
    """Return the ages of gangs by a clock that the test moves."""
    clock = ManualClock(NOW)
    return Ageing(seconds, clock), clock


def test_a_gang_is_old_once_it_has_waited_for_so_long(world: World) -> None:
    """Its age counts from its creation, and it is told once when it has come."""
    ages, clock = ageing()
    gang = waiting(world, "job", "2026-01-01T00:00:00Z")
    assert not ages.is_aged(gang)
    assert ages.next_end() == 60
    assert ages.ended(59) == []
    clock.advance(60)
    assert ages.ended(60) == [gang.uid]
    assert ages.ended(61) == []
    assert ages.is_aged(gang)
    assert ages.next_end() is None


def test_asked_again_it_is_remembered_once(world: World) -> None:
    """A gang is asked about in every pass that it changes in."""
    ages, _ = ageing()
    gang = waiting(world, "job", "2026-01-01T00:00:00Z")
    ages.is_aged(gang)
    ages.is_aged(gang)
    assert ages.ended(100) == [gang.uid]


def test_gangs_that_come_and_go_leave_little(world: World) -> None:
    """Of ten thousand that are gone before they are old a few entries are left, and who stays grows old in time."""
    ages, _ = ageing()
    stay = [waiting(world, f"stays-{number}", f"2026-01-01T00:00:{number:02}Z") for number in range(10)]
    for gang in stay:
        ages.is_aged(gang)
    comes = waiting(world, "comes", "2026-01-01T00:00:30Z")
    for number in range(10_000):
        gone = replace(comes, uid=f"gone-{number}")
        ages.is_aged(gone)
        ages.forget(gone.uid)
        assert len(ages) <= 2 * len(stay) + Ageing.SPARE + 1
    assert ages.next_end() == 60
    assert ages.ended(64) == [gang.uid for gang in stay[:5]]
    assert sorted(ages.ended(100)) == [gang.uid for gang in stay[5:]]


def test_a_gang_that_is_gone_does_not_grow_old(world: World) -> None:
    """It is forgotten."""
    ages, _ = ageing()
    gang = waiting(world, "job", "2026-01-01T00:00:00Z")
    ages.is_aged(gang)
    ages.forget(gang.uid)
    assert ages.ended(100) == []


@pytest.mark.parametrize("created", ["", "yesterday"])
def test_without_a_time_of_creation_nobody_grows_old(world: World, created: str) -> None:
    """Nor does anything fail for one that cannot be read."""
    ages, clock = ageing()
    clock.advance(1e6)
    assert not ages.is_aged(waiting(world, "job", created))


def test_ageing_can_be_turned_off(world: World) -> None:
    """Infinity is for never."""
    ages, clock = ageing(inf)
    clock.advance(1e9)
    assert not ages.is_aged(waiting(world, "job", "2026-01-01T00:00:00Z"))
    assert ages.next_end() is None


def test_age_alone_evicts_nobody() -> None:
    """Whoever is old goes first when there is room; nobody has to leave for it."""
    world = World(ageing_seconds=60)
    world.nodes(1)
    runs = world.gang("runs", 1)
    runs.run()
    old = world.gang("old", 1)
    world.effects()
    world.later(3600)
    assert not world.effects().evictions
    assert not old.reserved
    runs.finish()
    world.judge()
    assert old.reserved


def test_age_comes_by_itself() -> None:
    """The clock asks for a pass when a gang gets old, and it then goes before a higher priority."""
    world = World(ageing_seconds=600)
    world.nodes(1)
    runs = world.gang("runs", 1, priority=9)
    runs.run()
    old = world.gang("old", 1, group={"created": "2026-01-01T00:00:00Z"})
    young = world.gang("young", 1, priority=5, never_preempts=True, group={"created": "2026-01-01T00:05:00Z"})
    due = world.admission.next_tick()
    assert due is not None
    assert due <= 600
    world.later(601)
    runs.finish()
    world.judge()
    assert old.reserved
    assert not young.reserved
