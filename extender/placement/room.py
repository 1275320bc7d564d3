"""How many pods of one shape each node takes, how many it gets, and what each NVLink island does with them.

A node takes what is free of every resource and what its kubelet would admit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.cluster.claims import Offer
from extender.cluster.table import NodeTable, Vector
from extender.cluster.tree import Tree
from extender.cluster.whatif import MOST_PODS, WhatIf
from extender.hardware.bandwidth import IslandUse, contribution, step
from extender.hardware.product import Product
from extender.objects.keys import Packing
from extender.objects.pod import Shape
from extender.objects.topology import Objective

#: What cannot be done costs this much; sums of two still are an int64.
IMPOSSIBLE = np.int64(2**61)

#: What a node costs that is used last, on top of what later requests lose there (GB/s): more than any node is worth.
AVOIDED_LOSS: Final = 100_000

Shares: TypeAlias = list[tuple[int, int]]
"""(position of a node, pods that it gets), nodes that get none left out."""


@dataclass(frozen=True, slots=True)
class Table:
    """What it costs to put 0, 1, 2, ... pods somewhere, and where they go then.

    `costs` is int64, by number of pods; `pick` returns the shares of a number that is possible.
    """

    costs: NDArray[np.int64]
    pick: Callable[[int], Shares]

    @property
    def possible(self) -> NDArray[np.intp]:
        """Return the numbers of pods that are possible."""
        return np.flatnonzero(self.costs < IMPOSSIBLE)


def leaf(position: int, costs: NDArray[np.int64]) -> Table:
    """Return the table of one node."""
    return Table(costs, lambda pods: [(position, pods)] if pods else [])


def merge(children: Sequence[Table], pods: int) -> Table:
    """Return the table, 0 to `pods`, of sharing pods out among `children`; of equal ways the first ones get most.

    Complexity: O(pods x sum of what is possible in the children).
    """
    costs = np.full(pods + 1, IMPOSSIBLE, dtype=np.int64)
    costs[0] = 0
    choices: list[NDArray[np.int64]] = []
    for child in children:
        best, choice = np.full_like(costs, IMPOSSIBLE), np.zeros(pods + 1, dtype=np.int64)
        for share in child.possible.tolist():
            if share > pods:
                break
            candidate = costs[: pods + 1 - share] + child.costs[share]
            better = candidate < best[share:]
            best[share:][better] = candidate[better]
            choice[share:][better] = share
        costs = np.minimum(best, IMPOSSIBLE)
        choices.append(choice)

    def pick(wanted: int) -> Shares:
        shares: Shares = []
        for child, choice in zip(reversed(children), reversed(choices), strict=True):
            own = int(choice[wanted])
            shares += child.pick(own)
            wanted -= own
        return shares

    return Table(costs, pick)


def fold(costs: NDArray[np.int64], share_costs: Iterable[tuple[int, int]], copies: int) -> NDArray[np.int64]:
    """Return the least costs once `copies` equal islands more may take pods, each one of `share_costs` (pods, cost)."""
    shares = [(pods, cost) for pods, cost in share_costs if 0 < pods < costs.shape[0]]
    for _ in range(copies if shares else 0):
        best = costs.copy()
        for pods, cost in shares:
            np.minimum(best[pods:], costs[:-pods] + cost, out=best[pods:])
        if np.array_equal(best, costs):
            break
        costs = best
    return costs


def reach(sums: int, shares: Iterable[int], copies: int, most: int) -> int:
    """Return which sums, as bits 0 to `most`, can be reached once `copies` equal islands more take one of `shares`."""
    within = (1 << (most + 1)) - 1
    allowed = [pods for pods in shares if 0 < pods <= most]
    for _ in range(copies if allowed else 0):
        before = sums
        for pods in allowed:
            sums |= before << pods
        sums &= within
        if sums == before:
            break
    return sums


@dataclass(frozen=True, slots=True)
class PackingShare:
    """How many pods of one shape one node gets."""

    row: int
    pods: int


def strands(table: NodeTable, vector: Vector) -> NDArray[np.int64]:
    """Return (rows,) how many extended resources each node has that the request leaves unused.

    A CPU-only pod on a GPU node takes CPU that the GPUs there need to be usable. It is a count, because plain nodes may
    have extended resources too (`devices.kubevirt.io/kvm`): what matters is which node loses least.
    """
    unasked = table.extended()
    unasked[vector.columns] = False
    stranded: NDArray[np.int64] = np.count_nonzero(table.allocatable[unasked, : table.rows], axis=0)
    return stranded


def pack(
    counts: NDArray[np.int64],
    pods: int,
    packing: Packing,
    preference: NDArray[np.int64],
    order: NDArray[np.int64],
) -> tuple[PackingShare, ...]:
    """Distribute `pods` equal pods over nodes.

    Args:
        counts: (rows,) how many each node takes, though it be more than `pods`: that is how tight a node is.
        pods: how many to place; at most the sum of `counts`.
        packing: binpack uses the fewest nodes and then the tightest one for the rest; spread keeps the fullest share
            as small as possible.
        preference: (rows,) classes of nodes, lower first. Binpack uses up a class before it touches the next; spread
            gives by it what an equal share for every node leaves over.
        order: (rows,) what decides between equals, and the order of the result.

    Deterministic. Complexity: O(n log n) in the nodes that take any.
    """
    rows = np.flatnonzero(counts)
    spread = _binpack if packing is Packing.BINPACK else _spread
    shares = spread(counts[rows], pods, preference[rows], order[rows])
    chosen = np.flatnonzero(shares)
    chosen = chosen[np.argsort(order[rows[chosen]], kind="stable")]
    return tuple(PackingShare(int(rows[i]), int(shares[i])) for i in chosen)


def _binpack(
    counts: NDArray[np.int64], pods: int, preference: NDArray[np.int64], order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Take the roomiest nodes whole; the rest goes to the tightest node that holds it."""
    shares = np.zeros_like(counts)
    ranked = np.lexsort((order, -counts, preference))
    reached = np.cumsum(np.minimum(counts[ranked], pods))  # counts may be huge: their sum need not be an int64
    whole = ranked[: int(np.searchsorted(reached, pods))]
    shares[whole] = counts[whole]
    rest = pods - int(shares.sum())
    if rest:
        last = ranked[whole.shape[0]]
        holds = (counts >= rest) & (preference == preference[last]) & (shares == 0)
        candidates = np.flatnonzero(holds)
        tightest = _best_for_one(candidates, counts, Packing.BINPACK, preference, order)[0]
        shares[tightest] = rest
    return shares


