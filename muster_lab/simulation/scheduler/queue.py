"""The scheduling queue: what is tried next, what waits out its backoff, and what waits for an event."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count

from extender.objects.pod import Pod
from muster_lab.simulation.objects import Stored
from muster_lab.simulation.scheduler.events import EventKind, SchedulerEvent, SchedulerPlugin, wakes

#: Defaults of KubeSchedulerConfiguration: podInitialBackoffSeconds, podMaxBackoffSeconds.
INITIAL_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 10.0

#: Backoffs end, and are ordered, by whole windows. Source: backoffQOrderingWindowDuration.
_WINDOW_SECONDS = 1.0

#: How long a pod waits for an event at most, and how often that is looked at. Source: DefaultPodMaxInUnschedulablePods-
#: Duration and the ticker of PriorityQueue.Run.
_LEFTOVER_SECONDS = 300.0
_LEFTOVER_CHECK_SECONDS = 30.0


@dataclass(slots=True)
class QueuedPod:
    """A pod that wants a node, and how it has fared. `since` is when it was last put into a queue (seconds)."""

    version: Stored
    since: float
    serial: int
    attempts: int = 0
    refusals: int = 0
    errors: int = 0
    rejectors: frozenset[SchedulerPlugin] = frozenset()

    @property
    def pod(self) -> Pod:
        """Return the pod as it was last seen."""
        return self.version.pod

    @property
    def uid(self) -> str:
        """Return the pod's UID."""
        return self.version.uid

    def order(self) -> tuple[int, float, int]:
        """Return the key of the active queue: higher priority first, then who waited longer (PrioritySort)."""
        return (-self.pod.priority, self.since, self.serial)

    def backoff_end(self) -> float:
        """Return the window in which the pod's backoff ends (seconds); -inf for a pod that never failed."""
        failures = self.errors or self.refusals
        if not failures:
            return -math.inf
        # The exponent is bounded so that a pod refused for days does not overflow.
        pause = min(INITIAL_BACKOFF_SECONDS * 2.0 ** min(failures - 1, 30), MAX_BACKOFF_SECONDS)
        return _window(self.since + pause)


