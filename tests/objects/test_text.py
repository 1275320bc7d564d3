"""Integers, durations and names are read and ordered as Kubernetes and Go do it."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.text import natural_key, parse_go_duration, parse_int64, parse_integer


@pytest.mark.parametrize(
    ("text", "plain", "lenient"),
    [
        ("0", 0, 0),
        ("7", 7, 7),
        ("-3", -3, -3),
        ("9223372036854775807", 2**63 - 1, 2**63 - 1),
        ("-9223372036854775808", -(2**63), -(2**63)),
        ("9223372036854775808", None, None),
        ("-9223372036854775809", None, None),
        ("9" * 5000, None, None),
        ("+3", None, 3),
        ("-0", None, 0),
        ("007", None, 7),
        ("0" * 5000 + "7", None, 7),
        ("-" + "0" * 30, None, 0),
        ("", None, None),
        ("-", None, None),
        ("+", None, None),
        ("1_000", None, None),
        ("٣", None, None),
        (" 1", None, None),
        ("1\n", None, None),
        ("1.0", None, None),
        ("0x1", None, None),
        ("--1", None, None),
    ],
)
def test_text_is_an_integer_by_the_rule_of_its_place(text: str, plain: int | None, lenient: int | None) -> None:
    """Tolerations want plain decimals; node affinity takes signs and leading zeros; both stay within int64."""
    assert parse_integer(text) == plain
    assert parse_int64(text) == lenient


@given(value=st.integers())
def test_integers_survive_being_written(value: int) -> None:
    """Every int64 is read back from its decimal digits, and no other number is."""
    expected = value if -(2**63) <= value < 2**63 else None
    assert parse_integer(str(value)) == parse_int64(str(value)) == expected


@given(text=st.text(alphabet="0123456789+-_ ٣", max_size=30))
def test_the_plain_rule_is_the_narrower_one(text: str) -> None:
    """Whatever is a plain integer is the same integer by the lenient rule."""
    assert parse_integer(text) in (None, parse_int64(text))


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


NAMES = st.text(alphabet="ab019-.٣", max_size=12)


def test_numbers_in_names_count_as_numbers() -> None:
    """`worker-10` stands behind `worker-9`, numbers before letters, and a name before its extensions."""
    names = ["worker-10", "workers", "worker-a", "worker-9", "worker", "worker-01a", "worker-2", "worker-1"]
    expected = ["worker", "worker-1", "worker-01a", "worker-2", "worker-9", "worker-10", "worker-a", "workers"]
    assert sorted(names, key=natural_key) == expected


@given(numbers=st.lists(st.integers(0, 10**30), unique=True))
def test_equal_words_are_ordered_by_their_numbers(numbers: list[int]) -> None:
    """Names that differ in one number sort by its value, however long it is."""
    names = sorted((f"gpu-{number}-b" for number in numbers), key=natural_key)
    assert names == [f"gpu-{number}-b" for number in sorted(numbers)]


@given(names=st.lists(NAMES, unique=True), shuffled=st.randoms())
def test_different_names_have_different_places(names: list[str], shuffled: random.Random) -> None:
    """The order is the same whatever order the names came in, leading zeros and all."""
    before = sorted(names, key=natural_key)
    shuffled.shuffle(names)
    assert sorted(names, key=natural_key) == before
    assert all(natural_key(a) != natural_key(b) for a, b in itertools.combinations(names, 2))


@given(names=st.lists(st.text(), max_size=5))
def test_any_text_has_a_place(names: list[str]) -> None:
    """No text is too odd to be sorted, and none is lost."""
    assert len(sorted([*names, "9" * 10_000, ""], key=natural_key)) == len(names) + 2
