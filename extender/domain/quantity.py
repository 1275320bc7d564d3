"""Kubernetes quantities as exact integers."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

#: Suffixes and their factors. Source: k8s.io/apimachinery/pkg/api/resource, the Quantity grammar.
_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)(?P<number>\d+\.?\d*|\.\d+)(?P<suffix>[eE][+-]?\d{1,3}|[KMGTPE]i|[numkMGTPE]?)", re.ASCII
)

#: Amounts are int64 columns in the cluster model; the API server itself caps quantities at 2**63 - 1.
MAX_AMOUNT = 2**63 - 1


class QuantityError(ValueError):
    """A quantity that cannot be read or makes no sense where it stands."""


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Decimal:
    """Read a Kubernetes quantity such as `500m`, `64Gi`, `1e3` or `-1`; raise QuantityError if it is none."""
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        msg = f"{text!r} is not a quantity (examples: 8, 500m, 64Gi)"
        raise QuantityError(msg)
    suffix = match["suffix"]
    factor = Decimal(f"1{suffix}") if suffix[:1] in ("e", "E") and suffix[1:] else _SUFFIXES[suffix]
    number = Decimal(match["number"]) * factor
    return -number if match["sign"] == "-" else number


@lru_cache(maxsize=4096)
def amount(resource: str, quantity: str | float) -> int:
    """Turn a quantity of `resource` into the integer unit of the cluster model, rounding up as kube-scheduler does.

    CPU becomes milli-CPU; memory, storage and hugepages bytes; everything else counts. Raises QuantityError for text
    that is no quantity, a negative one, or one beyond int64.
    """
    value = parse_quantity(str(quantity))
    if value < 0:
        msg = f"{resource}: {quantity} is negative"
        raise QuantityError(msg)
    scaled = int((value * 1000 if resource == "cpu" else value).to_integral_value(ROUND_CEILING))
    if scaled > MAX_AMOUNT:
        msg = f"{resource}: {quantity} exceeds 2^63 - 1"
        raise QuantityError(msg)
    return scaled


def format_amount(resource: str, value: int) -> str:
    """Write an amount of the cluster model for people: `1500m` CPU, `64Gi` of memory, plain counts."""
    if resource == "cpu":
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix in ("Ti", "Gi", "Mi", "Ki"):
            factor = int(_SUFFIXES[suffix])
            if value >= factor and value % factor == 0:
                return f"{value // factor}{suffix}"
    return str(value)


_INTEGER = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)


def parse_integer(text: str) -> int | None:
    """Read a decimal int64 as Go's strconv does, or return None; `int()` alone would take `1_000` and `٣`."""
    if _INTEGER.fullmatch(text) is None:
        return None
    value = int(text) if len(text) <= len(str(MAX_AMOUNT)) + 1 else MAX_AMOUNT + 1
    return value if -MAX_AMOUNT - 1 <= value <= MAX_AMOUNT else None
