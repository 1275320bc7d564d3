"""How many pods of one shape each node takes: what is free of every resource, and what the kubelet would admit."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np
from numpy.typing import NDArray

from extender.cluster.tree import Tree
from extender.cluster.whatif import WhatIf
from extender.domain.pod import Shape
from extender.placement.tables import IMPOSSIBLE, fold
from extender.placement.units import MOST_PODS, Field, Unit, node_unit

#: More GPUs than any node has.
_MOST_GPUS = 4096


def room(whatif: WhatIf, shape: Shape, eligible: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return (rows,) how many pods of `shape` each eligible node takes, all by themselves; zero elsewhere."""
    counts = whatif.counts(whatif.table.vector(shape.requests), eligible)
    if not whatif.table.occupancy.concerns(shape):
        return counts
    rows = np.flatnonzero(counts)
    if rows.shape[0]:
        states, inverse = np.unique(whatif.states[rows], return_inverse=True)
        admitted = np.array([whatif.table.occupancy.offer(int(s), shape, MOST_PODS).pods for s in states])
        # A full table says that neither GPUs nor zones set the limit.
        limits = np.where(admitted >= MOST_PODS, counts[rows].max(), admitted)[inverse]
        counts[rows] = np.minimum(counts[rows], limits)
    return counts


def field_of(
    whatif: WhatIf, tree: Tree, shape: Shape, eligible: NDArray[np.bool_], settled: Mapping[int, int]
) -> Field:
    """Return the nodes that pods of `shape` can go to.

    `settled` says how many GPUs the gang has on which row already.
    """
    table = whatif.table
    counts = room(whatif, shape, eligible)
    rows = np.flatnonzero(counts)
    caps = counts[rows]
    states = whatif.states[rows]
    here = np.array([settled.get(int(row), 0) for row in rows], dtype=np.int64) if settled else np.zeros_like(caps)
    # One number per kind of node, so that equal nodes are found in one go.
    mixed = (states * (MOST_PODS + 1) + np.minimum(caps, MOST_PODS)) * _MOST_GPUS + here
    _, first, kinds = np.unique(mixed, return_index=True, return_inverse=True)
    units = []
    for at in first.tolist():
        offer = table.occupancy.offer(int(states[at]), shape, MOST_PODS)
        units.append(node_unit(offer, int(caps[at]), int(here[at])))
    gpus = max((unit.gpus for unit in units), default=0)
    return Field(tree, rows, caps, kinds.astype(np.intp), units, table.order()[rows], gpus)


def clique_units(ground: Field, whatif: WhatIf, pods: int, multiple: int = 1) -> tuple[list[Unit], NDArray[np.int64]]:
    """Return what the NVLink domains do as a whole, by kind, and (nodes,) the kind around each node, -1 for none.

    Each node takes a multiple of `multiple` pods; numbers that this rules out have an impossible loss. `loss[0]` of
    such a unit is what is lost as soon as anything goes into an NVLink domain that is still whole: GB/s that a gang of
    all its GPUs could have had.
    """
    level = ground.tree.cliques
    kinds = np.full(ground.rows.shape[0], -1, dtype=np.int64)
    if level is None:
        return [], kinds
    units: list[Unit] = []
    index: dict[tuple[tuple[int, ...], bool], int] = {}
    whole = _whole_cliques(ground, whatif, level)
    for domain in np.unique(ground.paths[level][ground.paths[level] >= 0]).tolist():
        inside = np.flatnonzero(ground.paths[level] == domain)
        key = tuple(sorted(ground.kinds[inside].tolist())), bool(whole[domain])
        if key not in index:
            index[key] = len(units)
            units.append(_clique_unit([ground.units[kind] for kind in key[0]], pods, multiple, intact=key[1]))
        kinds[inside] = index[key]
    return units, kinds


def _whole_cliques(ground: Field, whatif: WhatIf, level: int) -> NDArray[np.bool_]:
    """Return (domains,) in which NVLink domains every GPU is free."""
    table, tree = whatif.table, ground.tree
    path = tree.domains[level]
    inside = np.flatnonzero(path >= 0)
    taken = np.zeros(len(tree.names[level]), dtype=np.int64)
    empty = table.occupancy.empty_states()
    np.add.at(taken, path[inside], (whatif.states[inside] != empty[inside]).astype(np.int64))
    whole: NDArray[np.bool_] = taken == 0
    return whole


def _clique_unit(nodes: list[Unit], pods: int, multiple: int, *, intact: bool) -> Unit:
    cap = min(sum(node.cap for node in nodes), pods)
    costs = np.full(cap + 1, IMPOSSIBLE, dtype=np.int64)
    costs[0] = 0
    for node in nodes:
        shares = [(p, node.loss[p]) for p in range(multiple, node.cap + 1, multiple)]
        costs = np.minimum(fold(costs, shares, 1), IMPOSSIBLE)
    gpus = max(node.gpus for node in nodes)
    settled = sum(node.settled for node in nodes)
    products = [node.product for node in nodes if node.product is not None and node.product.clique]
    whole = min((product.clique or 0.0 for product in products), default=0.0)
    speeds = (
        min((product.in_clique(settled + gpus * p) for product in products), default=inf) for p in range(1, cap + 1)
    )
    network = min(node.outer[1] for node in nodes)
    return Unit(
        cap=cap,
        gpus=gpus,
        inner=(inf, *speeds),
        outer=(inf, *(p * network for p in range(1, cap + 1))),
        loss=(round(whole) if intact else 0, *(int(cost) for cost in costs[1:])),
        nic=min(node.nic for node in nodes),
        clique=True,
        product=nodes[0].product,
        settled=settled,
    )
