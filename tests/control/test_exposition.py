"""What is counted of what the admission reports."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from extender.admission.events import PodSeen
from extender.control.exposition import wanted_gpus
from extender.control.ports import LeaseGone
from extender.objects.holdings import DeviceHolding
from extender.objects.pod import Phase, Rejection, RejectionReason
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING
from tests.control.conftest import Muster


async def test_refusals_of_kubelets_are_counted_and_told(muster: Muster) -> None:
    """A pod that its kubelet rejected counts by reason, and its gang gets a Warning that names the node."""
    (name,) = muster.nodes(1)
    muster.sync()
    (pod,) = muster.gang("a", 1)
    bound = replace(pod, node_name=name)
    muster.controller.tell(PodSeen(bound))
    rejection = Rejection(RejectionReason.TOPOLOGY_AFFINITY, "Pod was rejected: no locality")
    muster.controller.tell(PodSeen(replace(bound, phase=Phase.FAILED, rejection=rejection)))
    await asyncio.sleep(1)
    assert muster.sample("muster_kubelet_refusals_total", reason="TopologyAffinityError") == 1
    (event,) = [event for event in muster.api.events if event.reason == "PodRejected"]
    assert (event.about.kind, event.about.name, event.warning) == ("PodGroup", "a", True)
    assert f"the kubelet of node {name} rejected a pod, TopologyAffinityError: no locality" in event.message


async def test_predictions_are_counted_by_how_they_turned_out(muster: Muster) -> None:
    """GPUs and zones each count as a match or a mismatch when they are observed."""
    (name,) = muster.nodes(1)
    muster.sync()
    predicted = DeviceHolding(gpus=(0, 1), zones=(0,))
    for number, seen in enumerate((DeviceHolding((0, 1), (0,)), DeviceHolding((2, 3), (0,)))):
        pod = replace(muster.pod(f"pod-{number}", 2), node_name=name, predicted=predicted)
        muster.controller.tell(PodSeen(pod))
        muster.controller.tell(PodSeen(replace(pod, observed=seen)))
    counted = {
        (fact, outcome): muster.sample(f"muster_predicted_{fact}_total", outcome=outcome)
        for fact in ("gpus", "zones")
        for outcome in ("match", "mismatch")
    }
    assert counted == {("gpus", "match"): 1, ("gpus", "mismatch"): 1, ("zones", "match"): 2, ("zones", "mismatch"): 0}


async def test_waiting_is_charged_to_the_reason_and_reserving_to_the_reservation(muster: Muster) -> None:
    """A gang waits 100 s for room; then it is placed, its GPUs are reserved until its members are bound."""
    muster.sync()
    pods = muster.gang("a", 2)
    await asyncio.sleep(100)
    assert muster.sample("muster_longest_wait_seconds", reason="NoNodeMatches") == pytest.approx(100, abs=0.1)
    names = muster.nodes(2)
    await asyncio.sleep(10)
    assert muster.sample("muster_gang_waiting_seconds_total", reason="NoNodeMatches") == pytest.approx(100, abs=0.1)
    assert muster.sample("muster_gang_waiting_gpu_seconds_total", reason="NoNodeMatches") == pytest.approx(1600, abs=1)
    assert muster.sample(
        "muster_gpu_seconds_total", queue="", gang_namespace="default", use="reserved"
    ) == pytest.approx(160, abs=1)
    assert muster.sample("muster_gang_waiting_gpu_seconds_total", reason="AwaitingMembers") == pytest.approx(0, abs=1)
    for pod, name in zip(pods, names, strict=True):
        muster.controller.tell(PodSeen(replace(pod, node_name=name)))
    await asyncio.sleep(100)
    assert muster.sample(
        "muster_gpu_seconds_total", queue="", gang_namespace="default", use="reserved"
    ) == pytest.approx(160, abs=1)
    assert muster.sample("muster_gang_waiting_seconds_total", reason="AwaitingMembers") == pytest.approx(10, abs=0.1)


async def test_standby_charges_nobody(muster: Muster) -> None:
    """A replica that ceases to lead stops counting: the one that leads does."""
    muster.sync()
    muster.gang("a", 1)
    await asyncio.sleep(10)
    muster.controller.tell(LeaseGone())
    await asyncio.sleep(100)
    waited = muster.sample("muster_gang_waiting_seconds_total", reason="NoNodeMatches")
    assert waited == pytest.approx(10, abs=0.1)
    assert muster.sample("muster_longest_wait_seconds", reason="NoNodeMatches") == 0


async def test_gated_members_are_waited_for_too(muster: Muster) -> None:
    """A gang whose pods have a scheduling gate waits for their GPUs, until they are deleted."""
    muster.sync()
    pods = muster.gang("a", 3, gpus=4, present=0)
    for pod in pods:
        muster.controller.tell(PodSeen(replace(pod, gated=True, gates=("example.com/quota",))))
    gang = muster.state.gang(GroupRef(COSCHEDULING, "default", "a"))
    assert gang is not None
    assert wanted_gpus(gang) == 12
    await asyncio.sleep(10)
    muster.controller.tell(PodSeen(replace(pods[0], gated=True, deleting=True)))
    assert wanted_gpus(gang) == 8
    assert muster.sample("muster_gang_waiting_gpu_seconds_total", reason="MembersGated") == pytest.approx(120, abs=1)


async def test_gpus_are_counted_by_what_they_are(muster: Muster) -> None:
    """GPUs of all nodes are used, reserved or free; a reservation moves some, and binding them moves them on."""
    muster.nodes(2)
    muster.sync()
    states = ("allocatable", "used", "reserved", "free")
    assert [muster.sample("muster_gpus", state=state) for state in states] == [16, 0, 0, 16]
    (pod,) = muster.gang("a", 1, gpus=4)
    await asyncio.sleep(1)
    assert [muster.sample("muster_gpus", state=state) for state in states] == [16, 0, 4, 12]
    muster.controller.tell(PodSeen(replace(pod, node_name=muster.planned(pod))))
    await asyncio.sleep(1)
    assert [muster.sample("muster_gpus", state=state) for state in states] == [16, 4, 0, 12]


async def test_amounts_are_in_base_units(muster: Muster) -> None:
    """What is promised to pods is told in cores, not in milli-CPU, as Kubernetes' own metrics have it."""
    muster.nodes(1)
    muster.sync()
    (pod,) = muster.gang("a", 1, gpus=8)
    await asyncio.sleep(0.1)
    assert dict(pod.shape.requests)["cpu"] == 1000
    assert muster.sample("muster_reserved_unbound", resource="cpu") == 1
    assert muster.sample("muster_reserved_unbound", resource="nvidia.com/gpu") == 8
