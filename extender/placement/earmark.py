"""What the blocked head of the queue waits for: the nodes that will hold it soonest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import Vector
from extender.cluster.whatif import WhatIf
from extender.domain.keys import Packing
from extender.domain.pod import Pod, Shape
from extender.placement.packing import strands
from extender.placement.plan import Eligible, Plan, group_by_shape, plan, shape_orders


def earmark(pods: Sequence[Pod], now: WhatIf, potential: WhatIf, eligible: Eligible) -> NDArray[np.int64] | None:
    """Return (resources, rows) of capacity to keep for `pods`, or None if not even `potential` would hold them.

    `now` is what is free, `potential` what will be once everything that can end has ended. Room that is free now is
    chosen first, then the nodes of which least is still taken: nobody else may take from them meanwhile, so that for
    pods of one shape the members still without room never grow from one pass to the next, and small gangs cannot
    starve a large one. On success the snapshots are used up. Complexity: as `plan`.
    """
    groups = group_by_shape(pods)
    marks = now.mark(), potential.mark()
    for shapes in shape_orders(groups, now.table, eligible):
        kept = _keep(shapes, groups, now, potential, eligible)
        if kept is not None:
            return kept
        now.undo(marks[0])
        potential.undo(marks[1])
    # Roomiest first can miss what tightest first finds, and a head that keeps nothing could be starved.
    before = potential.free.copy()
    found = isinstance(plan(pods, potential, eligible, Packing.BINPACK), Plan)
    return before - potential.free if found else None


def _keep(
    shapes: Sequence[Shape],
    groups: Mapping[Shape, Sequence[Pod]],
    now: WhatIf,
    potential: WhatIf,
    eligible: Eligible,
) -> NDArray[np.int64] | None:
    """Keep room for the shapes in the given order; return None when there is not enough for one of them."""
    table, order = now.table, now.table.order()
    before = potential.free.copy()
    for shape in shapes:
        vector, admitted = table.vector(shape.requests), eligible(shape)
        stranded = strands(table, vector)
        later = potential.counts(vector, admitted)
        at_once = np.minimum(now.counts(vector, admitted), later)
        wanted = len(groups[shape])
        # Rows with room now, roomiest first; of the others those of which least is taken, then those that hold most.
        first = _fill(at_once, np.lexsort((order, -at_once, stranded)), wanted)
        _take(first, vector, now, potential)
        later -= first
        wanted -= int(first.sum())
        then = _fill(later, np.lexsort((order, -later, _lacking(now, vector), stranded)), wanted)
        if int(then.sum()) < wanted:
            return None
        _take(then, vector, now, potential)
    return before - potential.free


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
