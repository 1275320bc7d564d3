"""What the blocked head of the queue waits for: the nodes that will hold it soonest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from extender.cluster.whatif import WhatIf
from extender.domain.pod import Pod
from extender.placement.plan import Eligible, group_by_shape


def earmark(pods: Sequence[Pod], now: WhatIf, potential: WhatIf, eligible: Eligible) -> NDArray[np.int64] | None:
    """Return (resources, rows) of capacity to keep for `pods`, or None if not even `potential` would hold them.

    `now` is what is free, `potential` what will be once everything that can end has ended. Room that is free now is
    chosen first, and of the rest as little as possible, so the number of members still without room never grows from
    one pass to the next: small gangs cannot starve a large one. Both snapshots are used up.
    """
    kept = np.zeros_like(potential.free)
    for shape, members in group_by_shape(pods).items():
        vector = now.table.vector(shape.requests)
        admitted = eligible(shape)
        later = potential.counts(vector, admitted)
        at_once = np.minimum(now.counts(vector, admitted), later)
        wanted = len(members)
        if int(np.minimum(later, wanted).sum()) < wanted:
            return None
        order = now.table.order()
        # Rows with room now, roomiest first; then the others, those first that will hold most.
        for room, ranked in ((at_once, np.lexsort((order, -at_once))), (later, np.lexsort((order, at_once - later)))):
            for row in ranked.tolist():
                share = min(wanted, int(room[row]))
                if not share:
                    continue
                wanted -= share
                later[row] -= share
                kept[vector.columns, row] += vector.amounts * share
                now.take(row, vector, share)
                potential.take(row, vector, share)
    return kept
