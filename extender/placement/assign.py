"""Which nodes of the chosen domain get the pods: few domains on every level, well filled, then few nodes, balanced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from extender.placement.bags import EXACT_WORK
from extender.placement.search import Choice, Search
from extender.placement.tables import IMPOSSIBLE, Shares, Table, leaf, merge

#: Costs of several terms are one int64; terms that no longer fit into it are left out, the least important first.
_LARGEST_COST = 2**60


@dataclass(frozen=True, slots=True)
class _Weights:
    """What one of each costs, the most important the most.

    Islands, GB/s lost, domains used and pods that would still fit into them (per level, outermost first), nodes, room
    left on them, the square of the pods on one node.
    """

    island: int
    loss: int
    levels: tuple[tuple[int, int], ...]
    node: int
    left: int
    balance: int


def assign(search: Search, choice: Choice) -> Shares:
    """Return (position, pods) of the nodes that get any, in the order of the tree: neighbours stay neighbours.

    Exact while sharing out costs no more than `EXACT_WORK`; beyond it the fullest domains are used up one by one, and
    what is left over goes to the tightest that holds it.
    """
    if choice.level >= search.field.tree.depth:
        return [(int(choice.positions[0]), search.wanted.pods)]
    shares = (
        _Exact(search, choice).shares() if _work(search, choice) <= EXACT_WORK else _Greedy(search, choice).shares()
    )
    return sorted(shares, key=lambda share: _place(search, share[0]))


def _place(search: Search, position: int) -> tuple[int, ...]:
    """Return where a node stands in the tree: the rank of its domain on each level, then its own."""
    tree, paths = search.field.tree, search.field.paths[:, position].tolist()
    ranks = (int(tree.ranks[level][domain]) if domain >= 0 else -1 for level, domain in enumerate(paths))
    return (*ranks, int(search.field.order[position]))


def _work(search: Search, choice: Choice) -> int:
    """Return how many steps sharing out exactly takes at most."""
    field, pods = search.field, search.wanted.pods
    each_level = int(np.minimum(field.caps[choice.positions], pods).sum())
    return each_level * (pods + 1) * (field.tree.depth - choice.level)


def _groups(search: Search, level: int, positions: NDArray[np.intp]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield the domains of a level among `positions` in order of their names, -1 for nodes without one at the end."""
    path, ranks = search.field.paths[level, positions], search.field.tree.ranks[level]
    domains = sorted(np.unique(path[path >= 0]).tolist(), key=lambda domain: int(ranks[domain]))
    for domain in (*domains, -1):
        inside = positions[path == domain]
        if inside.shape[0]:
            yield domain, inside


class _Exact:
    """Fold the tables of nodes into those of their domains, level by level."""

    def __init__(self, search: Search, choice: Choice) -> None:
        self._search = search
        self._choice = choice
        self._field = search.field
        self._pods = search.wanted.pods
        self._weights = self._weigh()

    def shares(self) -> Shares:
        table = self._domain(self._choice.level + 1, self._choice.positions, free_choice=self._choice.islands == 1)
        return table.pick(self._pods)

    def _weigh(self) -> _Weights:
        pods, field = self._pods, self._field
        units = self._search.units
        most_lost = (unit.loss[0] + max(loss for loss in unit.loss if loss < IMPOSSIBLE) for unit in units)
        lost = pods * max(most_lost, default=0) + 1
        room = int(field.caps[self._choice.positions].sum()) + 1
        most = int(min(field.caps[self._choice.positions].max(initial=0), pods))
        below = field.tree.depth - self._choice.level - 1
        bounds = [pods + 1 if self._choice.islands == 2 else 1, lost]  # noqa: PLR2004 - a pair
        bounds += [pods + 1, room] * below
        bounds += [pods + 1, room, pods * most + 1]
        fitting = next((n for n in range(len(bounds), 0, -1) if prod(bounds[:n]) <= _LARGEST_COST), 0)
        weights = [prod(bounds[n + 1 : fitting]) if n < fitting else 0 for n in range(len(bounds))]
        pairs = [(weights[2 + 2 * n], weights[3 + 2 * n]) for n in range(below)]
        island = weights[0] if self._choice.islands == 2 else 0  # noqa: PLR2004 - a pair
        return _Weights(island, weights[1], tuple(pairs), *weights[-3:])

    def _domain(self, level: int, positions: NDArray[np.intp], *, free_choice: bool) -> Table:
        """Return the table of the nodes at `positions`, whose domains of `level` are the next to tell apart.

        With `free_choice` any number may go to any node: they are all on one NVLink island.
        """
        if level >= self._field.tree.depth:
            return merge([self._node(position, free_choice=free_choice) for position in positions.tolist()], self._pods)
        children = []
        for domain, inside in _groups(self._search, level, positions):
            if domain < 0:
                children.append(self._domain(level + 1, inside, free_choice=free_choice))
            else:
                children.append(self._child(level, domain, inside, free_choice=free_choice))
        return merge(children, self._pods)

    def _child(self, level: int, domain: int, inside: NDArray[np.intp], *, free_choice: bool) -> Table:
        """Return the table of one domain below the chosen one, with what using it costs."""
        island = level == self._field.tree.cliques and not free_choice
        table = self._domain(level + 1, inside, free_choice=free_choice or island)
        costs = table.costs.copy()
        numbers = np.arange(costs.shape[0])
        used, left = self._weights.levels[level - self._choice.level - 1]
        possible = (costs < IMPOSSIBLE) & (numbers > 0)
        costs[possible] += used + left * (int(self._field.totals(level)[domain]) - numbers[possible])
        multiple = self._search.wanted.multiple(level)
        costs[numbers % multiple != 0] = IMPOSSIBLE
        if island:
            kind = self._search.clique_base + int(self._search.clique_kinds[inside[0]])
            costs[possible] += self._weights.island + self._weights.loss * self._search.units[kind].loss[0]
            costs[~np.isin(numbers, [0, *self._search.allowed(kind, self._choice)])] = IMPOSSIBLE
        return Table(np.minimum(costs, IMPOSSIBLE), table.pick)

    def _node(self, position: int, *, free_choice: bool) -> Table:
        kind = int(self._field.kinds[position])
        unit, weights = self._search.units[kind], self._weights
        costs = np.full(self._pods + 1, IMPOSSIBLE, dtype=np.int64)
        costs[0] = 0
        multiple = self._search.node_multiple
        most = min(unit.cap, self._pods)
        numbers = range(multiple, most + 1, multiple) if free_choice else self._search.allowed(kind, self._choice)
        island = 0 if free_choice else weights.island
        for pods in numbers:
            room = int(self._field.caps[position]) - pods
            costs[pods] = (
                island + weights.loss * unit.loss[pods] + weights.node + weights.left * room + weights.balance * pods**2
            )
        return leaf(position, costs)


