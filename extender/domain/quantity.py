"""Kubernetes quantities as exact numbers, and the integers of the cluster model that they amount to."""

from __future__ import annotations

import re
from decimal import ROUND_UP, Context, Decimal
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
    r"(?P<sign>[+-]?)(?P<number>\d+\.?\d*|\.\d+)(?P<suffix>[eE][+-]?0*\d{1,3}|[KMGTPE]i|[numkMGTPE]?)", re.ASCII
)

#: The finest decimal place of a quantity; what is finer rounds away from zero. Source: resource.ParseQuantity.
_FINEST = -9
_BILLIONTHS = 10**9
_BILLIONTHS_PER_MILLI = 10**6

#: Nobody writes longer quantities, and shorter ones stay exact in `_EXACT` whatever their suffix.
_MAX_LENGTH = 64
_EXACT = Context(prec=2 * _MAX_LENGTH, rounding=ROUND_UP)

#: Amounts are int64 columns in the cluster model. Go caps or wraps what is larger; Muster refuses it.
MAX_AMOUNT = 2**63 - 1


class QuantityError(ValueError):
    """A quantity that cannot be read or makes no sense where it stands."""


def parse_quantity(text: str) -> Decimal:
    """Read a Kubernetes quantity such as `500m`, `64Gi`, `1e3` or `-1`; raise QuantityError if it is none.

    The result is exact down to a billionth. Unlike Go, which takes them for zero, a suffix or sign without any digit
    is refused.
    """
    if len(text) > _MAX_LENGTH:
        msg = f"{text[:_MAX_LENGTH]!r}... is longer than the {_MAX_LENGTH} characters that a quantity may have"
        raise QuantityError(msg)
    return _parse(text)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Decimal:
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        msg = f"{text!r} is not a quantity (examples: 8, 500m, 64Gi)"
        raise QuantityError(msg)
    suffix = match["suffix"]
    factor = _SUFFIXES.get(suffix) or Decimal(f"1{suffix}")
    number = _EXACT.multiply(Decimal(match["number"]), factor)
    if int(number.as_tuple().exponent) < _FINEST:
        number = _EXACT.quantize(number, Decimal(1).scaleb(_FINEST))
    return -number if match["sign"] == "-" else number


@lru_cache(maxsize=4096)
def billionths(quantity: str | float) -> int:
    """Return the exact billionths of a quantity that somebody asks for or offers.

    Raises QuantityError for text that is no quantity, or a negative one.
    """
    value = parse_quantity(str(quantity))
    if value < 0:
        msg = f"'{quantity}' is negative"
        raise QuantityError(msg)
    return int(_EXACT.scaleb(value, -_FINEST))


def whole_units(resource: str, value: int) -> int:
    """Turn billionths of `resource` into the integer unit of the cluster model, rounding up as kube-scheduler does.

    CPU becomes milli-CPU; memory, storage and hugepages bytes; everything else counts. Raises QuantityError beyond
    int64.
    """
    units = -(-value // (_BILLIONTHS_PER_MILLI if resource == "cpu" else _BILLIONTHS))
    if units > MAX_AMOUNT:
        msg = f"{Decimal(value).scaleb(_FINEST):.4g} exceeds 2^63 - 1"
        raise QuantityError(msg)
    return units


@lru_cache(maxsize=4096)
def amount(resource: str, quantity: str | float) -> int:
    """Turn a quantity as written into milli-CPU, bytes or a count, rounding up.

    Raises QuantityError for text that is no quantity, a negative one, or one beyond int64.
    """
    return whole_units(resource, billionths(quantity))


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
