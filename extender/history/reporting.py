"""GPU-hours by period and payer, from the hours of a store: what a chargeback is made of."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum

from extender.history.documents import ReportDocument, ReportRow
from extender.history.records import HOUR, HourSums
from extender.objects.meta import time_text


class Per(StrEnum):
    """How long the periods of a report are. A week begins on Monday."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class ReportBy(StrEnum):
    """What a report tells apart."""

    QUEUE = "queue"
    NAMESPACE = "namespace"
    USER = "user"


def period_of(at: dt.datetime, per: Per) -> dt.datetime:
    """Return when the period begins that a moment is in, in the moment's own time zone."""
    if per is Per.HOUR:
        return at.replace(minute=0, second=0, microsecond=0)
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    if per is Per.WEEK:
        return day - dt.timedelta(days=day.weekday())
    return day.replace(day=1) if per is Per.MONTH else day


def report(  # noqa: PLR0913 - what a report is made of
    hours: Iterable[tuple[int, str, HourSums]],
    between: tuple[float, float],
    zone: dt.tzinfo,
    *,
    by: ReportBy,
    per: Per,
    price: float | None = None,
) -> ReportDocument:
    """Return the report of some hours (since 1970), by the field that `by` names.

    `between` is what was asked for (epoch seconds); `price` is that of a GPU-hour.
    """
    sums: dict[tuple[dt.datetime, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    capacity: dict[dt.datetime, float] = defaultdict(float)
    for hour, key, amounts in hours:
        period = period_of(dt.datetime.fromtimestamp(hour * HOUR, zone), per)
        capacity[period] += amounts.capacity / HOUR
        if amounts.used or amounts.reserved or amounts.lost:
            row = sums[period, key]
            for place, amount in enumerate(amounts[:3]):
                row[place] += amount / HOUR
    rows = [
        ReportRow(
            since=time_text(period.timestamp()),
            period=_named(period, per),
            key=key,
            used=max(used, 0.0),
            reserved=max(reserved, 0.0),
            lost=max(lost, 0.0),
            share=(max(used, 0.0) + max(reserved, 0.0)) / capacity[period] if capacity[period] else 0.0,
            cost=None if price is None else max(used, 0.0) * price,
        )
        for (period, key), (used, reserved, lost) in sums.items()
    ]
    rows.sort(key=lambda row: (row.since, -row.used, row.key))
    return ReportDocument(
        by=by,
        per=per,
        zone=str(zone),
        since=time_text(between[0]),
        until=time_text(between[1]),
        rows=tuple(rows),
        capacity={_named(period, per): whole for period, whole in sorted(capacity.items()) if whole},
        price=price,
    )


def _named(period: dt.datetime, per: Per) -> str:
    """Name a period: `2026-11-26`, `2026-W48`, `2026-11`, an hour as `2026-11-26T14:00`."""
    forms = {Per.HOUR: "%Y-%m-%dT%H:00", Per.DAY: "%Y-%m-%d", Per.WEEK: "%G-W%V", Per.MONTH: "%Y-%m"}
    return period.strftime(forms[per])
