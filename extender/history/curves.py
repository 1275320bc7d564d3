"""GPUs that were used, reserved and waited for, by stretches of time and payer: the curves that people look at.

All of it is worked out from the sums that a store keeps, and from the gangs that wait yet.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import add
from typing import Final

from extender.history.documents import CurvesDocument, HistoryCurve
from extender.history.records import HOUR, OTHERS, Course, TimeGrid, WaitEdges
from extender.objects.meta import time_text

#: Stretches that one answer may have.
MOST_STEPS: Final = 200
_DAY: Final = 24
#: How long a stretch may be (hours): those of which sums are kept, and some weeks. Those of days begin at midnight in
#: UTC, those of weeks on a Thursday, as 1970 did.
_STEPS: Final = (1, _DAY, 168, 336, 672)
#: Stretches of days in one answer: more are told by weeks, of which there are fewer rows to add up.
_MOST_DAYS: Final = 120


def time_grid(since: float, until: float) -> TimeGrid:
    """Return the shortest stretches of which not too many have all of the time from `since` to `until` in them.

    Raises:
        ValueError: the time is longer than one answer may be about.
    """
    for hours in _STEPS:
        first = math.floor(since / (hours * HOUR))
        count = max(math.ceil(until / (hours * HOUR)), first + 1) - first
        if count <= (_MOST_DAYS if hours == _DAY else MOST_STEPS):
            return TimeGrid(first * hours, hours, count)
    raise ValueError(f"{(until - since) / HOUR:,.0f} hours are more than one answer may be about")


def curves(grid: TimeGrid, course: Course, by: str) -> CurvesDocument:
    """Return the course of things as curves; stretches that had not begun by then are left out."""
    ends = [grid.start + (place + 1) * grid.step for place in range(grid.steps)]
    seconds = [min(end, course.at) - end + grid.step for end in ends]
    seconds = [each for each in seconds if each > 0]
    sums: defaultdict[str, list[list[float]]] = defaultdict(lambda: [[0.0] * grid.steps for _ in range(4)])
    for place, key, *amounts in course.usage:
        for row, amount in zip(sums[key], amounts, strict=True):
            row[place] = amount
    for key, waited in _waited(grid, course.waits).items():
        for row, added in zip(sums[key][2:], waited, strict=True):
            row[:] = map(add, row, added)
    return CurvesDocument(
        by=by,
        since=time_text(grid.start),
        until=time_text(min(grid.end, max(course.at, grid.start))),
        step_seconds=grid.step,
        capacity=_averages([course.capacity.get(place, 0.0) for place in range(grid.steps)], seconds),
        curves=tuple(_curve(key, sums[key], seconds) for key in course.keys),
        others=_curve("", sums[OTHERS], seconds) if course.more else None,
    )


def _waited(grid: TimeGrid, waits: Iterable[WaitEdges]) -> dict[str, list[list[float]]]:
    """Return gang-seconds and GPU-seconds that gangs which wait yet waited in each stretch, by the field of the payer.

    A gang that begins to wait at `a` and ends at `b` has waited (t - a) - (t - b) seconds by any later t: so what all
    have waited by the end of a stretch follows from how many began and ended by then, and from the sums of when.
    """
    changes: defaultdict[str, list[list[float]]] = defaultdict(lambda: [[0.0] * grid.steps for _ in range(4)])
    for edges in waits:
        for row, amount in zip(changes[edges.key], edges[2:], strict=True):
            row[min(edges.place, grid.steps - 1)] += amount
    return {
        key: [
            _areas(grid.step, list(accumulate(numbers)), list(accumulate(moments)))
            for numbers, moments in ((gangs, since), (gpus, gpus_since))
        ]
        for key, (gangs, since, gpus, gpus_since) in changes.items()
    }


def _areas(step: int, numbers: Sequence[float], moments: Sequence[float]) -> list[float]:
    """Return the area in each stretch under what is there, of how many by then, and the sum of since when."""
    by_end = [number * step * (place + 1) - moments[place] for place, number in enumerate(numbers)]
    return [max(end - before, 0.0) for before, end in zip([0.0, *by_end], by_end, strict=False)]


def _curve(key: str, amounts: Sequence[Sequence[float]], seconds: Sequence[float]) -> HistoryCurve:
    return HistoryCurve(key, *(_averages(row, seconds) for row in amounts))


def _averages(amounts: Sequence[float], seconds: Sequence[float]) -> tuple[float, ...]:
    return tuple(max(round(amount / each, 3), 0.0) for amount, each in zip(amounts, seconds, strict=False))
