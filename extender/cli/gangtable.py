"""Gangs as rows of a table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from extender.cli.amounts import age, until
from extender.cli.tables import Cell, Column, phase

#: Fits in 100 columns with names of some 30 characters; what is cut off on a narrow terminal is the reason's end.
COLUMNS = (
    Column("GANG"),
    Column("PHASE"),
    Column("MEMBERS", right=True),
    Column("GPUS", right=True),
    Column("QUEUE"),
    Column("POS", right=True),
    Column("AGE", right=True),
    Column("REASON"),
)
WIDE_COLUMNS = (
    *COLUMNS[:5],
    Column("PRIORITY", right=True),
    *COLUMNS[5:7],
    Column("NODES", right=True),
    Column("GB/S", right=True),
    Column("WITHIN"),
    Column("STARTS"),
    Column("REASON"),
    Column("MESSAGE"),
)


def name_of(row: Mapping[str, Any]) -> str:
    """Return a gang's name with its namespace."""
    return f"{row['namespace']}/{row['name']}"


def gang_cells(row: Mapping[str, Any], now: dt.datetime) -> list[Cell]:
    """Return the cells of a gang under COLUMNS."""
    reason = row.get("reason") or {}
    return [
        name_of(row),
        phase(row["phase"]),
        members(row),
        str(row["gpus"]),
        row.get("queue") or "-",
        _count(row.get("position")),
        age(row.get("since"), now),
        reason.get("code") or row.get("evicted") or "",
    ]


def wide_cells(row: Mapping[str, Any], now: dt.datetime) -> list[Cell]:
    """Return the cells of a gang under WIDE_COLUMNS."""
    cells = gang_cells(row, now)
    bandwidth = row.get("busBandwidthGBps")
    return [
        *cells[:5],
        str(row.get("priority", 0)),
        *cells[5:7],
        _count(row.get("nodes") or None),
        "-" if bandwidth is None else f"{bandwidth:.0f}",
        within(row) or "-",
        starts(row, now),
        cells[7],
        (row.get("reason") or {}).get("message") or row.get("evicted") or "",
    ]


def members(row: Mapping[str, Any]) -> str:
    """Return how many members have a node, or had one and succeeded, of how many are needed: `3/4`."""
    known = row["members"]
    there = known["bound"] + known["succeeded"]
    return f"{there}/{row['minMember']}"


def within(row: Mapping[str, Any]) -> str:
    """Return the smallest that holds the whole gang: `rack r2`, "" where it has no place."""
    return " ".join(part for part in (row.get("level"), row.get("domain")) if part)


def starts(row: Mapping[str, Any], now: dt.datetime) -> str:
    """Return when a waiting gang is expected to start: `in 5m`, `overdue`, `-` if nobody knows."""
    expected = row.get("expectedStart")
    if not expected:
        return "-"
    return "overdue" if expected.get("overdue") else until(expected.get("at"), now)


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)