class SchedulingQueue:
    """Keep every unscheduled pod in exactly one place: active, backing off, unschedulable, gated, or in flight.

    When the active queue is empty, a pod whose backoff is not over is taken at once (SchedulerPopFromBackoffQ); one
    that failed with an error waits. What happens while a pod is in flight is held against its refusal afterwards.
    """

    def __init__(self, ready: Callable[[Pod], bool] = lambda _: True) -> None:
        """Hold back pods that are not `ready` as if they were gated, until `look_again`. Source: PreEnqueue."""
        self._ready = ready
        self._active = _Heap(QueuedPod.order)
        self._backoff = _Heap(lambda pod: (pod.backoff_end(), *pod.order()))
        self._erring = _Heap(lambda pod: (pod.backoff_end(), *pod.order()))
        self._unschedulable: dict[str, QueuedPod] = {}
        self._gated: dict[str, QueuedPod] = {}
        self._in_flight: dict[str, list[SchedulerEvent]] = {}
        self._wake = asyncio.Event()
        self._serial = count()
        self._flush: asyncio.TimerHandle | None = None
        self._leftover: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Count the pods that wait, in whichever place."""
        waiting = len(self._active) + len(self._backoff) + len(self._erring)
        return waiting + len(self._unschedulable) + len(self._gated)

    async def pop(self) -> QueuedPod:
        """Wait for the next pod to try, and put it in flight."""
        while not self._active and not self._backoff:
            self._wake.clear()
            await self._wake.wait()
        queued = (self._active or self._backoff).pop()
        queued.attempts += 1
        self._in_flight[queued.uid] = []
        return queued

    def done(self, uid: str) -> None:
        """Take a pod out of flight: it is being bound, or is no longer wanted."""
        self._in_flight.pop(uid, None)

    def add(self, version: Stored) -> None:
        """Take in a pod that wants a node."""
        self._activate(QueuedPod(version, _now(), next(self._serial)))

    def in_flight(self, uid: str) -> bool:
        """Tell whether an attempt for the pod is under way."""
        return uid in self._in_flight

    def update(self, version: Stored, event: SchedulerEvent) -> None:
        """Take in a new version of a pod, which `event` describes and which may make it worth another attempt."""
        uid = version.uid
        if uid in self._in_flight:
            self._in_flight[uid].append(event)
            return
        for heap in (self._active, self._backoff, self._erring):
            if (queued := heap.get(uid)) is not None:
                queued.version = version
                heap.reorder(queued)
                return
        if (queued := self._gated.pop(uid, None) or self._unschedulable.get(uid)) is None:
            self.add(version)
            return
        queued.version = version
        if uid not in self._unschedulable:
            self._activate(queued)
        elif wakes(event, queued.pod, queued.rejectors):
            del self._unschedulable[uid]
            self._requeue(queued)

    def delete(self, uid: str) -> None:
        """Forget a pod that was deleted or bound."""
        for heap in (self._active, self._backoff, self._erring):
            heap.remove(uid)
        self._unschedulable.pop(uid, None)
        self._gated.pop(uid, None)

    def refused(self, queued: QueuedPod, version: Stored, rejectors: Iterable[SchedulerPlugin]) -> None:
        """Put back a pod that was in flight, with its newest version.

        Without `rejectors` the attempt failed with an error. An event that came meanwhile and concerns the rejectors
        has it tried again after its backoff. Source: AddUnschedulablePodIfNotPresent.
        """
        events = self._in_flight.pop(queued.uid, [])
        queued.version = version
        queued.rejectors = frozenset(rejectors)
        if queued.rejectors:
            queued.refusals += 1
            queued.errors = 0
        else:
            queued.errors += 1
        queued.since = _now()
        if not queued.rejectors or any(wakes(event, queued.pod, queued.rejectors) for event in events):
            self._requeue(queued)
        else:
            self._park(queued)

    def move(self, event: SchedulerEvent, concerns: Callable[[Pod], bool] = lambda _: True) -> None:
        """Wake the pods for which `event` may change something, among those that `concerns` accepts."""
        woken = [
            queued
            for queued in self._unschedulable.values()
            if concerns(queued.pod) and wakes(event, queued.pod, queued.rejectors)
        ]
        for queued in woken:
            del self._unschedulable[queued.uid]
            self._requeue(queued)
        for events in self._in_flight.values():
            events.append(event)

    def look_again(self) -> None:
        """Take in the pods that were held back and are ready now."""
        for queued in [queued for queued in self._gated.values() if self._ready(queued.pod)]:
            del self._gated[queued.uid]
            self._activate(queued)

    def _activate(self, queued: QueuedPod) -> None:
        if queued.pod.gated or not self._ready(queued.pod):
            self._gated[queued.uid] = queued
            return
        self._active.push(queued)
        self._wake.set()

    def _requeue(self, queued: QueuedPod) -> None:
        """Move a woken pod to where its backoff allows."""
        end = queued.backoff_end()
        if end < _window(_now()):
            self._activate(queued)
            return
        if queued.rejectors:
            self._backoff.push(queued)
            self._wake.set()
        else:
            self._erring.push(queued)
        self._arm_flush()

    def _park(self, queued: QueuedPod) -> None:
        self._unschedulable[queued.uid] = queued
        if self._leftover is None:
            self._leftover = asyncio.get_running_loop().call_later(_LEFTOVER_CHECK_SECONDS, self._retry_leftover)

    def _arm_flush(self) -> None:
        """Have the backoffs that end next flushed at the end of their window."""
        ends = [heap.peek().backoff_end() for heap in (self._backoff, self._erring) if heap]
        if not ends:
            return
        due = min(ends) + _WINDOW_SECONDS
        if self._flush is not None:
            if self._flush.when() <= due:
                return
            self._flush.cancel()
        self._flush = asyncio.get_running_loop().call_at(due, self._flush_ended)

    def _flush_ended(self) -> None:
        """Activate every pod whose backoff is over."""
        self._flush = None
        window = _window(_now())
        for heap in (self._backoff, self._erring):
            while heap and heap.peek().backoff_end() < window:
                self._activate(heap.pop())
        self._arm_flush()

    def _retry_leftover(self) -> None:
        """Try again what has waited for an event for minutes, in case none comes."""
        self._leftover = None
        due = [pod for pod in self._unschedulable.values() if _now() - pod.since > _LEFTOVER_SECONDS]
        for queued in due:
            del self._unschedulable[queued.uid]
            self._requeue(queued)
        if self._unschedulable:
            self._leftover = asyncio.get_running_loop().call_later(_LEFTOVER_CHECK_SECONDS, self._retry_leftover)


class _Heap:
    """Pods by a key, with access by UID; entries that are out of date are skipped when they come up."""

    def __init__(self, key: Callable[[QueuedPod], tuple[float, ...]]) -> None:
        self._key = key
        self._pods: dict[str, tuple[tuple[float, ...], QueuedPod]] = {}
        self._entries: list[tuple[tuple[float, ...], str]] = []

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> QueuedPod | None:
        entry = self._pods.get(uid)
        return None if entry is None else entry[1]

    def push(self, queued: QueuedPod) -> None:
        key = self._key(queued)
        self._pods[queued.uid] = (key, queued)
        heapq.heappush(self._entries, (key, queued.uid))

    def reorder(self, queued: QueuedPod) -> None:
        if self._pods[queued.uid][0] != self._key(queued):
            self.push(queued)

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def peek(self) -> QueuedPod:
        while True:
            key, uid = self._entries[0]
            entry = self._pods.get(uid)
            if entry is not None and entry[0] == key:
                return entry[1]
            heapq.heappop(self._entries)

    def pop(self) -> QueuedPod:
        queued = self.peek()
        heapq.heappop(self._entries)
        del self._pods[queued.uid]
        return queued


def _now() -> float:
    return asyncio.get_running_loop().time()


def _window(seconds: float) -> float:
    return math.floor(seconds / _WINDOW_SECONDS) * _WINDOW_SECONDS


def target_event(before: Pod, after: Pod) -> SchedulerEvent:
    """Return what an update of an unscheduled pod amounts to for itself."""
    changed = before.shape.tolerations != after.shape.tolerations
    kind = EventKind.TARGET_POD_TOLERATIONS_CHANGED if changed else EventKind.TARGET_POD_UPDATED
    return SchedulerEvent(kind, pod=after)
