"""The status of custom resources, written beside others who may write to the same object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
from cachetools import LRUCache

from extender.clock import Clock
from extender.control.ports import ApiError
from extender.domain.timestamp import write_timestamp
from extender.kube.api import CONFLICT, NOT_FOUND, UNREADABLE, ApiServer, JsonObject
from extender.kube.listing import list_pages
from extender.wire.codec import DecodeError, decode_conditioned, decode_metadata
from extender.wire.kubernetes import ObjectMeta

Conditions: TypeAlias = list[JsonObject]

#: Objects whose version and conditions are remembered. Those of one that falls out are read again.
_REMEMBERED = 4096

#: How often a status is tried while others change the object at the same time.
_ATTEMPTS = 4
_SERVICE_UNAVAILABLE = 503


@dataclass(frozen=True, slots=True)
class Target:
    """An object whose status is written: `what` it is called in errors, and the path of the `collection` it is in."""

    what: str
    collection: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class _Stored:
    """An object as the server last showed it: enough to change its status without undoing what others did."""

    uid: str
    version: str
    conditions: Conditions


class StatusPatcher:
    """Write the status of objects.

    The version goes along with every write. The API server does not look at the UID in a status patch of a custom
    resource, so that it is the version that keeps a status from a namesake, and conditions of others from being lost.
    """

    def __init__(self, api: ApiServer) -> None:
        """Remember nothing yet."""
        self._api = api
        self._stored: LRUCache[str, _Stored] = LRUCache(_REMEMBERED)  # UID -> as last seen

    async def write(self, target: Target, status: Callable[[Conditions], JsonObject]) -> None:
        """Write the status that `status` makes of the conditions that stand there.

        One request if nobody else has changed the object since the last one. Raises ApiError with status 404 if there
        is no such object, with 409 if it is another one by now.
        """
        stored = self._stored.pop(target.uid, None)
        for _ in range(_ATTEMPTS):
            stored = stored or await self._read(target)
            metadata = {"uid": stored.uid, "resourceVersion": stored.version}
            body = {"metadata": metadata, "status": status(stored.conditions)}
            try:
                answer = await self._api.patch(f"{target.collection}/{target.name}/status", body)
            except ApiError as error:
                if error.status != CONFLICT:
                    raise
                stored = None
            else:
                self._stored[target.uid] = _read_stored(answer)
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
        condition | {"lastTransitionTime": since or write_timestamp(clock.now())},
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
    conditions: Conditions = msgspec.to_builtins((status and status.conditions) or [])
    stated = [{name: value for name, value in c.items() if value is not None} for c in conditions]
    return _Stored(meta.uid or "", meta.resource_version or "", stated)
