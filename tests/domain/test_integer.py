"""Text is an integer where Kubernetes thinks so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.integer import parse_int64, parse_integer


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
