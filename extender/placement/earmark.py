"""What is kept for the blocked head of the queue, and which work may use it until then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import Vector
from extender.cluster.whatif import WhatIf
from extender.objects.keys import Packing
from extender.objects.pod import Pod, Shape
from extender.placement.backfill.outlook import STARTING_SECONDS, Calendar, ExpectedEnd, Outlook
from extender.placement.backfill.start import Blocked, Found, Start, find, keep_aligned, still_holds
from extender.placement.candidates import (
    MOST_SCOPES,
    Candidates,
    Eligible,
    PlacementTerms,
    ScopeDomains,
    group_by_shape,
)
from extender.placement.plan import Plan, plan, shape_orders
from extender.placement.room import room, strands

#: Seconds that a pod which is killed at its deadline may go on, and claim: Kubernetes' default of
#: `terminationGracePeriodSeconds`.
ENDING_SECONDS = 30.0

#: Seconds by which work has to end before a start, by its declared runtime, to use what is kept for it.
MARGIN_SECONDS = STARTING_SECONDS + ENDING_SECONDS

#: Gangs that conservative backfill gives a start: 16 of 64 x 8 GPUs take 145 ms on 1,000 nodes, mostly for their plans.
#: Beyond the first few a start lies so far ahead that hardly anything ends by then as declared.
MOST_BLOCKED = 16


def fits_gap(now: float, duration: float | None, start: Start | None, margin: float = MARGIN_SECONDS) -> bool:
    """Tell whether work that starts now and runs for `duration` seconds may use what is kept for `start`.

    Without a declared runtime, or where the start of the other is unknown, it may not. `now` is in epoch seconds.
    """
    return start is not None and duration is not None and now + duration + margin <= start.at


@dataclass(slots=True)
class _Occupation:
    """A gang with a place in the profile, None while it has none."""

    blocked: Blocked
    found: Found | None


# Example. Nodes a-0 and a-1 with 8 GPUs; work has a-0 until 100 s. Three gangs wait, in this order (no margin):
#
#   gang     wants     runs for   start   because
#   first    2 nodes   300 s      100     the work on a-0 ends
#   before   1 node    100 s        0     a-1 is free, and is given back in time for `first`
#   after    1 node    200 s      400     `first` ends: any time before would delay it
#
# What other work has to leave, by how long it runs: it must not take a-1 from `before`, which has it now. If it ends
# by 100 s it outlasts one start (`reach` 1: that of `before`), up to 400 s two, beyond that three. `before` itself may
# use a-1 if it is gone by 100 s; with 101 s a-1 is kept from it as well, for `first`.
class CapacityProfile:
    """The starts of several blocked gangs, none of which delays another, and what they leave to all other work.

    Conservative backfill (Mu'alem and Feitelson 2001): each gang in queue order has the earliest start beside all
    others. First every promise is laid down again, as far as it still holds; then each moves to the earliest
    moment that leaves the others where they are. So as long as everything ends when it was expected to, no start ever
    moves to a later time, whichever others move. With a single gang it is EASY backfill.

    Attributes:
        starts: name of a gang -> its start; those are missing that no expected ends make fit.
    """

    def __init__(
        self, blocked: Sequence[Blocked], free: WhatIf, calendar: Calendar, margin: float = MARGIN_SECONDS
    ) -> None:
        """Give starts to the gangs, the first `MOST_BLOCKED` in queue order; names are unique.

        `free` is what is free now, what was kept for these gangs before included; it is the same again afterwards, and
        must not be used for anything else as long as the profile is. `margin` is how many seconds before a start others
        have to be gone who use what is kept for it.
        """
        self._margin = margin
        self._outlook = Outlook(free, calendar)
        entries = [_Occupation(each, None) for each in blocked[:MOST_BLOCKED]]
        for entry in entries:
            if entry.blocked.promised is not None:
                self._lay(entry, still_holds(self._padded(entry.blocked), entry.blocked.promised, self._outlook))
        for entry in entries:
            kept = entry.found
            self._lay(entry, None)
            before = inf if kept is None else kept.reservation.at
            self._lay(entry, find(self._padded(entry.blocked), self._outlook, before) or kept)
        self._outlook.rewind()
        self._entries = {entry.blocked.name: entry for entry in entries}
        self.starts: dict[str, Start] = {}
        ahead: list[ExpectedEnd] = []
        for entry in entries:
            if entry.found is not None:
                self.starts[entry.blocked.name] = entry.found.start(self._outlook, ahead)
                ahead.append(entry.found.reservation)

    def reach(self, duration: float | None) -> int:
        """Count the starts that work outlasts which starts now and runs for `duration` seconds.

        What is kept from it depends on nothing else.
        """
        until = self._until(duration)
        return sum(start.at < until for start in self.starts.values())

    def kept(self, duration: float | None, besides: str = "") -> NDArray[np.int64]:
        """Return (resources, rows) what work has to leave of the room that is free now, by how long it runs (seconds).

        None: without end. What is kept for the gang called `besides`, for whom this is asked, is not kept from it.
        """
        outlook, until = self._outlook, self._until(duration)
        others = [each for each in outlook.reservations if each.name != besides and each.overlaps(outlook.now, until)]
        return keep_aligned(outlook.withheld(others, outlook.now, until), others, outlook)

    def settle(self, name: str) -> None:
        """Take in that a gang has what it was promised, or other room: claims in the table stand for it from now on."""
        entry = self._entries.pop(name, None)
        if entry is not None:
            self._lay(entry, None)
            self.starts.pop(name, None)

    def _until(self, duration: float | None) -> float:
        return inf if duration is None else self._outlook.now + duration + self._margin

    def _padded(self, blocked: Blocked) -> Blocked:
        """Return the gang with the margin in its runtime: others start right after it."""
        if blocked.duration is None:
            return blocked
        return replace(blocked, duration=blocked.duration + self._margin)

    def _lay(self, entry: _Occupation, found: Found | None) -> None:
        """Give a gang its place in the profile, in place of a former one."""
        reservations = self._outlook.reservations
        if entry.found is not None:
            reservations.remove(entry.found.reservation)
        if found is not None:
            reservations.append(found.reservation)
        entry.found = found


def earmark(
    pods: Sequence[Pod], now: WhatIf, later: WhatIf, ground: Candidates, terms: PlacementTerms
) -> NDArray[np.int64] | None:
    """Return (resources, rows) of capacity to keep for `pods`, or None if not even `later` would hold them.

    `now` is what is free, `later` what will be once everything that can end has ended. Room that is free now is
    chosen first, then the nodes of which least is still taken: no other gang may take from them meanwhile, so that for
    pods of one shape the members still without room never grow from one pass to the next, and small gangs cannot
    starve a large one. Pods that have to share a domain keep the one that has most room for them now. On success the
    snapshots are used up. Complexity: as `plan`.
    """
    groups = group_by_shape(pods)
    if terms.gathers:
        return _keep_domain(groups, now, later, ground, terms)
    marks = now.mark(), later.mark()
    for shapes in shape_orders(groups, now.table, ground.eligible):
        kept = _keep(shapes, groups, now, later, ground.eligible)
        if kept is not None:
            return kept
        now.undo(marks[0])
        later.undo(marks[1])
    # Roomiest first can miss what tightest first finds, and a head that keeps nothing could be starved.
    return _keep_plan(pods, later, ground, PlacementTerms(Packing.BINPACK))


def _keep_plan(
    pods: Sequence[Pod], later: WhatIf, ground: Candidates, terms: PlacementTerms
) -> NDArray[np.int64] | None:
    """Keep what a plan takes for which everything that can end has ended; None if there is none."""
    before = later.free.copy()
    found = isinstance(plan(pods, later, ground, terms), Plan)
    return before - later.free if found else None


def _keep_domain(
    groups: Mapping[Shape, Sequence[Pod]], now: WhatIf, later: WhatIf, ground: Candidates, terms: PlacementTerms
) -> NDArray[np.int64] | None:
    """Keep room in one domain of the required level, those with most room now first; anywhere if none is required."""
    pods = [pod for members in groups.values() for pod in members]
    level = ground.tree.levels.find(terms.topology.required) if terms.topology.required else None
    if level is None or ground.settled:
        return _keep_plan(pods, later, ground, terms)
    fits, path = np.zeros(later.free.shape[1], dtype=np.int64), ground.tree.path(level)
    for shape, members in groups.items():
        fits += np.minimum(room(now, shape, ground.eligible(shape)), len(members))
    totals = ground.tree.sums(level, fits)
    candidates = np.flatnonzero(ScopeDomains(later, ground, terms).holding(level, groups))
    best: tuple[float, NDArray[np.int64]] | None = None
    mark = later.mark()
    for domain in candidates[np.argsort(-totals[candidates], kind="stable")][:MOST_SCOPES].tolist():
        kept = _keep_plan(pods, later, ground.within(path == domain), terms)
        later.undo(mark)
        # What is kept and not free yet cannot grow, as no other gang may take there: so neither can the least of all.
        if kept is not None and (best is None or _missing(kept, now) < best[0]):
            best = _missing(kept, now), kept
    return None if best is None else best[1]


def _missing(kept: NDArray[np.int64], now: WhatIf) -> float:
    """Return how much of what is kept is not free yet, as the sum of its shares of what is kept of each resource."""
    wanted = np.maximum(kept.sum(axis=1), 1)
    missing = np.maximum(kept - np.maximum(now.free, 0), 0).sum(axis=1)
    return float((missing / wanted).sum())


def _keep(
    shapes: Sequence[Shape],
    groups: Mapping[Shape, Sequence[Pod]],
    now: WhatIf,
    later: WhatIf,
    eligible: Eligible,
) -> NDArray[np.int64] | None:
    """Keep room for the shapes in the given order; return None when there is not enough for one of them."""
    table, order = now.table, now.table.order()
    before = later.free.copy()
    for shape in shapes:
        vector, admitted = table.vector(shape.requests), eligible(shape)
        stranded = strands(table, vector)
        potential = room(later, shape, admitted)
        at_once = np.minimum(room(now, shape, admitted), potential)
        wanted = len(groups[shape])
        # Rows with room now, roomiest first; of the others those of which least is taken, then those that hold most.
        first = _fill(at_once, np.lexsort((order, -at_once, stranded)), wanted)
        _take(first, vector, now, later)
        potential -= first
        wanted -= int(first.sum())
        then = _fill(potential, np.lexsort((order, -potential, _lacking(now, vector), stranded)), wanted)
        if int(then.sum()) < wanted:
            return None
        _take(then, vector, now, later)
    return before - later.free


def _fill(room: NDArray[np.int64], ranked: NDArray[np.intp], wanted: int) -> NDArray[np.int64]:
    """Return (rows,) how many each row gets when `wanted` are handed out in the order `ranked`, as far as they go."""
    reached = np.minimum(np.cumsum(np.minimum(room[ranked], wanted)), wanted)
    shares = np.zeros_like(room)
    shares[ranked] = np.diff(reached, prepend=0)
    return shares


def _take(shares: NDArray[np.int64], vector: Vector, *snapshots: WhatIf) -> None:
    rows = np.flatnonzero(shares)
    for snapshot in snapshots:
        snapshot.take_from(rows, vector, shares[rows])


def _lacking(now: WhatIf, vector: Vector) -> NDArray[np.float64]:
    """Return (rows,) the largest share of one pod's request that is not free yet, 0 to 1."""
    amounts = np.maximum(vector.amounts, 1)[:, None]
    missing: NDArray[np.float64] = np.clip(1 - now.free[vector.columns] / amounts, 0, 1).max(axis=0, initial=0)
    return missing
