"""Whether one domain has room for all who have to be together, and which comes nearest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from extender.admission.explaining.scene import Scene
from extender.cluster.tree import Tree
from extender.domain.pod import Shape
from extender.domain.topology import TopologyRequest

#: More pods than any gang has: a node that takes any number of them counts as this much.
_MANY = 1 << 40


@dataclass(frozen=True, slots=True, eq=False)
class Gathering:
    """How the domains of one level hold the members that have to be together; the cluster, if none has to.

    Attributes:
        scene: what is looked at.
        level: the level of which one domain has to hold them, -1 for the cluster.
        size: how many have to be together: all, or those of one slice.
        needed: how many members are to be placed.
        totals: by shape, (domains,) how many each domain takes of the pods wanted of that shape.
        split: whether the cluster has room for all, but no domain has for those who have to be together there.
    """

    scene: Scene
    level: int
    size: int
    needed: int
    totals: Mapping[Shape, NDArray[np.int64]]
    split: bool
    _wanted: Mapping[Shape, int] = field(repr=False)
    _together: Mapping[Shape, int] = field(repr=False)
    _fits: Mapping[Shape, int] = field(repr=False)

    @classmethod
    def of(cls, scene: Scene, rooms: Mapping[Shape, tuple[int, NDArray[np.int64]]]) -> Self:
        """Count how many pods each domain takes; `rooms` has, by shape, the pods wanted and (rows,) each node's room.

        Each shape counts as if it had the nodes to itself. Members that have a node already keep the others near.
        """
        tree, needed = scene.tree, sum(pods for pods, _ in rooms.values())
        anywhere = {shape: min(int(np.minimum(room, pods).sum()), pods) for shape, (pods, room) in rooms.items()}
        topology = None if scene.party is None else scene.party.demand.topology
        level, size = _asked(topology, tree, needed)
        around = _around(scene, level)
        totals = {shape: _totals(tree, level, room * around, pods, size) for shape, (pods, room) in rooms.items()}
        together = {shape: _together(scene, shape, pods, size) for shape, (pods, _) in rooms.items()}
        split = level >= 0 and sum(anywhere.values()) == needed
        wanted = {shape: pods for shape, (pods, _) in rooms.items()}
        return cls(scene, level, size, needed, totals, split, wanted, together, anywhere)

    @property
    def best(self) -> int | None:
        """Return the domain that holds most, the first by name of several; None where there is no domain."""
        if not self.totals:
            return None
        held = np.sum(list(self.totals.values()), axis=0)
        if self.size < self.needed:  # slices: of those that have room for some, the one nearest to one slice more
            held %= self.size
        if not held.shape[0]:
            return None
        tree = self.scene.tree
        if self.level < 0:
            return 0
        ranks = tree.ranks[self.level] if self.level < tree.depth else self.scene.table.order()
        most = np.flatnonzero(held == held.max())
        return int(most[np.argmin(ranks[most])])

    def held(self, domain: int) -> int:
        """Return how many of those who have to be together a domain holds."""
        held = sum(int(totals[domain]) for totals in self.totals.values())
        return held % self.size if self.size < self.needed else held

    def missing(self, shape: Shape, domain: int) -> int:
        """Return how many pods of `shape` a domain lacks room for; of a slice all are taken to be of one shape."""
        if self.size < self.needed:
            return self.size - self.held(domain) if shape == next(iter(self.totals)) else 0
        return self._wanted[shape] - int(self.totals[shape][domain])

    def rows(self, domain: int) -> NDArray[np.bool_]:
        """Return (rows,) the nodes of a domain that may be used."""
        around = _around(self.scene, self.level)
        if self.level >= 0:
            around &= self.scene.tree.path(self.level) == domain
        return around

    def outside(self, shape: Shape) -> tuple[NDArray[np.bool_], str]:
        """Return (rows,) the nodes whose domain has not room for all pods of `shape` that have to be together, and why.

        None are while the cluster itself has not: which domain would have is not the question then.
        """
        rows = self.scene.table.rows
        if not self.split:
            return np.zeros(rows, dtype=np.bool_), ""
        path, holds = self.scene.tree.path(self.level), self._holds(shape)
        outside: NDArray[np.bool_] = ~_around(self.scene, self.level) | (path < 0)
        outside[~outside] = ~holds[path[~outside]]
        return outside, self._detail()

    def fits(self, shape: Shape) -> int:
        """Return how many of the pods of `shape` find room together."""
        if not self.split or self._holds(shape).any():
            return self._fits[shape]
        if self.size < self.needed:
            return min(self._fits[shape], int((self.totals[shape] // self.size * self.size).sum()))
        return 0 if self.best is None else int(self.totals[shape][self.best])

    def _holds(self, shape: Shape) -> NDArray[np.bool_]:
        """Return (domains,) which hold all pods of `shape` that have to be together; all shapes', if all have to."""
        if self.size < self.needed or not self._all_together:
            holds: NDArray[np.bool_] = self.totals[shape] >= self._together[shape]
            return holds
        every: NDArray[np.bool_] = np.logical_and.reduce(
            [totals >= self._together[each] for each, totals in self.totals.items()]
        )
        return every

    @property
    def _all_together(self) -> bool:
        party = self.scene.party
        return party is not None and bool(party.demand.topology.required)

    def _detail(self) -> str:
        tree = self.scene.tree
        name, best = tree.levels.name(self.level), self.best
        if best is None:
            return f"there is no {name}"
        domain = tree.domain_name(self.level, best, self.scene.table.node)
        return f"no {name} has room for {self.size} together; {domain} has for {self.held(best)}"


