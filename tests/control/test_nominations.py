"""Which nominations are written, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

from extender.control.metrics import Metrics
from extender.control.nominations import WORTHWHILE_NODES, Nominations
from extender.control.outbox import Outbox, WriteWindow
from extender.control.ports import ApiError
from extender.ledger.effects import Nomination
from extender.objects.pod import Pod, Shape
from extender.objects.podgroup import GroupRef
from extender.settings import Settings
from muster_lab.simulation.virtual_time import LoopClock
from tests.control.conftest import ScriptedApi

POD = Pod("uid-p", "default", "p", Shape(()))


@dataclass
class Desk:
    """Nominations that are written to a scripted API on a cluster of some size."""

    nominations: Nominations
    outbox: Outbox
    api: ScriptedApi
    metrics: Metrics
    nodes: list[None]

    async def written_after(self, seconds: float) -> list[tuple[str, str]]:
        """Return what has been written some seconds from now."""
        await asyncio.sleep(seconds)
        return self.api.nominations


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """Run one on a small cluster."""
    api, metrics, settings, nodes = ScriptedApi(), Metrics(), Settings(), [None] * 500
    outbox = Outbox(settings, LoopClock(asyncio.get_running_loop()), metrics, WriteWindow(4))
    task = asyncio.create_task(outbox.run())
    yield Desk(Nominations(api, outbox, metrics, nodes), outbox, api, metrics, nodes)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_on_a_small_cluster_a_new_pod_comes_by_itself(desk: Desk) -> None:
    """Looking at a few hundred nodes costs kube-scheduler less than the nomination costs the API server."""
    desk.nominations.put(Nomination(POD, "node-0"))
    assert await desk.written_after(60) == []


async def test_a_pod_that_should_have_come_by_itself_is_nominated_at_once(desk: Desk) -> None:
    """kube-scheduler does nothing else meanwhile, and yet has not tried it."""
    desk.nominations.put(Nomination(POD, "node-0"))
    desk.nominations.put(Nomination(POD, "node-0", overdue=True))
    assert await desk.written_after(0.001) == [("p", "node-0")]


async def test_a_pod_that_shows_another_nomination_than_the_plan_gets_the_right_one(desk: Desk) -> None:
    """kube-scheduler would try the node of the former plan first."""
    desk.nominations.put(Nomination(replace(POD, nominated_node="node-1"), "node-0"))
    assert await desk.written_after(0.03) == [("p", "node-0")]


async def test_on_a_small_cluster_a_wish_of_a_former_plan_is_withdrawn(desk: Desk) -> None:
    """What has not been sent does not contradict the plan that follows it."""
    desk.nominations.put(Nomination(replace(POD, nominated_node="node-1"), "node-0"))
    desk.nominations.put(Nomination(POD, "node-2"))
    assert await desk.written_after(1) == []


async def test_on_a_large_cluster_a_new_pod_is_nominated_unless_its_turn_comes_at_once(desk: Desk) -> None:
    """A look at thousands of nodes costs more than the nomination that spares it."""
    desk.nodes += [None] * WORTHWHILE_NODES
    desk.nominations.put(Nomination(POD, "node-0"))
    assert await desk.written_after(0.01) == []
    assert await desk.written_after(0.02) == [("p", "node-0")]


async def test_a_pod_on_its_way_needs_no_nomination(desk: Desk) -> None:
    """One that has not been sent is withdrawn when the pod arrives at bind, or is deleted."""
    desk.nominations.put(Nomination(POD, "node-0"))
    desk.nominations.forget(POD.uid)
    assert await desk.written_after(5) == []


@pytest.mark.parametrize("known_from", ["its own condition", "our own refusal"])
async def test_a_pod_that_was_rejected_is_nominated_at_once(desk: Desk, known_from: str) -> None:
    """Nothing else wakes it; after a restart of Muster its PodScheduled condition still tells."""
    pod = replace(POD, refusal="0/500 nodes are available") if known_from == "its own condition" else POD
    if known_from == "our own refusal":
        desk.nominations.rejected(pod.uid)
    desk.nominations.put(Nomination(pod, "node-0"))
    assert await desk.written_after(0.001) == [("p", "node-0")]


async def test_what_is_no_longer_planned_is_cleared_at_once(desk: Desk) -> None:
    """A nomination without reservation would keep its room from others in kube-scheduler's eyes."""
    desk.nominations.put(Nomination(POD, "node-0"))
    desk.nominations.put(Nomination(POD, ""))
    assert await desk.written_after(0.001) == [("p", "")]
    assert await desk.written_after(5) == [("p", "")]