class _Greedy:
    """Use up the fullest domains of each level; what is left over goes to the tightest that holds it."""

    def __init__(self, search: Search, choice: Choice) -> None:
        self._search = search
        self._choice = choice
        self._field = search.field
        kinds = self._field.kinds[choice.positions]
        most = {kind: self._most(kind) for kind in np.unique(kinds).tolist()}
        #: How many pods each node would get, all of them filled as far as the bandwidth allows.
        self._full = np.zeros(self._field.rows.shape[0], dtype=np.int64)
        self._full[choice.positions] = [most[kind] for kind in kinds.tolist()]

    def shares(self) -> Shares:
        pods, positions = self._search.wanted.pods, self._choice.positions
        positions = positions[self._full[positions] > 0]
        units, kinds = self._search.units, self._field.kinds
        price = {k: units[k].loss[self._most(k)] / self._most(k) for k in np.unique(kinds[positions]).tolist()}
        prices = np.array([price[kind] for kind in kinds[positions].tolist()])
        ranked = np.argsort(prices, kind="stable")
        reached = np.cumsum(self._full[positions[ranked]])
        limit = prices[ranked[min(int(np.searchsorted(reached, pods)), ranked.shape[0] - 1)]]
        cheap = positions[prices < limit]  # all of these, and of those at the limit as many as are needed
        shares = [(position, int(self._full[position])) for position in cheap.tolist()]
        rest = pods - sum(count for _, count in shares)
        return shares + self._share(self._choice.level + 1, positions[prices == limit], rest)

    def _share(self, level: int, positions: NDArray[np.intp], pods: int) -> Shares:
        if level >= self._field.tree.depth:
            entries: Sequence[tuple[int, NDArray[np.intp]]] = [
                (-1, positions[n : n + 1]) for n in range(len(positions))
            ]
        else:
            entries = list(_groups(self._search, level, positions))
        multiple = self._search.wanted.multiple(level)
        rooms = [int(self._full[inside].sum()) // multiple * multiple for _, inside in entries]
        shares: Shares = []
        left = pods
        taken: set[int] = set()
        for index in sorted(range(len(entries)), key=lambda index: -rooms[index]):
            if 0 < rooms[index] <= left:
                taken.add(index)
                left -= rooms[index]
                shares += self._whole(level + 1, entries[index][1], rooms[index])
        if left:
            holding = [index for index in range(len(entries)) if index not in taken and rooms[index] > left]
            tightest = min(holding, key=lambda index: rooms[index])
            shares += self._whole(level + 1, entries[tightest][1], left)
        return shares

    def _whole(self, level: int, inside: NDArray[np.intp], pods: int) -> Shares:
        """Share `pods` out among the nodes of one domain, which are to take all of them."""
        if inside.shape[0] == 1:
            return [(int(inside[0]), pods)]
        if pods == int(self._full[inside].sum()):
            return [(position, int(self._full[position])) for position in inside.tolist()]
        return self._share(level, inside, pods)

    def _most(self, kind: int) -> int:
        return max(self._search.allowed(kind, self._choice), default=0)
