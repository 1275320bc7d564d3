"""How late the event loop runs, and whether that is Muster's own doing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from extender.clock import Clock
from extender.control.metrics import Metrics

#: Seconds between two looks. A stall shows shorter by up to this much, since it may begin between two of them. Looking
#: costs about 0.3 % of a CPU.
INTERVAL_SECONDS = 0.005
#: A turn of the loop that is later than this is a stall: ten times the budget of a filter call.
STALL_SECONDS = 0.01
#: Seconds that the gauge of the longest lag looks back, at least; twice as many at most.
LOOK_BACK_SECONDS = 30.0


class LoopLag:
    """Sleep for a moment over and over, and measure how late the loop wakes it up.

    A stall has the cause `busy` if the loop's thread itself computed for all that time: something in Muster holds the
    loop. Else the cause is `starved`: the thread waited for a CPU, or in a system call.
    """

    def __init__(self, clock: Clock, cpu_seconds: Callable[[], float], metrics: Metrics) -> None:
        """Take the CPU time of the loop's own thread from `cpu_seconds`, in seconds."""
        self._clock = clock
        self._cpu_seconds = cpu_seconds
        self._metrics = metrics
        self._longest = 0.0
        self._longest_before = 0.0
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
            metrics.loop_stalls.labels("busy" if computed > STALL_SECONDS else "starved").inc()
        if now >= self._window_ends:
            self._longest_before, self._longest = self._longest, 0.0
            self._window_ends = now + LOOK_BACK_SECONDS
        self._longest = max(self._longest, lag)
        metrics.loop_lag_longest.set(max(self._longest, self._longest_before))
