"""Writes to the API server that no caller waits for: nominations, status, events.

As many are under way at once as the API server bears, and none while another replica leads.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import IntEnum
from itertools import count

import structlog

from extender.clock import Clock
from extender.control.leadership import Leadership, leads
from extender.control.metrics import Metrics
from extender.control.ports import NO_ANNOTATIONS, ApiError, BudgetError, ClusterApi, ClusterEvent, PodKey
from extender.explain.views import GroupStatus, QueueReport
from extender.ledger.effects import NodeAsk
from extender.objects.meta import ObjectRef
from extender.objects.noderequest import NodeRequest
from extender.objects.podgroup import GroupRef
from extender.objects.workload import Suspendable
from extender.settings import Settings

#: The API server refuses a request because too many are under way (RFC 6585; API Priority and Fairness).
_TOO_MANY_REQUESTS = 429


class WriteRank(IntEnum):
    """Whose turn comes first when writes queue: what starts a gang before what tells of it."""

    BINDING = 0
    NOMINATION = 1
    REPORT = 2


def share_of(places: int) -> int:
    """Return how many of so many places the writes of one namespace may fill: all but a quarter of them."""
    return places - places // 4


class WriteWindow:
    """Admit writes, by rank and then in order, to a number of places that follows the API server's answers.

    Additive increase, multiplicative decrease, as TCP does it (Jacobson, "Congestion Avoidance and Control", 1988): a
    round of successes opens one place more, up to `ceiling`; an answer 429 halves the window, once for all the writes
    that were under way then, since they met with the same congestion.
    """

    #: Part of the window that reports may fill: they are many when many gangs change, and nothing waits for them.
    REPORT_SHARE = 1 / 8
    #: Writes that begin in one turn of the event loop: each takes it for 0.2 to 0.3 ms.
    STARTS_PER_TURN = 4

    def __init__(self, ceiling: int) -> None:
        self._ceiling = ceiling
        self._places = float(ceiling)
        self._busy = 0
        self._under_way: Counter[str] = Counter()  # the same by namespace
        self._waiting: dict[str, list[tuple[WriteRank, int, asyncio.Future[None]]]] = {}
        self._serial = count()
        self._cut_at = -1  # writes admitted later have seen the window as it is since it was last halved
        self._started = 0  # writes admitted in this turn of the event loop

    @property
    def places(self) -> int:
        """Return how many writes may be under way at once now."""
        return int(self._places)

    @property
    def report_places(self) -> int:
        """Return how many of them may be reports."""
        return max(1, int(self._places * self.REPORT_SHARE))

    @asynccontextmanager
    async def turn(self, rank: WriteRank, namespace: str = "") -> AsyncIterator[None]:
        """Hold one of the places, once there is one; an ApiError that passes through is the write's result.

        No namespace fills all places: its writes may hang in an admission webhook of its own for half a minute each. ""
        is none.
        """
        await self._enter(rank, namespace)
        serial = next(self._serial)
        try:
            yield
        except ApiError as error:
            congested = error.status == _TOO_MANY_REQUESTS and not isinstance(error, BudgetError)
            if congested and serial > self._cut_at:
                self._resize(self._places / 2)
                self._cut_at = next(self._serial)
            raise
        else:
            self._resize(self._places + 1 / self._places)
        finally:
            self._leave(namespace)

    async def _enter(self, rank: WriteRank, namespace: str) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting.setdefault(namespace, []), (rank, next(self._serial), place))
        self._admit()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # it was given away in the same moment
                self._leave(namespace)
            raise

    def _leave(self, namespace: str) -> None:
        self._busy -= 1
        self._under_way[namespace] -= 1
        if not self._under_way[namespace]:
            del self._under_way[namespace]
        self._admit()

    def _admit(self) -> None:
        """Give free places to those whose turn it is, of the namespaces that may have more: some now, others later."""
        most = share_of(self.places)
        while self._waiting and self._busy < self.places and self._started < self.STARTS_PER_TURN:
            able = [each for each in self._waiting if not each or self._under_way[each] < most]
            if not able:
                return
            namespace = min(able, key=lambda each: self._waiting[each][0])
            *_, place = heapq.heappop(self._waiting[namespace])
            if not self._waiting[namespace]:
                del self._waiting[namespace]
            if not place.done():
                self._busy += 1
                self._under_way[namespace] += 1
                place.set_result(None)
                if not self._started:
                    asyncio.get_running_loop().call_soon(self._admit_more)
                self._started += 1

    def _admit_more(self) -> None:
        """Go on in the next turn of the event loop, in which those admitted before begin."""
        self._started = 0
        self._admit()

    def _resize(self, places: float) -> None:
        self._places = min(max(places, 1.0), float(self._ceiling))


#: A timer may fire a hair before its time; waiting for the hair would spin.
SHORTEST_PAUSE_SECONDS = 0.001
_FIRST_PAUSE_SECONDS = 0.05
_BURST_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
#: For how long what is denied, and not for want of a right, is tried again all the same (seconds).
_INSISTENCE_SECONDS = 10.0

log = structlog.get_logger("muster.outbox")


class Urgency(IntEnum):
    """Which writes go first; the value is the order."""

    WAKING = 0  #: nominations of pods that kube-scheduler has set aside: only a change wakes them
    NOMINATION = 1
    EVICTION = 2
    STATUS = 3
    EVENT = 4

    @property
    def kind(self) -> str:
        """Return the metric label."""
        return "nomination" if self is Urgency.WAKING else self.name.lower()

    @property
    def is_report(self) -> bool:
        """Tell whether the write tells of something, and starts nothing."""
        return self >= Urgency.STATUS


@dataclass(slots=True)
class _Write:
    """One wish: the newest of its key replaces an older one that has not been sent."""

    key: str
    urgency: Urgency
    call: Callable[[], Awaitable[None]]
    about: str
    expires: float
    given_up: Callable[[ApiError], None] | None = None
    pause: float = _FIRST_PAUSE_SECONDS
    ready_at: float = 0.0

    @property
    def namespace(self) -> str:
        """Return the namespace of what it is about, or the whole name of what has none."""
        return self.about.partition("/")[0]


class _Lane(dict[str, _Write]):
    """The writes of one urgency that wait, by key, the oldest first; `namespaces` counts them by theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.namespaces: Counter[str] = Counter()

    def add(self, write: _Write) -> None:
        """Add a write that no other of its key waits for."""
        self[write.key] = write
        self.namespaces[write.namespace] += 1

    def take(self, key: str) -> _Write | None:
        """Take out the write of this key; return it, None if there is none."""
        write = self.pop(key, None)
        if write is not None:
            self.namespaces[write.namespace] -= 1
            if not self.namespaces[write.namespace]:
                del self.namespaces[write.namespace]
        return write

    def clear(self) -> None:
        """Take out all."""
        super().clear()
        self.namespaces.clear()


