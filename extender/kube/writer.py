"""The writes that Muster makes, as requests. Repeated Events are counted instead of repeated."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from extender.caches import SizedDict, size_of
from extender.clock import Clock
from extender.control.ports import NO_ANNOTATIONS, ApiError, BudgetError, ClusterEvent, PodKey
from extender.explain.views import GroupStatus, QueueReport
from extender.kube.api import CONFLICT, NOT_FOUND, ApiServer, JsonObject, PatchForm
from extender.kube.noderequests import NodeRequestWriter
from extender.kube.status import LONGEST_MESSAGE, GroupStatusWriter, QueueStatusWriter
from extender.ledger.effects import NodeAsk
from extender.objects.jobsigns import EVICTION_PLANNED
from extender.objects.keys import PLACE
from extender.objects.meta import DecodeError, ObjectRef, decode_metadata, write_timestamp
from extender.objects.noderequest import NodeRequest
from extender.objects.podgroup import GroupRef
from extender.objects.podspec import decode_pod
from extender.objects.workload import Suspendable

#: Who Events come from. Source for the form: k8s.io/api/events/v1 Event.reportingController, a qualified name.
REPORTING_CONTROLLER = "muster.dev/muster"

#: The condition of a pod that is planned to be evicted.
EVICTION_PLANNED_CONDITION = "muster.dev/EvictionPlanned"

#: Limits of the Events API, in bytes. Source: k8s.io/kubernetes/pkg/apis/core/validation/events.go.
_NOTE_BYTES = 1024
_REPORTING_INSTANCE_BYTES = 128
#: Longest object name, a DNS subdomain (RFC 1123).
_NAME_LENGTH = 253

#: What no name of an object has: an owner may be called anything, since the API server does not look for it.
_NO_NAME = re.compile(r"[^-a-z0-9.]")

#: What Events may take whose name is remembered so that repetitions are counted (bytes): some 4,000. One whose name is
#: forgotten is written again.
_SERIES_BYTES = 8 << 20


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
        self._api = api
        self._clock = clock
        self._instance = instance.encode()[:_REPORTING_INSTANCE_BYTES].decode(errors="ignore")
        self._series: SizedDict[ClusterEvent, _Series] = SizedDict(_SERIES_BYTES)

    async def record(self, event: ClusterEvent) -> None:
        """Write an Event; after a failure the same call continues with the same Event."""
        series = self._series.get(event)
        if series is not None and series.count and await self._count(event, series):
            return
        if series is None or series.count:  # never written, or forgotten by the server as it does after an hour
            series = self._series.keep(event, self._begin(event), 1000 + size_of(event))
        try:
            await self._api.post(_event_path(event), self._body(event, series))
        except ApiError as error:
            if error.status != CONFLICT:  # an attempt before this one arrived, though its answer did not
                raise
        series.count = 1

    async def _count(self, event: ClusterEvent, series: _Series) -> bool:
        """Raise the count of an Event; return whether it still exists."""
        count = series.count + 1
        body = {"series": {"count": count, "lastObservedTime": _time(self._clock.now())}}
        try:
            await self._api.patch(f"{_event_path(event)}/{series.name}", body)
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
        stem = _NO_NAME.sub("-", about.name.lower()[: _NAME_LENGTH - 1 - len(digest)])
        labels = (label.strip("-") for label in stem.split("."))
        return _Series(".".join((*filter(None, labels), digest)), began)

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


def _event_path(event: ClusterEvent) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{_namespace(event)}/events"


def _time(moment: dt.datetime) -> str:
    """Render as metav1.MicroTime."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_INVALID, _TOO_MANY_REQUESTS, _INTERNAL_ERROR, _SERVICE_UNAVAILABLE = 422, 429, 500, 503

#: How the API server says that it evicts no pod with two budgets, which to it is an internal error, whatever they say.
#: Source: k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go, release 1.37.
_TWO_BUDGETS = "more than one PodDisruptionBudget"

#: What the API server finds invalid about a nomination that comes too late: it takes the UID of another pod of that
#: name for an attempt to change it, and refuses to nominate a node for a pod that is bound.
_OUTDATED = ("metadata.uid: Invalid value", "status.nominatedNodeName: Forbidden")


