"""The level tree as columns: which domain of each network tier every node is in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import NodeTable
from extender.domain.clique import CLIQUE_LABEL, clique_of
from extender.domain.levels import Level, Levels
from extender.domain.names import natural_key
from extender.domain.node import Node

#: What the level is called that multi-node NVLink domains make where no list of levels has it.
CLIQUE_LEVEL = "clique"


@dataclass(frozen=True, slots=True)
class Tree:
    """Which domain every node is in, on each level.

    Attributes:
        levels: the tiers, outermost first, their factors written out, NVLink domains among them where there are any.
        domains: (levels, rows) int64: the index of each node's domain on a level, -1 for a node that has none there.
        names: per level, the name of each domain. Namesakes below different domains of the level above are two.
        ranks: per level, (domains,) int64: each domain's place in the natural order of names.
        cliques: the index of the level of NVLink domains, None where there are none.
        outermost: the factors of members that have only the cluster in common.
    """

    levels: Levels
    domains: NDArray[np.int64]
    names: tuple[tuple[str, ...], ...]
    ranks: tuple[NDArray[np.int64], ...]
    cliques: int | None
    outermost: tuple[float, float]

    @property
    def depth(self) -> int:
        """Return how many levels there are between the cluster and the node."""
        return len(self.levels.levels)

    def factors(self, level: int) -> tuple[float, float]:
        """Return the factors (all-reduce, all-to-all) of members whose lowest common domain is at `level`."""
        return self.outermost if level < 0 else self.levels.factor(level)

    def common(self, rows: NDArray[np.intp]) -> tuple[int, int]:
        """Return level and index of the lowest domain that all of `rows` are in; (-1, 0) is the cluster.

        Nodes without a domain share none on that level. A single row's is the node itself: level `depth`, the row.
        """
        if rows.shape[0] and (rows == rows[0]).all():
            return self.depth, int(rows[0])
        for level in range(self.depth - 1, -1, -1):
            domains = self.domains[level, rows]
            if domains.shape[0] and domains[0] >= 0 and (domains == domains[0]).all():
                return level, int(domains[0])
        return -1, 0

    def sums(self, level: int, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return (domains,) the sum of (rows,) `values` over each domain of a level.

        The cluster, level -1, is one domain; on the level of nodes, `depth`, each row is.
        """
        if level < 0:
            return np.array([values.sum()], dtype=np.int64)
        if level >= self.depth:
            return values
        path = self.domains[level]
        inside = path >= 0
        sums = np.zeros(len(self.names[level]), dtype=np.int64)
        np.add.at(sums, path[inside], values[inside])
        return sums

    def path(self, level: int) -> NDArray[np.int64]:
        """Return (rows,) the domain of each node on a level, -1 for none; on the level of nodes each row itself."""
        return np.arange(self.domains.shape[1]) if level >= self.depth else self.domains[level]

    def domain_name(self, level: int, domain: int, node: Callable[[int], Node]) -> str:
        """Return what a domain is called; `node` names rows, for the level of nodes."""
        if level < 0:
            return ""
        return node(domain).name if level >= self.depth else self.names[level][domain]


class TreeKeeper:
    """Keep the tree in step with nodes and levels; built anew only when labels, or the levels themselves, changed."""

    def __init__(self, table: NodeTable) -> None:
        """Read the nodes of `table`."""
        self._table = table
        self._tree: Tree | None = None
        self._built_on: tuple[int, Levels | None] = (-1, None)

    def tree(self, levels: Levels) -> Tree:
        """Return the tree of `levels` over the nodes as they are."""
        change = self._table.last_change
        if self._tree is None or self._built_on[0] != change or self._built_on[1] is not levels:
            self._tree = build(self._table, levels)
            self._built_on = (change, levels)
        return self._tree


def build(table: NodeTable, levels: Levels) -> Tree:
    """Build the tree of `levels` over the nodes of `table`. Complexity: O(nodes x levels)."""
    rows = table.rows
    present = np.flatnonzero(table.present[:rows]).tolist()
    nodes = [(row, table.node(row)) for row in present]
    values = [{row: levels.domain(index, node) for row, node in nodes} for index in range(len(levels.levels))]
    listed = [
        replace(level, allreduce=levels.factor(index)[0], alltoall=levels.factor(index)[1])
        for index, level in enumerate(levels.levels)
    ]
    known = levels.find(CLIQUE_LABEL)
    cliques = {row: clique for row, node in nodes if (clique := clique_of(node.labels))}
    if known is not None and known < len(listed):
        values[known] = {row: cliques.get(row, "") for row, _ in nodes}
    elif cliques:
        known = _place_of_cliques(cliques, values)
        inner = levels.factor(len(listed) - 1) if listed else (1.0, 1.0)
        listed.insert(known, Level(CLIQUE_LEVEL, CLIQUE_LABEL, *inner))
        values.insert(known, {row: cliques.get(row, "") for row, _ in nodes})
    domains = np.full((len(listed), rows), -1, dtype=np.int64)
    names: list[tuple[str, ...]] = []
    path: dict[int, tuple[str, ...]] = dict.fromkeys(present, ())
    for index, value in enumerate(values):
        seen: dict[tuple[str, ...], int] = {}
        for row in present:
            own = value[row]
            path[row] = (*path[row], own)
            if own:
                domains[index, row] = seen.setdefault(path[row], len(seen))
        names.append(tuple(name for *_, name in seen))
    return Tree(
        levels=Levels(tuple(listed), levels.source, levels.members),
        domains=domains,
        names=tuple(names),
        ranks=tuple(_ranks(level) for level in names),
        cliques=known if known is not None and known < len(listed) else None,
        outermost=levels.factor(-1),
    )


def _place_of_cliques(cliques: dict[int, str], values: list[dict[int, str]]) -> int:
    """Return the innermost place at which every NVLink domain lies within one domain of the level above."""
    for place in range(len(values), 0, -1):
        above: dict[str, set[tuple[str, ...]]] = {}
        for row, clique in cliques.items():
            above.setdefault(clique, set()).add(tuple(value[row] for value in values[:place]))
        if all(len(paths) == 1 for paths in above.values()):
            return place
    return 0


def _ranks(names: tuple[str, ...]) -> NDArray[np.int64]:
    ranks = np.empty(len(names), dtype=np.int64)
    ranks[sorted(range(len(names)), key=lambda index: natural_key(names[index]))] = np.arange(len(names))
    return ranks
