"""When a gang that does not fit now will start: the earliest expected end of running work after which it fits."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Self

import numpy as np
from numpy.typing import NDArray

from extender.cluster.whatif import WhatIf
from extender.objects.pod import Pod, Shape
from extender.placement.backfill.outlook import Calendar, ExpectedEnd, Outlook, seats_of
from extender.placement.candidates import Candidates, PlacementTerms
from extender.placement.plan import Plan, plan
from extender.placement.room import room

#: Moments at which a gang that fits by numbers is planned one after the other; beyond, every second, fourth, ... is.
#: Pods of one shape are placed wherever they fit by numbers, so that one plan is enough for most gangs.
MOST_IN_TURN = 16


@dataclass(frozen=True, slots=True)
class Need:
    """How many pods of each shape need a place, all of them in one domain of a level; -1: anywhere.

    `level` is None where there is no level of the required name.
    """

    counts: Mapping[Shape, int]
    level: int | None
    candidates: Candidates

    @classmethod
    def of(cls, pods: Sequence[Pod], candidates: Candidates, terms: PlacementTerms) -> Self:
        """Return what pods need that are to be placed together; members with a node may leave no choice of domain."""
        required = "" if candidates.settled else terms.topology.required
        level = candidates.tree.levels.find(required) if required else -1
        return cls(Counter(pod.shape for pod in pods), level, candidates)

    def is_met(self, free: WhatIf) -> bool:
        """Tell whether there is enough if each shape had the nodes to itself, and for all shapes together.

        Where there is not, there is no plan. Once met it stays so as room comes back: only columns count, not which
        GPUs and NUMA zones are free.
        """
        if self.level is None:
            return False
        met: NDArray[np.bool_] = np.ones(1, dtype=np.bool_)
        for shape, wanted in self.counts.items():
            room = free.counts(free.table.vector(shape.requests), self.candidates.eligible(shape))
            met = met & (self.candidates.tree.sums(self.level, np.minimum(room, wanted)) >= wanted)
        if len(self.counts) > 1 and met.any():
            met = met & self._is_met_together(self.level, free)
        return bool(met.any())

    def _is_met_together(self, level: int, free: WhatIf) -> NDArray[np.bool_]:
        """Return (domains,) which have as much of every resource as all shapes ask for together."""
        admitted = np.logical_or.reduce([self.candidates.eligible(shape) for shape in self.counts])
        asked = np.zeros(free.free.shape[0], dtype=np.int64)
        for shape, wanted in self.counts.items():
            vector = free.table.vector(shape.requests)
            asked[vector.columns] += vector.amounts * wanted
        met = [
            self.candidates.tree.sums(level, np.where(admitted, np.maximum(free.free[column], 0), 0)) >= asked[column]
            for column in np.flatnonzero(asked).tolist()
        ]
        every: NDArray[np.bool_] = np.logical_and.reduce(met)
        return every


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """When and where a gang will start, if everything ends when it is expected to.

    `at` is in epoch seconds. `nodes` is pod UID -> node name. `because` names whose end it waits for, "" if it need not
    wait; `overdue` says that this should have ended. `reservation` is what the gang has from then on.

    `kept` is (resources, rows): what work that is still there at `at` has to leave of the room that is free now. It is
    what the gang takes, less what ends until then on the same nodes. Work that outlasts several starts has to leave the
    sum: each is kept in addition to those ahead of it. A node whose kubelet aligns pods with NUMA zones is kept whole,
    since numbers do not say which zones stay.
    """

    at: float
    kept: NDArray[np.int64]
    nodes: Mapping[str, str]
    reservation: ExpectedEnd
    because: str = ""
    overdue: bool = False


@dataclass(frozen=True, slots=True)
class Blocked:
    """Pods that are to start together and do not fit now.

    `duration` is how long they run (seconds), None if unknown. `promised` is the start that they were given when
    last asked for: it is kept unless there is an earlier one, or something has come between.
    """

    name: str
    pods: Sequence[Pod]
    candidates: Candidates
    terms: PlacementTerms
    duration: float | None = None
    promised: Start | None = None

    def until(self, at: float) -> float:
        """Return when the pods are gone that start at `at` (epoch seconds)."""
        return inf if self.duration is None else at + self.duration


# Example. Nodes a-0, a-1, a-2 with 8 GPUs. Work `one` has a-0 until 100 s, `two` has a-1 until 300 s, and `three` has 4
# GPUs of a-2 and does not say how long. When do 3 pods of 4 GPUs start, and 5?
#
#   time   GPUs free    enough by numbers for 3 / for 5
#   0      4            no (1 pod)  / no
#   100    8 + 4        yes (3)     / no (3)
#   300    8 + 8 + 4    yes         / yes (5)
#
# Bisection by numbers finds 100 and 300; then one plan confirms each. 3 pods start at 100 on a-0 (2) and a-2 (1),
# because of `one`. Kept until then: 4 GPUs of a-2, which are free now and of which nothing comes back before 100.
# Nothing is kept of a-0: it is full until `one` ends.
def earliest_start(  # noqa: PLR0913 - what a plan takes, and what else is promised
    pods: Sequence[Pod],
    free: WhatIf,
    candidates: Candidates,
    terms: PlacementTerms,
    calendar: Calendar,
    *,
    duration: float | None = None,
    promised: Start | None = None,
    ahead: Sequence[Start] = (),
) -> Start | None:
    """Return when the pods can start and what is kept for them until then; None if no expected ends make them fit.

    A start with `at` = now can be taken as it stands: its nodes have the room.

    Args:
        pods: those that start together.
        free: what is free now, what is kept for the pods or for those ahead included; the same again afterwards.
        candidates: where they may go.
        terms: how they want to be placed.
        calendar: what ends when.
        duration: how long the pods run (seconds), None if unknown.
        promised: what they were told before. No later start follows it as long as everything ends when expected.
        ahead: the starts of others, found on the nodes as they are now, which this one must not delay.

    Complexity: O(pods that end before + log(ends) x nodes) + as a rule one plan.
    """
    outlook = Outlook(free, calendar)
    outlook.reservations = [start.reservation for start in ahead]
    blocked = Blocked("", pods, candidates, terms, duration)
    try:
        kept = None if promised is None else still_holds(blocked, promised, outlook)
        found = find(blocked, outlook, before=inf if kept is None else kept.reservation.at) or kept
        return None if found is None else found.start(outlook, outlook.reservations)
    finally:
        outlook.rewind()


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Room for a gang from some moment on: pod UID -> node name, and the reservation that this makes."""

    nodes: Mapping[str, str]
    reservation: ExpectedEnd

    def start(self, outlook: Outlook, ahead: Sequence[ExpectedEnd]) -> Start:
        """Return it as a start, with what is kept for it in addition to what is kept for those ahead.

        For this they are all taken to stay for good. Then what the n-th adds is least where fewest are ahead of it, so
        that what is kept for any of them adds up to enough for those.
        """
        others = [replace(each, until=inf) for each in ahead]
        own = replace(self.reservation, until=inf)
        before = outlook.withheld(others, outlook.now, inf)
        kept = keep_aligned(outlook.withheld([*others, own], outlook.now, inf) - before, [own], outlook)
        because, overdue = _waits_for(outlook, own.at, self.nodes)
        return Start(own.at, kept, self.nodes, self.reservation, because, overdue)


