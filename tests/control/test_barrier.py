"""The barrier: calls that wait."""

from __future__ import annotations

import asyncio

import pytest

from extender.control.binding import Barrier


async def test_all_calls_of_a_pod_get_one_answer() -> None:
    """A second call for a held pod waits with the first."""
    barrier = Barrier()
    calls = [asyncio.create_task(barrier.wait("uid", 10)) for _ in range(2)]
    await asyncio.sleep(0)
    assert len(barrier) == 2
    barrier.release("uid")
    assert await asyncio.gather(*calls) == ["", ""]
    assert len(barrier) == 0


async def test_a_refused_call_says_why() -> None:
    """The reason reaches the caller."""
    barrier = Barrier()
    call = asyncio.create_task(barrier.wait("uid", 10))
    await asyncio.sleep(0)
    barrier.refuse("uid", "no")
    assert await call == "no"


async def test_a_call_that_times_out_leaves_the_others() -> None:
    """Each call has its own time; answering later finds only those that still wait."""
    barrier = Barrier()
    short = asyncio.create_task(barrier.wait("uid", 1))
    long = asyncio.create_task(barrier.wait("uid", 10))
    with pytest.raises(TimeoutError):
        await short
    assert barrier.holds("uid")
    barrier.release("uid")
    assert await long == ""
    assert not barrier.holds("uid")


async def test_an_answer_for_nobody_is_no_error() -> None:
    """Releasing a pod that nobody waits for does nothing."""
    barrier = Barrier()
    barrier.release("nobody")
    assert len(barrier) == 0
