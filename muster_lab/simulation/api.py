"""The API server as Muster writes to it, and as its watches deliver it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import reduce
from typing import Any, cast

from extender.clock import Clock
from extender.control.ports import NO_ANNOTATIONS, ApiError, BudgetError, ClusterEvent, EventSink, PodKey, WatchedKind
from extender.control.watched import REQUIRED_KINDS, Known
from extender.explain.views import GroupStatus, QueueReport
from extender.kube.noderequests import NodeRequestWriter
from extender.kube.writer import EVICTION_PLANNED_CONDITION
from extender.ledger.effects import NodeAsk
from extender.objects.jobsigns import EVICTION_PLANNED
from extender.objects.keys import PLACE
from extender.objects.meta import Identity, ObjectRef
from extender.objects.noderequest import NodeRequest
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING_POD_GROUPS
from extender.objects.workload import Suspendable
from muster_lab.simulation.cluster import Cluster, has_condition, set_condition
from muster_lab.simulation.evictions import evict
from muster_lab.simulation.objects import ROWS, Json, ObjectChange, kind_of

#: What the API server says of a pod that is gone, and of another one; how every refusal of a budget is told.
_NOT_FOUND, _CONFLICT, _TOO_MANY_REQUESTS = 404, 409, 429


class SimulatedApi:
    """Make Muster's writes to a simulated cluster. Implements `extender.control.ports.ClusterApi`.

    Each write takes `latency` seconds, and at least a turn of the loop: nothing is written before the caller waits.
    """

    def __init__(self, cluster: Cluster, clock: Clock, latency: float = 0.0) -> None:
        self._cluster = cluster
        self._clock = clock
        self._latency = latency
        self._node_requests = NodeRequestWriter(cast("Any", _ObjectPaths(cluster)))  # of an API server it asks no more

    async def nominate(self, pod: PodKey, node: str) -> None:
        """Set a pod's nominated node, or clear it with an empty one; raise ApiError 404 or 409 for another pod."""
        await asyncio.sleep(self._latency)

        def patch(json: Json) -> None:
            if node:
                json["status"]["nominatedNodeName"] = node
            else:
                json["status"].pop("nominatedNodeName", None)

        self._cluster.update(WatchedKind.POD, (pod.namespace, pod.name), patch, pod.uid)

    async def bind(self, pod: PodKey, node: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> None:
        """Bind a pod, and annotate it; raise ApiError 404 or 409 if it is another pod, or on another node."""
        await asyncio.sleep(self._latency)
        self._cluster.bind(pod.namespace, pod.name, node, pod.uid, annotations)

    async def evict(self, pod: PodKey, *, dry_run: bool = False) -> None:
        """Evict a pod; that it is gone or another one now is success. Raises BudgetError where a budget forbids it."""
        await asyncio.sleep(self._latency)
        try:
            evict(self._cluster, self._clock, pod, dry_run=dry_run)
        except BudgetError as error:
            raise BudgetError(_TOO_MANY_REQUESTS, error.reason, error.message, error.retry_after) from error
        except ApiError as error:
            if error.status not in {_NOT_FOUND, _CONFLICT}:
                raise

    async def ungate(self, pod: PodKey, gate: str) -> None:
        """Take one scheduling gate off a pod, if it is there; raise ApiError 404 or 409 for another pod."""
        await asyncio.sleep(self._latency)

        def patch(json: Json) -> None:
            gates = json["spec"].pop("schedulingGates", [])
            if left := [present for present in gates if present["name"] != gate]:
                json["spec"]["schedulingGates"] = left

        self._cluster.update(WatchedKind.POD, (pod.namespace, pod.name), patch, pod.uid)

    async def notify(self, pod: PodKey, planned: str, reason: str, message: str) -> None:
        """Write on a pod when it is planned to be evicted, or take that back; raise ApiError 404 or 409 as above."""
        await asyncio.sleep(self._latency)

        def patch(json: Json) -> None:
            annotations = json["metadata"].setdefault("annotations", {})
            annotations.pop(EVICTION_PLANNED, None)
            if planned:
                annotations[EVICTION_PLANNED] = planned
            status = "True" if planned else "False"
            condition = {"type": EVICTION_PLANNED_CONDITION, "status": status, "reason": reason, "message": message}
            set_condition(json, condition, self._clock)

        self._cluster.update(WatchedKind.POD, (pod.namespace, pod.name), patch, pod.uid)

    async def suspend(self, workload: Suspendable, place: str | None = None) -> None:
        """Suspend an object of any kind, or resume it; raise ApiError 404 or 409 for another one or version."""
        await asyncio.sleep(self._latency)
        about = workload.about

        def patch(json: Json) -> None:
            version = json["metadata"].get("resourceVersion", "")
            if place is not None and str(version) != workload.version:
                raise ApiError(_CONFLICT, "Conflict", f"{about} has changed since")
            annotations = json["metadata"].setdefault("annotations", {})
            annotations.pop(PLACE, None)
            annotations |= {} if place is None else {PLACE: place}
            *outer, field = workload.field
            reduce(lambda part, key: part.setdefault(key, {}), outer, json)[field] = place is None

        self._cluster.update(kind_of(about), (about.namespace, about.name), patch, about.uid)

    async def request_nodes(self, ask: NodeAsk, owner: ObjectRef) -> None:
        """Create a ProvisioningRequest and its PodTemplates; that it is there is success."""
        await asyncio.sleep(self._latency)
        await self._node_requests.make(ask, owner)

    async def withdraw_nodes(self, request: NodeRequest) -> None:
        """Delete a ProvisioningRequest and its PodTemplates; that they are gone already is success."""
        await asyncio.sleep(self._latency)
        await self._node_requests.withdraw(request)

    async def annotate(self, pod: PodKey, annotations: Mapping[str, str]) -> None:
        """Put annotations onto a pod; raise ApiError 404 or 409 for another pod."""
        await asyncio.sleep(self._latency)

        def patch(json: Json) -> None:
            json["metadata"].setdefault("annotations", {}).update(annotations)

        self._cluster.update(WatchedKind.POD, (pod.namespace, pod.name), patch, pod.uid)

    async def update_queue_status(self, name: str, uid: str, report: QueueReport) -> None:
        """Write a Queue's status; raise ApiError 404 or 409 if it is another Queue."""
        await asyncio.sleep(self._latency)

        def patch(json: Json) -> None:
            told = {name: value for name, value in report.status_json().items() if value is not None}
            json.setdefault("status", {}).update(told)
            set_condition(json, report.condition_json(), self._clock)

        self._cluster.update(WatchedKind.QUEUE, ("", name), patch, uid)

    async def record_event(self, event: ClusterEvent) -> None:
        """Record an Event."""
        await asyncio.sleep(self._latency)
        self._cluster.record(event)

    async def update_group_status(self, group: GroupRef, uid: str, status: GroupStatus) -> None:
        """Write a PodGroup's status; raise ApiError 404 or 409 if it is another PodGroup."""
        await asyncio.sleep(self._latency)

        def patch(json: Json) -> None:
            json.setdefault("status", {}).update(
                phase=status.phase,
                scheduled=status.scheduled,
                running=status.running,
                succeeded=status.succeeded,
                failed=status.failed,
            )
            condition = {
                "type": "Scheduled",
                "status": status.condition_status,
                "reason": status.reason,
                "message": status.message,
                "observedGeneration": status.observed_generation,
            }
            set_condition(json, condition, self._clock)
            preempted = _preempted(json, status)
            if preempted is not None:
                generation = {"observedGeneration": status.observed_generation}
                set_condition(json, preempted | generation, self._clock)

        self._cluster.update(COSCHEDULING_POD_GROUPS, (group.namespace, group.name), patch, uid)


class _ObjectPaths:
    """Objects of a cluster by their paths on the API server."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def get(self, path: str, _query: object) -> bytes:
        return self._cluster.get(*_read_path(path)).body

    async def post(self, path: str, body: Json) -> bytes:
        return self._cluster.create(_read_path(path)[0], body).body

    async def delete(self, path: str, body: Json) -> bytes:
        self._cluster.delete(*_read_path(path), body.get("preconditions", {}).get("uid"))
        return b""


def _read_path(path: str) -> tuple[str, str, str]:
    """Return kind, namespace and name of what a path leads to; the name is empty for a collection."""
    api, _, rest = path.partition("/namespaces/")
    namespace, collection, name = (*rest.split("/"), "")[:3]
    return next(kind for kind, row in ROWS.items() if f"{api}/{collection}" in row.paths), namespace, name


def _preempted(json: Json, status: GroupStatus) -> Json | None:
    """Return the condition that says of a gang that it was evicted, or is back; None where it stays as it is."""
    if status.preempted:
        return {"type": "Preempted", "status": "True", "reason": "Preempted", "message": status.preempted}
    was = {"type": "Preempted", "status": "True"}
    if status.condition_status == "True" and has_condition(json, was):
        return {"type": "Preempted", "status": "False", "reason": status.reason, "message": status.message}
    return None


#: How often the API server sends a bookmark on a silent watch. Source: bookmarkFrequency of apiserver's cacher.
BOOKMARK_SECONDS = 60.0


class SimulatedFeed:
    """Tell a sink of every change, as domain values, and that its watches are alive.

    Attributes:
        synced: set once everything there was has been delivered.
    """

    def __init__(self, cluster: Cluster, sink: EventSink, latency: float = 0.0) -> None:
        self._cluster = cluster
        self._sink = sink
        self._latency = latency
        self._known = Known()
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """Deliver all there is, report every kind as synced, then deliver until cancelled."""
        self._cluster.watch(self._deliver, self._latency)
        await asyncio.sleep(self._latency)
        for kind in (*REQUIRED_KINDS, WatchedKind.PROVISIONING_REQUEST):
            self._sink.synced(kind)
        self.synced.set()
        while True:
            await asyncio.sleep(BOOKMARK_SECONDS / 2)
            for kind in REQUIRED_KINDS:
                self._sink.heard(kind)

    def _deliver(self, change: ObjectChange) -> None:
        """Tell of one change."""
        version, row = change.object, ROWS[change.object.key.kind]
        if change.after is None:
            who = Identity(version.key.namespace, version.key.name, version.uid)
            events = row.gone(who, self._known)
        else:
            events = row.seen(version.item, self._known)
        for event in events:
            self._sink.tell(event)
        self._sink.heard(version.key.kind)
