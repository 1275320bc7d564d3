"""The status of PodGroups."""

from __future__ import annotations

import dataclasses

import pytest

from extender.clock import ManualClock
from extender.control.ports import ApiError
from extender.explain.views import GroupStatus
from extender.kube.status import GroupStatusWriter
from extender.kube.transport import Transport
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING
from tests.kube.apiscript import Answer, ApiScript, JsonObject, named, page, refuses, says

GROUP = GroupRef(COSCHEDULING, "x", "job")
GROUPS_PATH = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/x/podgroups"
STATUS_PATH = f"{GROUPS_PATH}/job/status"
WAITING = GroupStatus(
    phase="Pending",
    scheduled=0,
    running=0,
    succeeded=0,
    failed=0,
    condition_status="False",
    reason="InsufficientCapacity",
    message="2 of 4 members fit now",
    observed_generation=1,
)
STARTED = dataclasses.replace(WAITING, phase="Scheduling", scheduled=4, condition_status="True", reason="Started")


def condition(status: str, since: str, reason: str = "InsufficientCapacity", kind: str = "Scheduled") -> JsonObject:
    """Return a condition."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "2 of 4 members fit now",
        "lastTransitionTime": since,
        "observedGeneration": 1,
    }


def group(*conditions: JsonObject, uid: str = "uid-job", version: int = 7) -> JsonObject:
    """Return a PodGroup with these conditions."""
    return named("job", uid, version, "x", status={"phase": "Pending", "conditions": list(conditions)})


def stands(*groups: JsonObject) -> Answer:
    """Answer a list with these PodGroups."""
    return says(page(*groups, version=99))


def sent_conditions(script: ApiScript) -> list[JsonObject]:
    """Return the conditions of the last status that was written."""
    body = script.of(STATUS_PATH)[-1].body
    assert body is not None
    conditions = body["status"]["conditions"]
    assert isinstance(conditions, list)
    return conditions


def sent_versions(script: ApiScript) -> list[str]:
    """Return the version that went along with every write."""
    return [request.body["metadata"]["resourceVersion"] for request in script.of(STATUS_PATH) if request.body]


@pytest.fixture
def writer(transport: Transport, clock: ManualClock) -> GroupStatusWriter:
    """Write to the scripted server."""
    return GroupStatusWriter(transport, clock)


class TestRequests:
    """What is read and written."""

    async def test_status_is_a_patch_with_uid_and_version(self, script: ApiScript, writer: GroupStatusWriter) -> None:
        """Phase, counters and condition go in one merge patch that holds for the PodGroup as it was read."""
        script.plan(GROUPS_PATH, stands(group()))
        ours = condition("False", "2026-01-01T00:00:00Z")
        script.plan(STATUS_PATH, says(group(ours)))
        await writer.write(GROUP, "uid-job", WAITING)
        (request,) = script.of(STATUS_PATH)
        assert request.method == "PATCH"
        assert request.body == {
            "metadata": {"uid": "uid-job", "resourceVersion": "7"},
            "status": {
                "phase": "Pending",
                "scheduled": 0,
                "running": 0,
                "succeeded": 0,
                "failed": 0,
                "conditions": [ours],
            },
        }

    async def test_group_is_read_before_the_first_write_alone(
        self, script: ApiScript, writer: GroupStatusWriter
    ) -> None:
        """What stands there is asked for by a list of one; after that the answers to the writes say it."""
        script.plan(GROUPS_PATH, stands(group(version=7)))
        script.plan(STATUS_PATH, says(group(version=8)), says(group(version=9)), says(group(version=10)))
        for message in ("2 of 4", "3 of 4", "0 of 4"):
            await writer.write(GROUP, "uid-job", dataclasses.replace(WAITING, message=message))
        (read,) = script.of(GROUPS_PATH)
        assert read.query == {"limit": "1", "fieldSelector": "metadata.name=job"}
        assert sent_versions(script) == ["7", "8", "9"]

    async def test_refusal_is_the_callers(self, script: ApiScript, writer: GroupStatusWriter) -> None:
        """What is no conflict comes out after one attempt, and the next write reads again."""
        script.plan(GROUPS_PATH, *[stands(group())] * 2)
        script.plan(STATUS_PATH, refuses(403, "Forbidden"), says(group()))
        with pytest.raises(ApiError, match="403"):
            await writer.write(GROUP, "uid-job", WAITING)
        await writer.write(GROUP, "uid-job", WAITING)
        assert len(script.of(GROUPS_PATH)) == 2


class TestConditions:
    """The condition that Muster writes, and those of others."""

    async def test_transition_time_changes_with_the_status_alone(
        self, script: ApiScript, writer: GroupStatusWriter, clock: ManualClock
    ) -> None:
        """Another reason keeps the time; another status sets it to now."""
        before, after = "2026-01-01T00:00:00Z", "2026-01-01T00:02:00Z"
        script.plan(GROUPS_PATH, stands(group()))
        script.plan(
            STATUS_PATH,
            says(group(condition("False", before))),
            says(group(condition("False", before, "BehindHead"))),
            says(group(condition("True", after, "Started"))),
        )
        times = []
        for status in (WAITING, dataclasses.replace(WAITING, reason="BehindHead"), STARTED):
            await writer.write(GROUP, "uid-job", status)
            (sent,) = sent_conditions(script)
            times.append(sent["lastTransitionTime"])
            clock.advance(60.0)
        assert times == [before, before, after]

    async def test_transition_time_survives_a_restart(self, script: ApiScript, writer: GroupStatusWriter) -> None:
        """A new Muster reads when the condition last changed, instead of pretending that it does so now."""
        long_ago = condition("False", "2025-06-01T12:00:00Z")
        script.plan(GROUPS_PATH, stands(group(long_ago)))
        script.plan(STATUS_PATH, says(group(long_ago)))
        await writer.write(GROUP, "uid-job", WAITING)
        assert sent_conditions(script) == [long_ago]

    async def test_conditions_of_others_stay(self, script: ApiScript, writer: GroupStatusWriter) -> None:
        """A merge patch replaces lists, so what others wrote is sent along as it was, absent fields left out."""
        foreign = {"type": "Audited", "status": "True", "reason": "Fine", "lastTransitionTime": "2025-01-01T00:00:00Z"}
        script.plan(GROUPS_PATH, stands(group(foreign)))
        script.plan(STATUS_PATH, says(group(foreign)))
        await writer.write(GROUP, "uid-job", WAITING)
        assert sent_conditions(script) == [foreign, condition("False", "2026-01-01T00:00:00Z")]

    async def test_status_that_cannot_be_read_counts_as_none(
        self, script: ApiScript, writer: GroupStatusWriter
    ) -> None:
        """A status that somebody else made a mess of is replaced."""
        mess = named("job", version=7, namespace="x", status={"conditions": 7})
        script.plan(GROUPS_PATH, stands(mess))
        script.plan(STATUS_PATH, says(mess), says(mess))
        await writer.write(GROUP, "uid-job", WAITING)
        await writer.write(GROUP, "uid-job", WAITING)
        assert sent_conditions(script) == [condition("False", "2026-01-01T00:00:00Z")]
        assert sent_versions(script) == ["7", "7"]


class TestPreempted:
    """The condition that says for whom a gang was evicted."""

    BY = "evicted for x/urgent, of higher priority"

    async def test_preemption_is_a_condition_of_its_own(self, script: ApiScript, writer: GroupStatusWriter) -> None:
        """It stands beside the one that says why the gang waits."""
        script.plan(GROUPS_PATH, stands(group()))
        script.plan(STATUS_PATH, says(group()))
        await writer.write(GROUP, "uid-job", dataclasses.replace(WAITING, preempted=self.BY))
        scheduled, preempted = sent_conditions(script)
        assert scheduled == condition("False", "2026-01-01T00:00:00Z")
        assert preempted == condition("True", "2026-01-01T00:00:00Z", "Preempted", "Preempted") | {"message": self.BY}

    @pytest.mark.parametrize(
        ("stands_as", "status", "expected"),
        [("True", WAITING, "True"), ("True", STARTED, "False"), ("False", STARTED, "False"), ("", STARTED, "")],
        ids=["still waiting", "placed again", "placed again before", "never preempted"],
    )
    async def test_preemption_is_over_when_the_gang_is_placed_again(
        self, script: ApiScript, writer: GroupStatusWriter, stands_as: str, status: GroupStatus, expected: str
    ) -> None:
        """Until then it stays, though whoever writes now may not know of it: Muster may have restarted."""
        known = [condition(stands_as, "2025-06-01T12:00:00Z", "Preempted", "Preempted")] if stands_as else []
        script.plan(GROUPS_PATH, stands(group(*known)))
        script.plan(STATUS_PATH, says(group()))
        await writer.write(GROUP, "uid-job", status)
        states = {sent["type"]: sent["status"] for sent in sent_conditions(script)}
        assert states.get("Preempted", "") == expected


class TestOthers:
    """PodGroups that change, go away, or come again."""

    async def test_change_by_somebody_else_is_taken_in(self, script: ApiScript, writer: GroupStatusWriter) -> None:
        """On a conflict the PodGroup is read again, and the status goes on top of what stands there now."""
        foreign = {"type": "Audited", "status": "True", "reason": "Fine", "lastTransitionTime": "2025-01-01T00:00:00Z"}
        script.plan(GROUPS_PATH, stands(group(version=7)), stands(group(foreign, version=9)))
        script.plan(STATUS_PATH, refuses(409, "Conflict"), says(group(foreign, version=10)))
        await writer.write(GROUP, "uid-job", WAITING)
        assert sent_versions(script) == ["7", "9"]
        assert [sent["type"] for sent in sent_conditions(script)] == ["Audited", "Scheduled"]

    async def test_group_that_never_stands_still_is_left_for_later(
        self, script: ApiScript, writer: GroupStatusWriter
    ) -> None:
        """After four conflicts the error is one that may pass, not one that says that the PodGroup is another."""
        script.plan(GROUPS_PATH, *[stands(group())] * 4)
        script.plan(STATUS_PATH, *[refuses(409, "Conflict")] * 4)
        with pytest.raises(ApiError, match="PodGroup x/job keeps changing") as conflict:
            await writer.write(GROUP, "uid-job", WAITING)
        assert conflict.value.transient
        assert len(script.of(STATUS_PATH)) == 4

    async def test_namesake_is_not_written_to(self, script: ApiScript, writer: GroupStatusWriter) -> None:
        """A PodGroup with another UID is a conflict, and nothing is written."""
        script.plan(GROUPS_PATH, stands(group(uid="uid-of-another")))
        with pytest.raises(ApiError, match="409 Conflict: PodGroup x/job has the UID uid-of-another, not uid-job"):
            await writer.write(GROUP, "uid-job", WAITING)
        assert script.of(STATUS_PATH) == []

    async def test_group_made_again_after_a_write_is_noticed(
        self, script: ApiScript, writer: GroupStatusWriter
    ) -> None:
        """The version of the old PodGroup does not fit its namesake, and the read after that tells why."""
        script.plan(GROUPS_PATH, stands(group()), stands(group(uid="uid-of-another")))
        script.plan(STATUS_PATH, says(group(version=8)), refuses(409, "Conflict"))
        await writer.write(GROUP, "uid-job", WAITING)
        with pytest.raises(ApiError, match="409 Conflict: PodGroup x/job has the UID uid-of-another"):
            await writer.write(GROUP, "uid-job", STARTED)

    async def test_group_that_is_gone_is_not_found(self, script: ApiScript, writer: GroupStatusWriter) -> None:
        """A PodGroup that does not exist is a 404."""
        script.plan(GROUPS_PATH, stands())
        with pytest.raises(ApiError, match="404 NotFound: PodGroup x/job does not exist"):
            await writer.write(GROUP, "uid-job", WAITING)

    async def test_unreadable_group_may_pass(self, script: ApiScript, writer: GroupStatusWriter) -> None:
        """An answer whose metadata make no sense is an error that is worth another attempt."""
        script.plan(GROUPS_PATH, stands({"metadata": 7}))
        with pytest.raises(ApiError) as unreadable:
            await writer.write(GROUP, "uid-job", WAITING)
        assert (unreadable.value.reason, unreadable.value.transient) == ("Unreadable", True)
