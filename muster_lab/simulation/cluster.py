"""The API server: objects in memory, refusals like the real one's, every change delivered to its watchers."""

from __future__ import annotations

import asyncio
import datetime as dt
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from typing import TypeAlias

import orjson

from extender.clock import Clock
from extender.control.ports import NO_ANNOTATIONS, ApiError, ClusterEvent, WatchedKind
from extender.objects.meta import write_timestamp
from muster_lab.simulation.objects import Json, Key, ObjectChange, Stored, key_of, stored


@dataclass(slots=True)
class RecordedEvent:
    """An Event and how often it was recorded, first and last."""

    event: ClusterEvent
    first: dt.datetime
    last: dt.datetime
    count: int = 1


class EventLog:
    """Keep Events in the order of their first occurrence; the oldest give way when there are too many."""

    #: Different Events kept; the API server forgets them after an hour.
    CAPACITY = 100_000

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: dict[ClusterEvent, RecordedEvent] = {}

    def __iter__(self) -> Iterator[RecordedEvent]:
        return iter(self._events.values())

    def __len__(self) -> int:
        return len(self._events)

    def record(self, event: ClusterEvent) -> None:
        """Add an Event, or count it once more."""
        now = self._clock.now()
        known = self._events.get(event)
        if known is None:
            self._events[event] = RecordedEvent(event, now, now)
            if len(self._events) > self.CAPACITY:
                del self._events[next(iter(self._events))]
        else:
            known.count += 1
            known.last = now

    def about(self, name: str, reason: str | None = None) -> list[RecordedEvent]:
        """Return the Events about objects called `name`, of one `reason` or all."""
        return [
            known
            for known in self._events.values()
            if known.event.about.name == name and reason in {None, known.event.reason}
        ]


Handler: TypeAlias = Callable[[ObjectChange], None]
"""Takes in one change."""


class Watch:
    """Deliver changes to one handler, in order, some time after they happened but never while they happen.

    They are delivered in the context (`contextvars`) of the watcher, not of the writer.
    """

    def __init__(self, handler: Handler, latency: float) -> None:
        """Deliver `latency` seconds after each change; zero is the loop's next turn."""
        self._handler = handler
        self._latency = latency
        self._context = copy_context()
        self._waiting: deque[tuple[float, ObjectChange]] = deque()
        self._armed = False

    def put(self, change: ObjectChange) -> None:
        """Add a change to what will be delivered."""
        loop = asyncio.get_running_loop()
        self._waiting.append((loop.time() + self._latency, change))
        self._arm(loop)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._armed or not self._waiting:
            return
        self._armed = True
        if self._latency > 0:
            loop.call_at(self._waiting[0][0], self._deliver, context=self._context)
        else:
            loop.call_soon(self._deliver, context=self._context)

    def _deliver(self) -> None:
        """Deliver all that is due; what the handler causes is due later."""
        self._armed = False
        loop = asyncio.get_running_loop()
        now = loop.time()
        for _ in range(len(self._waiting)):
            if self._waiting[0][0] > now:
                break
            self._handler(self._waiting.popleft()[1])
        self._arm(loop)


