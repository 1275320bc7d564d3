"""Which object something is about, and moments as the API server writes them."""

from __future__ import annotations

import datetime as dt
import math

import pytest

from extender.objects.meta import ObjectRef, read_timestamp, time_text, write_timestamp


def test_objects_are_named_with_their_kind() -> None:
    """An object of the cluster has no namespace, and one of the core no group."""
    assert str(ObjectRef("v1", "Pod", "default", "a", "u")) == "Pod default/a"
    assert str(ObjectRef("kai.scheduler/v1alpha1", "Topology", "", "t", "u")) == "Topology t"
    assert ObjectRef("v1", "Pod", "default", "a", "u").group == ""
    assert ObjectRef("kai.scheduler/v1alpha1", "Topology", "", "t", "u").group == "kai.scheduler"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2026-01-01T00:00:00Z", 1767225600.0),
        ("2026-01-01T01:00:00+01:00", 1767225600.0),
        ("2026-01-01T00:00:00.250000Z", 1767225600.25),
    ],
)
def test_a_moment_is_seconds_since_the_epoch(text: str, seconds: float) -> None:
    """Whatever its time zone and precision."""
    assert read_timestamp(text) == seconds


@pytest.mark.parametrize("text", ["", "now", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z", "1767225600"])
def test_what_is_no_moment_is_none(text: str) -> None:
    """A time without a zone could be any of 26 moments, so that it is none."""
    assert read_timestamp(text) is None


def test_a_moment_is_written_in_whole_seconds_of_utc() -> None:
    """Whatever its time zone, a moment is written as the API server writes it, and read back as the same."""
    moment = dt.datetime(2026, 1, 1, 2, 0, 5, 900_000, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert write_timestamp(moment) == "2026-01-01T00:00:05Z"
    assert read_timestamp(write_timestamp(moment)) == int(moment.timestamp())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1e300, "9999-12-31T23:59:59Z"), (-math.inf, "1000-01-01T00:00:00Z"), (1767225600.5, "2026-01-01T00:00:00Z")],
)
def test_what_no_year_can_tell_is_told_as_the_nearest_moment(seconds: float, text: str) -> None:
    """An end that is expected in 10,000 years is one that people read all the same."""
    assert time_text(seconds) == text
