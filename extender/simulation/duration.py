"""Durations as people write them: seconds as a number, or Go's notation."""

from __future__ import annotations

import math
import re

#: Go's units in seconds. Source: time.ParseDuration.
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)", re.ASCII)
_WHOLE = re.compile(rf"[+-]?(?:{_PART.pattern})+", re.ASCII)


class DurationError(ValueError):
    """A text or number that is no duration, or a negative one."""


def parse_duration(value: object) -> float:
    """Read seconds from a number or from text such as `30m`, `1h30m` or `500ms`; raise DurationError for all else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        msg = f"{value!r} is not a duration (examples: 90, 30m, 1h30m)"
        raise DurationError(msg)
    seconds = _parse_text(value) if isinstance(value, str) else float(value)
    if not math.isfinite(seconds):
        msg = f"'{value}' is not a finite duration"
        raise DurationError(msg)
    if seconds < 0:
        msg = f"'{value}' is negative"
        raise DurationError(msg)
    return seconds


def format_duration(seconds: float) -> str:
    """Write seconds for people: `1h30m`, `29m20s`, `1.5s`."""
    whole, rest = divmod(round(seconds, 3), 60)
    hours, minutes = divmod(int(whole), 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else "", f"{rest:g}s" if rest else ""]
    return "".join(parts) or "0s"


def write_duration(seconds: float) -> str:
    """Write seconds exactly, for programs: `5400s`, `0.5s`."""
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def _parse_text(text: str) -> float:
    if text == "0":
        return 0.0
    if _WHOLE.fullmatch(text) is None:
        msg = f"{text!r} is not a duration (examples: 90, 30m, 1h30m)"
        raise DurationError(msg)
    total = math.fsum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    return -total if text.startswith("-") else total
