"""Moments as the API server writes them (metav1.Time, RFC 3339)."""

from __future__ import annotations

import datetime as dt


def write_timestamp(moment: dt.datetime) -> str:
    """Render a moment, whatever its time zone, in whole seconds: `2026-11-21T12:00:00Z`."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_timestamp(text: str) -> float | None:
    """Return the epoch seconds of `2026-11-21T12:00:00Z`, None for what is no moment or names no time zone."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        return None
    return None if moment.tzinfo is None else moment.timestamp()
