"""The status of coscheduling PodGroups, written beside others who may write to the same object."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import msgspec
from cachetools import LRUCache

from extender.clock import Clock
from extender.control.ports import ApiError, GroupStatus
from extender.domain.membership import GroupRef
from extender.kube.api import CONFLICT, NOT_FOUND, UNREADABLE, ApiServer, JsonObject
from extender.kube.listing import list_pages
from extender.wire.codec import DecodeError, decode_coscheduling_pod_group, decode_metadata
from extender.wire.kubernetes import ObjectMeta

#: The condition that Muster writes.
_CONDITION = "Scheduled"

#: PodGroups whose version and conditions are remembered. Those of one that falls out are read again.
_REMEMBERED = 4096

#: How often a status is tried while others change the PodGroup at the same time.
_ATTEMPTS = 4
_SERVICE_UNAVAILABLE = 503


@dataclass(frozen=True, slots=True)
class _Stored:
    """A PodGroup as the server last showed it: enough to change its status without undoing what others did."""

    uid: str
    version: str
    conditions: list[JsonObject]


class GroupStatusWriter:
    """Write the status of PodGroups.

    The version goes along with every write. The API server does not look at the UID in a status patch of a custom
    resource, so that it is the version that keeps a status from a namesake, and conditions of others from being lost.
    """

    def __init__(self, api: ApiServer, clock: Clock) -> None:
        """Remember nothing yet; `clock` tells when a condition changed."""
        self._api = api
        self._clock = clock
        self._stored: LRUCache[str, _Stored] = LRUCache(_REMEMBERED)  # UID -> as last seen

    async def write(self, group: GroupRef, uid: str, status: GroupStatus) -> None:
        """Write a status: one request if nobody else has changed the PodGroup since the last one.

        Raises ApiError with status 404 if there is no such PodGroup, with 409 if it is another one by now.
        """
        stored = self._stored.pop(uid, None)
        for _ in range(_ATTEMPTS):
            stored = stored or await self._read(group, uid)
            try:
                answer = await self._api.patch(f"{_path(group)}/{group.name}/status", self._body(stored, status))
            except ApiError as error:
                if error.status != CONFLICT:
                    raise
                stored = None
            else:
                self._stored[uid] = _read_stored(answer)
                return
        # Not a 409, which would mean that there is nothing left to write to.
        raise ApiError(_SERVICE_UNAVAILABLE, "Conflict", f"PodGroup {group} keeps changing while its status is written")

    async def _read(self, group: GroupRef, uid: str) -> _Stored:
        """Read a PodGroup, by a list of one: that takes only the right that the watch has anyway."""
        selector = {"fieldSelector": f"metadata.name={group.name}"}
        pages = [page async for page in list_pages(self._api, _path(group), 1, selector)]
        found = [_read_stored(raw) for page in pages for raw in page.items or ()]
        if not found:
            raise ApiError(NOT_FOUND, "NotFound", f"PodGroup {group} does not exist")
        if found[0].uid != uid:
            raise ApiError(CONFLICT, "Conflict", f"PodGroup {group} has the UID {found[0].uid}, not {uid}")
        return found[0]

    def _body(self, stored: _Stored, status: GroupStatus) -> JsonObject:
        return {
            "metadata": {"uid": stored.uid, "resourceVersion": stored.version},
            "status": {
                "phase": status.phase,
                "scheduled": status.scheduled,
                "running": status.running,
                "succeeded": status.succeeded,
                "failed": status.failed,
                "conditions": self._conditions(stored.conditions, status),
            },
        }

    def _conditions(self, known: list[JsonObject], status: GroupStatus) -> list[JsonObject]:
        """Return `known` with ours set, as a merge patch replaces lists whole; its time moves only with its status."""
        before: JsonObject = next((c for c in known if c.get("type") == _CONDITION), {})
        since = before.get("lastTransitionTime") if before.get("status") == status.condition_status else None
        ours = {
            "type": _CONDITION,
            "status": status.condition_status,
            "reason": status.reason,
            "message": status.message,
            "lastTransitionTime": since or _time(self._clock.now()),
            "observedGeneration": status.observed_generation,
        }
        return [*(c for c in known if c is not before), ours]


def _read_stored(raw: bytes | msgspec.Raw) -> _Stored:
    """Read a PodGroup's version and conditions; a status that cannot be read counts as none."""
    try:
        meta = decode_metadata(raw).metadata or ObjectMeta()
    except DecodeError as error:
        raise ApiError(0, UNREADABLE, str(error)) from error
    try:
        status = decode_coscheduling_pod_group(raw).status
    except DecodeError:
        status = None
    conditions: list[JsonObject] = msgspec.to_builtins((status and status.conditions) or [])
    stated = [{name: value for name, value in c.items() if value is not None} for c in conditions]
    return _Stored(meta.uid or "", meta.resource_version or "", stated)


def _path(group: GroupRef) -> str:
    return f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{group.namespace}/podgroups"


def _time(moment: dt.datetime) -> str:
    """Render as metav1.Time."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
