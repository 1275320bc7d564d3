"""Ranking the nodes that take a pod which joins no others: where a gang of one goes, and where it could go instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import NodeTable
from extender.cluster.tree import Tree
from extender.cluster.whatif import MOST_PODS, ShapeRooms, WhatIf
from extender.objects.keys import Packing
from extender.objects.pod import Pod, Shape
from extender.objects.topology import TopologyRequest
from extender.placement.bags import Bags, Wanted
from extender.placement.candidates import Candidates, PlacementTerms, Ranking, ScopeDomains, slices_of
from extender.placement.room import clique_units, field_of, keys_of_one, node_unit, room, strands
from extender.placement.search import Search


def rank_single(whatif: WhatIf, candidates: Candidates, terms: PlacementTerms, pod: Pod) -> Ranking | None:
    """Return the rows that take a pod which joins no others, and what compares them; None if none does.

    Domains decide only which nodes it may go to, and which come first: what lies further out is no faster than a node,
    and no tighter. In this order: that the node has a domain of the level that is preferred, that it is none
    of those that are used last; then for a pod with GPUs
    what `Search` compares nodes by, for one that has none, or is to be spread, what `pack` does.
    """
    question = _question(whatif, candidates, terms, pod)
    if question is None:
        return None
    within = candidates.within(question.inside)
    if question.by_bandwidth:
        ranking = _rank_by_bandwidth(whatif, within, terms, pod.shape)
    else:
        ranking = _rank_by_room(whatif, within, terms, pod.shape, question.levels)
    if not ranking.nodes.shape[0]:
        return None
    return replace(ranking, keys=(*(wish[ranking.nodes] for wish in question.wishes), *ranking.keys))


class BestNode(NamedTuple):
    """The node that a ranking has first: its row, and GB/s that later requests lose by it."""

    row: int
    loss: float


#: What is remembered for the pods of one shape: other terms than these few are seldom asked for in turn.
_MOST_ORDERS: Final = 4


def best_single(whatif: WhatIf, candidates: Candidates, terms: PlacementTerms, pod: Pod) -> BestNode | None:
    """Return the node that `rank_single` has first; None if none takes the pod.

    What compares nodes is remembered as long as only claims come and go: of hundreds of equal pods that are placed one
    after the other each has changed one node, and the domains around it. Where NVLink domains span nodes it is not,
    since a node's place depends on those of all nodes around it.
    """
    if candidates.tree.cliques is not None:
        ranking = rank_single(whatif, candidates, terms, pod)
        if ranking is None:
            return None
        best = ranking.best()
        return BestNode(int(ranking.nodes[best]), 0.0 if ranking.loss is None else float(ranking.loss[best]))
    rooms = whatif.rooms(pod.shape)
    key = candidates.eligible, candidates.avoided, id(candidates.tree), terms, pod.role  # which it keeps alive
    order = rooms.followers.get(key)
    if not isinstance(order, _RowOrder):  # what follows rooms is of no other class, which they cannot know
        question = _question(whatif, candidates, terms, pod)
        if question is None:
            return None
        order = _RowOrder(whatif.table, rooms, candidates.tree, terms, pod.shape, question)
        while len(rooms.followers) >= _MOST_ORDERS:
            del rooms.followers[next(iter(rooms.followers))]
        rooms.followers[key] = order
    return order.best(rooms)


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked about the nodes for a pod.

    Attributes:
        inside: (rows,) which admit it, and have a domain of each level that is required.
        wishes: (rows,) each, true where a node is not as the pod would rather have it, the dearest wish first.
        levels: those whose domains count where bandwidth does not.
        by_bandwidth: whether nodes are compared by their bandwidth.
    """

    inside: NDArray[np.bool_]
    wishes: Sequence[NDArray[np.bool_]]
    levels: Sequence[int]
    by_bandwidth: bool


