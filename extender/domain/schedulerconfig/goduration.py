"""Durations as Go writes them: `30s`, `1m30s`, `250ms`."""

from __future__ import annotations

import re
from decimal import Decimal

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
