"""Texts by the rules of Kubernetes and Go: integers, durations, and the natural order of names.

`int()` alone would take `1_000` and `٣`.
"""

from __future__ import annotations

import re
import sys
from decimal import Decimal
from typing import TypeAlias

_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_ANY_INTEGER = re.compile(r"(?P<sign>[+-]?)0*(?P<digits>[0-9]+)")
_MAX_INTEGER = 2**63 - 1
_MAX_INTEGER_DIGITS = len(str(_MAX_INTEGER))


def parse_integer(text: str) -> int | None:
    """Read an int64 as people write it, without leading zeros or a plus sign, or return None.

    The rule of tolerations and of Muster's own annotations. Source: apimachinery content.IsDecimalInteger.
    """
    return parse_int64(text) if _PLAIN_INTEGER.fullmatch(text) else None


def parse_int64(text: str) -> int | None:
    """Read an int64 with or without sign and leading zeros, or return None.

    The rule of node affinity. Source: Go's strconv.ParseInt(text, 10, 64).
    """
    match = _ANY_INTEGER.fullmatch(text)
    if match is None or len(match["digits"]) > _MAX_INTEGER_DIGITS:
        return None
    value = int(match["sign"] + match["digits"])
    return value if -_MAX_INTEGER - 1 <= value <= _MAX_INTEGER else None


#: Seconds of each unit. Source: Go's time.ParseDuration.
_UNITS = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),
    "μs": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}
_PART = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(rf"([-+]?)((?:{_PART})+)")
_NUMBER_AND_UNIT = re.compile(r"([0-9.]+)(ns|us|µs|μs|ms|s|m|h)")


def parse_go_duration(text: str) -> float | None:
    """Return the seconds that `text` means to Go's time.ParseDuration, or None if Go would refuse it."""
    if text in {"0", "+0", "-0"}:
        return 0.0
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    sign, parts = found.groups()
    seconds = sum(Decimal(number) * _UNITS[unit] for number, unit in _NUMBER_AND_UNIT.findall(parts))
    return float(-seconds if sign == "-" else seconds)


NaturalKey: TypeAlias = tuple[tuple[int, str], ...]
_NAME_PARTS = re.compile(r"[0-9]+|[^0-9]+")

#: Larger than the length of any number, smaller than that of nothing: where words and the end of a name stand.
_NAME_WORD = sys.maxsize
_NAME_END = -1


def natural_key(name: str) -> NaturalKey:
    """Return a sort key that compares runs of digits as numbers, and numbers before letters.

    Different names have different keys: where only leading zeros differ, the plain text decides.
    """
    return (*map(_name_part, _NAME_PARTS.findall(name)), (_NAME_END, name))


def _name_part(text: str) -> tuple[int, str]:
    """Rank words by their text; numbers by their length, then by their digits, which is by value."""
    if text[0] not in "0123456789":
        return (_NAME_WORD, text)
    digits = text.lstrip("0")
    return (len(digits), digits)
