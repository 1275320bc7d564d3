"""Virtual time: an event loop that skips to the next timer instead of sleeping, and a clock that reads it."""

from __future__ import annotations

import asyncio
import datetime as dt
import heapq
import math
import selectors
from collections.abc import Callable
from contextvars import Context
from itertools import count
from typing import TypeVarTuple, Unpack

#: Where calendar time stands when virtual time is zero. Any fixed date does: results must not depend on today's.
EPOCH = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

_Arguments = TypeVarTuple("_Arguments")

#: asyncio says how long it would sleep; added to the time this is off the timer's own time by less (seconds).
_TOLERANCE = 1e-9

#: Decimals of a second that elapsed times keep.
_DECIMALS = 9


#: Turns of the loop in one moment. A hundred thousand pods that arrive at once take a fifth of that.
_MOST_TURNS = 5_000_000


class StalledError(RuntimeError):
    """Time stands still: nothing can ever happen again, or the same moment never ends."""


class _VirtualSelector(selectors.DefaultSelector):
    """Poll for I/O that is ready; where asyncio would sleep, let `pass_time` move the time, and tell whether it did."""

    def __init__(self, pass_time: Callable[[float | None], bool]) -> None:
        super().__init__()
        self._pass_time = pass_time
        self._turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and (timeout is None or timeout > 0) and self._pass_time(timeout):
            self._turns = 0
            return ready
        self._turns += 1
        if self._turns > _MOST_TURNS:
            self._turns = 0  # the loop still has to close
            msg = f"time does not pass: {_MOST_TURNS} turns of the loop in one moment"
            raise StalledError(msg)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop whose time starts at zero and moves only when nothing is left to do.

    A loop that waits for threads or for sockets that are not ready at once would skip over them: their time is real.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._timers: list[float] = []
        self._arrivals: list[tuple[float, int, asyncio.Future[None]]] = []
        self._serial = count()
        super().__init__(_VirtualSelector(self._pass_time))

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    @property
    def _clock_resolution(self) -> float:
        """Return how early asyncio may fire a timer (seconds): not at all.

        Its own answer, a nanosecond, lets a timer fire with one that is due a rounding error earlier; the code that
        set it finds that it is not time yet, sets it again, and so on without an end.
        """
        return math.ulp(self._now)

    @_clock_resolution.setter
    def _clock_resolution(self, _seconds: float) -> None:
        """Leave asyncio's own answer be."""

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[_Arguments]], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Have `callback` called at `when` (seconds), and remember that time exactly."""
        heapq.heappush(self._timers, when)
        return super().call_at(when, callback, *args, context=context)

    async def reach(self, when: float) -> None:
        """Return once everything due up to and including `when` (seconds) has happened."""
        arrival: asyncio.Future[None] = self.create_future()
        heapq.heappush(self._arrivals, (max(when, self._now), next(self._serial), arrival))
        await arrival

    def _pass_time(self, timeout: float | None) -> bool:
        """Move on to the next timer, `timeout` seconds away, or to an earlier moment that a caller waits to reach.

        Return whether time has passed.
        """
        before = self._now
        timer = None if timeout is None else self._exactly(self._now + timeout)
        if self._arrivals and (timer is None or self._arrivals[0][0] < timer):
            when, _, arrival = heapq.heappop(self._arrivals)
            self._now = when
            if not arrival.done():
                arrival.set_result(None)
        elif timer is not None:
            self._now = timer
        else:
            msg = f"nothing can happen any more at {self._now:g} s: no timer is set and no task is ready"
            raise StalledError(msg)
        return self._now > before

    def _exactly(self, about: float) -> float:
        """Return the time of the timer that is due at `about`: its code must find that it is due, not nearly so."""
        while self._timers and (self._timers[0] <= self._now or self._timers[0] < about - _TOLERANCE):
            heapq.heappop(self._timers)  # it has fired, or was cancelled
        return self._timers[0] if self._timers and self._timers[0] <= about + _TOLERANCE else about


class LoopClock:
    """Read an event loop's time as a clock, whether it is virtual or real.

    Args:
        loop: the loop.
        start: the calendar time now.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, start: dt.datetime = EPOCH) -> None:
        self._loop = loop
        self._origin = loop.time()
        self._start = start

    def monotonic(self) -> float:
        """Return the loop's time in seconds."""
        return self._loop.time()

    def elapsed(self) -> float:
        """Return the seconds since this clock was made."""
        return round(self._loop.time() - self._origin, _DECIMALS)

    def now(self) -> dt.datetime:
        """Return the calendar time, in UTC."""
        return self._start + dt.timedelta(seconds=self._loop.time() - self._origin)