def _question(whatif: WhatIf, candidates: Candidates, terms: PlacementTerms, pod: Pod) -> _Question | None:
    """Return what is asked about the nodes, None if a level that is required does not exist."""
    tree, shape = candidates.tree, pod.shape
    domains = _domains_of(pod, ScopeDomains(whatif, candidates, terms), candidates, terms.topology)
    if domains is None:
        return None
    required, preferred = domains
    inside = candidates.eligible(shape)
    for level in required:
        inside = inside & (tree.path(level) >= 0)
    wishes = [tree.path(level) < 0 for level in preferred]
    if candidates.sparing([shape]) is not None and candidates.avoided is not None:
        wishes.append(candidates.avoided(shape))
    by_bandwidth = bool(shape.whole_gpus) and terms.packing is not Packing.SPREAD
    return _Question(inside, wishes, (*preferred, *required), by_bandwidth)


def _domains_of(
    pod: Pod, domains: ScopeDomains, candidates: Candidates, topology: TopologyRequest
) -> tuple[list[int], list[int]] | None:
    """Return the levels of which a pod's node must have a domain, and of which it rather has one, most wanted first.

    None if there is no such level.
    """
    tree, role = candidates.tree, pod.role
    levels = domains.levels({pod.shape: [pod]}, ())
    if not levels:
        return None
    required, preferred = [levels[-1], *(level for level, _ in slices_of(topology, role, tree))], levels[:-1]
    for group in topology.role_groups:
        if role in group.roles and (level := tree.levels.find(group.level)) is not None:
            (required if group.required else preferred).append(level)
    return [level for level in required if level >= 0], [level for level in preferred if level >= 0]


def _rank_by_bandwidth(whatif: WhatIf, candidates: Candidates, terms: PlacementTerms, shape: Shape) -> Ranking:
    """Rank nodes as the search for a gang ranks those that hold all of it."""
    field = field_of(whatif, candidates.tree, shape, candidates.eligible(shape), {})
    search = Search(field, Wanted(1, field.gpus, terms.topology.objective), *clique_units(field, whatif, pods=1))
    ranking = search.rank_nodes(np.ones(field.rows.shape[0], dtype=np.bool_))
    return replace(ranking, nodes=field.rows[ranking.nodes])


def _rank_by_room(
    whatif: WhatIf, candidates: Candidates, terms: PlacementTerms, shape: Shape, levels: Sequence[int]
) -> Ranking:
    """Rank nodes as `pack` ranks them for one pod more: in the tightest domain of `levels`, the roomiest if spread."""
    table, tree, counts = whatif.table, candidates.tree, room(whatif, shape, candidates.eligible(shape))
    rows = np.flatnonzero(counts)
    sign = -1 if terms.packing is Packing.SPREAD else 1
    domains = []
    for level in levels:
        path = tree.path(level)[rows]
        domains.append(np.where(path >= 0, sign * tree.sums(level, counts)[path], 0))
    stranded = strands(table, table.vector(shape.requests))[rows]
    return Ranking(rows, (*domains, *keys_of_one(counts[rows], terms.packing, stranded)), table.order()[rows])


