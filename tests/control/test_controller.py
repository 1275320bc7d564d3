"""The controller: what it writes, holds and answers, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from extender.admission.events import (
    GroupGone,
    NodeGone,
    NodeSeen,
    Outcome,
    PodGone,
    PodSeen,
    PriorityClassGone,
    PriorityClassSeen,
)
from extender.control.health import DegradedError
from extender.control.ports import ApiError, PodKey, WatchedKind
from extender.control.watched import REQUIRED_KINDS
from extender.objects.node import Node
from extender.objects.pod import Phase
from extender.objects.reason import Problem
from tests.control.conftest import Muster


async def test_no_question_is_answered_before_all_kinds_are_synced(muster: Muster) -> None:
    """Until every first list is complete, verbs fail and readiness says what is missing."""
    pod = muster.pod("p", 1)
    for kind in REQUIRED_KINDS:
        assert not muster.controller.health.ready
        assert f"{kind} not synced" in muster.controller.health.unready_because()
        with pytest.raises(DegradedError, match=kind):
            await muster.controller.filter(pod, [])
        muster.controller.synced(kind)
    assert muster.controller.health.ready
    assert muster.controller.health.unready_because() == []


async def test_a_reserved_gang_that_nobody_asks_about_is_nominated(muster: Muster) -> None:
    """Half a second after the last member was seen, all nominations are written."""
    muster.nodes(4)
    muster.sync()
    pods = muster.gang("a", 4)
    await asyncio.sleep(0.6)
    assert sorted(name for name, _ in muster.api.nominations) == [pod.name for pod in pods]
    assert len({node for _, node in muster.api.nominations}) == 4


async def test_held_binds_are_written_together(muster: Muster) -> None:
    """No Binding is written before the last member arrives; then all of them are, and all calls succeed."""
    muster.nodes(4)
    muster.sync()
    pods = muster.gang("a", 4)
    await asyncio.sleep(0.6)
    held = [asyncio.create_task(muster.bind(pod)) for pod in pods[:3]]
    await asyncio.sleep(1)
    assert muster.api.bindings == []
    assert muster.sample("muster_binds_held") == 3
    assert await muster.bind(pods[3]) == ""
    assert await asyncio.gather(*held) == ["", "", ""]
    assert muster.sample("muster_gang_wait_seconds_count") == 1
    assert len(muster.api.bindings) == 4


async def test_a_held_bind_is_answered_before_the_scheduler_gives_up(muster: Muster) -> None:
    """After bind_hold_seconds the call fails, and the member may arrive again."""
    muster.nodes(2)
    muster.sync()
    pods = muster.gang("a", 2)
    await asyncio.sleep(0.6)
    began = asyncio.get_running_loop().time()
    assert await muster.bind(pods[0]) == "gang waits: held 20 s for the other members, trying again"
    assert asyncio.get_running_loop().time() - began == pytest.approx(20)
    held = asyncio.create_task(muster.bind(pods[0]))
    await asyncio.sleep(0.6)
    assert await muster.bind(pods[1]) == ""
    assert await held == ""


async def test_a_held_bind_fails_with_its_reservation(muster: Muster) -> None:
    """When a member is deleted while others wait at the barrier, their calls fail at once."""
    muster.nodes(2)
    muster.sync()
    pods = muster.gang("a", 2)
    await asyncio.sleep(0.6)
    held = asyncio.create_task(muster.bind(pods[0]))
    await asyncio.sleep(0.6)
    muster.controller.tell(PodGone(pods[1].uid))
    assert await held == "1 of 2 members exist"


async def test_a_binding_is_retried_while_the_server_is_busy(muster: Muster) -> None:
    """A 429 with Retry-After and a lost answer delay the Binding; it still succeeds."""
    muster.nodes(1)
    muster.sync()
    (pod,) = muster.gang("a", 1)
    await asyncio.sleep(0.6)
    muster.api.binding_failures = [ApiError(429, "TooManyRequests", "slow down", 2.0), ApiError(0, "", "reset")]
    began = asyncio.get_running_loop().time()
    assert await muster.bind(pod) == ""
    assert asyncio.get_running_loop().time() - began == pytest.approx(2.1)
    assert muster.sample("muster_writes_total", kind="binding", result="retried") == 2


async def test_a_conflicting_binding_is_reported_and_the_member_placed_anew(muster: Muster) -> None:
    """A Binding that is refused for good is an error for kube-scheduler; the member is nominated again."""
    muster.nodes(2)
    muster.sync()
    (pod,) = muster.gang("a", 1)
    await asyncio.sleep(0.6)
    muster.api.binding_failures = [ApiError(409, "Conflict", "pod is being deleted")]
    error = await muster.bind(pod)
    assert "409 Conflict: pod is being deleted" in error
    await asyncio.sleep(0.1)
    assert muster.sample("muster_writes_total", kind="binding", result="outdated") == 1
    assert await muster.bind(pod) == ""


async def test_a_binding_that_never_gets_through_ends_before_the_scheduler_gives_up(muster: Muster) -> None:
    """Retries stop within the extender's timeout, and the slot is kept for the next attempt."""
    muster.nodes(1)
    muster.sync()
    (pod,) = muster.gang("a", 1)
    await asyncio.sleep(0.6)
    muster.api.binding_failures = [ApiError(503, "ServiceUnavailable", "away")] * 100
    began = asyncio.get_running_loop().time()
    assert "503" in await muster.bind(pod)
    assert asyncio.get_running_loop().time() - began < 10
    muster.api.binding_failures = []
    assert await muster.bind(pod) == ""


