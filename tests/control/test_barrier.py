"""The barrier: calls that wait."""

from __future__ import annotations

import asyncio
from itertools import pairwise

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


async def test_calls_go_on_some_at_a_time_and_in_their_order() -> None:
    """Between the first and the last of a large gang's calls others have the event loop."""
    barrier, gone = Barrier(), []

    async def bind(uid: str) -> None:
        await barrier.wait(uid, 10)
        gone.append(uid)

    uids = [f"uid-{number}" for number in range(1_000)]
    async with asyncio.TaskGroup() as group:
        for uid in uids:
            group.create_task(bind(uid))
        await asyncio.sleep(0)
        for uid in uids:
            barrier.release(uid)
        await barrier.follow()
        assert gone == uids[: len(gone)]
        assert len(gone) >= len(uids) - 50
        gone.append("follower")
    assert sorted(gone) == sorted([*uids, "follower"])


async def test_few_calls_go_on_in_one_turn() -> None:
    """While the first of many calls go on, the others have no answer yet."""
    barrier = Barrier()
    calls = [asyncio.create_task(barrier.wait(f"uid-{number}", 10)) for number in range(1_000)]
    await asyncio.sleep(0)
    for number in range(1_000):
        barrier.release(f"uid-{number}")
    assert len(barrier) == 0
    counts = [0]
    while counts[-1] < len(calls):
        await asyncio.sleep(0)
        counts.append(sum(call.done() for call in calls))
    assert max(later - before for before, later in pairwise(counts)) <= 100


async def test_time_is_not_over_for_a_call_that_was_let_go() -> None:
    """A call whose turn comes late goes on nevertheless."""
    barrier = Barrier()
    call = asyncio.create_task(barrier.wait("uid", 0.001))
    await asyncio.sleep(0)
    ahead = [asyncio.create_task(barrier.follow()) for _ in range(1_000)]
    await asyncio.sleep(0)
    barrier.release("uid")
    assert await call == ""
    await asyncio.gather(*ahead)


async def test_calls_that_have_not_gone_on_are_refused_with_the_others() -> None:
    """Who stands down lets none of them go that waited for its turn."""
    barrier = Barrier()
    calls = [asyncio.create_task(barrier.wait(f"uid-{number}", 10)) for number in range(2)]
    await asyncio.sleep(0)
    barrier.release("uid-0")
    barrier.refuse_all("standing by")
    assert await asyncio.gather(*calls) == ["standing by", "standing by"]
