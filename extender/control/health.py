"""What state Muster is in, and what that means for the verbs.

| mode | decides | gang members and other managed pods | readiness | ends when |
|---|---|---|---|---|
| syncing | no | error | no | every kind has been listed |
| stale | no | error | no | every watch has been heard of again |
| standby | no | error | yes | this replica's kube-scheduler gets the Lease |
| backlogged | no new reservations | served from the reservations that exist | yes | the nominations get through |
| normal | yes | served | yes | |

Pods of other schedulers always pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import structlog
from prometheus_client import Gauge

from extender.clock import Clock
from extender.control.leadership import Leadership, leads
from extender.control.metrics import Metrics
from extender.control.outbox import Outbox
from extender.control.watched import Watches
from extender.objects.reason import Reason, Wait

#: Seconds between two looks. A stall shows shorter by up to this much, since it may begin between two of them. Looking
#: costs about 0.3 % of a CPU.
INTERVAL_SECONDS = 0.005
#: A turn of the loop that is later than this is a stall: ten times the budget of a filter call.
STALL_SECONDS = 0.01
#: Part of the lateness that the loop's thread must have computed for the stall to be its own doing. Where it waited for
#: a CPU, what came meanwhile is done in one turn afterwards: that computes long because others did.
BUSY_SHARE = 0.75
#: Seconds that the gauge of the longest lag looks back, at least; twice as many at most.
LOOK_BACK_SECONDS = 30.0


class _Longest:
    """The longest of what was measured lately, as a gauge: in this stretch of time and the one before."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._now = self._before = 0.0

    def turn_over(self) -> None:
        """Begin another stretch of time."""
        self._before, self._now = self._now, 0.0

    def observe(self, seconds: float) -> None:
        """Take in one measurement."""
        self._now = max(self._now, seconds)
        self._gauge.set(max(self._now, self._before))


class LoopLag:
    """Sleep for a moment over and over, and measure how late the loop wakes it up.

    A stall has the cause `busy` if the loop's thread itself computed for most of that time: something in Muster holds
    the loop. Else the cause is `starved`: the thread waited for a CPU, or in a system call.
    """

    def __init__(self, clock: Clock, cpu_seconds: Callable[[], float], metrics: Metrics) -> None:
        """Take the CPU time of the loop's own thread from `cpu_seconds`, in seconds."""
        self._clock = clock
        self._cpu_seconds = cpu_seconds
        self._metrics = metrics
        self._longest_lag, self._longest_busy = _Longest(metrics.loop_lag_longest), _Longest(metrics.loop_busy_longest)
        self._window_ends = clock.monotonic() + LOOK_BACK_SECONDS
        for cause in ("busy", "starved"):
            metrics.loop_stalls.labels(cause)  # so that a rate can be taken before the first stall

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            began, computed = self._clock.monotonic(), self._cpu_seconds()
            await asyncio.sleep(INTERVAL_SECONDS)
            now = self._clock.monotonic()
            self._observe(now, max(0.0, now - began - INTERVAL_SECONDS), self._cpu_seconds() - computed)

    def _observe(self, now: float, lag: float, computed: float) -> None:
        """Count one look: how late it was, and how long the thread computed since the last (seconds)."""
        metrics = self._metrics
        metrics.loop_lag.observe(lag)
        if lag > STALL_SECONDS:
            busy = computed > max(STALL_SECONDS, BUSY_SHARE * lag)
            metrics.loop_stalls.labels("busy" if busy else "starved").inc()
        if now >= self._window_ends:
            self._longest_lag.turn_over()
            self._longest_busy.turn_over()
            self._window_ends = now + LOOK_BACK_SECONDS
        self._longest_lag.observe(lag)
        self._longest_busy.observe(min(lag, computed))


log = structlog.get_logger("muster.health")


class Mode(StrEnum):
    """What state Muster is in; the value is the metric label."""

    SYNCING = "syncing"
    STALE = "stale"
    STANDBY = "standby"
    BACKLOGGED = "backlogged"
    NORMAL = "normal"


@dataclass(frozen=True, slots=True)
class HealthCondition:
    """A mode and, for people, why; `wait` is what managed pods are told, None where they are served."""

    mode: Mode
    why: str = ""
    wait: Wait | None = None

    @property
    def decides(self) -> bool:
        """Tell whether gangs are evaluated."""
        return self.mode in {Mode.NORMAL, Mode.BACKLOGGED}


class DegradedError(Exception):
    """A question that cannot be answered now; the message is `Reason: why`."""

    def __init__(self, wait: Wait) -> None:
        super().__init__(f"{wait.reason}: {wait.message}")
        self.wait = wait


class Health:
    """Find out the mode from the parts that know; the worst one counts.

    Attributes:
        noticed: the mode that was noticed last.
        refused: what the API server does not let Muster do, for people; "" for nothing.
    """

    def __init__(
        self, watches: Watches, leadership: Leadership, outbox: Outbox, clock: Clock, metrics: Metrics
    ) -> None:
        self._watches = watches
        self._leadership = leadership
        self._outbox = outbox
        self._clock = clock
        self._metrics = metrics
        self.noticed = Mode.SYNCING
        self.refused = ""

    def condition(self) -> HealthCondition:
        """Return the state of this moment."""
        if not self._watches.complete:
            why = "; ".join(f"{kind} not synced" for kind in self._watches.unsynced())
            return HealthCondition(Mode.SYNCING, why, Wait(Reason.CACHE_NOT_SYNCED, names={"detail": why}))
        if self._watches.stale():
            silent = ", ".join(self._watches.silent())
            wait = Wait(Reason.CACHE_STALE, names={"detail": silent})
            return HealthCondition(Mode.STALE, "; ".join(self._watches.complaints()), wait)
        if not leads(self._leadership, self._clock):
            return HealthCondition(Mode.STANDBY, "another replica leads, or none", Wait(Reason.NOT_LEADING))
        if self._outbox.backlogged():
            return HealthCondition(Mode.BACKLOGGED, f"{len(self._outbox)} writes wait")
        return HealthCondition(Mode.NORMAL)

    def changes_at(self) -> float:
        """Return when time alone may change the mode next (seconds, monotonic)."""
        now = self._clock.monotonic()
        times = (self._watches.stale_at(), self._leadership.held_until(), self._outbox.backlogged_at())
        return min((time for time in times if time > now), default=float("inf"))

    def notice(self) -> HealthCondition:
        """Return the state of this moment, and log it if it is another one than last time."""
        found = self.condition()
        if found.mode is not self.noticed:
            write = log.info if found.mode in {Mode.NORMAL, Mode.STANDBY} else log.warning
            write("mode changed", mode=found.mode, before=self.noticed, why=found.why)
            self.noticed = found.mode
        return found

    def scrape(self) -> None:
        """Set the gauges."""
        current = self.condition().mode
        for mode in (Mode.SYNCING, Mode.STALE, Mode.BACKLOGGED):
            self._metrics.degraded.labels(mode).set(mode is current)
        self._metrics.leading.set(leads(self._leadership, self._clock))
        self._metrics.ready.set(self.ready)

    @property
    def ready(self) -> bool:
        """Tell whether calls can be answered here, or could as soon as this replica leads, and decisions written."""
        return self._watches.complete and not self._watches.stale() and not self.refused

    def refuse(self, what: str) -> None:
        """Take in what the API server does not let Muster do now, "" for nothing."""
        self.refused = what

    def unready_because(self) -> list[str]:
        """Return what keeps `ready` false, for people."""
        return [*([self.refused] if self.refused else ()), *self._watches.complaints()]