class Outbox:
    """Send writes concurrently within the bounds of a window, urgent ones first, one at a time per key.

    No namespace fills the window: an admission webhook may let its writes hang, and those of others go on.

    Reports (statuses and events) have a part of the window and a rate, so that they do not delay what starts a gang.

    What may pass later is retried. A write that keeps failing is given up after `write_retry_seconds`; every outcome
    is counted.
    """

    #: Wishes kept at most; events beyond it are dropped, oldest first, and counted. A wish is about 1 kB.
    CAPACITY = 50_000

    def __init__(self, settings: Settings, clock: Clock, metrics: Metrics, window: WriteWindow) -> None:
        """Start empty; nothing is sent before `run`. As many writes are sent at once as `window` has places."""
        self._settings = settings
        self._window = window
        self._clock = clock
        self._metrics = metrics
        self._lanes = {urgency: _Lane() for urgency in Urgency}
        self._flying: set[str] = set()
        self._sent: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}  # under way: others, and reports
        self._hampered: set[str] = set()  # namespaces whose last nomination failed at an admission webhook
        self._wake = asyncio.Event()
        self._next_report = 0.0  # when the next report may be sent
        self._serial = count()
        self._progressed_at = clock.monotonic()  # when a nomination was last answered, or the first one was put

    def __len__(self) -> int:
        """Count the writes waiting or under way."""
        return sum(map(len, self._lanes.values())) + len(self._flying)

    @property
    def nominations_wait(self) -> bool:
        """Tell whether any nomination waits or is under way."""
        return bool(self._sent[False] or self._lanes[Urgency.WAKING] or self._lanes[Urgency.NOMINATION])

    def put(  # noqa: PLR0913 - a wish, and two things that few say
        self,
        urgency: Urgency,
        key: str,
        about: str,
        call: Callable[[], Awaitable[None]],
        *,
        delay: float = 0.0,
        given_up: Callable[[ApiError], None] | None = None,
    ) -> None:
        """Add a wish, to be sent after `delay` seconds at the earliest; `given_up` is called if it fails for good.

        `key` names what it is about, so that a newer wish replaces an older one, whatever the urgency of either. It
        then waits for no longer than the older one would have.
        """
        now = self._clock.monotonic()
        if not (urgency.is_report or self.nominations_wait):
            self._progressed_at = now
        waiting = self._take(key)
        ready_at = now + delay if waiting is None else min(now + delay, waiting.ready_at)
        expires = now + self._settings.write_retry_seconds
        self._lanes[urgency].add(_Write(key, urgency, call, about, expires, given_up, ready_at=ready_at))
        events = self._lanes[Urgency.EVENT]
        if len(self) > self.CAPACITY and events:
            dropped = events.take(next(iter(events)))
            if dropped is not None:
                self._count(dropped, "dropped")
        self._wake.set()

    def forget(self, key: str) -> None:
        """Withdraw a wish that has not been sent."""
        self._take(key)

    def clear(self) -> None:
        """Withdraw every wish that has not been sent."""
        for lane in self._lanes.values():
            lane.clear()

    def backlogged_at(self) -> float:
        """Return when the outbox counts as backlogged unless a nomination gets through until then (monotonic).

        In the past: it is backlogged. Infinity: no nomination waits, or only those of namespaces whose writes fail at
        an admission webhook, which says nothing about others. What is reserved on top of nominations that do not get
        through only keeps capacity from others.
        """
        if len(self) >= self.CAPACITY:
            return -math.inf
        if not self._is_stuck():
            return math.inf
        return self._progressed_at + self._settings.backlog_seconds

    def backlogged(self) -> bool:
        """Tell whether the outbox is full, or nominations wait and none has got through for `backlog_seconds`."""
        return self._clock.monotonic() >= self.backlogged_at()

    def _is_stuck(self) -> bool:
        """Tell whether nominations wait or are under way of any namespace where no admission webhook fails."""
        lanes = (self._lanes[urgency].namespaces for urgency in Urgency if not urgency.is_report)
        return any(not each.keys() <= self._hampered for each in (self._sent[False], *lanes))

    def _take(self, key: str) -> _Write | None:
        found = (lane.take(key) for lane in self._lanes.values())
        return next((write for write in found if write is not None), None)

    async def run(self) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                pause = self._start_due(group)
                try:
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
                except TimeoutError:
                    pass
                self._wake.clear()

    def _start_due(self, group: asyncio.TaskGroup) -> float | None:
        """Start every write that may start now; return how long until the next may, or None for when woken."""
        soonest = math.inf
        for urgency, lane in self._lanes.items():
            soonest = min(soonest, self._start_lane(urgency, lane, group))
            if len(self._flying) >= self._window.places:
                return None  # the end of any write wakes the loop
        return None if math.isinf(soonest) else max(soonest - self._clock.monotonic(), SHORTEST_PAUSE_SECONDS)

    def _start_lane(self, urgency: Urgency, lane: _Lane, group: asyncio.TaskGroup) -> float:
        """Start the writes of a lane that may start now; return when the next may (monotonic), infinity for none.

        The lane is not copied: of the nominations of a gang of 10,000 each looks at it when it has been written.
        """
        soonest, started = math.inf, []
        sent = self._sent[urgency.is_report]
        most = max(1, self._window.report_places - 1) if urgency.is_report else share_of(self._window.places)
        able = {namespace for namespace in lane.namespaces if sent[namespace] < most}
        for write in lane.values():
            now = self._clock.monotonic()
            if not able or len(self._flying) >= self._window.places:
                break
            if write.namespace not in able:
                continue
            if urgency.is_report and (report_at := self._next_report_at()) > now:
                soonest = min(soonest, report_at)
                break
            if write.key in self._flying:
                continue
            if write.ready_at > now:
                soonest = min(soonest, write.ready_at)
                continue
            started.append(write.key)
            self._start(write, now, group)
            if sent[write.namespace] >= most:
                able.discard(write.namespace)
        for key in started:
            lane.take(key)
        return soonest

    def _next_report_at(self) -> float:
        """Return when the next report may start (monotonic), infinity while reports fill their part of the window."""
        return math.inf if self._sent[True].total() >= self._window.report_places else self._next_report

    def _start(self, write: _Write, now: float, group: asyncio.TaskGroup) -> None:
        self._flying.add(write.key)
        self._sent[write.urgency.is_report][write.namespace] += 1
        if write.urgency.is_report:
            # Bursts of a tenth of a second's worth are allowed.
            since = max(self._next_report, now - _BURST_SECONDS)
            self._next_report = since + 1.0 / self._settings.report_rate_per_second
        group.create_task(self._send(write), name=f"write-{next(self._serial)}")

    async def _send(self, write: _Write) -> None:
        nominating = not write.urgency.is_report
        try:
            await write.call()
        except FencedError:
            self._count(write, "fenced")
        except ApiError as error:
            self._failed(write, error)
            if nominating and error.at_webhook:
                self._hampered.add(write.namespace)
            if nominating and (error.at_webhook or not error.transient):
                self._progressed_at = self._clock.monotonic()
        else:
            self._count(write, "ok")
            if nominating:
                self._hampered.discard(write.namespace)
                self._progressed_at = self._clock.monotonic()
        finally:
            self._flying.discard(write.key)
            sent = self._sent[write.urgency.is_report]
            sent[write.namespace] -= 1
            if not sent[write.namespace]:
                del sent[write.namespace]
            self._wake.set()

    def _failed(self, write: _Write, error: ApiError) -> None:
        """Put the write back for later if it may pass and nothing newer has taken its place."""
        now = self._clock.monotonic()
        if error.outdated:
            self._count(write, "outdated")
        elif now >= self._insists_until(write, error):
            self._count(write, "failed")
            log.error("write failed", kind=write.urgency.kind, about=write.about, error=str(error))
            if write.given_up is not None:
                write.given_up(error)
        else:
            self._count(write, "retried")
            write.ready_at = now + max(error.retry_after or 0.0, write.pause)
            write.pause = min(2 * write.pause, _LONGEST_PAUSE_SECONDS)
            if not any(write.key in lane for lane in self._lanes.values()):
                self._lanes[write.urgency].add(write)

    def _insists_until(self, write: _Write, error: ApiError) -> float:
        """Return until when a write is tried again that fails so (monotonic).

        What an admission webhook denies at one moment it may admit at the next: no gang is left waiting for that.
        """
        if error.transient:
            return write.expires
        if write.urgency <= Urgency.NOMINATION:
            return write.expires - self._settings.write_retry_seconds + _INSISTENCE_SECONDS
        return -math.inf

    def _count(self, write: _Write, result: str) -> None:
        self._metrics.writes.labels(write.urgency.kind, result).inc()


