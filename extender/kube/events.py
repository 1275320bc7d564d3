"""Events: what people read in `kubectl describe`, with repetitions counted instead of repeated."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from hashlib import blake2b

from cachetools import LRUCache

from extender.clock import Clock
from extender.control.ports import ApiError, ClusterEvent
from extender.kube.api import CONFLICT, NOT_FOUND, ApiServer, JsonObject

#: Who Events come from. Source for the form: k8s.io/api/events/v1 Event.reportingController, a qualified name.
REPORTING_CONTROLLER = "muster.dev/muster"

#: Limits of the Events API, in bytes. Source: k8s.io/kubernetes/pkg/apis/core/validation/events.go.
_NOTE_BYTES = 1024
_REPORTING_INSTANCE_BYTES = 128
#: Longest object name, a DNS subdomain (RFC 1123).
_NAME_LENGTH = 253

#: Events whose name is remembered so that repetitions are counted. One that falls out is written anew.
_REMEMBERED = 4096


@dataclass(slots=True)
class _Series:
    """An Event and how often it was stored; 0 while the first attempt has not been answered."""

    name: str
    began: str
    count: int = 0


class EventRecorder:
    """Write Events, and raise the count of those written before.

    Args:
        api: the connection.
        clock: tells when an Event happened.
        instance: which Muster this is; the pod's name, say.
    """

    def __init__(self, api: ApiServer, clock: Clock, instance: str) -> None:
        """Remember nothing yet."""
        self._api = api
        self._clock = clock
        self._instance = instance.encode()[:_REPORTING_INSTANCE_BYTES].decode(errors="ignore")
        self._series: LRUCache[ClusterEvent, _Series] = LRUCache(_REMEMBERED)

    async def record(self, event: ClusterEvent) -> None:
        """Write an Event; after a failure the same call continues with the same Event."""
        series = self._series.get(event)
        if series is not None and series.count and await self._count(event, series):
            return
        if series is None or series.count:  # never written, or forgotten by the server as it does after an hour
            series = self._series[event] = self._begin(event)
        try:
            await self._api.post(_path(event), self._body(event, series))
        except ApiError as error:
            if error.status != CONFLICT:  # an attempt before this one arrived, though its answer did not
                raise
        series.count = 1

    async def _count(self, event: ClusterEvent, series: _Series) -> bool:
        """Raise the count of an Event; return whether it still exists."""
        count = series.count + 1
        body = {"series": {"count": count, "lastObservedTime": _time(self._clock.now())}}
        try:
            await self._api.patch(f"{_path(event)}/{series.name}", body)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            return False
        series.count = count
        return True

    def _begin(self, event: ClusterEvent) -> _Series:
        """Name an Event; the name is another one at another moment, and the same for another attempt."""
        began = _time(self._clock.now())
        about = event.about
        parts = (self._instance, about.kind, about.uid, event.reason, event.message, event.action, began)
        digest = blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
        stem = about.name[: _NAME_LENGTH - 1 - len(digest)].rstrip(".-")
        return _Series(f"{stem}.{digest}", began)

    def _body(self, event: ClusterEvent, series: _Series) -> JsonObject:
        about = event.about
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": _namespace(event), "name": series.name},
            "eventTime": series.began,
            "type": "Warning" if event.warning else "Normal",
            "reason": event.reason,
            "action": event.action,
            "note": event.message.encode()[:_NOTE_BYTES].decode(errors="ignore"),
            "regarding": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
            "reportingController": REPORTING_CONTROLLER,
            "reportingInstance": self._instance,
        }


def _namespace(event: ClusterEvent) -> str:
    return event.about.namespace or "default"  # where Events about objects without a namespace belong


def _path(event: ClusterEvent) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{_namespace(event)}/events"


def _time(moment: dt.datetime) -> str:
    """Render as metav1.MicroTime."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
