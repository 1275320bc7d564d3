"""Processes on one loop: paused and killed between any two steps, as the fault stories need it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from tests.properties.faults.process import MachineClock, Process, ProcessLoop


def virtually(story: Callable[[ProcessLoop], Coroutine[None, None, list[str]]]) -> list[str]:
    """Run a story on a loop for processes."""

    async def run() -> list[str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ProcessLoop)
        return await story(loop)

    with asyncio.Runner(loop_factory=ProcessLoop) as runner:
        return runner.run(run())


async def _tick(said: list[str], name: str) -> None:
    try:
        for number in range(4):
            said.append(f"{name}{number}")
            await asyncio.sleep(1)
    finally:
        said.append(f"{name} ends")


def test_a_paused_process_does_nothing_until_it_is_resumed() -> None:
    """Others go on; what it missed it does first, and its timers go on from there."""

    async def story(loop: ProcessLoop) -> list[str]:
        said: list[str] = []
        process, other = Process("p", loop), Process("q", loop)
        process.start(_tick(said, "p"))
        other.start(_tick(said, "q"))
        await loop.reach(0.5)
        process.pause()
        await loop.reach(2.5)
        process.resume()
        await loop.reach(10)
        return said

    assert virtually(story) == ["p0", "q0", "q1", "q2", "p1", "q3", "p2", "q ends", "p3", "p ends"]


def test_a_killed_process_does_nothing_more_not_even_clean_up() -> None:
    """No `finally` runs before the process is buried, which is after the story."""

    async def story(loop: ProcessLoop) -> list[str]:
        said: list[str] = []
        process = Process("p", loop)
        process.start(_tick(said, "p"))
        await loop.reach(1.5)
        process.kill()
        process.resume()
        await loop.reach(10)
        said.append("over")
        await process.bury()
        return said

    assert virtually(story) == ["p0", "p1", "over", "p ends"]


def test_a_timer_that_is_cancelled_as_its_process_wakes_up_does_not_fire() -> None:
    """Both the answer and its timeout came while the process was paused: the answer counts, as it came first."""

    async def story(loop: ProcessLoop) -> list[str]:
        said: list[str] = []
        answer: asyncio.Future[str] = loop.create_future()

        async def ask() -> None:
            async with asyncio.timeout(2):
                said.append(await answer)

        process = Process("p", loop)
        process.start(ask())
        await loop.reach(0.5)
        process.pause()
        answer.set_result("answered")
        await loop.reach(5)
        process.resume()
        await loop.reach(6)
        return said

    assert virtually(story) == ["answered"]


def test_a_jump_of_the_steady_clock_makes_timers_of_a_process_due() -> None:
    """What waits for less happens at once, and once, the rest that much sooner, what was cancelled never."""

    async def story(loop: ProcessLoop) -> list[str]:
        said: list[str] = []

        async def wait(seconds: float) -> None:
            await asyncio.sleep(seconds)
            said.append(f"{seconds:g} at {loop.time():g}")

        process = Process("muster", loop)

        async def be_called() -> None:
            loop.call_later(6, said.append, "called")

        for seconds in (1, 5, 30):
            process.start(wait(seconds))
        process.start(be_called())
        given_up = process.spawn(wait(20))
        await loop.reach(2)
        given_up.cancel()
        process.jump(10.0)
        await loop.reach(40)
        return said

    assert virtually(story) == ["1 at 1", "called", "5 at 2", "30 at 20"]


def test_the_clocks_of_a_machine_can_be_wrong_each_for_itself() -> None:
    """The steady clock jumps ahead, the calendar goes anywhere, and the loop's time does neither."""

    async def story(loop: ProcessLoop) -> list[str]:
        clock = MachineClock(loop)
        clock.ahead, clock.wall_ahead = 60.0, -3600.0
        await loop.reach(1)
        return [f"{loop.time():g}", f"{clock.monotonic():g}", clock.now().isoformat()]

    assert virtually(story) == ["1", "61", "2025-12-31T23:00:01+00:00"]