def keep_aligned(kept: NDArray[np.int64], reservations: Sequence[ExpectedEnd], outlook: Outlook) -> NDArray[np.int64]:
    """Return `kept` with all that is free now of nodes whose kubelet aligns pods, where something is reserved."""
    aligned = outlook.aligned(reservations)
    return np.where(aligned, np.maximum(kept, outlook.free_now), kept)


def still_holds(blocked: Blocked, promised: Start, outlook: Outlook) -> Found | None:
    """Return the promised start, at once if it is due, if its nodes will have the room; None if they will not."""
    table = outlook.free.table
    rows = {name: row for name in set(promised.nodes.values()) if (row := table.row(name)) is not None}
    if any(rows.get(promised.nodes.get(pod.uid, "")) is None for pod in blocked.pods):
        return None
    at = max(promised.at, outlook.now)
    mask = np.zeros(outlook.free_now.shape[1], dtype=np.bool_)
    mask[list(rows.values())] = True
    seats = seats_of(blocked.pods, promised.nodes, rows)
    with outlook.at(at, blocked.until(at), mask) as free:
        before = free.free.copy()
        for shape, at_rows, counts in seats:
            if (room(free, shape, blocked.candidates.eligible(shape) & mask)[at_rows] < counts).any():
                return None
            free.take_from(at_rows, table.vector(shape.requests), counts)
            free.settle(at_rows, shape, counts)
        takes = before - free.free
    nodes = {pod.uid: promised.nodes[pod.uid] for pod in blocked.pods}
    return Found(nodes, ExpectedEnd(blocked.name, at, blocked.until(at), takes, seats))


