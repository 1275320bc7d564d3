"""What the judge is shown: every change of the API server's objects, bind calls, deaths, quiet, and what was late."""

from __future__ import annotations

import asyncio
import heapq
import math
from dataclasses import dataclass, field

from extender.control.ports import WatchedKind
from extender.objects.sources.coscheduling import COSCHEDULING_POD_GROUPS
from localcluster.watching import Change
from muster_lab.simulation.cluster import Cluster, has_condition
from muster_lab.simulation.objects import ObjectChange, Stored
from muster_lab.simulation.scheduler.extender import TIMEOUT_SECONDS
from tests import judge
from tests.controlplane.holding import Holding, allocations

#: How long Muster retries a Binding, http_timeout_seconds less bind_hold_seconds, and how long it counts a member as
#: arrived whose held call was answered in vain (seconds).
_BINDING_RETRIES, _ON_THE_WAY_BACK = 10.0, 15.0
_JUDGED = frozenset({WatchedKind.POD, WatchedKind.NODE, COSCHEDULING_POD_GROUPS, WatchedKind.JOB, WatchedKind.QUEUE})
_EVICTED = {"type": "DisruptionTarget", "reason": "EvictionByEvictionAPI"}


@dataclass(slots=True)
class _Call:
    """A bind call to the Muster of a host, and when it was answered (seconds)."""

    host: str
    at: float
    uid: str
    node: str
    until: float = math.inf


@dataclass(slots=True)
class Record:
    """Follow a cluster, and what is done to it.

    `news` and `writes` are by how much injected faults may have delayed news to Muster, and its writes (seconds each).
    """

    loop: asyncio.AbstractEventLoop
    cluster: Cluster
    news: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    quiet_at: float | None = None
    _changes: list[tuple[float, ObjectChange]] = field(default_factory=list)
    _calls: list[_Call] = field(default_factory=list)
    _deaths: list[float] = field(default_factory=list)
    _events: list[judge.Change] = field(default_factory=list)
    _hindrances: list[tuple[float, float]] = field(default_factory=list)
    _obstructed_at: float | None = None

    def __post_init__(self) -> None:
        """Begin."""
        self.cluster.audit(self._note)

    @property
    def bindings(self) -> int:
        """Count the pods that were put on a node after they had been created."""
        pods = (c for _, c in self._changes if c.object.key.kind is WatchedKind.POD and c.before is not None)
        return sum(bool(c.object.pod.node_name) and not c.before.pod.node_name for c in pods if c.before is not None)

    def _note(self, change: ObjectChange) -> None:
        self._changes.append((self.loop.time(), change))

    @property
    def evictions(self) -> int:
        """Count the pods that were evicted through the Eviction API."""
        marks = (c for _, c in self._changes if c.after is not None and c.before is not None)
        pods = (c for c in marks if c.object.key.kind is WatchedKind.POD)
        return sum(_is_evicted(c.after) and not _is_evicted(c.before) for c in pods)

    def told(self, version: int, event: judge.Json) -> None:
        """Note an Event that was recorded."""
        self._events.append(judge.Change(self.loop.time(), version, "ADDED", event))

    def refused(self, _name: str) -> None:
        """Note that the API server did not do, or did not say that it did, what was asked for: an eviction."""
        self._hindrances.append((self.loop.time(), self.loop.time()))

    def hung(self) -> None:
        """Note that kube-scheduler waits for an answer that never comes."""
        self._hindrances.append((self.loop.time(), self.loop.time() + TIMEOUT_SECONDS))

    def obstructed(self, *, none: bool = False) -> None:
        """Note that kube-scheduler has reasons of its own against a node from now on, or `none` any more."""
        if not none:
            self._obstructed_at = self.loop.time() if self._obstructed_at is None else self._obstructed_at
        elif self._obstructed_at is not None:
            self._hindrances.append((self._obstructed_at, self.loop.time()))
            self._obstructed_at = None

    def arrived(self, host: str, uid: str, node: str) -> _Call:
        """Note that a bind call has reached Muster; return it, to be told when it is answered."""
        call = _Call(host, self.loop.time(), uid, node)
        self._calls.append(call)
        return call

    def answered(self, call: _Call) -> None:
        """Note that a bind call was answered."""
        call.until = self.loop.time()

    def died(self, host: str) -> None:
        """Note that the Muster of a host was killed; it holds no call any more."""
        self._deaths.append(self.loop.time())
        for call in self._calls:
            if call.host == host:
                call.until = min(call.until, self.loop.time())

    def took_over(self) -> None:
        """Note that another Muster leads, which begins with what the cluster says, as one that was started again."""
        self._deaths.append(self.loop.time())

    def calm(self) -> None:
        """Note that from now on nothing goes wrong, and there is room for everybody."""
        self.obstructed(none=True)
        self.quiet_at = self.loop.time()

    def history(self) -> judge.History:
        """Return what the judge reads."""
        return judge.History(
            changes=[
                judge.Change(at, change.version, change.type.value, change.object.json)
                for at, change in self._changes
                if change.object.key.kind in _JUDGED
            ]
            + self._events,
            end=self.loop.time(),
            arrivals=[judge.Arrival(call.at, call.uid, call.node, call.until) for call in self._calls],
            restarts=tuple(self._deaths),
            quiet=self.quiet_at,
            hindrances=tuple(self._hindrances),
        )

    def allocations(self) -> list[Holding]:
        """Return which devices claims had when."""
        claims = ((at, each) for at, each in self._changes if each.object.key.kind is WatchedKind.RESOURCE_CLAIM)
        return allocations([Change(at, each.type.value, _versioned(each)) for at, each in claims])

    def seconds_of_choice(self, start: float, end: float) -> float:
        """Return for how long there were two nodes or more that let pods in, between two moments.

        Where there is one, kube-scheduler does not end an allocation that is in the way of no other (docs/devices.md):
        it asks for devices last, so on a node whose taints keep pods off it does not ask.
        """
        nodes, since, seconds = 0, 0.0, 0.0
        for at, change in [*self._changes, (math.inf, None)]:
            if nodes > 1:
                seconds += max(0.0, min(at, end) - max(since, start))
            since = at
            if change is not None and change.object.key.kind is WatchedKind.NODE:
                nodes += _lets_in(change.after) - _lets_in(change.before)
        return seconds

    def bound_at(self) -> dict[str, list[float]]:
        """Return when pods of each name were on a node (seconds)."""
        found: dict[str, list[float]] = {}
        for at, change in self._changes:
            if change.object.key.kind is WatchedKind.POD and change.object.pod.node_name:
                found.setdefault(change.object.key.name, []).append(at)
        return found

    def tolerance(self) -> judge.Tolerance:
        """Return how late news and writes can have been: faults add up when they come together."""
        return judge.Tolerance(
            news=2.0 + sum(heapq.nlargest(3, self.news)),
            eviction=1.0 + sum(heapq.nlargest(2, self.writes)),
            write=1.0 + _BINDING_RETRIES + _ON_THE_WAY_BACK + sum(heapq.nlargest(2, self.writes)),
        )


def _is_evicted(pod: Stored | None) -> bool:
    return pod is not None and has_condition(pod.json, _EVICTED)


def _versioned(change: ObjectChange) -> judge.Json:
    """Return the object of a change with the version of the change, which an object that is gone lacks."""
    item = change.object.json
    return {**item, "metadata": {**item["metadata"], "resourceVersion": str(change.version)}}


def _lets_in(node: Stored | None) -> bool:
    return node is not None and not node.node.taints
