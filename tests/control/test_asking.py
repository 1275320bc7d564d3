"""Requests for nodes on their way: made and withdrawn by the replica that leads, and told where they cannot be."""

from __future__ import annotations

import asyncio

import pytest

from extender.admission.events import GroupGone, NodeRequestSeen, PodGone
from extender.control.ports import ApiError
from extender.control.watched import PROVISIONING
from extender.objects.meta import ObjectRef
from extender.objects.noderequest import NodeRequest
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.settings import Settings
from tests.control.conftest import Muster, Term

CLASS = "check-capacity.autoscaling.x-k8s.io"
REF = GroupRef(COSCHEDULING, "default", "train")


@pytest.fixture
def settings() -> Settings:
    """Ask for nodes."""
    return Settings(provisioning_class=CLASS)


async def train(muster: Muster) -> None:
    """Let a gang lack two nodes."""
    muster.sync()
    muster.controller.synced(PROVISIONING.name)
    muster.gang("train", 2)
    await asyncio.sleep(1)


async def test_nothing_is_decided_before_the_requests_are_known(muster: Muster) -> None:
    """Who does not know of a request asks a second time."""
    muster.sync()
    assert not muster.controller.leading
    muster.controller.synced(PROVISIONING.name)
    assert muster.controller.leading


async def test_a_request_is_made_for_the_object_of_the_gang(muster: Muster) -> None:
    """Its members name it; what stands is not written again."""
    await train(muster)
    ((ask, owner),) = muster.api.asked
    assert owner == ObjectRef("scheduling.x-k8s.io/v1alpha1", "PodGroup", "default", "train", "train-uid")
    assert (ask.ref, [each.count for each in ask.pod_sets]) == (REF, [2])
    assert {name: len(said) for name, said in muster.api.annotations.items()} == {"train-0": 4, "train-1": 4}
    muster.controller.tell(NodeRequestSeen(NodeRequest(REF, ask.name, "u", CLASS, (2,))))
    await asyncio.sleep(1)
    assert len(muster.api.asked) == 1
    muster.controller.tell(GroupGone(REF, "train-uid"))
    for index in range(2):
        muster.controller.tell(PodGone(f"train-{index}-uid"))
    await asyncio.sleep(1)
    assert muster.api.withdrawn == [ask.name]


async def test_what_cannot_be_made_is_told_on_the_gang(muster: Muster) -> None:
    """Rights that are missing, or an API server without that API: each is an Event, and a later one tries again."""
    muster.api.asking_failures.append(ApiError(404, "NotFound", "the server could not find the requested resource"))
    await train(muster)
    told = [event.message for event in muster.api.events if event.reason == "NodesNotRequested"]
    assert [message.partition(" cannot be made: ")[2] for message in told] == [
        "the server could not find the requested resource"
    ]
    await asyncio.sleep(70)
    assert len(muster.api.asked) == 1


@pytest.mark.parametrize("status", [409, 503])
async def test_what_is_there_or_may_yet_be_made_is_not_told(muster: Muster, status: int) -> None:
    """It is asked for once more."""
    muster.api.asking_failures.append(ApiError(status, "No", "no"))
    await train(muster)
    assert not [event for event in muster.api.events if event.reason == "NodesNotRequested"]


async def test_for_a_gang_that_is_gone_nothing_is_made(muster: Muster) -> None:
    """It went while the write waited."""
    muster.api.asking_failures.append(ApiError(503, "Unavailable", "no"))
    muster.sync()
    muster.controller.synced(PROVISIONING.name)
    muster.gang("train", 2)
    await asyncio.sleep(0.01)
    muster.controller.tell(GroupGone(REF, "train-uid"))
    for index in range(2):
        muster.controller.tell(PodGone(f"train-{index}-uid"))
    await asyncio.sleep(10)
    assert not muster.api.asked


async def test_a_replica_that_does_not_lead_asks_for_nothing(muster: Muster, term: Term) -> None:
    """The other one does."""
    term.lease_gone()
    await train(muster)
    assert not muster.api.asked
    assert not muster.api.annotations
