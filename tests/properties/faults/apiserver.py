"""The API server as a client sees it: requests and watches in the protocol, over a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context

import orjson

from extender.clock import Clock
from extender.control.ports import NO_ANNOTATIONS, ApiError, PodKey, WatchedKind
from extender.kube.api import JsonObject, Query
from extender.objects.sources.coscheduling import COSCHEDULING_POD_GROUPS
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.evictions import evict
from muster_lab.simulation.objects import ROWS, ObjectChange, Stored, key_of
from tests.properties.faults.apiline import Line, Stream
from tests.properties.faults.process import ProcessLoop

#: Where collections are.
KINDS = {
    "/api/v1/nodes": WatchedKind.NODE,
    "/api/v1/pods": WatchedKind.POD,
    "/apis/scheduling.k8s.io/v1/priorityclasses": WatchedKind.PRIORITY_CLASS,
    "/apis/scheduling.x-k8s.io/v1alpha1/podgroups": COSCHEDULING_POD_GROUPS,
    "/api/v1/namespaces/muster-system/configmaps": WatchedKind.CALIBRATION,
    "/api/v1/namespaces": WatchedKind.NAMESPACE,
    "/apis/muster.dev/v1alpha1/queues": WatchedKind.QUEUE,
    "/apis/batch/v1/jobs": WatchedKind.JOB,
    "/apis/policy/v1/poddisruptionbudgets": WatchedKind.DISRUPTION_BUDGET,
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases": WatchedKind.LEASE,
    "/apis/resource.k8s.io/v1/deviceclasses": WatchedKind.DEVICE_CLASS,
    "/apis/resource.k8s.io/v1/resourceslices": WatchedKind.RESOURCE_SLICE,
    "/apis/resource.k8s.io/v1/resourceclaims": WatchedKind.RESOURCE_CLAIM,
    "/apis/resource.k8s.io/v1/resourceclaimtemplates": WatchedKind.RESOURCE_CLAIM_TEMPLATE,
}


class ApiServerFront:
    """Answer requests from a simulated cluster, and remember what happened for watches that resume.

    Attributes:
        streams: the watch connections that are open.
        told: takes in every Event, with the version at which it came.
    """

    def __init__(self, cluster: Cluster, loop: ProcessLoop, clock: Clock) -> None:
        """Follow `cluster`; `clock` tells when a pod was evicted."""
        self.cluster = cluster
        self.loop = loop
        self._clock = clock
        self.streams: dict[Stream, None] = {}
        self._log: dict[str, list[tuple[int, bytes]]] = {kind: [] for kind in ROWS}
        self._version = 0
        self._compacted = 0
        self._event_names: set[str] = set()
        self.told: Callable[[int, JsonObject], None] = lambda _version, _event: None
        cluster.audit(self._note)

    def compact(self) -> None:
        """Forget everything that has happened: who resumes from before this is told to list again."""
        self._compacted = self._version
        for log in self._log.values():
            log.clear()

    def replay(self, stream: Stream, events: int) -> None:
        """Send the last events of a watch once more, in their order: no watch tells of what was before it."""
        for version, line in self._log[stream.kind][-events:]:
            if version > stream.since:
                stream.send(line)

    def open(self, kind: str, query: Query, line: Line) -> Stream:
        """Open a watch from where `query` says."""
        stream = Stream(kind, line, self.loop, int(query.get("resourceVersion", self._version)))
        self.streams[stream] = None
        if "resourceVersion" not in query:
            for stored in self.cluster.list(kind):
                stream.send(_watch_line("ADDED", stored.body))
            stream.send(_bookmark(self._version))
        elif int(query["resourceVersion"]) < self._compacted:
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            stream.send(_watch_line("ERROR", orjson.dumps(status)))
        else:
            since = int(query["resourceVersion"])
            for version, data in self._log[kind]:
                if version > since:
                    stream.send(data)
        self.loop.call_later(float(query["timeoutSeconds"]), stream.end, context=Context())
        return stream

    def close(self, stream: Stream) -> None:
        """Forget a watch that its client has left."""
        self.streams.pop(stream, None)

    def get(self, path: str, query: Query) -> bytes:
        """Read a pod, the list of PodGroups or Queues of one name, or how far the server has come."""
        if query.get("limit") == "1":
            return b'{"metadata":{"resourceVersion":"%d"},"items":[]}' % self._version
        kind, namespace, name = _locate(path)
        if name:
            return self._find(kind, namespace, name).body
        wanted = query["fieldSelector"].removeprefix("metadata.name=")
        found = self.cluster.find(kind, namespace, wanted)
        items = b"" if found is None else found.body
        return b'{"metadata":{"resourceVersion":"%d"},"items":[%s]}' % (self._version, items)

    def post(self, path: str, body: JsonObject) -> bytes:
        """Create a Binding, an Eviction or an Event."""
        if path.endswith("/binding"):
            _, namespace, name = _locate(path.removesuffix("/binding"))
            bound = self._find(WatchedKind.POD, namespace, name).pod.node_name
            if bound:
                raise ApiError(409, "Conflict", f'pod {name} is already assigned to node "{bound}"')
            metadata = body["metadata"]
            annotations = metadata.get("annotations", NO_ANNOTATIONS)
            self.cluster.bind(namespace, name, body["target"]["name"], metadata.get("uid"), annotations)
            return b"{}"
        if path.endswith("/eviction"):
            _, namespace, name = _locate(path.removesuffix("/eviction"))
            options = body["deleteOptions"]
            dry_run = options.get("dryRun") == ["All"]
            evict(self.cluster, self._clock, PodKey(namespace, name, options["preconditions"]["uid"]), dry_run=dry_run)
            return b"{}"
        if body["metadata"]["name"] in self._event_names:
            raise ApiError(409, "AlreadyExists", "the Event exists")
        self._event_names.add(body["metadata"]["name"])
        self.told(self._version, body)
        return b"{}"

    def patch(self, path: str, body: JsonObject) -> bytes:
        """Merge into a status, take a gate off a pod, suspend or resume a Job, or count an Event."""
        if "/events/" in path:
            if path.rpartition("/")[2] not in self._event_names:
                raise ApiError(404, "NotFound", "the Event is gone")
            return b"{}"
        kind, namespace, name = _locate(path.removesuffix("/status"))
        before = self._find(kind, namespace, name)
        if kind is WatchedKind.POD and not path.endswith("/status"):
            return self._ungate(before, body).body
        if kind is WatchedKind.JOB:
            return self._suspend(before, body).body
        if kind is WatchedKind.POD:
            _check_nomination(before, body)
        elif body["metadata"]["resourceVersion"] != before.json["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified")

        def merge(json: JsonObject) -> None:
            status = json.setdefault("status", {})
            for key, value in body["status"].items():
                if value is None:
                    status.pop(key, None)
                else:
                    status[key] = value

        return self.cluster.update(kind, (namespace, name), merge).body

    def _ungate(self, pod: Stored, body: JsonObject) -> Stored:
        """Take the gates off a pod that a strategic merge patch deletes."""
        _check_uid(pod, body)
        gone = {gate["name"] for gate in body["spec"]["schedulingGates"] if gate["$patch"] == "delete"}

        def merge(json: JsonObject) -> None:
            gates = json["spec"].get("schedulingGates", [])
            json["spec"]["schedulingGates"] = [gate for gate in gates if gate["name"] not in gone]

        return self.cluster.update(WatchedKind.POD, (pod.key.namespace, pod.key.name), merge)

    def _suspend(self, job: Stored, body: JsonObject) -> Stored:
        """Suspend a Job, or resume it with the place that is kept for its pods."""
        meta = body["metadata"]
        version = job.json["metadata"]["resourceVersion"]
        if meta["uid"] != job.uid or meta.get("resourceVersion", version) != version:
            raise ApiError(409, "Conflict", "the object has been modified")

        def merge(json: JsonObject) -> None:
            annotations = json["metadata"].get("annotations", {}) | meta["annotations"]
            json["metadata"]["annotations"] = {key: value for key, value in annotations.items() if value is not None}
            json["spec"]["suspend"] = body["spec"]["suspend"]

        return self.cluster.update(WatchedKind.JOB, (job.key.namespace, job.key.name), merge)

    def _find(self, kind: str, namespace: str, name: str) -> Stored:
        return self.cluster.get(kind, namespace, name)

    def _note(self, change: ObjectChange) -> None:
        """Remember a change, and send it to whoever watches."""
        self._version = change.version
        newest = change.object
        body = newest.body
        if change.after is None:
            json = orjson.loads(body)
            json["metadata"]["resourceVersion"] = str(change.version)
            body = orjson.dumps(json)
        kind = newest.key.kind
        data = _watch_line(change.type.value, body)
        self._log[kind].append((change.version, data))
        for stream in self.streams:
            if stream.kind is kind and not stream.ended:
                stream.send(data)


def _check_nomination(pod: Stored, body: JsonObject) -> None:
    """Refuse what the API server refuses of a status patch."""
    _check_uid(pod, body)
    node = body["status"]["nominatedNodeName"]
    if pod.pod.node_name and node and node != pod.json["status"].get("nominatedNodeName"):
        raise ApiError(422, "Invalid", "status.nominatedNodeName: Forbidden: may not be set once the pod is bound")


def _check_uid(pod: Stored, body: JsonObject) -> None:
    if body["metadata"].get("uid", pod.uid) != pod.uid:
        raise ApiError(422, "Invalid", "metadata.uid: Invalid value: field is immutable")


def _locate(path: str) -> tuple[str, str, str]:
    """Return kind, namespace and name (empty for a collection) of a path of pods, PodGroups or Queues."""
    prefix, _, rest = path.partition("/namespaces/")
    if rest:
        namespace, _, rest = rest.partition("/")
        resource, _, name = rest.partition("/")
        kind = KINDS[f"{prefix}/{resource}"]
    else:
        namespace, (prefix, slash, name) = "", path.partition("/queues")
        kind, name = KINDS[prefix + slash], name.removeprefix("/")
    return kind, key_of(kind, namespace, name).namespace, name


def _watch_line(event: str, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (event.encode(), body)


def _bookmark(version: int) -> bytes:
    meta = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
    return _watch_line("BOOKMARK", orjson.dumps({"metadata": meta}))
