"""The event loop whose time jumps, and its clock."""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import socket

import pytest

from muster_lab.simulation import virtual_time
from muster_lab.simulation.virtual_time import EPOCH, LoopClock, StalledError, VirtualTimeLoop
from tests.lab.conftest import Virtually, loop_clock, reach


def test_time_starts_at_zero_and_jumps_to_the_next_timer(virtually: Virtually) -> None:
    """A sleep of hours is over at once, and takes hours on the loop's clock."""

    async def story() -> list[float]:
        loop = asyncio.get_running_loop()
        times = [loop.time()]
        for seconds in (3 * 3600, 0.1, 0):
            await asyncio.sleep(seconds)
            times.append(loop.time())
        return times

    assert virtually(story()) == [0.0, 10800.0, 10800.1, 10800.1]


def test_timers_fire_in_order_at_their_own_time(virtually: Virtually) -> None:
    """Tasks that sleep side by side wake in the order of their timers, each at its exact time."""

    async def story() -> list[float]:
        loop = asyncio.get_running_loop()
        woken: list[float] = []

        async def sleeper(seconds: float) -> None:
            await asyncio.sleep(seconds)
            woken.append(loop.time())

        await asyncio.gather(*(sleeper(seconds) for seconds in (1760.0, 0.3, 10.0, 3520.0)))
        return woken

    assert virtually(story()) == [0.3, 10.0, 1760.0, 3520.0]


def test_a_timer_further_away_than_a_day_is_reached(virtually: Virtually) -> None:
    """Asyncio looks up at least once a day; that ends no sleep early."""

    async def story() -> float:
        await asyncio.sleep(100 * 86_400)
        return asyncio.get_running_loop().time()

    assert virtually(story()) == 100 * 86_400


def test_a_timer_does_not_fire_with_one_that_is_due_a_rounding_error_earlier(virtually: Virtually) -> None:
    """Whoever waits for their own moment, and sets a timer again if it is not reached, does not do so for ever."""

    async def story() -> int:
        loop = asyncio.get_running_loop()
        early, late = 76.57588999999999, 76.57589
        turns = 0

        def look() -> None:
            nonlocal turns
            turns += 1
            if loop.time() < late and turns < 10:
                loop.call_at(late, look)

        loop.call_at(early, lambda: None)
        loop.call_at(late, look)
        await reach(80)
        return turns

    assert virtually(story()) == 1


def test_a_timer_that_fires_is_due(virtually: Virtually) -> None:
    """Whoever compares the time with its own deadline finds it reached, however its sum was rounded."""

    async def story() -> list[bool]:
        loop = asyncio.get_running_loop()
        due: list[bool] = []
        for step in (0.1, 0.2, 0.3, 0.7, 1e-3, 1 / 3):
            deadline = loop.time() + step + 1e-9
            cancelled = loop.call_at(deadline - step / 2, due.clear)
            fired = asyncio.Event()
            loop.call_at(deadline, fired.set)
            cancelled.cancel()
            await fired.wait()
            due.append(loop.time() >= deadline)
        return due

    assert virtually(story()) == [True] * 6


def test_timers_that_differ_by_a_rounding_error_fire_one_after_the_other(virtually: Virtually) -> None:
    """Two deadlines that are almost the same are both reached, each exactly."""

    async def story() -> list[bool]:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(71)
        due: list[bool] = []
        deadlines = (71.2, math.nextafter(71.2, 0))
        watches = [asyncio.create_task(watch(deadline, due)) for deadline in deadlines]
        await asyncio.gather(*watches)
        assert loop.time() == 71.2
        return due

    async def watch(deadline: float, due: list[bool]) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < deadline:
            reached = asyncio.Event()
            loop.call_at(deadline, reached.set)
            await reached.wait()
        due.append(True)

    assert virtually(story()) == [True, True]


def test_a_timeout_takes_its_time(virtually: Virtually) -> None:
    """`asyncio.timeout` counts virtual seconds."""

    async def story() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert virtually(story()) == 30.0


