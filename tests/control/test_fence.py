"""Writes, while leading and after."""

from __future__ import annotations

import asyncio

import pytest

from extender.control.outbox import Fence, FencedError, WriteWindow
from extender.control.ports import ClusterEvent, PodKey
from extender.explain.views import GroupStatus, QueueReport
from extender.objects.meta import ObjectRef
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING
from muster_lab.simulation.virtual_time import LoopClock
from tests.builders import queue_row
from tests.control.conftest import ScriptedApi, Term

POD = PodKey("default", "p", "uid-p")
EVENT = ClusterEvent(ObjectRef("v1", "Pod", "default", "p", "uid-p"), warning=False, reason="R", message="", action="A")
STATUS = GroupStatus("Pending", 0, 0, 0, 0, "False", "R", "", 1)
QUEUE_STATUS = QueueReport(queue_row("q"))
PLACES = 8
GROUP = GroupRef(COSCHEDULING, "default", "g")


async def write_all(fence: Fence) -> list[bool]:
    """Try every write; return which of them were refused."""
    calls = (
        fence.nominate(POD, "n"),
        fence.bind(POD, "n"),
        fence.record_event(EVENT),
        fence.update_group_status(GROUP, "uid-g", STATUS),
        fence.evict(POD),
        fence.ungate(POD, "muster.dev/admission"),
        fence.update_queue_status("q", "uid-q", QUEUE_STATUS),
    )
    results = await asyncio.gather(*calls, return_exceptions=True)
    return [isinstance(result, FencedError) for result in results]


async def test_the_leader_writes_and_nobody_else() -> None:
    """Each of the writes passes while the Lease is held, and none a moment later."""
    api, term = ScriptedApi(), Term(until=10)
    fence = Fence(api, term, LoopClock(asyncio.get_running_loop()), WriteWindow(PLACES))
    assert await write_all(fence) == [False] * 7
    await asyncio.sleep(10)
    assert await write_all(fence) == [True] * 7
    assert (len(api.nominations), len(api.bindings), len(api.events), len(api.statuses)) == (1, 1, 1, 1)
    assert (api.evictions, api.ungated) == ([("p", False)], [("p", "muster.dev/admission")])
    assert api.queue_statuses == [("q", QUEUE_STATUS)]


async def test_a_write_that_had_to_wait_is_checked_when_its_turn_comes() -> None:
    """What queues behind other writes is not sent if the leadership ended meanwhile."""
    api, term = ScriptedApi(write_seconds=6), Term(until=5)
    fence = Fence(api, term, LoopClock(asyncio.get_running_loop()), WriteWindow(PLACES))
    writes = [asyncio.create_task(fence.bind(PodKey(f"d{i % 2}", str(i), str(i)), "n")) for i in range(PLACES + 1)]
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert len(api.bindings) == PLACES
    assert isinstance(results[-1], FencedError)


async def test_a_fenced_write_is_not_worth_repeating() -> None:
    """Whoever leads now decides anew."""
    with pytest.raises(FencedError, match="not leading") as caught:
        await Fence(ScriptedApi(), Term(until=-1), LoopClock(asyncio.get_running_loop()), WriteWindow(PLACES)).bind(
            POD, "n"
        )
    assert not caught.value.transient