async def test_bind_refuses_and_repeats_like_the_ledger_says(muster: Muster) -> None:
    """A call for a wrong node is refused, one for a bound pod is success."""
    muster.nodes(2)
    muster.sync()
    (pod,) = muster.gang("a", 1)
    await asyncio.sleep(0.6)
    planned = muster.planned(pod)
    assert "planned on" in await muster.bind(pod, "node-x")
    muster.controller.tell(PodSeen(replace(pod, node_name=planned, phase=Phase.RUNNING)))
    assert await muster.bind(pod, planned) == ""
    assert muster.api.bindings == []


async def test_filter_waits_a_moment_for_a_member_that_the_watch_has_not_delivered(muster: Muster) -> None:
    """A member that arrives within observe_wait_seconds is answered in the same call; another one is refused."""
    muster.nodes(2)
    muster.sync()
    pods = muster.gang("a", 1, min_member=2)
    late = replace(muster.pod("a-1", 8, pods[0].group))
    asking = asyncio.create_task(muster.controller.filter(late, ["node-0", "node-1"]))
    await asyncio.sleep(0.02)
    muster.controller.tell(PodSeen(late))
    assert (await asking).outcome is Outcome.PINNED
    never = muster.pod("a-2", 8, pods[0].group)
    assert (await muster.controller.filter(never, ["node-0"])).outcome is Outcome.REFUSED


async def test_status_and_event_say_why_a_gang_waits_and_that_it_started(muster: Muster) -> None:
    """The condition and the Events carry the reason's enum value and sentence, each change once."""
    muster.nodes(1)
    muster.sync()
    pods = muster.gang("a", 1, min_member=2)
    await asyncio.sleep(1)
    name, status = muster.api.statuses[-1]
    assert (name, status.phase, status.condition_status) == ("a", "Pending", "False")
    assert (status.reason, status.message) == ("MembersMissing", "1 of 2 members exist")
    assert [(e.about.kind, e.reason, e.message, e.warning) for e in muster.api.events] == [
        ("PodGroup", "MembersMissing", "1 of 2 members exist", True),
        ("Pod", "MembersMissing", "1 of 2 members exist", True),
    ]
    muster.controller.tell(PodSeen(replace(pods[0], refusal="x")))
    await asyncio.sleep(1)
    assert (len(muster.api.statuses), len(muster.api.events)) == (1, 2)
    muster.controller.tell(NodeSeen(Node("node-9", allocatable={"cpu": 64_000, "pods": 110, "nvidia.com/gpu": 8})))
    late = muster.pod("a-1", 8, pods[0].group)
    muster.controller.tell(PodSeen(late))
    await asyncio.sleep(0.6)
    for pod in (pods[0], late):
        bound = replace(pod, node_name=muster.planned(pod), phase=Phase.RUNNING)
        muster.controller.tell(PodSeen(bound))
    await asyncio.sleep(1)
    assert [e.reason for e in muster.api.events] == [
        *["MembersMissing"] * 2,
        "AwaitingMembers",
        "Started",
    ]
    assert muster.api.statuses[-1][1].phase == "Running"
    assert muster.api.statuses[-1][1].condition_status == "True"


async def test_an_expired_reservation_is_released_announced_and_counted(muster: Muster) -> None:
    """Nobody has to ask for a deadline to pass."""
    muster.nodes(1)
    muster.sync()
    muster.gang("a", 1)
    await asyncio.sleep(60.3)
    assert "ReservationExpired" in [event.reason for event in muster.api.events]
    assert muster.sample("muster_reservations_expired_total") == 1
    assert muster.api.nominations[-1] == ("a-0", "")


