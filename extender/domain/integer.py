"""Integers in text, as the two rules of Kubernetes read them; `int()` alone would take `1_000` and `٣`."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"0|-?[1-9][0-9]*")
_ANY = re.compile(r"(?P<sign>[+-]?)0*(?P<digits>[0-9]+)")

_MAX = 2**63 - 1
_MAX_DIGITS = len(str(_MAX))


def parse_integer(text: str) -> int | None:
    """Read an int64 as people write it, without leading zeros or a plus sign, or return None.

    The rule of tolerations and of Muster's own annotations. Source: apimachinery content.IsDecimalInteger.
    """
    return parse_int64(text) if _PLAIN.fullmatch(text) else None


def parse_int64(text: str) -> int | None:
    """Read an int64 with or without sign and leading zeros, or return None.

    The rule of node affinity. Source: Go's strconv.ParseInt(text, 10, 64).
    """
    match = _ANY.fullmatch(text)
    if match is None or len(match["digits"]) > _MAX_DIGITS:
        return None
    value = int(match["sign"] + match["digits"])
    return value if -_MAX - 1 <= value <= _MAX else None
