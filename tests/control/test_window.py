"""Turns at writing, as many at once as the API server bears."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from extender.control.outbox import WriteRank, WriteWindow
from extender.control.ports import ApiError, BudgetError


class Writes:
    """Writes that take a second each, and note when they ran."""

    def __init__(self, window: WriteWindow) -> None:
        """Take turns at `window`."""
        self.window = window
        self.order: list[str] = []
        self.under_way = 0
        self.most = 0

    async def write(self, name: str, rank: WriteRank = WriteRank.NOMINATION, error: ApiError | None = None) -> None:
        """Take a turn, and a second; fail with `error` if there is one."""
        async with self.window.turn(rank):
            self.order.append(name)
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            await asyncio.sleep(1)
            self.under_way -= 1
            if error is not None:
                raise error

    async def many(self, count: int, error: ApiError | None = None) -> None:
        """Write so often at once, and take every failure."""
        await asyncio.gather(*(self.write(str(n), error=error) for n in range(count)), return_exceptions=True)


BUSY = ApiError(429, "TooManyRequests", "the server is busy")


async def test_no_more_writes_run_than_there_are_places() -> None:
    """The others wait for their turn, and all get one."""
    writes = Writes(WriteWindow(3))
    await writes.many(10)
    assert (writes.most, len(writes.order)) == (3, 10)


async def test_a_burst_of_writes_begins_over_several_turns_of_the_event_loop() -> None:
    """Each takes the loop for a moment: a gang's sixteen Bindings do not begin in one turn, but within a few."""
    window, turn, began = WriteWindow(32), 0, list[int]()

    async def write() -> None:
        async with window.turn(WriteRank.BINDING):
            began.append(turn)

    writes = asyncio.gather(*(write() for _ in range(16)))
    while not writes.done():
        await asyncio.sleep(0)
        turn += 1
    assert max(Counter(began).values()) == WriteWindow.STARTS_PER_TURN
    assert max(began) - min(began) <= 16 / WriteWindow.STARTS_PER_TURN


async def test_bindings_go_before_nominations_before_reports() -> None:
    """Whoever came first goes first among its like."""
    writes = Writes(WriteWindow(1))
    ranks = {
        "first": WriteRank.REPORT,
        "report": WriteRank.REPORT,
        "nomination": WriteRank.NOMINATION,
        "binding": WriteRank.BINDING,
        "binding 2": WriteRank.BINDING,
    }
    await asyncio.gather(*(writes.write(name, rank) for name, rank in ranks.items()))
    assert writes.order == ["first", "binding", "binding 2", "nomination", "report"]


async def test_429_halves_the_window_once_for_all_that_were_under_way() -> None:
    """Eight answers 429 to one burst are one congestion, not eight."""
    window = WriteWindow(8)
    await Writes(window).many(8, BUSY)
    assert window.places == 4


async def test_a_budgets_no_is_no_congestion() -> None:
    """The API server refuses an eviction with 429 as well, but it is a PodDisruptionBudget that has nothing to give."""
    window = WriteWindow(8)
    await Writes(window).many(8, BudgetError(429, "TooManyRequests", "Cannot evict pod"))
    assert window.places == 8


async def test_429_for_a_later_write_halves_the_window_again_down_to_one_place() -> None:
    """A write that was admitted to the smaller window and refused says that it is still too large."""
    window = WriteWindow(8)
    for expected in (4, 2, 1, 1):
        await Writes(window).many(1, BUSY)
        assert window.places == expected


async def test_successes_open_the_window_by_a_place_a_round_up_to_its_ceiling() -> None:
    """A halved window of four has its eight places back after some twenty-five successes."""
    window = WriteWindow(8)
    await Writes(window).many(1, BUSY)
    grown = []
    for _ in range(40):
        await Writes(window).many(1)
        grown.append(window.places)
    assert grown[:5] == [4, 4, 4, 4, 5]
    assert grown.index(8) in range(20, 30)
    assert grown[-1] == 8


@pytest.mark.parametrize("status", [0, 404, 409, 500])
async def test_other_errors_say_nothing_about_load(status: int) -> None:
    """Neither a conflict nor a broken connection changes the window."""
    window = WriteWindow(8)
    await Writes(window).many(8, ApiError(status, "Reason", "message"))
    assert window.places == 8


async def test_a_halved_window_lets_the_running_writes_end_before_it_admits_more() -> None:
    """The sixth write ends with 429 while five others run: the next one starts when those have ended."""
    window = WriteWindow(6)
    writes = Writes(window)
    refused = asyncio.create_task(writes.write("refused", error=BUSY))
    await asyncio.sleep(0.5)
    running = [asyncio.create_task(writes.write(f"running {n}")) for n in range(5)]
    following = asyncio.create_task(writes.write("next"))
    await asyncio.sleep(0.9)
    assert (window.places, writes.under_way, "next" in writes.order) == (3, 5, False)
    await asyncio.sleep(0.2)
    assert "next" in writes.order
    await asyncio.gather(refused, following, *running, return_exceptions=True)


async def test_reports_may_fill_an_eighth_of_the_window_but_one_place_at_least() -> None:
    """A window of sixteen has two places for reports, the smallest one."""
    assert (WriteWindow(16).report_places, WriteWindow(1).report_places) == (2, 1)


async def test_a_write_that_is_cancelled_while_it_waits_leaves_its_turn_to_others() -> None:
    """Neither one that waits nor one that is admitted in that moment takes a place with it."""
    window = WriteWindow(1)
    writes = Writes(window)

    async def first() -> None:
        await writes.write("first")
        waiting[1].cancel()

    waiting: list[asyncio.Task[None]] = []
    beginning = asyncio.create_task(first())
    await asyncio.sleep(0)
    waiting += [asyncio.create_task(writes.write(name)) for name in ("gone", "admitted", "last")]
    await asyncio.sleep(0.5)
    waiting[0].cancel()
    await asyncio.gather(beginning, *waiting, return_exceptions=True)
    assert writes.order == ["first", "last"]
