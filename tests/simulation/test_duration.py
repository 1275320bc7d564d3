"""Durations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.simulation.duration import DurationError, format_duration, parse_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (0, 0.0),
        (90, 90.0),
        (1.5, 1.5),
        ("0", 0.0),
        ("30m", 1800.0),
        ("1h", 3600.0),
        ("1h30m", 5400.0),
        ("1h0m1.5s", 3601.5),
        ("500ms", 0.5),
        ("250us", 0.00025),
        ("250µs", 0.00025),
        ("5ns", 5e-9),
        (".5h", 1800.0),
        ("2.h", 7200.0),
        ("+3s", 3.0),
    ],
)
def test_seconds_and_go_durations_are_read(written: object, seconds: float) -> None:
    """Numbers are seconds; text is as Go's time.ParseDuration has it."""
    assert parse_duration(written) == pytest.approx(seconds, abs=1e-12)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        (-3, "'-3' is negative"),
        ("-1m", "'-1m' is negative"),
        ("30", "'30' is not a duration"),
        ("5 m", "'5 m' is not a duration"),
        ("m5", "'m5' is not a duration"),
        ("1d", "'1d' is not a duration"),
        ("", "'' is not a duration"),
        ("٣s", "'٣s' is not a duration"),
        (None, "None is not a duration"),
        (True, "True is not a duration"),
        ([1], r"\[1\] is not a duration"),
        (float("nan"), "'nan' is not a finite duration"),
        (float("inf"), "'inf' is not a finite duration"),
        ("9" * 400 + "h", "is not a finite duration"),
    ],
)
def test_everything_else_is_refused_with_the_value(written: object, complaint: str) -> None:
    """What is no duration is named in the error."""
    with pytest.raises(DurationError, match=complaint):
        parse_duration(written)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (1760, "29m20s"), (3600, "1h"), (5400, "1h30m"), (86_400, "24h"), (1.5, "1.5s"), (0.0004, "0s")],
)
def test_durations_are_written_for_people(seconds: float, text: str) -> None:
    """Hours, minutes and seconds, without the parts that are zero."""
    assert format_duration(seconds) == text


@given(st.integers(min_value=0, max_value=10**7))
def test_whole_seconds_round_trip(seconds: int) -> None:
    """What is written for people is read back as the same duration."""
    assert parse_duration(format_duration(seconds)) == seconds
