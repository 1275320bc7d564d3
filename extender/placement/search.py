"""Where equal pods of a gang go: which domain, and which of its nodes.

The domain is the one that costs least, in bandwidth and in what others lose, by the weights of the goal; then the best
fit. Inside it few domains are used on every level, well filled, then few nodes, balanced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.placement.bags import ANY_STEP, EXACT_WORK, Bag, Bags, Score, Wanted
from extender.placement.candidates import Ranking
from extender.placement.room import IMPOSSIBLE, Field, Shares, Table, Unit, leaf, merge


@dataclass(frozen=True, slots=True)
class DomainChoice:
    """The domain that was chosen: level and index (the node's position for the level of nodes), and how good it is.

    `islands` is how many islands are used: 1, 2, or 3 for any number of them. `positions` are the nodes in it, by name.
    """

    level: int
    domain: int
    islands: int
    score: Score
    positions: NDArray[np.intp]


_Found: TypeAlias = tuple[tuple[Score, tuple[int, ...], int, int], DomainChoice]
"""A choice behind what it is compared by: score, room of the domain outwards, inner levels first, name."""


# Example. 3 pods of 4 GPUs; H100 nodes of one block, in racks aa (aa0 with 8 GPUs free, aa1 with 4) and ab (ab0 and ab1
# with 8). The best domain of each level, innermost first, as Score(cost in GPUs, -step, loss); a step is 5 % of
# bandwidth:
#
#   node     no node has room for 3 pods                                      -
#   rack     aa: 2 + 1 pods reach step 119 and lose 2665 + 1095 = 3760   Score(11.3, -119, 3760)
#            ab: 2 + 1 pods reach step 119 and lose 2665 + 1570 = 4235   Score(12.3, -119, 4235)
#   block    leaving the rack costs bandwidth: step 118 at most          Score(11.5, -118, 3760)
#   cluster  leaving the block costs more: step 115 at most              Score(12.0, -115, 3760)
#
# Rack aa is chosen: it costs least, and nothing further out may be slower. Only between equal scores the tighter domain
# decides.
# A thousand racks like ab are one bag (see `bags.py`), so that one of them is computed and the others are looked up.
class Search:
    """Search the domains of a field for the best one.

    Exact: a domain's best is computed from what it consists of, and every domain is looked at, equal ones once: `bags`
    scores them.
    """

    def __init__(
        self, field: Field, wanted: Wanted, clique_units: Sequence[Unit], clique_kinds: NDArray[np.int64]
    ) -> None:
        """Prepare.

        Args:
            field: where the pods could go.
            wanted: what is to be placed.
            clique_units: what NVLink domains do as a whole, by kind.
            clique_kinds: (nodes,) the kind of the NVLink domain that each node is in, -1 for none.
        """
        self.field = field
        self.wanted = wanted
        self.units = [*field.units, *clique_units]
        self.clique_kinds = clique_kinds
        self.bags = Bags(self.units, wanted, field.tree)
        self._verdicts: dict[tuple[Bag, int, int], tuple[Score, int] | None] = {}

    def best(self, levels: Iterable[int], within: NDArray[np.bool_]) -> list[DomainChoice]:
        """Return the best domain of each of `levels` that may be the best of all, best first; [] if none has the room.

        Further out than it need be a gang goes only where it is no slower. `within` says which nodes may be used:
        (nodes,).
        """
        choices: list[_Found] = []
        best: Score | None = None
        slowest = ANY_STEP
        for level in sorted(levels, reverse=True):  # the innermost take the least time, and rule out most of the others
            found = (
                self._best_node(within)
                if level >= self.field.tree.depth
                else self._best_domain(level, within, best, slowest)
            )
            if found is not None:
                choices.append(found)
                best = min(best or found[0][0], found[0][0])
                slowest = -best.step
        return [choice for _, choice in sorted(choices, key=lambda entry: entry[0])]

    def allowed(self, kind: int, choice: DomainChoice, *, free: bool = False) -> list[int]:
        """Return the numbers of pods that an island of a kind may get, so that the choice keeps its bandwidth.

        `free` is a node of an island: it may get any number.
        """
        if free or choice.islands == 1:
            multiple = self.bags.node_multiple if kind < self.clique_base else 1
            return list(range(multiple, min(self.units[kind].cap, self.wanted.pods) + 1, multiple))
        return self.bags.shares(kind, choice.islands, choice.level, -choice.score.step)

    def step(self, kind: int, islands: int, level: int, pods: int) -> int:
        """Return the 5 % step that an island of a kind with so many pods allows a gang within a domain of `level`."""
        return self.bags.steps_of(kind, islands, level)[pods]

    def score(self, step: int, loss: int) -> Score:
        """Return the score of a placement: its step of bandwidth, and GB/s that later requests lose."""
        return self.bags.worth.score(step, loss)

    def rank_nodes(self, within: NDArray[np.bool_]) -> Ranking:
        """Return the nodes that hold all pods, as their positions, and what compares them.

        In this order: the step of bandwidth, GB/s lost to later requests, and how many pods more the node takes, then
        each domain around it, innermost first.
        """
        field, pods = self.field, self.wanted.pods
        fits = np.array([unit.cap >= pods for unit in field.units], dtype=np.bool_)
        positions = np.flatnonzero(
            within & fits[field.kinds] if pods % self.bags.node_multiple == 0 else ~within & within
        )
        kinds = field.kinds[positions]
        there = [kind if fit else -1 for kind, fit in enumerate(fits.tolist())]
        steps = [0 if kind < 0 else self.bags.steps_of(kind, 1, field.tree.depth)[pods] for kind in there]
        loss = np.array([0 if kind < 0 else field.units[kind].loss[pods] for kind in there], dtype=np.int64)[kinds]
        loss += self._breaks(positions)
        keys = (-np.array(steps, dtype=np.int64)[kinds], loss, *field.free_chains(positions))
        return Ranking(positions, keys, field.order[positions], loss)

    # One node.

    def _best_node(self, within: NDArray[np.bool_]) -> _Found | None:
        ranking = self.rank_nodes(within)
        if not ranking.nodes.shape[0]:
            return None
        at = ranking.best()
        position, (step, loss, *chain) = int(ranking.nodes[at]), (int(key[at]) for key in ranking.keys)
        score, depth = self.score(-step, loss), self.field.tree.depth
        key = (score, tuple(chain), -depth, int(ranking.order[at]))
        return key, DomainChoice(depth, position, 1, score, np.array([position], dtype=np.intp))

    def _breaks(self, positions: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return what is lost of the NVLink domain around each node as soon as one pod goes there (GB/s)."""
        whole = [unit.loss[0] for unit in self.units[self.clique_base :]]
        return np.array([*whole, 0], dtype=np.int64)[self.clique_kinds[positions]]  # -1, no domain, reads the 0

    # Domains of several nodes.

    def _best_domain(self, level: int, within: NDArray[np.bool_], bound: Score | None, slowest: int) -> _Found | None:
        """Return the best domain of a level, None if none has the room.

        Those are left out that are worse than `bound`, and those that do not reach the step `slowest`.
        """
        candidates = self.field
        best: tuple[Score, tuple[int, ...], int, int] | None = None
        choice: tuple[int, int, NDArray[np.intp]] | None = None
        for domain, positions in self._domains(level, within):
            found = self._judge(level, positions, bound if best is None else best[0], slowest)
            if found is None:
                continue
            score, islands = found
            rank = int(candidates.tree.ranks[level][domain]) if level >= 0 else 0
            key = (score, candidates.free_chain(level, domain, int(positions[0])), -level, rank)
            if best is None or key < best:
                best, choice = key, (domain, islands, positions)
        if best is None or choice is None:
            return None
        domain, islands, positions = choice
        ordered = positions[np.argsort(candidates.order[positions], kind="stable")]
        return best, DomainChoice(level, domain, islands, best[0], ordered)

    def _domains(self, level: int, within: NDArray[np.bool_]) -> list[tuple[int, NDArray[np.intp]]]:
        """Return the domains of a level that have room for all pods, with the positions of their nodes."""
        candidates = self.field
        caps = np.where(within, np.minimum(candidates.caps, self.wanted.pods), 0)
        if level < 0:
            return [(0, np.flatnonzero(within))] if int(caps.sum()) >= self.wanted.pods else []
        path = np.where(within, candidates.paths[level], -1)
        inside = np.flatnonzero(path >= 0)
        if not inside.shape[0]:
            return []
        room = np.bincount(path[inside], weights=caps[inside])
        roomy = room >= self.wanted.pods
        inside = inside[roomy[path[inside]]]
        inside = inside[np.argsort(path[inside], kind="stable")]
        ids, starts = np.unique(path[inside], return_index=True)
        return list(zip(ids.tolist(), np.split(inside, starts[1:]), strict=True)) if ids.shape[0] else []

    def _bag(self, level: int, positions: NDArray[np.intp]) -> Bag:
        """Return what the nodes at `positions`, a domain of `level`, consist of."""
        deeper = [(at, size) for at, size in self.wanted.slices if level < at < self.field.tree.depth]
        multiple = self.wanted.multiple(level)
        if deeper:
            at = deeper[0][0]
            path = self.field.paths[at, positions]
            groups = Counter(self._bag(at, positions[path == domain]) for domain in np.unique(path[path >= 0]).tolist())
            return multiple, (), tuple(sorted(groups.items()))
        kinds = self.field.kinds[positions]
        cliques = self.field.tree.cliques
        counts: Counter[int] = Counter()
        if cliques is not None and level < cliques:
            inside = self.clique_kinds[positions] >= 0
            first = np.unique(self.field.paths[cliques, positions[inside]], return_index=True)[1]
            counts.update((self.clique_base + self.clique_kinds[positions[inside][first]]).tolist())
            kinds = kinds[~inside]
        numbers = np.bincount(kinds)
        counts.update({kind: int(numbers[kind]) for kind in np.flatnonzero(numbers).tolist()})
        return multiple, tuple(sorted(counts.items())), ()

    def _judge(
        self, level: int, positions: NDArray[np.intp], best: Score | None, slowest: int
    ) -> tuple[Score, int] | None:
        """Return the best score of a domain and its number of islands (1, 2, 3 for more); None: no room, or no better.

        `best` is what another domain reaches, `slowest` the least step of bandwidth that counts.
        """
        bag = self._bag(level, positions)
        key = bag, level, slowest
        if key in self._verdicts:
            return self._verdicts[key]
        cliques = self.field.tree.cliques
        if cliques is not None and level >= cliques and int(self.clique_kinds[positions[0]]) >= 0:
            found = self.bags.clique(bag, self.clique_base + int(self.clique_kinds[positions[0]]), slowest)
            if found is not None:
                self.bags.note(found[0], level)
        else:
            pair = None if self.wanted.joined else self.bags.pair(bag, level, slowest)
            found = self.bags.many(bag, level, min(filter(None, (best, pair)), default=None), slowest)
            if pair is not None and (found is None or pair < found[0]):
                found = pair, 2
        self._verdicts[key] = found
        return found

    @cached_property
    def clique_base(self) -> int:
        """Return the kind of the first NVLink domain."""
        return len(self.field.units)


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


def assign(search: Search, choice: DomainChoice) -> Shares:
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


def _work(search: Search, choice: DomainChoice) -> int:
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


# Example. 5 pods of 2 GPUs, chosen is a rack with two islands used: H100 nodes aa0 and aa1 with 8 GPUs free, aa2 with
# 6. An island may get 2, 3 or 4 pods, so that the rack keeps its bandwidth. Weights: island 20148912, GB/s lost 1512,
# node 252, pod of room left 21, square of pods 1. The tables by number of pods (-: impossible):
#
#            0   1          2          3          4          5
#   aa0      0   -   22523050   23626794   24178660          -     2 pods: 20148912 + 1512 x 1570 + 252 + 21 x 2 + 2^2
#   aa1      0   -   22523050   23626794   24178660          -
#   aa2      0   -   21804829   22356693          -          -     it loses less: its 8 GPUs are not whole any more
#   merged   0   -   21804829   22356693   24178660   44879743     5 = 3 on aa2 + 2 on aa0
#
# 4 + 1 would lose as much, but 1 pod on an island is too slow here; without that its squares (17 > 13) would decide.
class _Exact:
    """Fold the tables of nodes into those of their domains, level by level."""

    def __init__(self, search: Search, choice: DomainChoice) -> None:
        self._search = search
        self._choice = choice
        self._field = search.field
        self._pods = search.wanted.pods
        self._weights = self._weigh()
        self._costs: dict[tuple[int, int, bool], NDArray[np.int64]] = {}

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
            nodes = self._useful(positions, free_choice=free_choice).tolist()
            return merge([self._node(position, free_choice=free_choice) for position in nodes], self._pods)
        children = []
        for domain, inside in _groups(self._search, level, positions):
            if domain < 0:
                children.append(self._domain(level + 1, inside, free_choice=free_choice))
            else:
                children.append(self._child(level, domain, inside, free_choice=free_choice))
        return merge(children, self._pods)

    def _useful(self, positions: NDArray[np.intp], *, free_choice: bool) -> NDArray[np.intp]:
        """Return the nodes of one domain without those that cannot be needed.

        Of nodes that are alike the first are as good as the others, and no more get any than have the least share each.
        """
        kinds, caps = self._field.kinds[positions], self._field.caps[positions].astype(np.int64)
        needed = np.zeros(len(self._field.units), dtype=np.int64)
        for kind in np.unique(kinds).tolist():
            if numbers := self._search.allowed(kind, self._choice, free=free_choice):
                needed[kind] = self._pods // numbers[0]
        alike = kinds * (caps.max(initial=0) + 1) + caps
        order = np.argsort(alike, kind="stable")
        firsts = np.searchsorted(alike[order], alike[order])
        useful: NDArray[np.intp] = np.sort(order[np.arange(order.shape[0]) - firsts < needed[kinds[order]]])
        return positions[useful]

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
        alike = int(self._field.kinds[position]), int(self._field.caps[position]), free_choice
        if alike not in self._costs:
            self._costs[alike] = self._costs_of(*alike)
        return leaf(position, self._costs[alike])

    def _costs_of(self, kind: int, cap: int, free_choice: bool) -> NDArray[np.int64]:  # noqa: FBT001 - a part of a key
        """Return what each number of pods costs on a node of a kind that takes `cap`."""
        unit, weights = self._search.units[kind], self._weights
        costs = np.full(self._pods + 1, IMPOSSIBLE, dtype=np.int64)
        costs[0] = 0
        island = 0 if free_choice else weights.island
        for pods in self._search.allowed(kind, self._choice, free=free_choice):
            left = weights.left * (cap - pods)
            costs[pods] = island + weights.loss * unit.loss[pods] + weights.node + left + weights.balance * pods**2
        return costs


class _Greedy:
    """Use up the fullest domains of each level; what is left over goes to the tightest that holds it."""

    def __init__(self, search: Search, choice: DomainChoice) -> None:
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
        parts: Sequence[NDArray[np.intp]] | NDArray[np.intp]
        if level >= self._field.tree.depth:
            parts, full = positions[:, None], self._full[positions]  # each node by itself
        else:
            parts = [inside for _, inside in _groups(self._search, level, positions)]
            full = np.array([self._full[inside].sum() for inside in parts], dtype=np.int64)
        multiple = self._search.wanted.multiple(level)
        rooms = full // multiple * multiple
        shares: Shares = []
        left = pods
        taken = np.zeros(rooms.shape, dtype=np.bool_)
        fullest = np.argsort(-rooms, kind="stable")
        for index, room in zip(fullest.tolist(), rooms[fullest].tolist(), strict=True):
            if 0 < room <= left:
                taken[index] = True
                left -= room
                shares += self._whole(level + 1, parts[index], room)
        if left:
            holding = np.flatnonzero(~taken & (rooms > left))
            tightest = holding[np.argmin(rooms[holding])]
            shares += self._whole(level + 1, parts[tightest], left)
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