def _spread(
    counts: NDArray[np.int64], pods: int, preference: NDArray[np.int64], order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Fill all nodes to one level; what is left over goes, one each, to the roomiest."""
    low, high = 0, min(int(counts.max(initial=0)), pods)
    while low < high:  # the smallest level whose sum holds all pods
        level = (low + high) // 2
        if int(np.minimum(counts, level).sum()) >= pods:
            high = level
        else:
            low = level + 1
    shares = np.minimum(counts, max(low - 1, 0))
    rest = pods - int(shares.sum())
    above = np.flatnonzero(counts > shares)
    shares[_best_for_one(above, counts, Packing.SPREAD, preference, order)[:rest]] += 1
    return shares


def _best_for_one(
    nodes: NDArray[np.intp],
    counts: NDArray[np.int64],
    packing: Packing,
    preference: NDArray[np.int64],
    order: NDArray[np.int64],
) -> NDArray[np.intp]:
    """Return `nodes` in the order in which they are taken for one pod more."""
    return nodes[np.lexsort((order[nodes], *keys_of_one(counts[nodes], packing, preference[nodes])[::-1]))]


def keys_of_one(
    counts: NDArray[np.int64], packing: Packing, preference: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return what compares nodes, (nodes,) each, for one pod more: the preference, then the tightest or the roomiest.

    Less is better.
    """
    return preference, counts if packing is Packing.BINPACK else -counts


# Example. Pods of 4 GPUs, nodes of H100 (8 GPUs, 8 network cards of 50 GB/s of which 47 are reached), figures in GB/s:
#
#   node aa0, 8 GPUs free:  cap 2, inner (inf, 365, 475), outer (inf, 188, 376), loss (0, 1570, 2665)
#   node aa1, 4 GPUs free:  cap 1, inner (inf, 365),      outer (inf, 188),      loss (0, 1095)
#
# `inner` of 1 pod is that among 4 GPUs, of 2 pods that among 8. `outer` is 47 for each card next to those GPUs. `loss`
# is what the free GPUs are worth to later requests before and after: 2665 if all 8 go, 1570 if 4 are left. All nodes
# with as many GPUs free are of one kind, and a kind has one Unit: 5,000 nodes have a handful of these tables.
# (The examples of this package are run by `tests/placement/test_examples.py`.)
@dataclass(frozen=True, slots=True)
class Unit:
    """An NVLink island that some pods of one shape can go to: a node, or the nodes of a multi-node NVLink domain.

    The tables are by number of pods, 0 to `cap`: GB/s among all GPUs of the gang there (`inner`), GB/s of their network
    (`outer`), and GB/s that future requests lose (`loss`, rounded). `gpus` is what one pod asks for, `settled` how many
    GPUs there the gang has already. `nic` is the GB/s of one network card; `product` is None where it is unknown.
    """

    cap: int
    gpus: int
    inner: tuple[float, ...]
    outer: tuple[float, ...]
    loss: tuple[int, ...]
    nic: float = inf
    nvls: bool = False
    clique: bool = False
    settled: int = 0
    product: Product | None = None
    worth: float = 0.0

    def use(self, pods: int) -> IslandUse:
        """Return what the gang uses there with `pods` pods more."""
        count = self.settled + pods * self.gpus
        return IslandUse(self.inner[pods], self.outer[pods], self.nic, count, nvls=self.nvls, clique=self.clique)

    def steps(self, most: int, question: UnitQuestion, islands: int) -> tuple[int, ...]:
        """Return, for 0 to `most` pods, the 5 % step that the island allows a gang on `islands` islands."""
        pods = range(1, min(self.cap, most) + 1)
        return (step(inf), *(question.step(self.use(count), islands) for count in pods))


@dataclass(frozen=True, slots=True)
class UnitQuestion:
    """What a bandwidth depends on beside the island: the GPUs of the gang, the network's factors, the collective."""

    gpus: int
    factors: tuple[float, float]
    objective: Objective

    def step(self, use: IslandUse, islands: int) -> int:
        """Return the 5 % step that one island allows."""
        return step(contribution(use, islands, self.gpus, self.factors, self.objective))


@dataclass(frozen=True)
class Field:
    """The nodes that pods of one shape can go to.

    Attributes:
        tree: the level tree.
        rows: (nodes,) their rows.
        caps: (nodes,) how many pods each takes, however many are asked for.
        kinds: (nodes,) index of each in `units`.
        units: what nodes of each kind do.
        order: (nodes,) each one's place in the natural order of names.
        gpus: whole GPUs that one pod asks for.
    """

    tree: Tree
    rows: NDArray[np.intp]
    caps: NDArray[np.int64]
    kinds: NDArray[np.intp]
    units: Sequence[Unit]
    order: NDArray[np.int64]
    gpus: int
    _totals: dict[int, NDArray[np.int64]] = field(default_factory=dict, repr=False)

    @cached_property
    def paths(self) -> NDArray[np.int64]:
        """Return (levels, nodes): the domain of each node on each level, -1 for none."""
        return self.tree.domains[:, self.rows]

    def totals(self, level: int) -> NDArray[np.int64]:
        """Return (domains,) how many pods the domains of a level take; (1,) for the cluster, level -1."""
        if level not in self._totals:
            if level < 0:
                totals = np.array([self.caps.sum()], dtype=np.int64)
            else:
                inside = self.paths[level] >= 0
                totals = np.bincount(
                    self.paths[level][inside], weights=self.caps[inside], minlength=len(self.tree.names[level])
                ).astype(np.int64)
            self._totals[level] = totals
        return self._totals[level]

    def free_chain(self, level: int, domain: int, position: int) -> tuple[int, ...]:
        """Return how many pods a domain takes, then the one around it, out to the cluster.

        `position` is that of any node in it. Nodes without a domain on a level have the cluster around them there.
        """
        if level >= self.tree.depth:
            return tuple(int(chain[0]) for chain in self.free_chains(np.array([position], dtype=np.intp)))
        whole = int(self.totals(-1)[0])
        chain = [int(self.totals(level)[domain])] if level >= 0 else []
        for outer in range(level - 1, -1, -1):
            around = int(self.paths[outer, position])
            chain.append(int(self.totals(outer)[around]) if around >= 0 else whole)
        return (*chain, whole)

    def free_chains(self, positions: NDArray[np.intp]) -> list[NDArray[np.int64]]:
        """Return how many pods each node takes, then each domain around it, innermost first, then the cluster."""
        chains = [self.caps[positions]]
        whole = self.totals(-1)
        for level in range(self.tree.depth - 1, -1, -1):
            around = self.paths[level, positions]
            chains.append(np.append(self.totals(level), whole)[around])  # -1, no domain, reads the cluster's
        return [*chains, np.broadcast_to(whole, positions.shape)]


def node_unit(offer: Offer, cap: int, settled: int) -> Unit:
    """Return what a node does that makes `offer`, `cap` pods at most, beside `settled` GPUs of the gang."""
    pods = min(cap, offer.pods, MOST_PODS)
    inner, outer = offer.inner[:pods], offer.outer[:pods]
    if settled and offer.product is not None:
        totals = [settled + count * offer.gpus for count in range(1, pods + 1)]
        inner = tuple(min(own, offer.product.inner(total)) for own, total in zip(inner, totals, strict=True))
        outer = tuple(offer.product.outer(total) for total in totals)
    return Unit(
        cap=pods,
        gpus=offer.gpus,
        inner=(inf, *inner),
        outer=(inf, *outer),
        loss=(0, *(round(loss) for loss in offer.loss[:pods])),
        nic=offer.product.nic if offer.product is not None else inf,
        nvls=offer.nvls,
        settled=settled,
        product=offer.product,
        worth=offer.worth,
    )


def room(whatif: WhatIf, shape: Shape, eligible: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return (rows,) how many pods of `shape` each eligible node takes, all by themselves; zero elsewhere."""
    return np.where(eligible, whatif.rooms(shape).counts, 0)


def field_of(
    whatif: WhatIf, tree: Tree, shape: Shape, eligible: NDArray[np.bool_], settled: Mapping[int, int]
) -> Field:
    """Return the nodes that pods of `shape`, which have GPUs, can go to.

    `settled` says how many GPUs the gang has on which row already.
    """
    table, rooms = whatif.table, whatif.rooms(shape)
    rows = np.flatnonzero(eligible & (rooms.counts > 0))
    kinds, here = rooms.kinds[rows], np.zeros(rows.shape[0], dtype=np.int64)
    if settled:
        here[:] = [settled.get(row, 0) for row in rows.tolist()]
    # One number per kind of node, so that equal nodes are found in one go.
    mixed = kinds + here * len(rooms.known)
    numbers = np.flatnonzero(np.bincount(mixed)) if mixed.shape[0] else mixed
    place = np.zeros(int(numbers[-1]) + 1 if numbers.shape[0] else 0, dtype=np.intp)
    place[numbers] = np.arange(numbers.shape[0])
    units = []
    for number in numbers.tolist():
        settled_here, known = divmod(number, len(rooms.known))
        state, pods = rooms.known[known]
        units.append(node_unit(table.occupancy.offer(state, shape, MOST_PODS), pods, settled_here))
    gpus = max((unit.gpus for unit in units), default=0)
    return Field(tree, rows, rooms.counts[rows], place[mixed], units, table.order()[rows], gpus)


def used_last(field: Field, avoided: NDArray[np.bool_]) -> Field:
    """Return a field in which each of the `avoided` nodes, (rows,), that is used costs `AVOIDED_LOSS` more."""
    flags = avoided[field.rows]
    if not flags.any():
        return field
    dear = [replace(unit, loss=(0, *(loss + AVOIDED_LOSS for loss in unit.loss[1:]))) for unit in field.units]
    return replace(field, kinds=field.kinds + len(field.units) * flags, units=[*field.units, *dear])


def clique_units(
    candidates: Field, whatif: WhatIf, pods: int, multiple: int = 1
) -> tuple[list[Unit], NDArray[np.int64]]:
    """Return what the NVLink domains do as a whole, by kind, and (nodes,) the kind around each node, -1 for none.

    Each node takes a multiple of `multiple` pods; numbers that this rules out have an impossible loss. `loss[0]` of
    such a unit is what is lost as soon as anything goes into an NVLink domain that is still whole: GB/s that a gang of
    all its GPUs could have had.
    """
    level = candidates.tree.cliques
    kinds = np.full(candidates.rows.shape[0], -1, dtype=np.int64)
    if level is None:
        return [], kinds
    units: list[Unit] = []
    index: dict[tuple[tuple[int, ...], bool], int] = {}
    whole = _whole_cliques(candidates, whatif, level)
    for domain in np.unique(candidates.paths[level][candidates.paths[level] >= 0]).tolist():
        inside = np.flatnonzero(candidates.paths[level] == domain)
        key = tuple(sorted(candidates.kinds[inside].tolist())), bool(whole[domain])
        if key not in index:
            index[key] = len(units)
            units.append(_clique_unit([candidates.units[kind] for kind in key[0]], pods, multiple, intact=key[1]))
        kinds[inside] = index[key]
    return units, kinds


def _whole_cliques(candidates: Field, whatif: WhatIf, level: int) -> NDArray[np.bool_]:
    """Return (domains,) in which NVLink domains every GPU is free."""
    table, tree = whatif.table, candidates.tree
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
        worth=max(node.worth for node in nodes),
    )
