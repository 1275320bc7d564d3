"""How many more nodes a gang would need: of the kind of which there are most among those that admit it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from extender.admission.explaining.scene import Scene
from extender.admission.explaining.trial import fits
from extender.admission.site import Capacity, Party, Site
from extender.cluster.nodekinds import gpus_of, whole_gpus
from extender.cluster.replica import Replica
from extender.cluster.table import NodeTable
from extender.cluster.tree import Tree
from extender.domain.node import Node
from extender.domain.pod import Shape
from extender.placement.ground import Eligible
from extender.placement.room import room

#: Nobody adds more nodes than this for one gang, and each of them is tried as a row of its own.
_MOST_NODES: Final = 1024
_HOSTNAME: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class MoreNodes:
    """How many nodes more, and which."""

    nodes: int
    message: str


@dataclass(frozen=True, slots=True)
class _Grown:
    """The nodes, and some more."""

    table: NodeTable
    tree: Tree


def more_nodes(scene: Scene, site: Site, party: Party, may_try: Callable[[], bool]) -> MoreNodes | None:
    """Return how many more empty nodes of the commonest kind would have the party placed; None if none would.

    Where all have to be in one domain, the nodes come into the one that has most room already. `may_try` counts trials,
    and says when there were enough.
    """
    shape = max((shape for shape, _ in party.demand.shapes), key=lambda each: (whole_gpus(each), each.requests))
    pattern = _pattern(scene, site, party, shape)
    if pattern is None:
        return None
    row, where = pattern
    node = scene.table.node(row)
    each = int(room(site.snapshot(Capacity.EMPTY), shape, site.possible(shape))[row])
    if not each:
        return None
    most = min(-(-party.demand.pods // each), _MOST_NODES)
    count = min(max(-(-_missing(scene, site, party) // each), 1), most)
    while may_try():
        bigger = _grow(scene, site, row, count)
        if fits(scene, Party(party.gang, party.demand, party.settled, _pods=party.pods), bigger):
            return MoreNodes(count, f"{_in_words(node, count, where)}{_unless(scene)}")
        if count == most:
            return None
        count = min(2 * count, most)
    return None


def _missing(scene: Scene, site: Site, party: Party) -> int:
    """Return how many of the party fit nowhere now, or not into the domain that has most room."""
    short = site.lack(Capacity.FREE, party, scene.eligible(site))
    return party.demand.pods if short is None else max(party.demand.pods - short.fits, 1)


def _pattern(scene: Scene, site: Site, party: Party, shape: Shape) -> tuple[int, str] | None:
    """Return a node of the commonest kind that admits `shape`, and the domain that it is in if one has to hold all."""
    table, eligible = scene.table, site.possible(shape)
    level = site.tree.levels.find(party.demand.topology.required) if party.demand.topology.required else None
    where = ""
    if level is not None and level >= site.tree.depth:
        return None  # all on one node: more of them do not help
    if level is not None:
        rooms = site.rooms(Capacity.FREE, level, shape, scene.eligible(site))
        if not rooms.shape[0]:
            return None
        domain = int(rooms.argmax())
        eligible = eligible & (site.tree.path(level) == domain)
        where = f" in {site.tree.levels.name(level)} {site.tree.domain_name(level, domain, table.node)}"
    empty = room(site.snapshot(Capacity.EMPTY), shape, eligible)
    rows = np.flatnonzero(empty).tolist()
    if not rows:
        return None
    kinds = [amounts.tobytes() for amounts in np.ascontiguousarray(table.allocatable[:, rows].T)]
    commonest = max(Counter(kinds).items(), key=lambda kind: (kind[1], kind[0]))[0]
    return rows[kinds.index(commonest)], where


def _grow(scene: Scene, site: Site, row: int, count: int) -> Site:
    """Return the scene's nodes and `count` more that are as the one at `row` is, empty."""
    table, node = Replica(scene.table), scene.table.node(row)
    names = [f"hypothetical-{index}" for index in range(count)]
    for name in names:
        table.upsert(replace(node, name=name, uid=name, labels={**node.labels, _HOSTNAME: name}))
    rows = table.rows_of(names)
    domains = np.full((scene.tree.depth, table.rows), -1, dtype=np.int64)
    domains[:, : scene.tree.domains.shape[1]] = scene.tree.domains
    domains[:, rows] = domains[:, [row]]
    grown = _Grown(table, replace(scene.tree, domains=domains))
    possible = _extended(site.possible, table, rows, row)
    admitted = possible if site.admitted is site.possible else _extended(site.admitted, table, rows, row)
    kept = None
    if site.kept is not None:
        kept = np.zeros((len(table.resources), table.rows), dtype=np.int64)
        kept[: site.kept.shape[0], : site.kept.shape[1]] = site.kept
        kept[:, rows] = 0
    return Site(grown, kept, admitted, possible)


def _extended(eligible: Eligible, table: NodeTable, rows: NDArray[np.intp], like: int) -> Eligible:
    """Return `eligible` with some rows more that admit what the one called `like` does."""
    masks: dict[Shape, NDArray[np.bool_]] = {}

    def admits(shape: Shape) -> NDArray[np.bool_]:
        if shape not in masks:
            before = eligible(shape)
            mask = np.zeros(table.rows, dtype=np.bool_)
            mask[: before.shape[0]] = before
            mask[rows] = before[like]
            masks[shape] = mask
        return masks[shape]

    return admits


def _unless(scene: Scene) -> str:
    """Say that new nodes are for everybody, if others wait too."""
    others = sum(1 for uid in scene.material.waits if uid != scene.gang.uid)
    return f", if none of the other {others} that wait gets them" if others else ""


def _in_words(node: Node, count: int, where: str) -> str:
    resource, gpus = gpus_of(node)
    has = f" ({gpus} {resource} each)" if gpus else ""
    return f"{count} more empty node{'s' if count != 1 else ''} like {node.name}{has}{where}"