async def test_a_standing_nomination_is_cleared_and_set_to_wake_its_pod(desk: Desk) -> None:
    """kube-scheduler does not notice a nomination that is written as it stands."""
    desk.nominations.put(Nomination(POD, "node-0", again=True))
    assert await desk.written_after(0.001) == [("p", ""), ("p", "node-0")]
    assert desk.metrics.registry.get_sample_value("muster_renominations_total") == 1


async def test_a_plan_that_changes_does_not_begin_to_wait_anew(desk: Desk) -> None:
    """A pod whose node changes every moment is nominated a fiftieth of a second after the first plan."""
    desk.nodes += [None] * WORTHWHILE_NODES
    for number in range(6):
        desk.nominations.put(Nomination(POD, f"node-{number}"))
        await asyncio.sleep(0.0038)
    assert desk.api.nominations == [("p", "node-5")]


class TestGettingAhead:
    """Nominations that kube-scheduler has nearly caught up with."""

    async def waited(self, desk: Desk) -> float:
        """Return how long it took to get ahead, for 0.1 s at most (seconds)."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        await desk.nominations.get_ahead(0.1)
        return loop.time() - began

    async def test_on_a_large_cluster_those_on_their_way_are_waited_for(self, desk: Desk) -> None:
        """Until they are sent, and not at all when there are none."""
        desk.nodes += [None] * WORTHWHILE_NODES
        assert await self.waited(desk) == 0
        desk.nominations.put(Nomination(POD, "node-0"))
        assert await self.waited(desk) == pytest.approx(0.025)
        assert desk.api.nominations == [("p", "node-0")]

    async def test_many_are_not_waited_for_to_the_last(self, desk: Desk) -> None:
        """kube-scheduler does something else meanwhile, if there is anything."""
        desk.nodes += [None] * WORTHWHILE_NODES
        desk.api.nominating_fails = ApiError(503, "ServiceUnavailable", "busy")
        desk.nominations.put(Nomination(POD, "node-0"))
        assert await self.waited(desk) == pytest.approx(0.1)

    async def test_on_a_small_cluster_nobody_waits(self, desk: Desk) -> None:
        """A look at every node is cheaper there."""
        desk.nominations.put(Nomination(POD, "node-0", overdue=True))
        assert await self.waited(desk) == 0


async def test_where_single_pods_are_ranked_they_are_nominated_to_wake_them_alone(desk: Desk) -> None:
    """A nomination would have kube-scheduler look at one node; a pod that it has set aside needs one all the same."""
    desk.nodes += [None] * WORTHWHILE_NODES
    desk.nominations = Nominations(desk.api, desk.outbox, desk.metrics, desk.nodes, ranked=True)
    desk.nominations.put(Nomination(POD, "node-0"))
    assert await desk.written_after(5) == []
    desk.nominations.put(Nomination(replace(POD, group=GroupRef("api", "default", "gang")), "node-1"))
    assert await desk.written_after(5) == [("p", "node-1")]
    desk.nominations.rejected(POD.uid)
    desk.nominations.put(Nomination(POD, "node-0"))
    assert await desk.written_after(0.001) == [("p", "node-1"), ("p", "node-0")]
