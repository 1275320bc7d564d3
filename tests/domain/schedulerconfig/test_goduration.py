"""Durations as Go's time.ParseDuration reads them."""

from __future__ import annotations

import pytest

from extender.domain.schedulerconfig.goduration import parse_go_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30.0),
        ("1m30s", 90.0),
        ("1.5h", 5400.0),
        ("250ms", 0.25),
        ("2us", 2e-6),
        ("2µs", 2e-6),
        ("3ns", 3e-9),
        (".5s", 0.5),
        ("5.s", 5.0),
        ("-1s", -1.0),
        ("+1s", 1.0),
        ("0", 0.0),
        ("1h1h", 7200.0),
    ],
)
def test_what_go_accepts(text: str, seconds: float) -> None:
    """Numbers with units, one after the other."""
    assert parse_go_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "30", "30 s", "s", "1d", ".s", "1s ", "--1s", "1e3s", "٣s"])
def test_what_go_refuses(text: str) -> None:
    """A unit is needed, and nothing else may stand there."""
    assert parse_go_duration(text) is None
