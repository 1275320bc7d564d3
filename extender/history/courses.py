"""What was used and waited for over time, asked of the tables of a store: sums by stretch of time and payer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, case, cast, func, literal, select

from extender.history.records import HOUR, OTHERS, Course, CourseHour, Payer, TimeGrid, WaitEdges
from extender.history.schema import GANGS, STATE, USAGE


def read_course(  # noqa: PLR0913, PLR0917 - the parts of one question
    connection: Connection, grid: TimeGrid, by: str, only: Payer, most: int, within: Collection[str] | None
) -> Course:
    """Return the course of things in a grid, by a field of the payer, of all that `only` names in some namespaces."""
    at: float = connection.execute(select(STATE.c.at)).scalar_one() or 0.0
    hours = [USAGE.c.hour >= grid.first, USAGE.c.hour < grid.first + grid.steps * grid.hours]
    used = [*hours, *_of(USAGE, only, within), (USAGE.c.used != 0) | (USAGE.c.reserved != 0)]
    begin = GANGS.c.created
    cease = func.coalesce(GANGS.c.started, GANGS.c.ended, at)
    waited = [(GANGS.c.ended >= grid.start) | GANGS.c.ended.is_(None), begin < grid.end, *_of(GANGS, only, within)]

    amounts: Counter[str] = Counter()
    for column, amount, terms in (
        (USAGE.c[by], func.sum(USAGE.c.used + USAGE.c.reserved), used),
        # Not the column itself: SQLite would go through all of its index for the order of the groups.
        (GANGS.c[by].concat(""), func.sum(GANGS.c.gpus * (_offset(cease, grid) - _offset(begin, grid))), waited),
    ):
        for key, total in connection.execute(select(column, amount).where(*terms).group_by(column)):
            amounts[key] += total
    ranked = sorted((key for key, amount in amounts.items() if amount > 0), key=lambda key: (-amounts[key], key))
    keys = ranked[:most]

    place = (USAGE.c.hour - grid.first) // grid.hours
    key = _named(USAGE.c[by], keys)
    asked = select(place, key, func.sum(USAGE.c.used), func.sum(USAGE.c.reserved)).where(*used).group_by(place, key)
    usage = [CourseHour(*row) for row in connection.execute(asked)]
    none = [USAGE.c.capacity > 0, USAGE.c.queue == "", USAGE.c.namespace == "", USAGE.c.user == ""]
    capacity = select(place, func.sum(USAGE.c.capacity)).where(*hours, *none).group_by(place)
    waits: list[WaitEdges] = []
    for moment, sign in ((begin, 1), (cease, -1)):
        offset = _offset(moment, grid)
        # By rounding this may be the stretch after; what is summed is exact all the same.
        place, key = cast(offset, Integer) // grid.step, _named(GANGS.c[by], keys)
        sums = (func.count(), func.sum(offset), func.sum(GANGS.c.gpus), func.sum(GANGS.c.gpus * offset))
        rows = connection.execute(select(place, key, *sums).where(*waited).group_by(place, key))
        waits += (WaitEdges(row[0], row[1], *(sign * float(amount) for amount in row[2:])) for row in rows)
    return Course(at, keys, len(ranked) > most, {row[0]: row[1] for row in connection.execute(capacity)}, usage, waits)


def _of(table: Any, only: Payer, within: Collection[str] | None) -> list[ColumnElement[bool]]:  # noqa: ANN401 - either of two tables
    named = [table.c[name] == value for name, value in only._asdict().items() if value]
    return named if within is None else [*named, table.c.namespace.in_(list(within))]


def _named(column: ColumnElement[str], keys: Sequence[str]) -> ColumnElement[str]:
    """Return a name if it is among those that are told apart."""
    return case((column.in_(keys), column), else_=literal(OTHERS)).label("key")


def _offset(moment: ColumnElement[float], grid: TimeGrid) -> ColumnElement[float]:
    """Return a moment as seconds since a grid begins, within it."""
    whole = float(grid.steps * grid.hours * HOUR)
    return case((moment < grid.start, 0.0), (moment > grid.end, whole), else_=moment - grid.start)
