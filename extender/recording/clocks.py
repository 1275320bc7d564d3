"""The clock's readings: noted while something is decided, and given again when it is decided anew."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from extender.clock import Clock

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


class ClockError(Exception):
    """A clock that was read otherwise than it was recorded."""


@dataclass(frozen=True, slots=True)
class Readings:
    """What a clock said, in order: seconds of the monotonic clock, and moments by the calendar."""

    monotonic: Sequence[float] = ()
    calendar: Sequence[dt.datetime] = ()


class NotedClock:
    """Pass on another clock's time, and remember what was said since `begin`."""

    def __init__(self, clock: Clock) -> None:
        """Read `clock`."""
        self._read_monotonic = clock.monotonic
        self._read_calendar = clock.now
        self._monotonic: list[float] = []
        self._calendar: list[dt.datetime] = []

    def begin(self) -> None:
        """Forget what was said before."""
        if self._monotonic:
            self._monotonic = []
        if self._calendar:
            self._calendar = []

    def taken(self) -> Readings:
        """Return what was said since `begin`; what is said from now on does not count."""
        readings = Readings(self._monotonic, self._calendar)
        self._monotonic, self._calendar = [], []
        return readings

    def monotonic(self) -> float:
        """Return seconds that never go backwards."""
        seconds = self._read_monotonic()
        self._monotonic.append(seconds)
        return seconds

    def now(self) -> dt.datetime:
        """Return the calendar time in UTC."""
        moment = self._read_calendar()
        self._calendar.append(moment)
        return moment


class PlayedClock:
    """Say what was recorded, in the same order; between inputs, the last that was said."""

    def __init__(self) -> None:
        """Start at zero."""
        self._last = 0.0
        self._last_moment = _EPOCH
        self._readings = Readings()
        self._place = self._calendar_place = 0
        self._playing = False

    def begin(self, readings: Readings) -> None:
        """Have these said from now on, each once."""
        self._readings = readings
        self._place = self._calendar_place = 0
        self._playing = True

    def end(self) -> None:
        """Raise ClockError if something was recorded that nobody has asked for; then go on with the last."""
        self._playing = False
        left = len(self._readings.monotonic) - self._place
        left += len(self._readings.calendar) - self._calendar_place
        if self._readings.monotonic:
            self._last = self._readings.monotonic[-1]
        if self._readings.calendar:
            self._last_moment = self._readings.calendar[-1]
        if left:
            raise ClockError(f"the clock was read {left} times less often than recorded")

    def monotonic(self) -> float:
        """Return what was recorded next (seconds); raise ClockError where nothing is left."""
        if not self._playing:
            return self._last
        if self._place >= len(self._readings.monotonic):
            raise ClockError("the monotonic clock was read more often than recorded")
        self._last = self._readings.monotonic[self._place]
        self._place += 1
        return self._last

    def now(self) -> dt.datetime:
        """Return which moment was recorded next; raise ClockError where nothing is left."""
        if not self._playing:
            return self._last_moment
        if self._calendar_place >= len(self._readings.calendar):
            raise ClockError("the calendar was read more often than recorded")
        self._last_moment = self._readings.calendar[self._calendar_place]
        self._calendar_place += 1
        return self._last_moment


def microseconds(moment: dt.datetime) -> int:
    """Return a moment as whole microseconds since 1970, which is all that it says."""
    return (moment - _EPOCH) // _MICROSECOND


def moment_of(microseconds: int) -> dt.datetime:
    """Return the moment so many microseconds after the beginning of 1970; OverflowError beyond the calendar."""
    return _EPOCH + dt.timedelta(microseconds=microseconds)
