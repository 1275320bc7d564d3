"""Clocks tell the time twice over, and the manual one only when told."""

from __future__ import annotations

import datetime as dt

import pytest

from extender.clock import Clock, ManualClock, SystemClock


def test_the_system_clock_is_utc_and_steady() -> None:
    """The calendar time is aware of its zone; the steady time does not go backwards."""
    clock: Clock = SystemClock()
    before = clock.monotonic()
    assert clock.now().utcoffset() == dt.timedelta(0)
    assert clock.monotonic() >= before


def test_a_manual_clock_stands_still() -> None:
    """Until it is told to move, both times stay where they started."""
    clock: Clock = ManualClock()
    assert (clock.monotonic(), clock.now()) == (0.0, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    assert (clock.monotonic(), clock.now()) == (0.0, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))


def test_a_manual_clock_moves_both_times_together() -> None:
    """Advancing moves the steady and the calendar time by the same seconds."""
    start = dt.datetime(2030, 5, 1, 12, tzinfo=dt.UTC)
    clock = ManualClock(start)
    clock.advance(1.5)
    clock.advance(0)
    clock.advance(60)
    assert clock.monotonic() == 61.5
    assert clock.now() == start + dt.timedelta(seconds=61.5)


@pytest.mark.parametrize("seconds", [-1, -0.001])
def test_a_manual_clock_does_not_go_backwards(seconds: float) -> None:
    """Moving back is an error, and moves nothing."""
    clock = ManualClock()
    clock.advance(10)
    with pytest.raises(ValueError, match="does not go backwards"):
        clock.advance(seconds)
    assert clock.monotonic() == 10