async def test_a_member_that_does_not_come_back_is_nominated_again(muster: Muster) -> None:
    """A nomination that stands without effect is cleared and set, so that kube-scheduler wakes the pod."""
    muster.nodes(1)
    muster.sync()
    (pod,) = muster.gang("a", 1)
    await asyncio.sleep(0.6)
    muster.controller.tell(PodSeen(replace(pod, nominated_node="node-0", refusal="gang waits: ")))
    muster.api.nominations.clear()
    await asyncio.sleep(2.5)
    assert muster.api.nominations == [("a-0", ""), ("a-0", "node-0")]
    assert muster.sample("muster_renominations_total") == 1


async def test_gauges_are_read_off_the_state(muster: Muster) -> None:
    """Gangs by phase, waits by reason, and what is reserved but not bound."""
    muster.nodes(1)
    muster.sync()
    muster.gang("a", 1, gpus=8)
    muster.gang("b", 1, gpus=8)
    await asyncio.sleep(0.1)
    assert muster.sample("muster_gangs", phase="Scheduling") == 1
    assert muster.sample("muster_gangs", phase="Pending") == 1
    assert muster.sample("muster_gangs_waiting", reason="InsufficientCapacity") == 1
    assert muster.sample("muster_reserved_unbound", resource="nvidia.com/gpu") == 8
    assert muster.sample("muster_ready") == 1


async def test_a_silent_watch_makes_the_controller_unready_until_it_speaks(muster: Muster) -> None:
    """Staleness shows in readiness and heals by itself."""
    muster.sync()
    muster.fall_silent()
    await asyncio.sleep(61)
    unready = not muster.controller.health.ready
    assert unready
    assert "pods silent for 61 s" in muster.controller.health.unready_because()
    for kind in REQUIRED_KINDS:
        muster.controller.heard(kind)
    assert muster.controller.health.ready
    muster.controller.skipped(WatchedKind.NODE)
    assert muster.sample("muster_undecodable_objects_total", kind="nodes") == 1
    muster.controller.watch_restarted(WatchedKind.POD, "expired")
    assert muster.sample("muster_watch_restarts_total", kind="pods", cause="expired") == 1


async def test_what_a_watch_fails_of_is_told_until_it_is_heard_of(muster: Muster) -> None:
    """Readiness says why, kinds with one cause in one line; kube-scheduler is told the same while it lasts."""
    controller, refused = muster.controller, "no answer: ClientConnectorError: Connect call failed ('10.0.0.1', 443)"
    for kind in REQUIRED_KINDS:
        controller.watch_restarted(kind, "disconnected", refused)
    assert controller.health.unready_because() == [f"{', '.join(REQUIRED_KINDS)} not synced: {refused}"]
    assert controller.health.condition().why.startswith("nodes not synced; ")
    muster.sync()
    muster.fall_silent()
    await asyncio.sleep(61)
    forbidden = "Muster's ClusterRole must grant to watch pods (403 Forbidden: ...)"
    controller.watch_restarted(WatchedKind.POD, "forbidden", forbidden)
    controller.watch_restarted(WatchedKind.NODE, "closed")
    said = controller.health.unready_because()
    assert f"pods silent for 61 s: {forbidden}" in said
    assert "nodes silent for 61 s" in said
    for kind in REQUIRED_KINDS:
        controller.heard(kind)
    assert controller.health.unready_because() == []


async def test_the_global_default_priority_class_gives_the_default(muster: Muster) -> None:
    """Only a PriorityClass that is the global default counts."""
    controller = muster.controller
    assert muster.state.default_priority == 0
    controller.tell(PriorityClassSeen("high", 1000, global_default=False))
    controller.tell(PriorityClassSeen("standard", 10, global_default=True))
    assert muster.state.default_priority == 10
    controller.tell(PriorityClassSeen("standard", 10, global_default=False))
    assert muster.state.default_priority == 0
    controller.tell(PriorityClassSeen("standard", 10, global_default=True))
    controller.tell(PriorityClassGone("standard"))
    assert muster.state.default_priority == 0


async def test_objects_that_go_are_forgotten(muster: Muster) -> None:
    """A deleted node and a deleted PodGroup take the reservation with them; an unusable node is no node."""
    (node,) = muster.nodes(1)
    muster.sync()
    (pod,) = muster.gang("a", 1)
    await asyncio.sleep(0.3)
    muster.controller.tell(NodeGone(node))
    muster.controller.tell(NodeSeen(Node("odd", problem=Problem("status.allocatable.cpu", "'x' is not a quantity"))))
    await asyncio.sleep(1)
    assert muster.api.statuses[-1][1].reason == "ExceedsCluster"
    assert pod.group is not None
    muster.controller.tell(GroupGone(pod.group, "a-uid"))
    await asyncio.sleep(1)
    assert muster.api.events[-1].reason == "PodGroupMissing"
    assert muster.api.events[-1].about.kind == "Pod"
    muster.controller.tell(PodGone(pod.uid))
    await asyncio.sleep(1)
    assert list(muster.controller.inspection.gangs()) == []


