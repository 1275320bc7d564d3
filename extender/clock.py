"""Time, injected: the only module that reads the machine's clocks."""

from __future__ import annotations

import datetime as dt
import time
from typing import Protocol


class Clock(Protocol):
    """Tell the time twice over: steadily for deadlines, by the calendar for what people read."""

    def monotonic(self) -> float:
        """Return seconds that never go backwards; only differences mean something."""

    def now(self) -> dt.datetime:
        """Return the calendar time, timezone-aware, in UTC."""


class SystemClock:
    """Read the machine's own clocks."""

    def monotonic(self) -> float:
        """Return seconds of the monotonic clock."""
        return time.monotonic()

    def now(self) -> dt.datetime:
        """Return the wall clock in UTC."""
        return dt.datetime.now(dt.UTC)


class ClusterClock:
    """Tell the time of day as the API server has it, with which most that is compared was written there.

    What it said goes on by the steady clock: a machine's clock that is wrong, or is set, changes nothing.
    """

    def __init__(self, machine: Clock) -> None:
        """Take the machine's word until the API server is heard."""
        self.monotonic = machine.monotonic
        self._at, self._moment = machine.monotonic(), machine.now()

    def now(self) -> dt.datetime:
        """Return the API server's time of day in UTC."""
        return self._moment + dt.timedelta(seconds=self.monotonic() - self._at)

    def hear(self, said: dt.datetime, sent: float) -> float:
        """Take in what it said in whole seconds while it answered what was `sent` then (seconds, monotonic).

        Only what cannot be is put right: times a part of a second apart are as good as equal. Returns how many seconds
        were added.
        """
        at, before = self.monotonic(), self.now()
        latest = said + dt.timedelta(seconds=1.0 + at - sent)
        self._at, self._moment = at, min(max(before, said), latest)
        return (self._moment - before).total_seconds()


def thread_cpu_seconds() -> float:
    """Return the CPU time that the calling thread has used, in seconds; only differences mean something."""
    return time.thread_time()


class ManualClock:
    """Stand still until told to move: the clock of tests and of the simulation.

    Args:
        start: the calendar time at which `monotonic` is zero.
    """

    def __init__(self, start: dt.datetime | None = None) -> None:
        """Start at monotonic zero."""
        self._start = start or dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        self._elapsed = 0.0

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        return self._elapsed

    def now(self) -> dt.datetime:
        """Return the start time plus what was advanced."""
        return self._start + dt.timedelta(seconds=self._elapsed)

    def advance(self, seconds: float) -> None:
        """Move forward by `seconds`; raise ValueError if that would go backwards."""
        if seconds < 0:
            msg = f"a clock does not go backwards: advance({seconds})"
            raise ValueError(msg)
        self._elapsed += seconds
