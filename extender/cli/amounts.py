"""Amounts and times as people read them at a glance: ages as kubectl writes them, bytes in the largest unit, bars."""

from __future__ import annotations

import datetime as dt

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 365 * 86_400
_BYTES = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_KIB = 1024
#: CPU is counted in thousandths.
_MILLI = 1000


def duration(seconds: float) -> str:
    """Write a time in two units at most, coarser the longer it is. Source: k8s.io/apimachinery HumanDuration."""
    whole = max(int(seconds), 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 3 * _HOUR:
        return _units(whole, (_MINUTE, "m"), (1, "s"), whole < 10 * _MINUTE)
    if whole < 2 * _DAY:
        return _units(whole, (_HOUR, "h"), (_MINUTE, "m"), whole < 8 * _HOUR)
    if whole < 2 * _YEAR:
        return _units(whole, (_DAY, "d"), (_HOUR, "h"), whole < 8 * _DAY)
    return _units(whole, (_YEAR, "y"), (_DAY, "d"), whole < 8 * _YEAR)


def age(since: str | None, now: dt.datetime) -> str:
    """Write how long ago a time of Muster's was, `-` for none."""
    moment = read_time(since)
    return "-" if moment is None else duration((now - moment).total_seconds())


def until(at: str | None, now: dt.datetime) -> str:
    """Write how far a time of Muster's lies ahead: `in 5m`, `now`, `-` for none."""
    moment = read_time(at)
    if moment is None:
        return "-"
    seconds = (moment - now).total_seconds()
    return f"in {duration(seconds)}" if seconds >= 1 else "now"


def clock_time(at: str | None) -> str:
    """Write a time of Muster's as the time of day where the reader is."""
    moment = read_time(at)
    return "-" if moment is None else moment.astimezone().strftime("%H:%M:%S")


def read_time(text: str | None) -> dt.datetime | None:
    """Return a time in RFC 3339, None for none and for what is no such time."""
    try:
        moment = dt.datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


def amount(resource: str, value: int) -> str:
    """Write an amount short: `96` or `500m` CPU, `1.5Ti` of memory, plain counts."""
    if resource == "cpu":
        return f"{value}m" if 0 < value < _MILLI else f"{value / _MILLI:.10g}"
    if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-"):
        return size(value)
    return str(value)


def size(value: float) -> str:
    """Write bytes in the largest unit that leaves one before the point: `1.5Gi`."""
    for unit in _BYTES:
        if abs(value) < _KIB or unit == _BYTES[-1]:
            return f"{value:.3g}{unit}" if abs(value) < 1000 else f"{value:.0f}{unit}"  # noqa: PLR2004 - 3 digits
        value /= _KIB
    return f"{value:.0f}"


def milliseconds(value: float | None) -> str:
    """Write milliseconds with three digits, `-` for none."""
    return "-" if value is None else f"{value:.3g} ms"


def _units(whole: int, large: tuple[int, str], small: tuple[int, str], both: bool) -> str:
    count, rest = divmod(whole, large[0])
    rest //= small[0]
    return f"{count}{large[1]}{rest}{small[1]}" if both and rest else f"{count}{large[1]}"