async def test_prioritize_and_preempt_reach_the_admission(muster: Muster) -> None:
    """Both answer from the same state as filter."""
    muster.nodes(2)
    muster.sync()
    pod = muster.pod("single", 8)
    muster.controller.tell(PodSeen(pod))
    assert muster.controller.prioritize(pod, ["node-0", "node-1"]) == [0, 0]
    foreign = replace(pod, scheduler_name="other")
    assert await muster.controller.preempt(pod, {"node-0": ["nobody"]}) == []
    assert await muster.controller.preempt(foreign, {"node-0": ["nobody"]}) == ["node-0"]


async def test_bind_is_refused_where_name_and_uid_are_two_pods(muster: Muster) -> None:
    """What is written is a Binding by name: it must be the name of the pod that was judged."""
    muster.nodes(1)
    muster.sync()
    pod = muster.pod("single", 8)
    muster.controller.tell(PodSeen(pod))
    bound = await muster.controller.bind(PodKey("default", "other", pod.uid), "node-0")
    assert bound.error == f"the pod with UID {pod.uid} is default/single, not default/other"
    assert muster.api.bindings == []


async def test_nothing_is_written_about_a_pod_of_another_scheduler(muster: Muster) -> None:
    """A bind call for it is refused with the reason, and leaves no trace on it."""
    muster.nodes(1)
    muster.sync()
    pod = replace(muster.pod("single", 8), scheduler_name="other")
    muster.controller.tell(PodSeen(pod))
    assert "which is not in the setting scheduler_names" in await muster.bind(pod, "node-0")
    await asyncio.sleep(1)
    assert (muster.api.bindings, muster.api.nominations) == ([], [])


async def test_filter_waits_for_the_news_of_a_single_pod(muster: Muster) -> None:
    """kube-scheduler may know a pod before Muster does; it is planned in the call that asks for it all the same."""
    muster.nodes(1)
    muster.sync()
    pod = muster.pod("single", 8)
    asking = asyncio.create_task(muster.controller.filter(pod, ["node-0"]))
    await asyncio.sleep(0.02)
    muster.controller.tell(PodSeen(pod))
    assert (await asking).accepted == ["node-0"]
    assert muster.api.nominations == []


async def test_the_first_pod_of_a_gang_is_answered_when_the_gang_is_complete(muster: Muster) -> None:
    """The call waits for the members that are created just now, and one attempt each is all that they need."""
    muster.sync()
    muster.nodes(2)
    pods = muster.gang("a", 4, gpus=4, present=1)
    asking = asyncio.create_task(muster.controller.filter(pods[0], ["node-0", "node-1"]))
    await asyncio.sleep(0.02)
    for pod in pods[1:]:
        muster.controller.tell(PodSeen(pod))
    answer = await asking
    assert (answer.outcome, muster.api.nominations) == (Outcome.PINNED, [])


async def test_a_gang_that_stays_incomplete_is_refused_after_a_moment(muster: Muster) -> None:
    """A member that nobody creates does not hold kube-scheduler."""
    muster.sync()
    muster.nodes(2)
    pods = muster.gang("a", 4, gpus=4, present=3)
    began = asyncio.get_running_loop().time()
    answers = [await muster.controller.filter(pod, ["node-0", "node-1"]) for pod in pods[:3]]
    assert [answer.outcome for answer in answers] == [Outcome.REFUSED] * 3
    assert asyncio.get_running_loop().time() - began == pytest.approx(muster.settings.arrival_wait_seconds)


async def test_members_that_were_turned_away_are_nominated_before_those_that_were_not(muster: Muster) -> None:
    """Nothing else wakes them; the others get an attempt anyway, and a nomination only if kube-scheduler is idle."""
    muster.sync()
    muster.nodes(2)
    pods = muster.gang("a", 4, gpus=4, present=3)
    await asyncio.sleep(0.2)
    await muster.controller.filter(pods[1], ["node-0", "node-1"])
    muster.controller.tell(PodSeen(pods[3]))
    await asyncio.sleep(0.01)
    assert [pod for pod, _ in muster.api.nominations] == ["a-1"]
    planned = await muster.controller.filter(pods[3], ["node-0", "node-1"])
    arriving = asyncio.create_task(muster.bind(pods[3], planned.accepted[0]))
    await asyncio.sleep(1.9)
    assert {pod for pod, _ in muster.api.nominations} == {"a-1"}
    await asyncio.sleep(0.2)
    assert {pod for pod, _ in muster.api.nominations} == {"a-1", "a-0", "a-2"}
    arriving.cancel()
