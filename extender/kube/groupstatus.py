"""The status of coscheduling PodGroups."""

from __future__ import annotations

from extender.clock import Clock
from extender.control.ports import GroupStatus
from extender.domain.membership import GroupRef
from extender.kube.api import ApiServer, JsonObject
from extender.kube.statuspatch import Conditions, StatusPatcher, Target, with_condition

_SCHEDULED, _PREEMPTED = "Scheduled", "Preempted"


class GroupStatusWriter:
    """Write phase, counters and conditions of PodGroups, conditions of others left as they are."""

    def __init__(self, api: ApiServer, clock: Clock) -> None:
        """Remember nothing yet; `clock` tells when a condition changed."""
        self._patcher = StatusPatcher(api)
        self._clock = clock

    async def write(self, group: GroupRef, uid: str, status: GroupStatus) -> None:
        """Write a status: one request if nobody else has changed the PodGroup since the last one.

        Raises ApiError with status 404 if there is no such PodGroup, with 409 if it is another one by now.
        """
        collection = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{group.namespace}/podgroups"
        target = Target(f"PodGroup {group}", collection, group.name, uid)
        await self._patcher.write(target, lambda known: self._body(known, status))

    def _body(self, known: Conditions, status: GroupStatus) -> JsonObject:
        scheduled = {
            "type": _SCHEDULED,
            "status": status.condition_status,
            "reason": status.reason,
            "message": status.message,
            "observedGeneration": status.observed_generation,
        }
        conditions = with_condition(known, scheduled, self._clock)
        preempted = _preempted(known, status)
        if preempted is not None:
            conditions = with_condition(conditions, preempted, self._clock)
        return {
            "phase": status.phase,
            "scheduled": status.scheduled,
            "running": status.running,
            "succeeded": status.succeeded,
            "failed": status.failed,
            "conditions": conditions,
        }


def _preempted(known: Conditions, status: GroupStatus) -> JsonObject | None:
    """Return the condition that tells of a preemption; None if it stays as it is, or as absent as it is."""
    state, reason, message = "True", _PREEMPTED, status.preempted
    if not status.preempted:
        stands = any(c.get("type") == _PREEMPTED and c.get("status") == "True" for c in known)
        if not stands or status.condition_status != "True":
            return None
        state, reason, message = "False", status.reason, status.message
    return {
        "type": _PREEMPTED,
        "status": state,
        "reason": reason,
        "message": message,
        "observedGeneration": status.observed_generation,
    }