def find(blocked: Blocked, outlook: Outlook, before: float = inf) -> Found | None:
    """Find the first moment before `before` at which the pods can be planned, beside all reservations they overlap."""
    times, need = _times(outlook, before), Need.of(blocked.pods, blocked.candidates, blocked.terms)
    for at in _in_turn(times[_first_by_numbers(need, outlook, times) :]):
        found = _plan_at(blocked, need, outlook, at)
        if found is not None:
            return found
    return None


def _times(outlook: Outlook, before: float) -> list[float]:
    """Return when room comes back, now included, before `before`."""
    ends = {moment.at for moment in outlook.calendar.moments} | {each.until for each in outlook.reservations}
    return sorted(at for at in ends | {outlook.now} if outlook.now <= at < before)


def _in_turn(times: Sequence[float]) -> Iterator[float]:
    """Yield the first times one after the other, then with growing steps, and the last.

    A plan for pods of several shapes does not find every placement there is, and may find one where there is less room
    and none where there is more: bisection could skip the first, so it is left to numbers, which do only grow.
    """
    at, step = 0, 1
    while at < len(times):
        yield times[at]
        if at + 1 >= MOST_IN_TURN:
            step *= 2
        at = at + step if at + step < len(times) or at == len(times) - 1 else len(times) - 1


def _plan_at(blocked: Blocked, need: Need, outlook: Outlook, at: float) -> Found | None:
    until = blocked.until(at)
    if outlook.reservations and not need.is_met(outlook.numbers(at, until)):
        return None
    with outlook.at(at, until) as free:
        before = free.free.copy()
        mark = free.mark()
        planned = plan(blocked.pods, free, blocked.candidates, blocked.terms)
        if not isinstance(planned, Plan):
            return None
        takes = before - free.free
        free.undo(mark)
    table = free.table
    rows = {name: row for name in set(planned.nodes.values()) if (row := table.row(name)) is not None}
    seats = seats_of(blocked.pods, planned.nodes, rows)
    return Found(planned.nodes, ExpectedEnd(blocked.name, at, until, takes, seats))


def _first_by_numbers(need: Need, outlook: Outlook, times: Sequence[float]) -> int:
    """Return the index of the first time at which there is enough by numbers if nothing is reserved.

    Reads no further into the calendar than twice as far as that.
    """
    table, count = outlook.free.table, outlook.calendar.count

    def enough(index: int) -> bool:
        return need.is_met(WhatIf(table, outlook.free_now + outlook.gained(count(times[index]))))

    if not times:
        return 0
    reach = 1
    while reach < len(times) and not enough(reach - 1):
        reach *= 2
    low, high = reach // 2, min(reach, len(times))
    return bisect_left(range(low, high), 1, key=lambda index: int(enough(index))) + low


def _waits_for(outlook: Outlook, at: float, nodes: Mapping[str, str]) -> tuple[str, bool]:
    """Return whose end the start at `at` waits for, and whether that is overdue."""
    if at <= outlook.now:
        return "", False
    for reservation in outlook.reservations:
        if reservation.until == at:
            return reservation.name, False
    latest = outlook.latest(at, nodes)
    return ("", False) if latest is None else (latest.name, latest.overdue)
