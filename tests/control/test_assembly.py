"""Waiting for the rest of a gang that is being created."""

from __future__ import annotations

import asyncio

import pytest

from extender.control.binding import GangAssembly
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING
from muster_lab.simulation.virtual_time import LoopClock

GANG = GroupRef(COSCHEDULING, "default", "gang")
OTHER = GroupRef(COSCHEDULING, "default", "other")


@pytest.fixture
async def arrivals() -> GangAssembly:
    """Return one that waits for a second."""
    return GangAssembly(1.0, LoopClock(asyncio.get_running_loop()))


async def waited(arrivals: GangAssembly, ref: GroupRef = GANG) -> float:
    """Return how long the rest of a gang was waited for (seconds)."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await arrivals.rest_of(ref)
    return loop.time() - began


async def test_a_gang_that_nobody_is_creating_is_not_waited_for(arrivals: GangAssembly) -> None:
    """Neither one that is not known, nor one whose newest member is old."""
    arrivals.joined(OTHER)
    assert await waited(arrivals) == 0
    await asyncio.sleep(1)
    assert await waited(arrivals, OTHER) == 0


async def test_a_gang_that_is_being_created_is_waited_for_until_it_is_complete(arrivals: GangAssembly) -> None:
    """All who wait go on in that moment, and nobody waits any more."""
    arrivals.joined(GANG)
    waiting = [asyncio.create_task(waited(arrivals)) for _ in range(2)]
    await asyncio.sleep(0.25)
    arrivals.completed(GANG)
    assert await asyncio.gather(*waiting) == [0.25, 0.25]
    assert await waited(arrivals) == 0


async def test_no_call_waits_for_longer_than_the_setting(arrivals: GangAssembly) -> None:
    """Members that keep coming do not hold the scheduler for ever."""
    arrivals.joined(GANG)
    waiting = asyncio.create_task(waited(arrivals))
    for _ in range(4):
        await asyncio.sleep(0.4)
        arrivals.joined(GANG)
    assert await waiting == pytest.approx(1.0)


async def test_zero_seconds_never_wait() -> None:
    """The setting can be turned off."""
    arrivals = GangAssembly(0.0, LoopClock(asyncio.get_running_loop()))
    arrivals.joined(GANG)
    assert await waited(arrivals) == 0


async def test_waits_in_vain_take_a_tenth_of_the_time_at_most(arrivals: GangAssembly) -> None:
    """Gangs that never become complete do not hold up kube-scheduler, which places one pod at a time."""
    loop = asyncio.get_running_loop()
    began, spent = loop.time(), 0.0
    while loop.time() < began + 100:
        arrivals.joined(OTHER)
        spent += await waited(arrivals, OTHER)
        await asyncio.sleep(0.01)
    assert 9 <= spent <= 11
