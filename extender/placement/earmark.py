"""What the blocked head of the queue waits for: the nodes that will hold it soonest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import Vector
from extender.cluster.whatif import WhatIf
from extender.domain.keys import Packing
from extender.domain.pod import Pod, Shape
from extender.placement.ground import Eligible, Ground, Terms
from extender.placement.packing import strands
from extender.placement.plan import Plan, group_by_shape, plan, shape_orders
from extender.placement.room import room
from extender.placement.scopes import MOST_SCOPES, Domains


def earmark(pods: Sequence[Pod], now: WhatIf, later: WhatIf, ground: Ground, terms: Terms) -> NDArray[np.int64] | None:
    """Return (resources, rows) of capacity to keep for `pods`, or None if not even `later` would hold them.

    `now` is what is free, `later` what will be once everything that can end has ended. Room that is free now is
    chosen first, then the nodes of which least is still taken: nobody else may take from them meanwhile, so that for
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
    return _keep_plan(pods, later, ground, Terms(Packing.BINPACK))


def _keep_plan(pods: Sequence[Pod], later: WhatIf, ground: Ground, terms: Terms) -> NDArray[np.int64] | None:
    """Keep what a plan takes for which everything that can end has ended; None if there is none."""
    before = later.free.copy()
    found = isinstance(plan(pods, later, ground, terms), Plan)
    return before - later.free if found else None


def _keep_domain(
    groups: Mapping[Shape, Sequence[Pod]], now: WhatIf, later: WhatIf, ground: Ground, terms: Terms
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
    candidates = np.flatnonzero(Domains(later, ground, terms).holding(level, groups))
    best: tuple[float, NDArray[np.int64]] | None = None
    mark = later.mark()
    for domain in candidates[np.argsort(-totals[candidates], kind="stable")][:MOST_SCOPES].tolist():
        kept = _keep_plan(pods, later, ground.within(path == domain), terms)
        later.undo(mark)
        # What is kept and not free yet cannot grow, as nobody else may take there: so neither can the least of all.
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
