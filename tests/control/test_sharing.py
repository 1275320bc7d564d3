"""Queues, evictions and gates through the whole controller: what is heard, and what is then written."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from extender.admission.events import (
    BudgetGone,
    BudgetSeen,
    NamespaceGone,
    NamespaceSeen,
    PodSeen,
    QueueGone,
    QueueSeen,
)
from extender.control.health import DegradedError
from extender.control.ports import ApiError, BudgetError, LeaseGone
from extender.objects.budget import DisruptionBudget
from extender.objects.keys import ADMISSION_GATE, Options
from extender.objects.meta import LabelSelector
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import GroupRef
from extender.objects.queue import Flavor, Queue, Quota
from extender.objects.reason import Problem
from extender.objects.sources.coscheduling import COSCHEDULING
from tests.control.conftest import GPU, Muster

LOOKED = 1.0


def team(name: str = "team", gpus: int = 8, **fields: Any) -> Queue:
    """Return a Queue with quota for GPUs."""
    return Queue(name, uid=f"{name}-uid", flavors=(Flavor("all", {GPU: Quota(gpus)}),), **fields)


def show(muster: Muster, pods: list[Pod], **changes: Any) -> None:
    """Let the watch deliver pods with changes."""
    for index, pod in enumerate(pods):
        pods[index] = replace(pod, **changes)
        muster.controller.tell(PodSeen(pods[index]))


async def started(muster: Muster, name: str, priority: int = 0) -> Pod:
    """Return the pod of a gang of one that runs on the only node."""
    (pod,) = muster.gang(name, 1, present=0)
    muster.controller.tell(PodSeen(replace(pod, priority=priority, node_name="node-0", phase=Phase.RUNNING)))
    await asyncio.sleep(LOOKED)
    return pod


class TestEvictions:
    """From the decision to the Eviction API and back."""

    async def test_a_victim_is_evicted_and_both_are_told(self, muster: Muster) -> None:
        """The pod's Event says for whom, its gang's status and Event as well, and the metric counts it."""
        muster.nodes(1)
        muster.sync()
        await started(muster, "low")
        high = muster.gang("high", 1, present=0)
        show(muster, high, priority=5)
        await asyncio.sleep(LOOKED)
        assert muster.api.evictions == [("low-0", False)]
        told = {(event.about.kind, event.about.name): event.message for event in muster.api.events}
        assert told["Pod", "low-0"] == "evicted for default/high: priority 5 over 0"
        assert told["PodGroup", "high"].startswith(("clears its place of", "its place is being cleared"))
        assert muster.sample("muster_evictions_total", reason="Preempted") == 1

    async def test_a_refusal_gives_the_place_up(self, muster: Muster) -> None:
        """If a budget stays firm the gang waits as before, and is told why."""
        muster.nodes(1)
        muster.sync()
        await started(muster, "low")
        muster.api.eviction_failures = [BudgetError(429, "TooManyRequests", "the budget allows none")] * 1000
        high = muster.gang("high", 1, present=0)
        show(muster, high, priority=5)
        await asyncio.sleep(125)
        views = {view.ref.name: view for view in muster.controller.inspection.gangs()}
        assert views["high"].wait is not None
        assert views["high"].wait.reason == "InsufficientCapacity"
        assert muster.api.evictions == []

    async def test_a_budget_is_heeded_before_anything_is_written(self, muster: Muster) -> None:
        """What the watch says of it counts, until it says something else."""
        muster.nodes(1)
        muster.sync()
        controller = muster.controller
        controller.tell(BudgetSeen(DisruptionBudget("default", "all", LabelSelector(), 0)))
        await started(muster, "low")
        high = muster.gang("high", 1, present=0)
        show(muster, high, priority=5)
        await asyncio.sleep(LOOKED)
        assert muster.api.evictions == []
        controller.tell(BudgetGone("default", "all"))
        controller.tell(BudgetGone("default", "all"))
        await asyncio.sleep(60)
        assert muster.api.evictions == [("low-0", False)]

    async def test_who_stands_down_leaves_them_to_the_next(self, muster: Muster) -> None:
        """What is not written yet is not written any more."""
        muster.nodes(1)
        muster.sync()
        await started(muster, "low")
        muster.api.eviction_failures = [ApiError(503, "ServiceUnavailable", "away")] * 1000
        high = muster.gang("high", 1, present=0)
        show(muster, high, priority=5)
        await asyncio.sleep(LOOKED)
        muster.controller.tell(LeaseGone())
        await asyncio.sleep(LOOKED)
        muster.api.eviction_failures.clear()
        await asyncio.sleep(60)
        assert muster.api.evictions == []


class TestQueues:
    """From the Queue to its status."""

    async def test_its_status_says_who_runs_and_who_waits(self, muster: Muster) -> None:
        """After each change, in a moment."""
        muster.nodes(2)
        muster.sync()
        muster.controller.tell(QueueSeen(team()))
        for name in ("first", "second"):
            pods = muster.gang(name, 1, present=0)
            show(muster, pods, options=Options(queue="team"))
        await asyncio.sleep(LOOKED)
        name, status = muster.api.queue_statuses[-1]
        assert (name, status.row.admitted_gangs, status.row.pending_gangs) == ("team", 1, 1)
        assert [(use.resource, use.used, use.nominal) for use in status.row.flavors] == [(GPU, 8, 8)]
        assert muster.sample("muster_queue_used", queue="team", flavor="all", resource=GPU) == 8

    async def test_a_broken_queue_is_complained_of(self, muster: Muster) -> None:
        """In an Event about it, and in its status."""
        muster.sync()
        problem = Problem("spec.weight", "-1 is not above 0")
        muster.controller.tell(QueueSeen(team(parent="nobody", problems=(problem,))))
        await asyncio.sleep(LOOKED)
        (event,) = (event for event in muster.api.events if event.about.kind == "Queue")
        assert event.warning
        assert muster.api.queue_statuses[-1][1].row.active is False

    async def test_namespaces_decide_who_may_use_it(self, muster: Muster) -> None:
        """A default queue takes the namespaces that it selects, as their labels come and go."""
        muster.nodes(1)
        muster.sync()
        controller = muster.controller
        controller.tell(NamespaceSeen("default", {"team": "a"}))
        controller.tell(QueueSeen(team(gpus=0, default=True)))
        muster.gang("train", 1)
        await asyncio.sleep(LOOKED)
        assert muster.api.nominations == []
        controller.tell(NamespaceGone("default"))
        controller.tell(QueueGone("team"))
        controller.tell(QueueGone("team"))
        await asyncio.sleep(LOOKED)
        assert muster.api.nominations == [("train-0", "node-0")]


class TestGates:
    """Muster's own scheduling gate."""

    async def test_it_is_taken_off_when_there_is_quota(self, muster: Muster) -> None:
        """Of a gang within its quota; of another it stays."""
        muster.sync()
        muster.controller.tell(QueueSeen(team()))
        gated = {"options": Options(queue="team"), "gated": True, "gates": (ADMISSION_GATE,)}
        show(muster, muster.gang("small", 1, present=0), **gated)
        show(muster, muster.gang("large", 2, present=0), **gated)
        await asyncio.sleep(LOOKED)
        assert muster.api.ungated == [("small-0", ADMISSION_GATE)]