class FencedError(ApiError):
    """A write that was not sent because this Muster does not lead (any more)."""

    def __init__(self) -> None:
        super().__init__(0, "Fenced", "not leading: this replica's kube-scheduler does not hold the Lease")

    def __str__(self) -> str:
        """Render the message alone: no answer was asked for."""
        return self.message

    @property
    def transient(self) -> bool:
        """Tell that it is pointless to try again: the replica that leads decides again."""
        return False


class Fence:
    """Let writes through to `api` while this Muster leads; each one is checked in the moment in which it is sent.

    They take turns at `window`. It has fewer places than there are connections to the API server, so that no write
    waits for a connection after its check.

    A request that is on its way when the leadership ends is bounded by the margin of the Lease (see `leadership`). A
    process that is stopped between check and sending sends when it goes on, however late: then the API server decides,
    which binds no pod twice and none of another UID. Implements `extender.control.ports.ClusterApi`; each write raises
    FencedError when this Muster does not lead.
    """

    def __init__(self, api: ClusterApi, leadership: Leadership, clock: Clock, window: WriteWindow) -> None:
        self._api = api
        self._leadership = leadership
        self._clock = clock
        self._window = window

    async def nominate(self, pod: PodKey, node: str) -> None:
        await self._send(WriteRank.NOMINATION, lambda: self._api.nominate(pod, node), pod.namespace)

    async def bind(self, pod: PodKey, node: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> None:
        await self._send(WriteRank.BINDING, lambda: self._api.bind(pod, node, annotations), pod.namespace)

    async def evict(self, pod: PodKey, *, dry_run: bool = False) -> None:
        await self._send(WriteRank.NOMINATION, lambda: self._api.evict(pod, dry_run=dry_run), pod.namespace)

    async def notify(self, pod: PodKey, planned: str, reason: str, message: str) -> None:
        await self._send(WriteRank.NOMINATION, lambda: self._api.notify(pod, planned, reason, message), pod.namespace)

    async def ungate(self, pod: PodKey, gate: str) -> None:
        await self._send(WriteRank.NOMINATION, lambda: self._api.ungate(pod, gate), pod.namespace)

    async def suspend(self, workload: Suspendable, place: str | None = None) -> None:
        await self._send(WriteRank.NOMINATION, lambda: self._api.suspend(workload, place), workload.about.namespace)

    async def request_nodes(self, ask: NodeAsk, owner: ObjectRef) -> None:
        await self._send(WriteRank.NOMINATION, lambda: self._api.request_nodes(ask, owner), ask.ref.namespace)

    async def withdraw_nodes(self, request: NodeRequest) -> None:
        await self._send(WriteRank.NOMINATION, lambda: self._api.withdraw_nodes(request), request.ref.namespace)

    async def annotate(self, pod: PodKey, annotations: Mapping[str, str]) -> None:
        await self._send(WriteRank.NOMINATION, lambda: self._api.annotate(pod, annotations), pod.namespace)

    async def update_queue_status(self, name: str, uid: str, report: QueueReport) -> None:
        await self._send(WriteRank.REPORT, lambda: self._api.update_queue_status(name, uid, report))

    async def record_event(self, event: ClusterEvent) -> None:
        await self._send(WriteRank.REPORT, lambda: self._api.record_event(event), event.about.namespace)

    async def update_group_status(self, group: GroupRef, uid: str, status: GroupStatus) -> None:
        await self._send(WriteRank.REPORT, lambda: self._api.update_group_status(group, uid, status), group.namespace)

    async def _send(self, rank: WriteRank, write: Callable[[], Awaitable[None]], namespace: str = "") -> None:
        async with self._window.turn(rank, namespace):
            if not leads(self._leadership, self._clock):
                raise FencedError
            await write()
