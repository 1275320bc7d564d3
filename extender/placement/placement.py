"""What is predicted of a gang where it is: how fast its collectives are, what it costs others, what was faster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

import numpy as np

from extender.cluster.claims import OfferShare
from extender.cluster.occupancy import HoldingScope
from extender.cluster.table import NodeTable
from extender.cluster.tree import Tree
from extender.cluster.whatif import WhatIf
from extender.hardware.bandwidth import IslandUse, bus_bandwidth, step
from extender.objects.topology import Objective


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a gang is, and what that means.

    Attributes:
        bus_bandwidth: predicted bus bandwidth of its collectives (GB/s); None for fewer than two GPUs, or where the
            product of some of them is unknown.
        level: the lowest level that all members with GPUs share, of a gang without any all members.
        domain: the domain of that level that they share, "" for the cluster.
        fragmentation: what future requests could get besides if it were not there (GB/s).
        gpus_per_node: its GPUs on each node that it has any on, in order of the nodes' names.
    """

    bus_bandwidth: float | None
    level: str
    domain: str
    fragmentation: float
    gpus_per_node: Mapping[str, int] = field(default_factory=dict)


def describe(members: Mapping[str, str], table: NodeTable, tree: Tree, objective: Objective) -> Placement | None:
    """Describe the placement of `members` (pod UID -> node name) as the claims stand; None if none has a node."""
    nodes = sorted({node for node in members.values() if table.row(node) is not None})
    if not nodes:
        return None
    shares = shares_of(members, table)
    rows = table.rows_of(sorted(shares) or nodes)
    level, domain = tree.common(rows)
    order = table.order()
    names = sorted(shares, key=lambda name: int(order[table.rows_of([name])[0]]))
    return Placement(
        bus_bandwidth=_bandwidth(shares, table, tree, level, objective),
        level=tree.levels.name(level),
        domain=tree.domain_name(level, domain, table.node),
        fragmentation=sum(share.lost for share in shares.values()) + _broken_cliques(shares, table, tree),
        gpus_per_node={name: shares[name].gpus for name in names},
    )


def bandwidth_at(
    level: int, shares: Mapping[str, OfferShare], table: NodeTable, tree: Tree, objective: Objective
) -> float | None:
    """Return the GB/s that a gang would have in one domain of `level`, shared out over nodes as it is (by node name).

    On the level of nodes it is that of one node with all of their GPUs; None if none has so many, or it is unknown.
    """
    if level < tree.depth:
        return _bandwidth(shares, table, tree, level, objective)
    gpus = sum(share.gpus for share in shares.values())
    products = [share.product for share in shares.values()]
    speeds = [product.inner(gpus) for product in products if product is not None and gpus <= product.gpus]
    return min(speeds) if speeds and len(speeds) == len(products) else None


def shares_of(members: Mapping[str, str], table: NodeTable) -> dict[str, OfferShare]:
    """Return what the members (pod UID -> node name) have of each node on which they have any GPUs."""
    by_node: dict[str, list[str]] = {}
    for uid, node in members.items():
        by_node.setdefault(node, []).append(uid)
    found = {node: table.occupancy.share(node, uids) for node, uids in by_node.items()}
    return {node: share for node, share in found.items() if share is not None and share.gpus}


def _bandwidth(
    shares: Mapping[str, OfferShare], table: NodeTable, tree: Tree, level: int, objective: Objective
) -> float | None:
    """Return the predicted bandwidth (GB/s); of the slowest product's figures where there are several."""
    islands: dict[tuple[bool, int], list[OfferShare]] = {}
    for node, share in shares.items():
        row = int(table.rows_of([node])[0])
        clique = -1 if tree.cliques is None else int(tree.domains[tree.cliques, row])
        islands.setdefault((clique >= 0, clique if clique >= 0 else row), []).append(share)
    products = [share.product for share in shares.values() if share.product is not None]
    if len(products) < len(shares):
        return None
    uses = [_use(parts, clique=clique) for (clique, _), parts in islands.items()]
    name, assumed = tree.levels.name(level), tree.factors(level)
    factors = [product.factors(name, assumed) for product in products]
    slowest = (min((f[0] for f in factors), default=1.0), min((f[1] for f in factors), default=1.0))
    collective = Objective.ALLREDUCE if objective is Objective.NONE else objective
    bandwidth = bus_bandwidth(uses, slowest, collective)
    return None if bandwidth is None or bandwidth == inf else bandwidth


def _use(parts: list[OfferShare], *, clique: bool) -> IslandUse:
    gpus = sum(part.gpus for part in parts)
    products = [part.product for part in parts if part.product is not None]
    joined = clique and all(product.clique for product in products)
    inner = min(product.in_clique(gpus) for product in products) if joined else min(part.inner for part in parts)
    outer = sum(part.outer for part in parts)
    nic = min((product.nic for product in products), default=inf)
    return IslandUse(inner, outer, nic, gpus, nvls=all(product.nvls for product in products), clique=joined)


def _broken_cliques(shares: Mapping[str, OfferShare], table: NodeTable, tree: Tree) -> float:
    """Return the bandwidth of NVLink domains (GB/s) that would be whole but for these pods."""
    if tree.cliques is None:
        return 0.0
    path, lost = tree.domains[tree.cliques], 0.0
    rows = {int(table.rows_of([node])[0]): share for node, share in shares.items()}
    held = table.occupancy.states(HoldingScope.ALL) != table.occupancy.empty_states()
    for clique in {int(path[row]) for row in rows} - {-1}:
        inside = np.flatnonzero(path == clique).tolist()
        alone = all(not rows[row].others if row in rows else not held[row] for row in inside)
        speeds = [share.product.clique or 0.0 for row, share in rows.items() if path[row] == clique and share.product]
        lost += max(speeds, default=0.0) if alone else 0.0
    return lost


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