class KubeClusterApi:
    """Write to the API server; implements `extender.control.ports.ClusterApi`.

    Args:
        api: the connection.
        clock: tells when an Event happened and a condition changed.
        instance: which Muster this is, for Events; the pod's name, say.
    """

    def __init__(self, api: ApiServer, clock: Clock, instance: str) -> None:
        self._api = api
        self._clock = clock
        self._events = EventRecorder(api, clock, instance)
        self._group_statuses = GroupStatusWriter(api, clock)
        self._queue_statuses = QueueStatusWriter(api, clock)
        self._node_requests = NodeRequestWriter(api)

    async def nominate(self, pod: PodKey, node: str) -> None:
        body = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node or None}}
        with _in_time("the nomination is outdated"):
            await self._api.patch(f"{_path(pod)}/status", body)

    async def bind(self, pod: PodKey, node: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> None:
        """Create the pod's Binding; that the pod is on that node already is success.

        The API server copies the annotations of a Binding to the pod in the write that gives it its node. Source:
        k8s.io/kubernetes pkg/registry/core/pod/storage, setPodNodeAndMetadata, release 1.37.
        """
        metadata: JsonObject = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        if annotations:
            metadata["annotations"] = dict(annotations)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._api.post(f"{_path(pod)}/binding", body)
        except ApiError as error:
            if error.status != CONFLICT or not await self._is_on(pod, node):
                raise

    async def evict(self, pod: PodKey, *, dry_run: bool = False) -> None:
        """Ask that the pod be evicted, or only whether it could be; that it is gone already is success.

        It is looked for first, since the API server takes ten seconds to say that the UID is another one: to it that is
        one more conflict with another client's change. Source: EvictionsRetry in k8s.io/kubernetes
        pkg/registry/core/pod/storage/eviction.go, release 1.37.
        """
        if await self._is_gone(pod):
            return
        options: JsonObject = {"preconditions": {"uid": pod.uid}}
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": pod.namespace, "name": pod.name},
            "deleteOptions": options,
        }
        try:
            await self._api.post(f"{_path(pod)}/eviction", body)
        except ApiError as error:
            if error.status == NOT_FOUND or (error.status == CONFLICT and await self._is_gone(pod)):
                return
            if error.status == CONFLICT:  # the pod or its budget has just changed, which says nothing about later
                raise ApiError(_SERVICE_UNAVAILABLE, error.reason, error.message) from error
            if _forbids(error):
                raise BudgetError(_TOO_MANY_REQUESTS, error.reason, error.message, error.retry_after) from error
            raise

    async def ungate(self, pod: PodKey, gate: str) -> None:
        """Take one scheduling gate off the pod, whatever others do to its gates; that it is not there is success."""
        gates = [{"$patch": "delete", "name": gate}]
        body = {"metadata": {"uid": pod.uid}, "spec": {"schedulingGates": gates}}
        with _in_time("the pod is another one now"):
            await self._api.patch(_path(pod), body, PatchForm.STRATEGIC)

    async def notify(self, pod: PodKey, planned: str, reason: str, message: str) -> None:
        """Write annotation and condition in one request: pods/status takes both, and keeps all other conditions.

        Source: k8s.io/kubernetes pkg/registry/core/pod/strategy.go, podStatusStrategy.PrepareForUpdate, release 1.37.
        """
        condition = {
            "type": EVICTION_PLANNED_CONDITION,
            "status": "True" if planned else "False",
            "reason": reason,
            "message": message[:LONGEST_MESSAGE],
            "lastTransitionTime": write_timestamp(self._clock.now()),
        }
        metadata = {"uid": pod.uid, "annotations": {EVICTION_PLANNED: planned or None}}
        body: JsonObject = {"metadata": metadata, "status": {"conditions": [condition]}}
        with _in_time("the pod is another one now"):
            await self._api.patch(f"{_path(pod)}/status", body, PatchForm.STRATEGIC)

    async def suspend(self, workload: Suspendable, place: str | None = None) -> None:
        """Suspend an object, or resume it in the version that was decided on, where its pods have a `place`."""
        about = workload.about
        path = f"/apis/{about.api_version}/namespaces/{about.namespace}/{workload.resource}/{about.name}"
        meta: JsonObject = {"uid": about.uid, "annotations": {PLACE: place}}
        if place is not None:
            meta["resourceVersion"] = workload.version
        with _in_time(f"{about} is another one now"):
            await self._api.patch(path, {"metadata": meta} | _nested(workload.field, place is None))

    async def request_nodes(self, ask: NodeAsk, owner: ObjectRef) -> None:
        await self._node_requests.make(ask, owner)

    async def withdraw_nodes(self, request: NodeRequest) -> None:
        await self._node_requests.withdraw(request)

    async def annotate(self, pod: PodKey, annotations: Mapping[str, str]) -> None:
        """Put annotations onto a pod, whatever others do to its annotations."""
        with _in_time("the pod is another one now"):
            await self._api.patch(_path(pod), {"metadata": {"uid": pod.uid, "annotations": dict(annotations)}})

    async def record_event(self, event: ClusterEvent) -> None:
        await self._events.record(event)

    async def update_group_status(self, group: GroupRef, uid: str, status: GroupStatus) -> None:
        await self._group_statuses.write(group, uid, status)

    async def update_queue_status(self, name: str, uid: str, report: QueueReport) -> None:
        await self._queue_statuses.write(name, uid, report)

    async def _is_gone(self, pod: PodKey) -> bool:
        """Ask whether the pod is there no more, or another one: a conflict can mean that, or that something changed."""
        try:
            found = decode_metadata(await self._api.get(_path(pod), {}))
        except DecodeError:
            return False
        except ApiError as error:
            if error.status == NOT_FOUND:
                return True
            raise
        return found.metadata is not None and found.metadata.uid != pod.uid

    async def _is_on(self, pod: PodKey, node: str) -> bool:
        """Ask where the pod is: a conflict can mean that it is bound, another one now, gated, or being deleted."""
        try:
            found = decode_pod(await self._api.get(_path(pod), {}))
        except DecodeError:
            return False
        uid = found.metadata.uid if found.metadata else None
        return uid == pod.uid and found.spec is not None and found.spec.node_name == node


@contextlib.contextmanager
def _in_time(else_said: str) -> Iterator[None]:
    """Make a conflict, which `else_said` tells of, of the refusal of a write that comes too late."""
    try:
        yield
    except ApiError as error:
        if _comes_too_late(error):
            raise ApiError(CONFLICT, "Conflict", f"{else_said}: {error.message}") from error
        raise


def _comes_too_late(error: ApiError) -> bool:
    """Tell whether the pod is not what it was when the write was decided, which the API server only calls invalid."""
    return error.status == _INVALID and any(field in error.message for field in _OUTDATED)


def _forbids(error: ApiError) -> bool:
    """Tell whether an eviction is refused for the sake of a budget."""
    return isinstance(error, BudgetError) or (error.status == _INTERNAL_ERROR and _TWO_BUDGETS in error.message)


def _nested(field: Sequence[str], value: object) -> JsonObject:
    """Return an object whose field at that path has a value."""
    first, *rest = field
    return {first: _nested(rest, value) if rest else value}


def _path(pod: PodKey) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
