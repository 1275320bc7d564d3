"""Plain tables, bars, amounts and times."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from extender.cli.printing import (
    Column,
    age,
    amount,
    bar,
    cleaned,
    clock_time,
    duration,
    lines,
    local_time,
    milliseconds,
    read_time,
    size,
    until,
    with_local_times,
)

WORDS = st.text(st.characters(codec="utf-8"), max_size=12)


def test_columns_are_aligned_under_their_headings() -> None:
    """Numbers at the right, words at the left, nothing after the last word."""
    found = lines(
        [Column("GANG"), Column("GPUS", right=True), Column("PHASE")], [("a/b", "8", "Running"), ("c", "", "")]
    )
    assert [line.plain for line in found] == ["GANG  GPUS  PHASE", "a/b      8  Running", "c"]


def test_headings_can_be_left_out() -> None:
    """The cells stand as they would without them."""
    assert [line.plain for line in lines([Column("GANG"), Column("N")], [("a", "b")], headers=False)] == ["a  b"]


def test_wide_characters_take_two_columns() -> None:
    """What follows them is aligned all the same."""
    first, second = lines([Column("A"), Column("B")], [("\u65e5\u672c", "x"), ("abcd", "x")], headers=False)
    assert (first.plain, second.plain) == ("\u65e5\u672c  x", "abcd  x")


@given(WORDS)
def test_no_text_steers_the_terminal(word: str) -> None:
    """Escape sequences, line ends and the like are replaced; all else is as it was."""
    shown = cleaned(word).plain
    assert shown.isprintable() or "\ufffd" in shown
    assert "\x1b" not in shown
    assert not word.isprintable() or shown == word


def test_texts_keep_their_colours() -> None:
    """What this program coloured itself is not touched."""
    text = Text("x", "red")
    assert cleaned(text) is text


@given(st.lists(st.integers(0, 50), max_size=4), st.integers(1, 30), st.integers(0, 50))
def test_a_bar_has_its_width_whatever_is_drawn(values: list[int], width: int, more: int) -> None:
    """Parts that are more than the whole are cut off, and an empty whole is an empty bar."""
    drawn = bar([(value, "#", "") for value in values], sum(values) + more, width).plain
    assert len(drawn) == width
    assert ("#" in drawn) == (sum(values) > 0)


def test_little_is_still_seen() -> None:
    """One GPU of a thousand takes a cell."""
    assert bar([(1, "#", "")], 1000, 10).plain == "#" + "\u00b7" * 9


NOW = dt.datetime(2026, 3, 1, 12, 0, 0, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (192, "3m12s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600 + 12 * 60, "3h12m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (2 * 86_400 + 5 * 3600, "2d5h"),
        (8 * 86_400, "8d"),
        (3 * 365 * 86_400, "3y"),
    ],
)
def test_durations_are_written_as_kubectl_writes_them(seconds: float, text: str) -> None:
    """Two units at most, and coarser the longer it is."""
    assert duration(seconds) == text


def test_ages_and_starts_are_counted_from_now() -> None:
    """A time that is missing or cannot be read is a dash."""
    assert age("2026-03-01T11:56:48Z", NOW) == "3m12s"
    assert age(None, NOW) == age("yesterday", NOW) == until(None, NOW) == clock_time("") == "-"
    assert until("2026-03-01T12:05:00+00:00", NOW) == "in 5m"
    assert until("2026-03-01T11:00:00Z", NOW) == "now"


def test_a_time_without_zone_is_utc() -> None:
    """It can be compared with the others."""
    assert read_time("2026-03-01T12:00:00") == NOW
    assert len(clock_time("2026-03-01T12:00:00Z")) == len("12:00:00")


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 96_000, "96"),
        ("cpu", 500, "500m"),
        ("cpu", 1500, "1.5"),
        ("cpu", 0, "0"),
        ("memory", 2**40 * 3 // 2, "1.5Ti"),
        ("hugepages-1Gi", 2**30, "1Gi"),
        ("nvidia.com/gpu", 8, "8"),
    ],
)
def test_amounts_have_their_resources_units(resource: str, value: int, text: str) -> None:
    """CPUs, bytes, counts."""
    assert amount(resource, value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1023, "1023"), (1024, "1Ki"), (2**20 * 1010, "1010Mi"), (2**70, "1048576Pi")]
)
def test_sizes_are_in_the_largest_unit_that_fits(value: float, text: str) -> None:
    """No size is written with an exponent."""
    assert size(value) == text


def test_milliseconds_have_three_digits() -> None:
    """What was not measured is a dash."""
    assert milliseconds(0.31234) == "0.312 ms"
    assert milliseconds(None) == "-"


@pytest.fixture
def in_kolkata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the reader be where clocks are five and a half hours ahead of UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_kolkata")
def test_all_times_are_those_of_the_reader() -> None:
    """Of the day, in full with the distance from UTC, and within what Muster says in sentences."""
    assert clock_time("2026-03-01T12:00:00Z") == "17:30:00"
    assert local_time("2026-03-01T20:00:00Z") == "2026-03-02T01:30:00+05:30"
    assert local_time(None) == "-"
    said = "starts at 2026-03-01T12:00:00Z if a/b ends, or at 2026-03-01T12:00:01.5+00:00"
    here = "starts at 2026-03-01T17:30:00+05:30 if a/b ends, or at 2026-03-01T17:30:01+05:30"
    assert with_local_times(said) == here
    assert with_local_times("3 of 4 members fit now, on gpu-2026-03-01") == "3 of 4 members fit now, on gpu-2026-03-01"
