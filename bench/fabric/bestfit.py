"""The reference: best fit by count, as topology-aware schedulers do it that count pods instead of GB/s.

It is what Kueue's TAS does for a gang with a preferred innermost level (BestFit, kueue pkg/cache/scheduler
tas_flavor_snapshot.go), written anew: of the lowest level that has a domain with room for all pods, the domain with
the least room; inside it, level by level, as few domains as possible, the roomiest first and for what is left over the
tightest that holds it. It sees the same tiers as Muster, NVLink domains included, and the same room on each node.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from extender.cluster.whatif import WhatIf
from extender.objects.pod import Pod
from extender.placement.candidates import Candidates
from extender.placement.room import room


def best_fit(pods: Sequence[Pod], whatif: WhatIf, candidates: Candidates) -> dict[str, str] | None:
    """Return a node for each of `pods`, which are alike, as pod UID -> node name; None if not all have room.

    Complexity: O(nodes x levels).
    """
    shape, table = pods[0].shape, whatif.table
    counts = room(whatif, shape, candidates.eligible(shape))
    paths = [*candidates.tree.domains, np.arange(counts.shape[0])]
    for level in range(len(paths) - 1, -2, -1):
        chosen = _tightest(paths[level], counts, len(pods)) if level >= 0 else np.flatnonzero(counts)
        if int(counts[chosen].sum()) >= len(pods):
            break
    else:
        return None
    shares = _share(paths[level + 1 :], chosen, counts, len(pods), table.order())
    nodes = [table.node(row).name for row, count in shares for _ in range(count)]
    return dict(zip((pod.uid for pod in pods), nodes, strict=True))


def _tightest(path: NDArray[np.int64], counts: NDArray[np.int64], pods: int) -> NDArray[np.intp]:
    """Return the rows of the domain with the least room of those that hold all pods; none if none does."""
    inside = np.flatnonzero(path >= 0)
    totals = np.bincount(path[inside], weights=counts[inside])
    holding = np.flatnonzero(totals >= pods)
    if not holding.shape[0]:
        return np.zeros(0, dtype=np.intp)
    return np.flatnonzero((path == holding[np.argmin(totals[holding])]) & (counts > 0))


def _share(
    paths: Sequence[NDArray[np.int64]],
    rows: NDArray[np.intp],
    counts: NDArray[np.int64],
    pods: int,
    order: NDArray[np.int64],
) -> list[tuple[int, int]]:
    """Return (row, pods): share pods out among `rows`, which hold them, by the levels that `paths` are of."""
    if not paths:
        return [(int(rows[0]), pods)]
    path = paths[0][rows]
    groups = [rows[path == domain] for domain in np.unique(path)]
    rooms = [int(counts[group].sum()) for group in groups]
    names = [int(order[group].min()) for group in groups]
    left, shares = pods, []
    remaining = sorted(range(len(groups)), key=lambda index: (-rooms[index], names[index]))
    while left:
        chosen = remaining[0]
        if rooms[chosen] >= left:
            chosen = min((i for i in remaining if rooms[i] >= left), key=lambda index: (rooms[index], names[index]))
        remaining.remove(chosen)
        share = min(rooms[chosen], left)
        shares += _share(paths[1:], groups[chosen], counts, share, order)
        left -= share
    return shares
