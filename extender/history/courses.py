"""What was used and waited for over time, asked of the tables of a store: sums by stretch of time and payer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Integer, case, cast, func, literal, select

from extender.history.records import HOUR, OTHERS, Course, CourseHour, Payer, TimeGrid, WaitEdges
from extender.history.schema import GANGS, SPANS, STATE, USAGE
from extender.history.sums import SPAN_HOURS

#: Amounts (GPU-seconds) that are none.
_ROUNDING: Final = 1e-6


def read_course(  # noqa: PLR0913, PLR0917 - the parts of one question
    connection: Connection, grid: TimeGrid, by: str, only: Payer, most: int, within: Collection[str] | None
) -> Course:
    """Return the course of things in a grid, by a field of the payer, of all that `only` names in some namespaces."""
    at: float = connection.execute(select(STATE.c.at)).scalar_one() or 0.0
    # Of the longest stretches that these are made of: a year by weeks is a hundredth of the rows that its hours are.
    hours = next((each for each in reversed(SPAN_HOURS) if grid.hours % each == 0), 1)
    sums, cells = (USAGE, []) if hours == 1 else (SPANS, [SPANS.c.hours == hours])
    within_grid = [*cells, sums.c.hour >= grid.first, sums.c.hour < grid.first + grid.steps * grid.hours]
    asked = [*within_grid, *_of(sums, only, within)]
    begin = GANGS.c.created
    waiting = [GANGS.c.ended.is_(None), GANGS.c.started.is_(None), begin < grid.end, *_of(GANGS, only, within)]

    amounts: Counter[str] = Counter()
    for column, amount, terms in (
        (sums.c[by], func.sum(sums.c.used + sums.c.reserved + sums.c.waiting_gpus), asked),
        (GANGS.c[by], func.sum(GANGS.c.gpus * (_offset(literal(at), grid) - _offset(begin, grid))), waiting),
    ):
        for key, total in connection.execute(select(column, amount).where(*terms).group_by(column)):
            amounts[key] += total
    # What a gang has taken off again that changed leaves a rounding error.
    ranked = sorted(
        (key for key, amount in amounts.items() if amount > _ROUNDING), key=lambda key: (-amounts[key], key)
    )
    keys = ranked[:most]

    place, key = (sums.c.hour - grid.first) // grid.hours, _named(sums.c[by], keys)
    of_each = (func.sum(sums.c[name]) for name in ("used", "reserved", "waiting_gangs", "waiting_gpus"))
    usage = [
        CourseHour(*row) for row in connection.execute(select(place, key, *of_each).where(*asked).group_by(place, key))
    ]
    # One by one they are found by the key of the table.
    each_hour = sums.c.hour.in_(range(grid.first, grid.first + grid.steps * grid.hours, hours))
    none = [*cells, each_hour, sums.c.queue == "", sums.c.namespace == "", sums.c.user == ""]
    capacity = select(place, func.sum(sums.c.capacity)).where(*none, sums.c.capacity > 0).group_by(place)
    waits: list[WaitEdges] = []
    for moment, sign in ((begin, 1), (literal(at), -1)):
        offset = _offset(moment, grid)
        # By rounding this may be the stretch after; what is summed is exact all the same.
        place, key = cast(offset, Integer) // grid.step, _named(GANGS.c[by], keys)
        edges = (func.count(), func.sum(offset), func.sum(GANGS.c.gpus), func.sum(GANGS.c.gpus * offset))
        rows = connection.execute(select(place, key, *edges).where(*waiting).group_by(place, key))
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
