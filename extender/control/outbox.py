"""Writes to the API server that nobody waits for: nominations, status, events."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from itertools import count

import structlog

from extender.clock import Clock
from extender.control.fence import FencedError
from extender.control.metrics import Metrics
from extender.control.ports import ApiError
from extender.control.window import WriteWindow
from extender.settings import Settings

#: Statuses that mean the object is gone, or another one by now: the wish has no object left, which is no failure.
OUTDATED = frozenset({404, 409, 410})
#: A timer may fire a hair before its time; waiting for the hair would spin.
SHORTEST_PAUSE_SECONDS = 0.001
_FIRST_PAUSE_SECONDS = 0.05
_BURST_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0

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
    pause: float = _FIRST_PAUSE_SECONDS
    ready_at: float = 0.0


class Outbox:
    """Send writes concurrently within the bounds of a window, urgent ones first, one at a time per key.

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
        self._lanes: dict[Urgency, dict[str, _Write]] = {urgency: {} for urgency in Urgency}  # each oldest first
        self._flying: set[str] = set()
        self._wake = asyncio.Event()
        self._next_report = 0.0  # when the next report may be sent
        self._serial = count()
        self._nominating = 0  # nominations under way
        self._progressed_at = clock.monotonic()  # when a nomination was last answered, or the first one was put

    def __len__(self) -> int:
        """Count the writes waiting or under way."""
        return sum(map(len, self._lanes.values())) + len(self._flying)

    @property
    def nominations_wait(self) -> bool:
        """Tell whether any nomination waits or is under way."""
        return bool(self._nominating or self._lanes[Urgency.WAKING] or self._lanes[Urgency.NOMINATION])

    def put(
        self, urgency: Urgency, key: str, about: str, call: Callable[[], Awaitable[None]], *, delay: float = 0.0
    ) -> None:
        """Add a wish, to be sent after `delay` seconds at the earliest.

        `key` names what it is about, so that a newer wish replaces an older one, whatever the urgency of either. It
        then waits for no longer than the older one would have.
        """
        now = self._clock.monotonic()
        if not (urgency.is_report or self.nominations_wait):
            self._progressed_at = now
        waiting = self._take(key)
        ready_at = now + delay if waiting is None else min(now + delay, waiting.ready_at)
        expires = now + self._settings.write_retry_seconds
        self._lanes[urgency][key] = _Write(key, urgency, call, about, expires, ready_at=ready_at)
        events = self._lanes[Urgency.EVENT]
        if len(self) > self.CAPACITY and events:
            dropped = events.pop(next(iter(events)))
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

        In the past: it is backlogged. Infinity: no nomination waits. What is reserved on top of nominations that do not
        get through only keeps capacity from others.
        """
        if len(self) >= self.CAPACITY:
            return -math.inf
        if not self.nominations_wait:
            return math.inf
        return self._progressed_at + self._settings.backlog_seconds

    def backlogged(self) -> bool:
        """Tell whether the outbox is full, or nominations wait and none has got through for `backlog_seconds`."""
        return self._clock.monotonic() >= self.backlogged_at()

    def _take(self, key: str) -> _Write | None:
        found = (lane.pop(key, None) for lane in self._lanes.values())
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
            for write in list(lane.values()):
                now = self._clock.monotonic()
                if len(self._flying) >= self._window.places:
                    return None  # the end of any write wakes the loop
                if urgency.is_report and (report_at := self._next_report_at()) > now:
                    soonest = min(soonest, report_at)
                    break
                if write.key in self._flying:
                    continue
                if write.ready_at > now:
                    soonest = min(soonest, write.ready_at)
                    continue
                del lane[write.key]
                self._start(write, now, group)
        return None if math.isinf(soonest) else max(soonest - self._clock.monotonic(), SHORTEST_PAUSE_SECONDS)

    def _next_report_at(self) -> float:
        """Return when the next report may start (monotonic), infinity while reports fill their part of the window."""
        reports = len(self._flying) - self._nominating
        return math.inf if reports >= self._window.report_places else self._next_report

    def _start(self, write: _Write, now: float, group: asyncio.TaskGroup) -> None:
        self._flying.add(write.key)
        if not write.urgency.is_report:
            self._nominating += 1
        else:
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
            if nominating and not error.transient:
                self._progressed_at = self._clock.monotonic()
        else:
            self._count(write, "ok")
            if nominating:
                self._progressed_at = self._clock.monotonic()
        finally:
            self._nominating -= nominating
            self._flying.discard(write.key)
            self._wake.set()

    def _failed(self, write: _Write, error: ApiError) -> None:
        """Put the write back for later if it may pass and nothing newer has taken its place."""
        now = self._clock.monotonic()
        if error.status in OUTDATED:
            self._count(write, "outdated")
        elif not error.transient or now >= write.expires:
            self._count(write, "failed")
            log.error("write failed", kind=write.urgency.kind, about=write.about, error=str(error))
        else:
            self._count(write, "retried")
            write.ready_at = now + max(error.retry_after or 0.0, write.pause)
            write.pause = min(2 * write.pause, _LONGEST_PAUSE_SECONDS)
            if not any(write.key in lane for lane in self._lanes.values()):
                self._lanes[write.urgency][write.key] = write

    def _count(self, write: _Write, result: str) -> None:
        self._metrics.writes.labels(write.urgency.kind, result).inc()