def test_reaching_a_time_includes_all_that_is_due_then(virtually: Virtually) -> None:
    """What is due at the very moment has happened when it is reached, with all that follows at once; nothing later."""

    async def story() -> tuple[list[str], float]:
        happened: list[str] = []

        async def chain() -> None:
            await asyncio.sleep(5)
            for step in ("first", "second", "third"):
                happened.append(step)
                await asyncio.sleep(0)
            await asyncio.sleep(0.001)
            happened.append("later")

        task = asyncio.create_task(chain())
        await reach(5)
        seen, now = list(happened), asyncio.get_running_loop().time()
        await task
        return seen, now

    assert virtually(story()) == (["first", "second", "third"], 5.0)


def test_reaching_a_time_without_any_timer_just_gets_there(virtually: Virtually) -> None:
    """Time passes for somebody who waits for it, even if nothing else happens; the past is now."""

    async def story() -> float:
        await reach(7)
        await reach(3)
        return asyncio.get_running_loop().time()

    assert virtually(story()) == 7.0


def test_several_may_wait_for_times(virtually: Virtually) -> None:
    """Each is told at its own time, in order; one that gave up holds up nobody."""

    async def story() -> list[float]:
        loop = asyncio.get_running_loop()
        told: list[float] = []

        async def wait(when: float) -> None:
            await reach(when)
            told.append(loop.time())

        gave_up = asyncio.create_task(wait(1))
        waiting = [asyncio.create_task(wait(when)) for when in (4, 2)]
        await asyncio.sleep(0)
        gave_up.cancel()
        await asyncio.gather(*waiting)
        return told

    assert virtually(story()) == [2.0, 4.0]


def test_a_loop_in_which_nothing_can_happen_says_so(virtually: Virtually) -> None:
    """Waiting without a timer is a deadlock, and an error rather than a hang."""
    with pytest.raises(StalledError, match="nothing can happen any more at 0 s"):
        virtually(asyncio.Event().wait())


def test_a_moment_that_never_ends_is_an_error(virtually: Virtually, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that wake each other for ever without time passing are stopped."""
    monkeypatch.setattr(virtual_time, "_MOST_TURNS", 1000)

    async def story() -> None:
        while True:  # noqa: ASYNC110 - nothing is waited for: this is the mistake that the loop has to notice
            await asyncio.sleep(0)

    with pytest.raises(StalledError, match="time does not pass: 1000 turns"):
        virtually(story())


def test_io_that_is_ready_comes_before_the_next_timer(virtually: Virtually) -> None:
    """A socket with data is read at once, without time passing."""

    async def story() -> tuple[bytes, float]:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)  # noqa: FBT003 - the socket's own signature
            theirs.sendall(b"ping")
            sleeping = asyncio.create_task(asyncio.sleep(60))
            data = await loop.sock_recv(ours, 16)
            now = loop.time()
            await sleeping
        return data, now

    assert virtually(story()) == (b"ping", 0.0)


def test_the_clock_tells_calendar_time_from_its_start(virtually: Virtually) -> None:
    """`now` is the start plus what passed since; `elapsed` only what passed."""

    async def story() -> tuple[float, float, dt.datetime]:
        await asyncio.sleep(100)
        clock = LoopClock(asyncio.get_running_loop(), dt.datetime(2030, 5, 1, tzinfo=dt.UTC))
        await asyncio.sleep(1.5)
        return clock.monotonic(), clock.elapsed(), clock.now()

    assert virtually(story()) == (101.5, 1.5, dt.datetime(2030, 5, 1, 0, 0, 1, 500_000, tzinfo=dt.UTC))


def test_the_clock_starts_at_a_fixed_date(virtually: Virtually) -> None:
    """Results do not depend on today's date."""

    async def story() -> dt.datetime:
        return loop_clock().now()

    assert virtually(story()) == EPOCH


def test_a_real_loop_has_a_clock_too() -> None:
    """The clock reads any loop: here one with real time, which has hardly moved."""

    async def story() -> float:
        assert not isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
        return loop_clock().elapsed()

    assert 0 <= asyncio.run(story()) < 5
