"""Playing a recording: every event again, at the same times, and a comparison of what comes out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from extender.admission.admission import Admission
from extender.admission.engine import Engine
from extender.journal.entries import EPOCH, Noted, Readings, outcome_of
from extender.journal.outcomes import Raised
from extender.ledger.effects import Effects
from extender.settings import Settings


class ClockError(Exception):
    """A clock that was read otherwise than it was recorded."""


class PlayedClock:
    """Say what was recorded, in the same order; between inputs, the last that was said."""

    def __init__(self) -> None:
        self._last = 0.0
        self._last_moment = EPOCH
        self._readings = Readings()
        self._place = self._calendar_place = 0
        self._playing = False

    def begin(self, readings: Readings) -> None:
        """Have these said from now on, each once."""
        self._readings = readings
        self._place = self._calendar_place = 0
        self._playing = True

    def end(self) -> None:
        """Raise ClockError if something was recorded that was not read; then go on with the last."""
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


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    """An event of which something else came than was recorded.

    `seq` counts events from 1. `expected` and `got` are outcomes as they are written, equal where it is only the clock
    that was read otherwise; `clock` says how.
    """

    seq: int
    noted: Noted
    expected: bytes
    got: bytes
    clock: str = ""


class JournalPlayer:
    """Decide again what a recording says was decided.

    Attributes:
        seq: how many events have been played.
    """

    def __init__(self, settings: Settings, first: Readings) -> None:
        self._clock = PlayedClock()
        self._clock.begin(first)
        self._engine = Engine(settings, self._clock)
        self._clock.end()
        self.seq = 0

    @property
    def admission(self) -> Admission:
        """Return the state: it stands as the recorded one did after as many events."""
        return self._engine.admission

    def play(self, noted: Iterable[Noted]) -> Iterator[ReplayDifference | None]:
        """Play events one after the other; yield after each what differed, None where nothing did."""
        for each in noted:
            self.seq += 1
            yield self._play(each)

    def _play(self, noted: Noted) -> ReplayDifference | None:
        came: Effects[Any] | Raised
        clock = ""
        self._clock.begin(noted.readings)
        try:
            came = self._engine.apply(noted.event)
        except ClockError as error:
            came, clock = Raised.of(error), str(error)
        except Exception as error:  # noqa: BLE001 - what failed when it was recorded fails again, and is an outcome
            came = Raised.of(error)
        try:
            self._clock.end()
        except ClockError as error:
            clock = clock or str(error)
        got = outcome_of(came)
        if got == noted.came and not clock:
            return None
        return ReplayDifference(self.seq, noted, noted.came, got, clock)
