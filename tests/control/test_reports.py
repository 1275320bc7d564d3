"""What is written about gangs, and on which object."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.membership import GroupApi, GroupRef
from extender.domain.podgroup import PodGroup
from tests.control.conftest import Muster


@pytest.mark.parametrize(
    ("api", "version", "statuses"),
    [
        (GroupApi.COSCHEDULING, "scheduling.x-k8s.io/v1alpha1", 1),
        (GroupApi.NATIVE, "scheduling.k8s.io/v1beta1", 0),
        (GroupApi.VOLCANO, "scheduling.volcano.sh/v1beta1", 0),
    ],
)
async def test_the_reason_stands_on_the_gangs_own_object(
    muster: Muster, api: GroupApi, version: str, statuses: int
) -> None:
    """Events are about the PodGroup in its own API; a status is written only where nobody else writes one."""
    muster.sync()
    ref = GroupRef(api, "default", "job")
    minimums = (("leader", 1),)
    muster.controller.observer.group_seen(PodGroup(ref, "job-uid", min_member=2, role_minimums=minimums))
    muster.controller.observer.pod_seen(muster.pod("job-0", 8, ref))
    await asyncio.sleep(5)
    (event,) = muster.api.events
    assert (event.about.api_version, event.about.kind, event.about.uid) == (version, "PodGroup", "job-uid")
    assert (event.reason, event.message) == ("RoleMembersMissing", "0 of 1 members of role leader exist")
    assert len(muster.api.statuses) == statuses
