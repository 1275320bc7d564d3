"""What is kept as sums beside the gangs, so that no question about a long time walks through all of them.

Sums are by hour, and once more by day and week. The seconds that a gang waited count from when it was created until it
first started, or ended without: they are added when that is known, in the same transaction as the gang, and what a
gang that changes had added before is taken off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final

from sqlalchemy import ColumnElement, Connection, func, select

from extender.history.meters import by_hour
from extender.history.records import HOUR, HourSums, Payer
from extender.history.schema import AMOUNTS, GANGS, SPANS, USAGE, put_rows

#: How long the stretches are for which sums are kept beside those of hours (hours): a day and a week.
SPAN_HOURS: Final = (24, 168)
#: UIDs in one question.
_CHUNK: Final = 500
#: Of a gang that waited for longer than a year the last hours count: what is older is hardly kept.
_MOST_HOURS: Final = 10_000

_GANGS: Final = AMOUNTS.index("waiting_gangs")
_GPUS: Final = AMOUNTS.index("waiting_gpus")

#: Seconds that gangs waited, by hour (since 1970), payer and place in the sums.
Waits = dict[tuple[int, Payer, int], float]


def waits_of(connection: Connection, uids: Collection[str]) -> Waits:
    """Return what gangs with some UIDs have waited, of those that wait no more."""
    waits: Waits = defaultdict(float)
    asked = list(uids)
    for start in range(0, len(asked), _CHUNK):
        for key, seconds in waits_where(connection, GANGS.c.uid.in_(asked[start : start + _CHUNK])).items():
            waits[key] += seconds
    return waits


def waits_where(connection: Connection, which: ColumnElement[bool]) -> Waits:
    """Return what some gangs have waited, of those that wait no more."""
    ceased = func.coalesce(GANGS.c.started, GANGS.c.ended)
    charged = (GANGS.c[name] for name in Payer._fields)
    asked = select(GANGS.c.created, ceased, GANGS.c.gpus, *charged).where(which, ceased > GANGS.c.created)
    waits: Waits = defaultdict(float)
    for created, until, gpus, *names in connection.execute(asked):
        payer = Payer(*names)
        for hour, seconds in by_hour(max(created, until - _MOST_HOURS * HOUR), until):
            waits[hour, payer, _GANGS] += seconds
            waits[hour, payer, _GPUS] += gpus * seconds
    return waits


def add_sums(connection: Connection, usage: Mapping[tuple[int, Payer], HourSums], waits: Waits, before: Waits) -> None:
    """Add to the sums of hours, days and weeks; `waits` come in the place of what there was `before`."""
    sums: defaultdict[tuple[int, int, Payer], list[float]] = defaultdict(lambda: [0.0] * len(AMOUNTS))
    changes = {key: waits.get(key, 0.0) - before.get(key, 0.0) for key in {**before, **waits}}
    for hours in (1, *SPAN_HOURS):
        for (hour, payer), amounts in usage.items():
            row = sums[hours, hour - hour % hours, payer]
            for place, amount in enumerate(amounts):
                row[place] += amount
        for (hour, payer, place), seconds in changes.items():
            if seconds:
                sums[hours, hour - hour % hours, payer][place] += seconds
    rows = [
        {"hours": hours, "hour": hour} | payer._asdict() | dict(zip(AMOUNTS, amounts, strict=True))
        for (hours, hour, payer), amounts in sums.items()
    ]
    key = ["hour", *Payer._fields]
    put_rows(connection, SPANS, ["hours", *key], [row for row in rows if row["hours"] != 1], add=AMOUNTS)
    put_rows(connection, USAGE, key, [row for row in rows if row.pop("hours") == 1], add=AMOUNTS)
