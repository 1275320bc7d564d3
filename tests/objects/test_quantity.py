"""Quantities amount to what Kubernetes takes them for."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.requests import (
    MAX_AMOUNT,
    QuantityError,
    amount,
    billionths,
    format_amount,
    parse_quantity,
    whole_units,
)
from tests.objects.documents import ODD_AMOUNTS, load

CASES = load("objects/data/quantities.json")

#: Go takes a suffix without a number for zero. Nobody writes that on purpose.
DIGITLESS = {"e3"}


def is_capped(case: dict[str, Any]) -> bool:
    """Tell whether Go has replaced a binary quantity beyond int64 by the largest int64, as it does silently."""
    exact, text = str(case["exact"]), str(case["text"])
    return exact == str(MAX_AMOUNT) and text.endswith("i")


READABLE = [case for case in CASES if case["exact"] is not None and case["text"] not in DIGITLESS]
UNREADABLE = sorted({case["text"] for case in CASES if case["exact"] is None} | DIGITLESS)
RESOURCES = ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "pods", "nvidia.com/gpu"]


def amount_or_none(resource: str, text: str) -> int | None:
    """Return the amount, or None where there is none."""
    try:
        return amount(resource, text)
    except QuantityError:
        return None


@pytest.mark.parametrize("case", [case for case in READABLE if not is_capped(case)], ids=lambda case: case["text"])
def test_a_quantity_has_the_value_that_kubernetes_gives_it(case: dict[str, Any]) -> None:
    """The exact value is Go's, with what is finer than a billionth rounded away from zero."""
    assert parse_quantity(case["text"]) == Decimal(case["exact"])
    assert parse_quantity(case["canonical"]) == Decimal(case["exact"])


@pytest.mark.parametrize("case", [case for case in READABLE if not is_capped(case)], ids=lambda case: case["text"])
def test_an_amount_is_rounded_as_kubernetes_does(case: dict[str, Any]) -> None:
    """CPU amounts are Go's MilliValue and others its Value; negative ones and those beyond int64 are refused."""
    assert amount_or_none("cpu", case["text"]) == case.get("milliValue")
    assert amount_or_none("nvidia.com/gpu", case["text"]) == case.get("value")


@pytest.mark.parametrize("text", [case["text"] for case in CASES if is_capped(case)])
def test_a_quantity_that_go_would_cap_is_refused(text: str) -> None:
    """What Go silently takes for 2^63 - 1 bytes is an error here: nobody means that number."""
    with pytest.raises(QuantityError, match=r"exceeds 2\^63 - 1$"):
        amount("memory", text)


@pytest.mark.parametrize("text", UNREADABLE)
def test_text_that_is_no_quantity_is_refused(text: str) -> None:
    """What Go refuses, and what has no digits, is a QuantityError that shows the text and an example."""
    with pytest.raises(QuantityError, match="is not a quantity") as caught:
        parse_quantity(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("quantity", ["-1", "-1m", "-0.1n", -1, -1.5])
def test_a_negative_amount_is_refused(quantity: str | float) -> None:
    """Nobody can ask for or offer less than nothing."""
    with pytest.raises(QuantityError, match=f"^'{quantity}' is negative$"):
        amount("memory", quantity)


def test_an_amount_may_be_the_largest_int64_but_no_more() -> None:
    """The largest amount is 2^63 - 1 in the resource's own unit."""
    assert amount("memory", str(2**63 - 1)) == 2**63 - 1
    assert amount("cpu", "9223372036854775807m") == 2**63 - 1
    for resource, text in [("memory", str(2**63)), ("cpu", "9223372036854775808m"), ("nvidia.com/gpu", "1e999")]:
        with pytest.raises(QuantityError, match=r"exceeds 2\^63 - 1$"):
            amount(resource, text)


def test_an_endless_quantity_is_refused_without_being_repeated() -> None:
    """A text longer than any sensible quantity is refused, and cut in the message."""
    with pytest.raises(QuantityError, match="longer than the 64 characters") as caught:
        parse_quantity("9" * 1_000_000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(("quantity", "milli"), [(2, 2000), (1.5, 1500), (0.0001, 1), (1e-7, 1), (2.0, 2000), (0, 0)])
def test_a_number_is_a_quantity(quantity: float, milli: int) -> None:
    """Numbers as people write them in YAML count like the same digits in quotes."""
    assert amount("cpu", quantity) == milli


@pytest.mark.parametrize(
    ("value", "cpu", "memory"),
    [(0, 0, 0), (1, 1, 1), (10**6, 1, 1), (10**6 + 1, 2, 1), (10**9, 1000, 1), (10**9 + 1, 1001, 2)],
)
def test_billionths_round_up_to_whole_units(value: int, cpu: int, memory: int) -> None:
    """Part of a milli-CPU or byte takes a whole one."""
    assert (whole_units("cpu", value), whole_units("memory", value)) == (cpu, memory)


@given(numerator=st.integers(0, 10**18), suffix=st.sampled_from(["n", "u", "m", "", "k", "M"]))
def test_billionths_lose_nothing(numerator: int, suffix: str) -> None:
    """A quantity of whole billionths is kept exactly."""
    factor = {"n": 1, "u": 10**3, "m": 10**6, "": 10**9, "k": 10**12, "M": 10**15}[suffix]
    assert billionths(f"{numerator}{suffix}") == numerator * factor


@given(resource=st.sampled_from(RESOURCES), value=st.integers(0, MAX_AMOUNT))
def test_amounts_survive_being_written(resource: str, value: int) -> None:
    """What format_amount writes, amount reads as the same number."""
    assert amount(resource, format_amount(resource, value)) == value


@given(resource=st.sampled_from(RESOURCES), units=st.integers(0, 2**12), power=st.sampled_from([10, 20, 30, 40, 50]))
def test_round_amounts_survive_being_written(resource: str, units: int, power: int) -> None:
    """Amounts that are written with a suffix are read back, too."""
    assert amount(resource, format_amount(resource, units << power)) == units << power


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 0, "0"),
        ("cpu", 1500, "1500m"),
        ("cpu", 64_000, "64"),
        ("memory", 0, "0"),
        ("memory", 1000, "1000"),
        ("memory", 64 * 2**30, "64Gi"),
        ("memory", 3 * 2**29, "1536Mi"),
        ("ephemeral-storage", 2**40, "1Ti"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("nvidia.com/gpu", 1024, "1024"),
        ("pods", 110, "110"),
    ],
)
def test_amounts_are_written_for_people(resource: str, value: int, text: str) -> None:
    """CPU is written in cores or thousandths, bytes with the largest exact binary suffix, counts plainly."""
    assert format_amount(resource, value) == text


@given(resource=st.text(max_size=10), quantity=ODD_AMOUNTS)
def test_reading_an_amount_raises_nothing_but_quantity_errors(resource: str, quantity: str | float) -> None:
    """Any text and any number is an amount within int64, or a QuantityError."""
    try:
        value = amount(resource, quantity)
    except QuantityError as error:
        value = 0
        assert str(error)  # noqa: PT017 - both outcomes are fine, a third is not
    assert 0 <= value <= MAX_AMOUNT


@given(text=st.text(alphabet="0123456789.eE+-numkKMGTPi", max_size=12))
def test_reading_near_quantities_raises_nothing_but_quantity_errors(text: str) -> None:
    """Any mixture of a quantity's characters has an amount within int64, or none."""
    assert 0 <= (amount_or_none("memory", text) or 0) <= MAX_AMOUNT
