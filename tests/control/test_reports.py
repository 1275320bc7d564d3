"""What is written about gangs, and on which object."""

from __future__ import annotations

import asyncio

import pytest

from extender.admission.events import GroupSeen, PodGone, PodSeen
from extender.control.ports import ApiError
from extender.objects.meta import ObjectRef
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.sources.leaderworkerset import LEADER_WORKER_SET
from extender.objects.sources.native import NATIVE
from extender.objects.sources.volcano import VOLCANO
from tests.control.conftest import Muster


@pytest.mark.parametrize(
    ("api", "version", "statuses"),
    [
        (COSCHEDULING, "scheduling.x-k8s.io/v1alpha1", 1),
        (NATIVE, "scheduling.k8s.io/v1beta1", 0),
        (VOLCANO, "scheduling.volcano.sh/v1beta1", 0),
    ],
)
async def test_the_reason_stands_on_the_gangs_own_object(muster: Muster, api: str, version: str, statuses: int) -> None:
    """Events are about the PodGroup in its own API; a status is written only where nobody else writes one."""
    muster.sync()
    ref = GroupRef(api, "default", "job")
    minimums = (("leader", 1),)
    muster.controller.tell(GroupSeen(PodGroup(ref, "job-uid", min_member=2, role_minimums=minimums)))
    muster.controller.tell(PodSeen(muster.pod("job-0", 8, ref)))
    await asyncio.sleep(5)
    (event,) = muster.api.events
    assert (event.about.api_version, event.about.kind, event.about.uid) == (version, "PodGroup", "job-uid")
    assert (event.reason, event.message) == ("RoleMembersMissing", "0 of 1 members of role leader exist")
    assert len(muster.api.statuses) == statuses


async def test_the_reason_stands_on_another_operators_object(muster: Muster) -> None:
    """Where a JobSet, say, describes the gang, events are about that."""
    muster.sync()
    ref, about = GroupRef(LEADER_WORKER_SET, "default", "llm-0"), ObjectRef("x/v1", "X", "default", "llm", "u")
    muster.controller.tell(GroupSeen(PodGroup(ref, "u/0", min_member=2, about=about)))
    muster.controller.tell(PodSeen(muster.pod("llm-0", 8, ref)))
    await asyncio.sleep(5)
    assert [(event.about, event.reason) for event in muster.api.events] == [(about, "MembersMissing")]
    assert muster.api.statuses == []


async def test_a_status_that_was_refused_is_written_with_the_next_change(muster: Muster) -> None:
    """What could not be written does not count as said, even if the gang then stands as it did before."""
    muster.nodes(1)
    muster.sync()
    muster.api.status_failures.append(ApiError(409, "Conflict", "the object was changed"))
    pods = muster.gang("train", 2, present=1)
    await asyncio.sleep(5)
    assert muster.api.statuses == []
    muster.controller.tell(PodSeen(pods[1]))
    await asyncio.sleep(1)
    muster.controller.tell(PodGone(pods[1].uid))
    await asyncio.sleep(5)
    assert muster.api.statuses[-1][0] == "train"
