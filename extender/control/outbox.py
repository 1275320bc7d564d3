"""Writes to the API server that nobody waits for: nominations, status, events."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count

import structlog

from extender.clock import Clock
from extender.control.fence import FencedError
from extender.control.metrics import Metrics
from extender.control.ports import ApiError
from extender.settings import Settings

#: Statuses that mean the object is gone, or another one by now: the wish has no object left, which is no failure.
OUTDATED = frozenset({404, 409, 410})
#: A timer may fire a hair before its time; waiting for the hair would spin.
SHORTEST_PAUSE_SECONDS = 0.001
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 5.0

log = structlog.get_logger("muster.outbox")


class Urgency(IntEnum):
    """Which writes go first; the value is the order, the name the metric label."""

    NOMINATION = 0
    STATUS = 1
    EVENT = 2


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


@dataclass(slots=True)
class _Lane:
    """The writes of one urgency, oldest first."""

    writes: dict[str, _Write] = field(default_factory=dict)


class Outbox:
    """Send writes concurrently within a bound and a rate, urgent ones first, one at a time per key.

    What may pass later is retried. A write that keeps failing is given up after `write_retry_seconds`; every outcome
    is counted.
    """

    #: Wishes kept at most; events beyond it are dropped, oldest first, and counted. A wish is about 1 kB.
    CAPACITY = 50_000

    def __init__(self, settings: Settings, clock: Clock, metrics: Metrics) -> None:
        """Start empty; nothing is sent before `run`."""
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._lanes = {urgency: _Lane() for urgency in Urgency}
        self._flying: set[str] = set()
        self._wake = asyncio.Event()
        self._next_start = 0.0
        self._serial = count()
        self._nominating = 0  # nominations under way
        self._progressed_at = clock.monotonic()  # when a nomination was last answered, or the first one was put

    def __len__(self) -> int:
        """Count the writes waiting or under way."""
        return sum(len(lane.writes) for lane in self._lanes.values()) + len(self._flying)

    def put(self, urgency: Urgency, key: str, about: str, call: Callable[[], Awaitable[None]]) -> None:
        """Add a wish; `key` names what it is about, so that a newer wish replaces an older one."""
        lane = self._lanes[urgency].writes
        if urgency is Urgency.NOMINATION and not (lane or self._nominating):
            self._progressed_at = self._clock.monotonic()
        lane.pop(key, None)
        lane[key] = _Write(key, urgency, call, about, self._clock.monotonic() + self._settings.write_retry_seconds)
        events = self._lanes[Urgency.EVENT].writes
        if len(self) > self.CAPACITY and events:
            dropped = events.pop(next(iter(events)))
            self._count(dropped, "dropped")
        self._wake.set()

    def forget(self, urgency: Urgency, key: str) -> None:
        """Withdraw a wish that has not been sent."""
        self._lanes[urgency].writes.pop(key, None)

    def clear(self) -> None:
        """Withdraw every wish that has not been sent."""
        for lane in self._lanes.values():
            lane.writes.clear()

    def backlogged_at(self) -> float:
        """Return when the outbox counts as backlogged unless a nomination gets through until then (monotonic).

        In the past: it is backlogged. Infinity: no nomination waits. What is reserved on top of nominations that do not
        get through only keeps capacity from others.
        """
        if len(self) >= self.CAPACITY:
            return -math.inf
        if not (self._lanes[Urgency.NOMINATION].writes or self._nominating):
            return math.inf
        return self._progressed_at + self._settings.backlog_seconds

    def backlogged(self) -> bool:
        """Tell whether the outbox is full, or nominations wait and none has got through for `backlog_seconds`."""
        return self._clock.monotonic() >= self.backlogged_at()

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
        soonest: float | None = None
        for lane in self._lanes.values():
            for write in list(lane.writes.values()):
                now = self._clock.monotonic()
                if len(self._flying) >= self._settings.write_concurrency:
                    return None  # the end of any write wakes the loop
                if self._next_start > now:
                    return max(self._next_start - now, SHORTEST_PAUSE_SECONDS)
                if write.key in self._flying:
                    continue
                if write.ready_at > now:
                    soonest = min(soonest or write.ready_at, write.ready_at)
                    continue
                del lane.writes[write.key]
                self._flying.add(write.key)
                self._nominating += write.urgency is Urgency.NOMINATION
                self._pace(now)
                group.create_task(self._send(write), name=f"write-{next(self._serial)}")
        return None if soonest is None else max(soonest - self._clock.monotonic(), SHORTEST_PAUSE_SECONDS)

    def _pace(self, now: float) -> None:
        """Move the next start: bursts of a tenth of a second's worth are allowed."""
        burst = 0.1
        self._next_start = max(self._next_start, now - burst) + 1.0 / self._settings.write_rate_per_second

    async def _send(self, write: _Write) -> None:
        nominating = write.urgency is Urgency.NOMINATION
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
        lane = self._lanes[write.urgency].writes
        if error.status in OUTDATED:
            self._count(write, "outdated")
        elif not error.transient or now >= write.expires:
            self._count(write, "failed")
            log.error("write failed", kind=write.urgency.name.lower(), about=write.about, error=str(error))
        else:
            self._count(write, "retried")
            write.ready_at = now + max(error.retry_after or 0.0, write.pause)
            write.pause = min(2 * write.pause, _LONGEST_PAUSE_SECONDS)
            lane.setdefault(write.key, write)

    def _count(self, write: _Write, result: str) -> None:
        self._metrics.writes.labels(write.urgency.name.lower(), result).inc()
