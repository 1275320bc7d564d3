"""The clock's readings, noted and given again."""

from __future__ import annotations

import datetime as dt

import pytest

from extender.clock import ManualClock
from extender.journal.entries import Readings, microseconds, moment_of
from extender.journal.journal import NotedClock
from extender.journal.playing import ClockError, PlayedClock

MOMENT = dt.datetime(2026, 3, 1, 12, 30, 15, 123_457, tzinfo=dt.UTC)


def test_what_is_said_is_noted_until_it_is_taken() -> None:
    """Readings belong to the input that made them: what was said before, or is said afterwards, does not."""
    manual = ManualClock(MOMENT)
    clock = NotedClock(manual)
    clock.monotonic()
    clock.begin()
    manual.advance(1.5)
    assert (clock.monotonic(), clock.now()) == (1.5, MOMENT + dt.timedelta(seconds=1.5))
    taken = clock.taken()
    clock.monotonic()
    assert (taken.monotonic, taken.calendar) == ([1.5], [MOMENT + dt.timedelta(seconds=1.5)])


def test_the_same_is_said_again() -> None:
    """Each reading is given once, in order; between inputs the last stands."""
    clock = PlayedClock()
    clock.begin(Readings([1.0, 2.0], [MOMENT]))
    assert [clock.monotonic(), clock.now(), clock.monotonic()] == [1.0, MOMENT, 2.0]
    clock.end()
    assert [clock.monotonic(), clock.monotonic(), clock.now()] == [2.0, 2.0, MOMENT]


def test_a_clock_that_is_read_otherwise_is_found_out() -> None:
    """More readings than were recorded, of either kind, or fewer: both are differences."""
    clock = PlayedClock()
    clock.begin(Readings([1.0], []))
    with pytest.raises(ClockError, match="calendar was read more often"):
        clock.now()
    with pytest.raises(ClockError, match="1 times less often"):
        clock.end()
    clock.begin(Readings([], []))
    with pytest.raises(ClockError, match="monotonic clock was read more often"):
        clock.monotonic()


def test_moments_are_whole_microseconds() -> None:
    """Nothing of a moment is lost in between."""
    assert moment_of(microseconds(MOMENT)) == MOMENT