class _DomainRoom:
    """How many pods the domain around each node takes; a node without one has the cluster around it, or nothing."""

    def __init__(self, path: NDArray[np.int64], sums: NDArray[np.int64], sign: int, cluster: int | None) -> None:
        """Begin with (domains,) `sums`; `cluster` is what is around a node without a domain, None for nothing."""
        self._path = path
        self._sums = np.append(sums, cluster or 0)  # -1, no domain, reads the last
        self._sign = sign
        self._in_cluster = cluster is not None

    def __call__(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return what compares some rows, less being better."""
        values: NDArray[np.int64] = self._sign * self._sums[self._path[rows]]
        return values

    def gain(self, row: int, pods: int) -> None:
        """Take in that a node takes so many pods more."""
        domain = self._path[row]
        if domain >= 0:
            self._sums[domain] += pods
        if self._in_cluster:
            self._sums[-1] += pods


# Example. Pods of 2 GPUs; H100 nodes n1, of which 2 of 8 GPUs are taken, and n2 in rack aa, n3 in rack ab. They are
# compared by the step of bandwidth, negated, and GB/s lost, which follow from what a node does (`ShapeRooms.known`),
# then by room there and around:
#
#   known  (state 0, 4 pods)  (state 1, 3 pods)     n1 n2 n3    kinds   1 0 0    racks  aa 7, ab 4
#   steps        -120               -120                        counts  3 4 4
#   losses       1205                365
#
# n1 loses least. A pod goes there: it is in state 2 then, of which a step and a loss are computed, and takes 2 pods
# more; rack aa takes 6.
class _RowOrder:
    """What compares nodes for pods of one shape, right as long as only claims come and go.

    The rooms of that shape are given with each call: they remember this. Nothing here refers to itself, so that all of
    it is freed with them, and with it a shape that may be large.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - all that compares nodes
        self, table: NodeTable, rooms: ShapeRooms, tree: Tree, terms: PlacementTerms, shape: Shape, question: _Question
    ) -> None:
        self._table = table
        self._tree = tree
        self._shape = shape
        self._objective = terms.topology.objective
        self._inside = question.inside
        self._counts: NDArray[np.int64] = np.where(question.inside, rooms.counts, 0)
        self._steps: NDArray[np.int64] = np.zeros(0, dtype=np.int64)  # (kinds,), negated
        self._losses: NDArray[np.int64] = np.zeros(0, dtype=np.int64)  # (kinds,) GB/s
        self._by_bandwidth = question.by_bandwidth
        sums = partial(tree.sums, values=self._counts)
        if question.by_bandwidth:
            whole = int(self._counts.sum())
            around = range(tree.depth - 1, -1, -1)
            self._domains = [_DomainRoom(tree.path(level), sums(level), 1, whole) for level in around]
            columns: Sequence[_Column] = (self._counts.__getitem__, *self._domains)
        else:
            sign = -1 if terms.packing is Packing.SPREAD else 1
            self._domains = [_DomainRoom(tree.path(level), sums(level), sign, None) for level in question.levels]
            counts, tightest = self._counts, terms.packing is Packing.BINPACK
            stranded = strands(table, table.vector(shape.requests))
            columns = (*self._domains, stranded.__getitem__, lambda rows: counts[rows] if tightest else -counts[rows])
        self._wishes = tuple(wish.__getitem__ for wish in question.wishes)
        self._columns = columns
        self._order = table.order()

    def follow(self, rooms: ShapeRooms, rows: NDArray[np.intp]) -> None:
        """Take in that rooms have been counted again on some rows."""
        counts, inside = self._counts, self._inside
        for row in dict.fromkeys(rows.tolist()):
            gained = int(rooms.counts[row] - counts[row]) if inside[row] else 0
            if gained:
                counts[row] += gained
                for domain in self._domains:
                    domain.gain(row, gained)

    def best(self, rooms: ShapeRooms) -> BestNode | None:
        """Return the best node, None if none takes a pod. Complexity: O(nodes)."""
        left = np.flatnonzero(self._counts)
        if not left.shape[0]:
            return None
        left = _least(left, self._wishes)
        if self._by_bandwidth:
            self._learn(rooms)
            left = _least(
                left, (lambda rows: self._steps[rooms.kinds[rows]], lambda rows: self._losses[rooms.kinds[rows]])
            )
        row = int(_least(left, (*self._columns, self._order.__getitem__))[0])
        return BestNode(row, float(self._losses[rooms.kinds[row]]) if self._by_bandwidth else 0.0)

    def _learn(self, rooms: ShapeRooms) -> None:
        """Compute what nodes of kinds that have come up since do for one pod."""
        first = self._losses.shape[0]
        if first == len(rooms.known):
            return
        occupancy, depth = self._table.occupancy, self._tree.depth
        units = [
            node_unit(occupancy.offer(state, self._shape, MOST_PODS), pods, 0) for state, pods in rooms.known[first:]
        ]
        bags = Bags(units, Wanted(1, self._shape.whole_gpus, self._objective), self._tree)
        steps = [-bags.steps_of(kind, 1, depth)[1] if unit.cap else 0 for kind, unit in enumerate(units)]
        self._steps = np.append(self._steps, steps)
        self._losses = np.append(self._losses, [unit.loss[1] if unit.cap else 0 for unit in units])


_Column: TypeAlias = Callable[[NDArray[np.intp]], NDArray[Any]]
"""Rows -> what compares them, less being better."""


def _least(rows: NDArray[np.intp], columns: Iterable[_Column]) -> NDArray[np.intp]:
    """Return those of `rows` that are least by the columns, the first of which counts most."""
    for column in columns:
        if rows.shape[0] == 1:
            break
        values = column(rows)
        rows = rows[values == values.min()]
    return rows
