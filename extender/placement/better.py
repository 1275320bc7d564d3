"""What the next better placement of a gang would have taken: the level that is faster, and how much room it lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from extender.cluster.table import NodeTable
from extender.cluster.tree import Tree
from extender.cluster.whatif import WhatIf
from extender.domain.topology import Objective
from extender.fabric.bandwidth import step
from extender.placement.placement import Placement, bandwidth_at, shares_of


@dataclass(frozen=True, slots=True)
class Better:
    """A placement that would be faster, and why it is not the one.

    `bus_bandwidth` (GB/s) is what all members in one domain of `level` would have; the roomiest such domain, called
    `domain`, has room for `fits` of `needed` members, the gang's own places counted as free.
    """

    bus_bandwidth: float
    level: str
    domain: str
    fits: int
    needed: int


def next_better(
    members: Mapping[str, str], placement: Placement, table: NodeTable, tree: Tree, objective: Objective
) -> Better | None:
    """Return what the innermost levels but one step of bandwidth would have taken; None if nothing is faster.

    `members` are those that `placement` describes (pod UID -> node name). Room is counted by resources alone.
    """
    reached = tree.levels.find(placement.level) if placement.level != tree.levels.name(-1) else -1
    if placement.bus_bandwidth is None or reached is None:
        return None
    shares = shares_of(members, table)
    for level in range(reached + 1, tree.depth + 1):
        bandwidth = bandwidth_at(level, shares, table, tree, objective)
        if bandwidth is not None and step(bandwidth) > step(placement.bus_bandwidth):
            domain, fits = _roomiest(level, members, table, tree)
            return Better(bandwidth, tree.levels.name(level), domain, fits, len(members))
    return None


def _roomiest(level: int, members: Mapping[str, str], table: NodeTable, tree: Tree) -> tuple[str, int]:
    """Return the domain of a level that has room for most of the members, and for how many."""
    whatif, everywhere = WhatIf(table), np.ones(table.rows, dtype=np.bool_)
    claims = filter(None, map(table.claim_of, members))
    shapes = Counter(claim.shape for claim in claims if table.row(claim.node) is not None)
    for uid in members:
        whatif.give_back(uid)
    fits = np.zeros(1, dtype=np.int64)
    for shape, count in shapes.items():
        counts = np.minimum(whatif.counts(table.vector(shape.requests), everywhere), count)
        fits = fits + np.minimum(tree.sums(level, counts), count)
    if not fits.shape[0]:
        return "", 0
    best = int(np.argmax(fits))
    return tree.domain_name(level, best, table.node), int(fits[best])
