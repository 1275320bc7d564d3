"""How fresh the caches are."""

from __future__ import annotations

import math
from collections.abc import Collection

from extender.clock import Clock
from extender.control.metrics import Metrics
from extender.control.ports import REQUIRED_KINDS, VITAL_KINDS, Kind


class Watches:
    """Keep, per kind, whether its first list is complete and when its watch was last heard of."""

    def __init__(self, clock: Clock, metrics: Metrics, stale_after: float) -> None:
        """Call a watch stale that has been silent for `stale_after` seconds."""
        self._clock = clock
        self._metrics = metrics
        self._stale_after = stale_after
        self._synced: set[Kind] = set()
        self._heard: dict[Kind, float] = {}
        self._vital: dict[Kind, float] = {}

    def synced(self, kind: Kind) -> None:
        """Learn that a kind's first list is complete."""
        self._synced.add(kind)
        self.heard(kind)

    def heard(self, kind: Kind) -> None:
        """Learn that a kind's watch is alive."""
        self._heard[kind] = self._clock.monotonic()
        if kind in VITAL_KINDS:
            self._vital[kind] = self._heard[kind]

    def restarted(self, kind: Kind, cause: str) -> None:
        """Count a restart."""
        self._metrics.watch_restarts.labels(kind, cause).inc()

    def complete(self, kinds: Collection[Kind]) -> bool:
        """Tell whether all of `kinds` have been listed."""
        return self._synced.issuperset(kinds)

    def stale_at(self) -> float:
        """Return when the first vital watch will have been silent for too long (seconds, monotonic); or infinity."""
        return min(self._vital.values(), default=math.inf) + self._stale_after

    def stale(self) -> bool:
        """Tell whether any vital watch has been silent for too long."""
        return self._clock.monotonic() >= self.stale_at()

    def silent(self) -> list[Kind]:
        """Return the vital kinds whose watches have been silent for too long."""
        now = self._clock.monotonic()
        return [kind for kind, heard in self._vital.items() if now >= heard + self._stale_after]

    def complaints(self) -> list[str]:
        """Return, for people, which kinds are not listed yet or silent for too long."""
        now = self._clock.monotonic()
        missing = [f"{kind} not synced" for kind in REQUIRED_KINDS if kind not in self._synced]
        silent = [f"{kind} silent for {now - self._heard[kind]:.0f} s" for kind in self.silent()]
        return missing + silent

    def scrape(self) -> None:
        """Set the age gauges."""
        now = self._clock.monotonic()
        for kind, heard in self._heard.items():
            self._metrics.watch_age.labels(kind).set(now - heard)
