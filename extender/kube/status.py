"""The status of PodGroups and Queues, written beside others who may write to the same object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
from msgspec import Struct

from extender.caches import SizedDict
from extender.clock import Clock
from extender.control.ports import ApiError
from extender.explain.views import GroupStatus, QueueReport
from extender.kube.api import CONFLICT, NOT_FOUND, UNREADABLE, ApiServer, JsonObject, list_pages
from extender.objects.meta import ConditionObject, DecodeError, Decoder, ObjectMeta, decode_metadata, write_timestamp
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import SCHEDULED

Conditions: TypeAlias = list[JsonObject]

#: What objects may take whose version and conditions are remembered (bytes); one that is forgotten is read again.
_STORED_BYTES = 2 << 20

#: How often a status is tried while others change the object at the same time.
_ATTEMPTS = 4
_SERVICE_UNAVAILABLE = 503

#: Types of conditions.
_PREEMPTED = "Preempted"
_QUEUES = "/apis/muster.dev/v1alpha1/queues"
#: The longest message that the API takes, in characters. Source: k8s.io/apimachinery metav1.Condition.
LONGEST_MESSAGE = 32_768


class ConditionedStatus(Struct, gc=False, frozen=True):
    """A status, for its conditions alone."""

    conditions: list[ConditionObject] | None = None


class Conditioned(Struct, gc=False, frozen=True):
    """Any object with conditions, for these alone."""

    status: ConditionedStatus | None = None


decode_conditioned = Decoder(Conditioned)


@dataclass(frozen=True, slots=True)
class Target:
    """An object whose status is written: `what` it is called in errors, and the path of the `collection` it is in."""

    what: str
    collection: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class _Stored:
    """An object as the server last showed it, its conditions as JSON: enough to leave alone what others did."""

    uid: str
    version: str
    conditions: bytes


class StatusWriter:
    """Write the status of objects.

    The version goes along with every write. The API server does not look at the UID in a status patch of a custom
    resource, so that it is the version that keeps a status from another object of the same name, and conditions of
    others from being lost.
    """

    def __init__(self, api: ApiServer, clock: Clock) -> None:
        """Remember nothing yet; `clock` tells when a condition changed."""
        self._api = api
        self._clock = clock
        self._stored: SizedDict[str, _Stored] = SizedDict(_STORED_BYTES)  # UID -> as last seen

    async def _write(self, target: Target, status: Callable[[Conditions], JsonObject]) -> None:
        """Write the status that `status` makes of the conditions that stand there.

        One request if no other client has changed the object since the last one. Raises ApiError with status 404 if
        there is no such object, with 409 if it is another one by now.
        """
        stored = self._stored.forget(target.uid)
        for _ in range(_ATTEMPTS):
            stored = stored or await self._read(target)
            metadata = {"uid": stored.uid, "resourceVersion": stored.version}
            body = {"metadata": metadata, "status": status(msgspec.json.decode(stored.conditions))}
            try:
                answer = await self._api.patch(f"{target.collection}/{target.name}/status", body)
            except ApiError as error:
                if error.status != CONFLICT:
                    raise
                stored = None
            else:
                written = _read_stored(answer)
                self._stored.keep(target.uid, written, 700 + len(written.conditions))
                return
        # Not a 409, which would mean that there is nothing left to write to.
        raise ApiError(_SERVICE_UNAVAILABLE, "Conflict", f"{target.what} keeps changing while its status is written")

    async def _read(self, target: Target) -> _Stored:
        """Read an object, by a list of one: that takes only the right that the watch has anyway."""
        selector = {"fieldSelector": f"metadata.name={target.name}"}
        pages = [page async for page in list_pages(self._api, target.collection, 1, selector)]
        found = [_read_stored(raw) for page in pages for raw in page.items or ()]
        if not found:
            raise ApiError(NOT_FOUND, "NotFound", f"{target.what} does not exist")
        if found[0].uid != target.uid:
            raise ApiError(CONFLICT, "Conflict", f"{target.what} has the UID {found[0].uid}, not {target.uid}")
        return found[0]


def with_condition(known: Sequence[JsonObject], condition: JsonObject, clock: Clock) -> Conditions:
    """Return `known` with one of ours set, as a merge patch replaces lists whole; its time moves with its status."""
    before: JsonObject = next((c for c in known if c.get("type") == condition["type"]), {})
    since = before.get("lastTransitionTime") if before.get("status") == condition["status"] else None
    return [
        *(c for c in known if c is not before),
        condition
        | {
            "message": condition["message"][:LONGEST_MESSAGE],
            "lastTransitionTime": since or write_timestamp(clock.now()),
        },
    ]


def _read_stored(raw: bytes | msgspec.Raw) -> _Stored:
    """Read an object's version and conditions; a status that cannot be read counts as none."""
    try:
        meta = decode_metadata(raw).metadata or ObjectMeta()
    except DecodeError as error:
        raise ApiError(0, UNREADABLE, str(error)) from error
    try:
        status = decode_conditioned(raw).status
    except DecodeError:
        status = None
    conditions = (status and status.conditions) or []
    return _Stored(meta.uid or "", meta.resource_version or "", msgspec.json.encode(conditions))


class GroupStatusWriter(StatusWriter):
    """Write phase, counters and conditions of PodGroups, conditions of others left as they are."""

    async def write(self, group: GroupRef, uid: str, status: GroupStatus) -> None:
        """Write a status: one request if no other client has changed the PodGroup since the last one.

        Raises ApiError with status 404 if there is no such PodGroup, with 409 if it is another one by now.
        """
        collection = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{group.namespace}/podgroups"
        target = Target(f"PodGroup {group}", collection, group.name, uid)
        await self._write(target, lambda known: self._body(known, status))

    def _body(self, known: Conditions, status: GroupStatus) -> JsonObject:
        scheduled = {
            "type": SCHEDULED,
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


class QueueStatusWriter(StatusWriter):
    """Write what Queues' gangs use and whether the Queues can be used, conditions of others left as they are."""

    async def write(self, name: str, uid: str, report: QueueReport) -> None:
        """Write a status: one request if no other client has changed the Queue since the last one.

        Raises ApiError with status 404 if there is no such Queue, with 409 if it is another one by now.
        """
        target = Target(f"Queue {name}", _QUEUES, name, uid)
        await self._write(target, lambda known: self._body(known, report))

    def _body(self, known: Conditions, report: QueueReport) -> JsonObject:
        return {**report.status_json(), "conditions": with_condition(known, report.condition_json(), self._clock)}
