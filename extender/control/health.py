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

from dataclasses import dataclass
from enum import StrEnum

import structlog

from extender.clock import Clock
from extender.control.leadership import Leadership, leads
from extender.control.metrics import Metrics
from extender.control.outbox import Outbox
from extender.control.ports import REQUIRED_KINDS
from extender.control.watches import Watches
from extender.domain.reason import Reason, Wait

log = structlog.get_logger("muster.health")


class Mode(StrEnum):
    """What state Muster is in; the value is the metric label."""

    SYNCING = "syncing"
    STALE = "stale"
    STANDBY = "standby"
    BACKLOGGED = "backlogged"
    NORMAL = "normal"


@dataclass(frozen=True, slots=True)
class Condition:
    """A mode and, for people, why; `wait` is what managed pods are told, None where they are served."""

    mode: Mode
    why: str = ""
    wait: Wait | None = None

    @property
    def decides(self) -> bool:
        """Tell whether gangs are judged."""
        return self.mode in {Mode.NORMAL, Mode.BACKLOGGED}


class DegradedError(Exception):
    """A question that cannot be answered now; the message is `Reason: why`."""

    def __init__(self, wait: Wait) -> None:
        """Say why."""
        super().__init__(f"{wait.reason}: {wait.message}")
        self.wait = wait


class Health:
    """Find out the mode from the parts that know; the worst one counts.

    Attributes:
        noticed: the mode that was noticed last.
    """

    def __init__(
        self, watches: Watches, leadership: Leadership, outbox: Outbox, clock: Clock, metrics: Metrics
    ) -> None:
        """Ask these parts."""
        self._watches = watches
        self._leadership = leadership
        self._outbox = outbox
        self._clock = clock
        self._metrics = metrics
        self.noticed = Mode.SYNCING

    def condition(self) -> Condition:
        """Return the state of this moment."""
        if not self._watches.complete(REQUIRED_KINDS):
            why = "; ".join(self._watches.complaints())
            return Condition(Mode.SYNCING, why, Wait(Reason.CACHE_NOT_SYNCED, names={"detail": why}))
        if self._watches.stale():
            silent = ", ".join(self._watches.silent())
            wait = Wait(Reason.CACHE_STALE, names={"detail": silent})
            return Condition(Mode.STALE, "; ".join(self._watches.complaints()), wait)
        if not leads(self._leadership, self._clock):
            return Condition(Mode.STANDBY, "another replica leads, or none", Wait(Reason.NOT_LEADING))
        if self._outbox.backlogged():
            return Condition(Mode.BACKLOGGED, f"{len(self._outbox)} writes wait")
        return Condition(Mode.NORMAL)

    def changes_at(self) -> float:
        """Return when time alone may change the mode next (seconds, monotonic)."""
        now = self._clock.monotonic()
        times = (self._watches.stale_at(), self._leadership.held_until(), self._outbox.backlogged_at())
        return min((time for time in times if time > now), default=float("inf"))

    def notice(self) -> Condition:
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
        """Tell whether calls can be answered here, or could as soon as this replica leads."""
        return self.condition().mode not in {Mode.SYNCING, Mode.STALE}