class TestDefragment:
    """On request."""

    async def test_moves_are_shown_and_made(self, muster: Muster) -> None:
        """First nothing is written, then whoever has to move is evicted."""
        names = muster.nodes(2)
        muster.sync()
        for index, node in enumerate(names):
            pods = muster.gang(f"half-{index}", 1, gpus=4, present=0)
            show(muster, pods, node_name=node, phase=Phase.RUNNING)
        muster.gang("train", 1)
        await asyncio.sleep(LOOKED)
        ref = GroupRef(COSCHEDULING, "default", "train")
        planned = muster.controller.defragment(ref, apply=False)
        await asyncio.sleep(LOOKED)
        assert planned.fits
        assert muster.api.evictions == []
        muster.controller.defragment(ref, apply=True)
        await asyncio.sleep(LOOKED)
        assert [f"default/{name[:-2]}" for name, _ in muster.api.evictions] == [move.name for move in planned.moves]

    async def test_an_unknown_gang_is_an_error(self, muster: Muster) -> None:
        """It may be gone since somebody looked for it."""
        muster.sync()
        with pytest.raises(KeyError):
            muster.controller.defragment(GroupRef(COSCHEDULING, "default", "train"), apply=False)

    async def test_nothing_is_planned_by_who_does_not_decide(self, muster: Muster) -> None:
        """Somebody else leads."""
        muster.sync()
        muster.controller.tell(LeaseGone())
        with pytest.raises(DegradedError):
            muster.controller.defragment(GroupRef(COSCHEDULING, "default", "train"), apply=False)


async def test_the_news_of_a_list_is_waited_for(muster: Muster) -> None:
    """Whoever waits goes on with the next complete list."""
    waiting = asyncio.create_task(muster.controller.wait_listed())
    await asyncio.sleep(LOOKED)
    assert not waiting.done()
    muster.sync()
    await waiting