class Cluster:
    """Keep the objects and write to them. Writes are immediate; watchers learn of them on the loop's next turn.

    Attributes:
        events: the Events that were recorded.
        unreachable: nodes whose kubelets do not answer now: their pods do nothing, and do not end.
    """

    def __init__(self, clock: Clock) -> None:
        """Start empty; `clock` stamps what is created."""
        self._clock = clock
        self._objects: dict[Key, Stored] = {}
        self._context = copy_context()
        self._watches: list[Watch] = []
        self._audits: list[Handler] = []
        self._version = 0
        self._serial = 0
        self.events = EventLog(clock)
        self.unreachable: set[str] = set()

    def watch(self, handler: Handler, latency: float = 0.0) -> None:
        """Tell `handler` of every object there is and then of every change, `latency` seconds later."""
        watch = Watch(handler, latency)
        self._watches.append(watch)
        for version in self._objects.values():
            watch.put(ObjectChange(None, version, self._version))

    def audit(self, handler: Handler) -> None:
        """Tell `handler` of every change in the moment in which it is made; it must not write."""
        self._audits.append(handler)

    def find(self, kind: str, namespace: str, name: str) -> Stored | None:
        """Return an object, or None."""
        return self._objects.get(key_of(kind, namespace, name))

    def get(self, kind: str, namespace: str, name: str, uid: str | None = None) -> Stored:
        """Return an object; raise ApiError 404 if there is none, 409 if it is not the one with `uid`."""
        found = self.find(kind, namespace, name)
        if found is None:
            raise ApiError(404, "NotFound", f'{kind} "{name}" not found')
        if uid is not None and found.uid != uid:
            message = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found.uid}"
            raise ApiError(409, "Conflict", message)
        return found

    def list(self, kind: str) -> Iterator[Stored]:
        """Iterate over the objects of a kind, in order of creation."""
        return iter([version for key, version in self._objects.items() if key.kind is kind])

    def create(self, kind: str, json: Json, *, age: float = 0.0) -> Stored:
        """Add an object with the UID, time and defaults of an API server, as if it had been created `age` seconds ago.

        Raises ApiError 409 if the name is taken.
        """
        json = orjson.loads(orjson.dumps(json))
        metadata = json["metadata"]
        key = key_of(kind, metadata.setdefault("namespace", "default"), metadata["name"])
        if not key.namespace:
            del metadata["namespace"]
        if key in self._objects:
            raise ApiError(409, "AlreadyExists", f'{kind} "{key.name}" already exists')
        self._serial += 1
        metadata["uid"] = f"{self._serial:08x}-0000-4000-8000-{self._serial:012x}"
        metadata["creationTimestamp"] = write_timestamp(self._clock.now() - dt.timedelta(seconds=age))
        metadata["generation"] = 1
        if kind is WatchedKind.POD:
            self._admit(json)
        return self._put(None, kind, json)

    def update(self, kind: str, key: tuple[str, str], mutate: Callable[[Json], None], uid: str | None = None) -> Stored:
        """Let `mutate` change a copy of the object called `key` (namespace, name), and write it if that changed it.

        Raises ApiError as `get` does.
        """
        before = self.get(kind, *key, uid)
        json = orjson.loads(before.body)
        mutate(json)
        return before if json == before.json else self._put(before, kind, json)

    def delete(
        self, kind: str, namespace: str, name: str, uid: str | None = None, *, left: float | None = None
    ) -> None:
        """Delete an object: at once, or for a pod on a node with a grace period once that is over.

        With `left` the deletion began earlier, and so many seconds of the grace period are left. Raises ApiError as
        `get` does.
        """
        found = self.get(kind, namespace, name, uid)
        stated = found.json.get("spec", {}).get("terminationGracePeriodSeconds", 0)
        left = stated if left is None else left
        if kind is not WatchedKind.POD or not found.pod.bound or not left:
            self._remove(found.key)
            return
        if found.pod.deleting:
            return
        end, grace = self._clock.now() + dt.timedelta(seconds=left), max(stated, math.ceil(left))

        def mark(json: Json) -> None:
            json["metadata"]["deletionTimestamp"] = write_timestamp(end)
            json["metadata"]["deletionGracePeriodSeconds"] = grace

        self.update(kind, (namespace, name), mark)
        asyncio.get_running_loop().call_later(left, self._reap, found.key, found.uid, context=self._context)

    def bind(
        self,
        namespace: str,
        name: str,
        node: str,
        uid: str | None = None,
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
    ) -> Stored:
        """Put a pod on a node, as its Binding does, annotations included; a pod that is there already stays as it is.

        Raises ApiError 404 for no such pod, 409 for another UID, another node, a pod being deleted or gated.
        """
        pod = self.get(WatchedKind.POD, namespace, name, uid).pod
        refusal = ""
        if pod.node_name == node:
            return self.get(WatchedKind.POD, namespace, name)
        if pod.deleting:
            refusal = f"pod {name} is being deleted, cannot be assigned to a host"
        elif pod.node_name:
            refusal = f'pod {name} is already assigned to node "{pod.node_name}"'
        elif pod.gated:
            refusal = f"pod {name} has non-empty .spec.schedulingGates"
        if refusal:
            raise ApiError(409, "Conflict", f'Operation cannot be fulfilled on pods/binding "{name}": {refusal}')

        def assign(json: Json) -> None:
            json["spec"]["nodeName"] = node
            if annotations:
                json["metadata"]["annotations"] = {**(json["metadata"].get("annotations") or {}), **annotations}
            status = json.setdefault("status", {})
            status.pop("nominatedNodeName", None)  # feature gate ClearingNominatedNodeNameAfterBinding, on since 1.35
            set_condition(json, {"type": "PodScheduled", "status": "True"}, self._clock)

        return self.update(WatchedKind.POD, (namespace, name), assign)

    def record(self, event: ClusterEvent) -> None:
        """Write an Event, or count it if an equal one was written before."""
        self.events.record(event)

    def _admit(self, json: Json) -> None:
        """Do what admission does to a new pod: its priority, and what is said of scheduling gates."""
        spec = json["spec"]
        classes = [version.json for version in self.list(WatchedKind.PRIORITY_CLASS)]
        if "priority" not in spec:
            name = spec.get("priorityClassName")
            chosen = [c for c in classes if (c["metadata"]["name"] == name if name else c.get("globalDefault"))]
            spec["priority"] = max((c["value"] for c in chosen), default=0)
        status = json.setdefault("status", {})
        status.setdefault("phase", "Pending")
        if spec.get("schedulingGates"):
            gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
            set_condition(json, gated, self._clock)

    def regain(self, node: str) -> None:
        """Have a node's kubelet answer again: it ends the pods there that are being deleted, in their grace periods."""
        self.unreachable.discard(node)
        for version in self.list(WatchedKind.POD):
            if version.pod.deleting and version.pod.node_name == node:
                grace = version.json["metadata"]["deletionGracePeriodSeconds"]
                loop = asyncio.get_running_loop()
                loop.call_later(grace, self._reap, version.key, version.uid, context=self._context)

    def _reap(self, key: Key, uid: str) -> None:
        """Remove a pod whose grace period is over, if it is still the one and its kubelet can end it."""
        found = self._objects.get(key)
        if found is not None and found.uid == uid and found.pod.node_name not in self.unreachable:
            self._remove(key)

    def _put(self, before: Stored | None, kind: str, json: Json) -> Stored:
        self._version += 1
        json["metadata"]["resourceVersion"] = str(self._version)
        after = stored(kind, json)
        self._objects[after.key] = after
        self._tell(ObjectChange(before, after, self._version))
        return after

    def _remove(self, key: Key) -> None:
        self._version += 1
        self._tell(ObjectChange(self._objects.pop(key), None, self._version))

    def _tell(self, change: ObjectChange) -> None:
        for audit in self._audits:
            audit(change)
        for watch in self._watches:
            watch.put(change)


def set_condition(json: Json, condition: Json, clock: Clock) -> None:
    """Set one of an object's status conditions; its transition time changes only with its status."""
    conditions = json.setdefault("status", {}).setdefault("conditions", [])
    for present in conditions:
        if present["type"] == condition["type"]:
            if present["status"] != condition["status"]:
                present["lastTransitionTime"] = write_timestamp(clock.now())
            kept = {key: present[key] for key in ("type", "lastTransitionTime")}
            present.clear()
            present.update(kept | condition)
            return
    conditions.append({"lastTransitionTime": write_timestamp(clock.now())} | condition)


def has_condition(json: Json, condition: Json) -> bool:
    """Tell whether an object has a status condition that says all that `condition` says."""
    return any(condition.items() <= present.items() for present in json.get("status", {}).get("conditions", ()))