def _asked(topology: TopologyRequest | None, tree: Tree, needed: int) -> tuple[int, int]:
    """Return the level of which one domain has to hold members, -1 for none that is known, and how many."""
    if topology is None:
        return -1, needed
    level = tree.levels.find(topology.required) if topology.required else None
    if level is not None or topology.required:
        return (-1 if level is None else level), needed
    if topology.slices:
        level = tree.levels.find(topology.slices[0].level)
        return (-1, needed) if level is None else (level, min(topology.slices[0].size, needed))
    group = next((group for group in topology.role_groups if group.required), None)
    level = None if group is None else tree.levels.find(group.level)
    return (-1 if level is None else level), needed


def _around(scene: Scene, level: int) -> NDArray[np.bool_]:
    """Return (rows,) the nodes in the domains in which the gang's other members are, all where it has none."""
    rows = list(scene.settled)
    party = scene.party
    if level < 0 or not rows or party is None or not party.demand.topology.required:
        return np.ones(scene.table.rows, dtype=np.bool_)
    path = scene.tree.path(level)
    around: NDArray[np.bool_] = np.isin(path, path[rows]) & (path >= 0)
    return around


def _totals(tree: Tree, level: int, room: NDArray[np.int64], pods: int, size: int) -> NDArray[np.int64]:
    """Return (domains,) how many pods each domain takes; of slices as many as there is room for."""
    total = tree.sums(level, np.minimum(room, _MANY))
    return np.minimum(total, pods) if size >= pods else total


def _together(scene: Scene, shape: Shape, pods: int, size: int) -> int:
    """Return how many pods of `shape` have to be in one domain."""
    party = scene.party
    topology = None if party is None else party.demand.topology
    if party is None or topology is None or topology.required:
        return pods
    if topology.slices:
        roles = topology.slices[0].roles
        counted = sum(n for role, each, n in party.demand.sequence if each == shape and (not roles or role in roles))
        return min(size, counted)
    groups = [group.roles for group in topology.role_groups if group.required]
    counts = [sum(n for role, each, n in party.demand.sequence if each == shape and role in roles) for roles in groups]
    return min((count for count in counts if count), default=0)
