"""Room on the nodes while pieces are evicted and put back, and which few or cheapest pieces make enough of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.cluster.tree import Tree
from extender.eviction.search.units import Units

#: Pieces of which every choice is looked at: 4,096 of them.
MOST_PIECES = 12

#: Numbers that are worked out for that at most: some 10 ms.
_MOST_WORK = 2_000_000

#: Amounts of a column of which it is known how much pods of several shapes can use; of more they may use all.
_MOST_AMOUNTS = 1_024


def choices(  # noqa: PLR0913 - what there is, what is asked for, where
    units: Units,
    usable: NDArray[np.bool_],
    free: NDArray[np.int64],
    demands: Sequence[VictimRoomRequest],
    *,
    tree: Tree,
    level: int,
    reachable: NDArray[np.bool_],
) -> Iterator[NDArray[np.bool_]] | None:
    """Iterate over the choices that make room in some domain of `level`, by the columns, in the order of their cost.

    Return None if there are too many to look at: that is for others then. `free` is (columns, rows), `reachable` the
    (rows,) that count.
    """
    pieces = np.flatnonzero(usable)
    entries = np.flatnonzero(usable[units.of] & reachable[units.rows])
    rows, place = np.unique(units.rows[entries], return_inverse=True)
    number = 1 << min(pieces.shape[0], MOST_PIECES)
    if pieces.shape[0] > MOST_PIECES or number * max(rows.shape[0], 1) * free.shape[0] > _MOST_WORK:
        return None
    chosen = (np.arange(number)[:, None] >> np.arange(pieces.shape[0]) & 1).astype(np.bool_)
    chosen = chosen[_whole(units, pieces, chosen)]
    freed = np.zeros((pieces.shape[0], free.shape[0], rows.shape[0]), dtype=np.int64)
    freed[np.searchsorted(pieces, units.of[entries]), :, place] = units.freed[:, entries].T
    left = free[:, rows] + np.tensordot(chosen.astype(np.int64), freed, axes=1)
    everywhere = np.flatnonzero(reachable)
    path = tree.path(level)[rows] if level >= 0 else np.zeros(rows.shape[0], dtype=np.int64)
    domains, inside = np.unique(path, return_inverse=True)
    holds = np.ones((chosen.shape[0], domains.shape[0]), dtype=np.bool_)
    for demand in demands:
        caps = np.zeros(reachable.shape[0], dtype=np.int64)
        caps[everywhere] = demand.caps(free[:, everywhere], everywhere)
        caps[rows] = 0
        others = tree.sums(level, caps)[domains]
        here = np.where(demand.admitted[rows], demand.pods, 0)
        here = np.broadcast_to(here, (chosen.shape[0], rows.shape[0])).copy()
        for column, amount in enumerate(demand.amounts.tolist()):
            if amount > 0:
                np.minimum(here, left[:, column] // amount, out=here)
        belongs = (inside[:, None] == np.arange(domains.shape[0])).astype(np.int64)
        holds &= np.maximum(here, 0) @ belongs + others >= demand.pods
    fitting = chosen[holds.any(axis=1)]
    ordered = fitting[_by_cost(units, pieces, fitting)]
    return (_spread(each, pieces, len(units)) for each in ordered)


def _whole(units: Units, pieces: NDArray[np.intp], chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return (choices,) in which every core has its extras with it."""
    whole: NDArray[np.bool_] = np.ones(chosen.shape[0], dtype=np.bool_)
    for core, extras in _families(units, pieces):
        whole &= ~chosen[:, core] | chosen[:, extras].all(axis=1)
    return whole


def _families(units: Units, pieces: NDArray[np.intp]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Iterate over pieces and what goes with them, as places in `pieces`."""
    for place, unit in enumerate(pieces.tolist()):
        if units.extras(unit):
            yield place, np.searchsorted(pieces, np.array(units.extras(unit), dtype=np.intp))


def _by_cost(units: Units, pieces: NDArray[np.intp], chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the order of the choices by `Units.cost`."""
    core = units.core[pieces]
    alone = chosen & ~core
    for place, extras in _families(units, pieces):
        alone[:, extras] &= ~chosen[:, [place]] | ~core[place]
    lowest = np.iinfo(np.int64).min
    priority = np.where(chosen, units.priority[pieces], lowest).max(axis=1, initial=lowest)
    lost, pods = units.lost[pieces], units.sizes[pieces]
    whole = chosen & core
    return np.lexsort((chosen @ pods, alone @ lost, whole.sum(axis=1), whole @ lost, priority))


def _spread(chosen: NDArray[np.bool_], pieces: NDArray[np.intp], number: int) -> NDArray[np.bool_]:
    choice = np.zeros(number, dtype=np.bool_)
    choice[pieces] = chosen
    return choice


@dataclass(frozen=True, slots=True)
class VictimRoomRequest:
    """So many equal pods: what one asks for of each column, (columns,), and (rows,) which nodes admit it."""

    amounts: NDArray[np.int64]
    admitted: NDArray[np.bool_]
    pods: int

    def caps(self, free: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many of the pods fit where `free`, (columns, rows), is left of `rows`."""
        caps = np.where(self.admitted[rows], self.pods, 0)
        for amount, left in zip(self.amounts.tolist(), free, strict=True):
            if amount > 0:
                np.minimum(caps, left // amount, out=caps)
        return np.maximum(caps, 0)


# Example. Two pods of 3 GPUs and one of 5 come, on nodes with 8, 4 and 3 GPUs free. Each shape by itself has room: 2, 1
# and 1 pods of 3 GPUs, 1 pod of 5. Together they want 11 GPUs, and can use 8 (3 + 5), 3 and 3 of what is free: 14, so
# there may be room. Without the last node it is just enough; on nodes with 7, 4 and 0 there is none (6 + 3).
class ColumnRequest:
    """What pods of several shapes want of one column together, and how much of it they can use on each node.

    No placement uses more of a node than the greatest sum of what such pods ask for that is no more than is free there.

    Attributes:
        wanted: what all pods ask for, in units that divide what each asks for.
    """

    def __init__(self, demands: Sequence[VictimRoomRequest], column: int) -> None:
        """Work out what is to know; at least one of the demands asks for something of the column."""
        asking = [demand for demand in demands if demand.amounts[column]]
        self._column = column
        self._unit = math.gcd(*(int(demand.amounts[column]) for demand in asking))
        each = [int(demand.amounts[column]) // self._unit for demand in asking]
        self.wanted = sum(amount * demand.pods for amount, demand in zip(each, asking, strict=True))
        who = np.sum([demand.admitted << place for place, demand in enumerate(asking)], axis=0, dtype=np.int64)
        kinds, self._kind = np.unique(who, return_inverse=True)
        self._used: NDArray[np.int64] = np.stack(
            [_usable([amount for place, amount in enumerate(each) if kind >> place & 1]) for kind in kinds.tolist()]
        )

    def caps(self, free: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many units can be used where `free`, (columns, rows), is left of `rows`."""
        units = np.maximum(free[self._column], 0) // self._unit
        used = self._used[self._kind[rows], np.minimum(units, _MOST_AMOUNTS)]
        caps: NDArray[np.int64] = np.where(units <= _MOST_AMOUNTS, used, units)
        return caps


def _usable(amounts: Sequence[int]) -> NDArray[np.int64]:
    """Return of each amount up to the most how much any number of pods can use that ask for `amounts`."""
    sums = np.zeros(_MOST_AMOUNTS + 1, dtype=np.bool_)
    sums[0] = True
    for amount in amounts:
        step = amount
        while step <= _MOST_AMOUNTS:
            sums[step:] |= sums[:-step]
            step *= 2
    used: NDArray[np.int64] = np.maximum.accumulate(np.where(sums, np.arange(_MOST_AMOUNTS + 1), 0))
    return used


class Clearing:
    """Free capacity as pieces are evicted, and which are.

    Attributes:
        free: (columns, rows) int64: milli-CPU, bytes, counts.
        chosen: (units,) the pieces.
    """

    def __init__(self, units: Units, free: NDArray[np.int64], chosen: NDArray[np.bool_] | None = None) -> None:
        """Start from `free`, copied, with the pieces of `chosen` evicted."""
        self.units = units
        self.free = free.copy()
        self.chosen: NDArray[np.bool_] = np.zeros(len(units), dtype=np.bool_)
        if chosen is not None:
            self.chosen |= chosen
            entries = np.flatnonzero(chosen[units.of])
            for column, freed in zip(self.free, units.freed[:, entries], strict=True):
                np.add.at(column, units.rows[entries], freed)

    def copy(self) -> Clearing:
        """Return the same, to go on from independently."""
        other = Clearing(self.units, self.free)
        other.chosen |= self.chosen
        return other

    def evict(self, unit: int) -> list[int]:
        """Evict a piece, and the extras with a core; return the pieces that are evicted by it."""
        going = [each for each in (*self.units.extras(unit), unit) if not self.chosen[each]]
        for each in going:
            entries = self.units.entries(each)
            self.free[:, self.units.rows[entries]] += self.units.freed[:, entries]
        self.chosen[going] = True
        return going

    def spare(self, unit: int) -> None:
        """Put one evicted piece back; extras of a core stay evicted."""
        entries = self.units.entries(unit)
        self.free[:, self.units.rows[entries]] -= self.units.freed[:, entries]
        self.chosen[unit] = False


def bounds(
    clearing: Clearing,
    demands: Sequence[VictimRoomRequest],
    path: NDArray[np.int64],
    domains: int,
    usable: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return (domains,) a lower bound of the weight of pieces that make room for all demands in one domain.

    It is inf where no pieces can. `path` is (rows,) the domain of each row, -1 for none. The cost may be higher than
    the bound: rooms of nodes are added up as if they were one node, and pieces may go in part.
    """
    units, free = clearing.units, clearing.free
    lowest = np.zeros(domains)
    if not domains:
        return lowest
    admitted = np.logical_or.reduce([demand.admitted for demand in demands])
    inside = np.flatnonzero((path >= 0) & admitted)
    spare = usable & ~clearing.chosen
    entries = np.flatnonzero(spare[units.of] & (path[units.rows] >= 0) & admitted[units.rows])
    domain = path[units.rows[entries]]
    pairs, where = np.unique(domain * len(units) + units.of[entries], return_inverse=True)
    of, at = pairs % max(len(units), 1), pairs // max(len(units), 1)
    for column in range(free.shape[0]):
        wanted = sum(int(demand.amounts[column]) * demand.pods for demand in demands)
        if not wanted:
            continue
        there = np.zeros(domains)
        np.add.at(there, path[inside], np.maximum(free[column, inside], 0))
        freed = np.zeros(pairs.shape[0])
        np.add.at(freed, where, units.freed[column, entries])
        lowest = np.maximum(lowest, _least(wanted - there, freed, units.weight[of], at))
    return lowest


def _least(
    short: NDArray[np.float64], freed: NDArray[np.float64], weight: NDArray[np.float64], at: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return (domains,) the least cost of freeing as much as is `short`, pieces in part; inf if all are not enough."""
    useful = freed > 0
    freed, weight, at = freed[useful], weight[useful], at[useful]
    order = np.lexsort((weight / freed, at))
    freed, weight, at = freed[order], weight[order], at[order]
    cost = np.where(short > 0, np.inf, 0.0)
    if not at.shape[0]:
        return cost
    first = np.flatnonzero(np.diff(at, prepend=-1))
    segment = np.cumsum(np.diff(at, prepend=-1) != 0) - 1
    reached, paid = np.cumsum(freed), np.cumsum(weight)
    reached -= (reached[first] - freed[first])[segment]
    paid -= (paid[first] - weight[first])[segment]
    enough = np.flatnonzero(reached >= short[at])
    domains, firsts = np.unique(at[enough], return_index=True)
    last = enough[firsts]
    over = np.maximum(reached[last] - short[domains], 0) / freed[last]
    cost[domains] = np.where(short[domains] > 0, paid[last] - over * weight[last], 0.0)
    return cost


def prune(
    units: Units,
    free: NDArray[np.int64],
    chosen: NDArray[np.bool_],
    suffices: Callable[[Clearing], bool],
    *,
    keep: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Leave out of a choice that suffices every piece that it does not need, the dearest first; return (units,).

    Cores before extras; of equal extras the first one is the last to be left out. `keep`, (units,), stays. `free` is
    (columns, rows). The result is minimal: no piece of it can be left out, if more evictions never suffice less.
    """
    clearing = Clearing(units, free, chosen)
    pieces = np.flatnonzero(chosen if keep is None else chosen & ~keep)
    joint = units.joint
    parts = np.isin(pieces, joint) & ~units.core[pieces]  # before the rest, as what goes with them depends on them
    order = pieces[np.lexsort((-pieces, -units.weight[pieces] * ~parts, ~parts, ~units.core[pieces]))]
    going = Counter(each for piece in joint[chosen[joint]].tolist() for each in units.extras(piece))
    for piece in order.tolist():
        if going[piece] > 0:
            continue  # with its gang, or its part
        clearing.spare(piece)
        if not suffices(clearing):
            clearing.evict(piece)
        else:
            going.subtract(units.extras(piece))
    return clearing.chosen


Permit: TypeAlias = Callable[[NDArray[np.bool_], list[int]], bool]
"""Whether pieces may be evicted beside a choice, (units,)."""


# Example. Two pods of 8 GPUs need room on nodes 0 to 3, all of them full. What runs there, and its weight (the GPU-
# seconds that it would lose, in thousands of GPU-milliseconds):
#
#   wide    8 GPUs of node 0 and of node 1 for 100 s    1600
#   half    4 GPUs of node 2 for 150 s                   600
#   other   4 GPUs of node 2 for 250 s                  1000
#   long    8 GPUs of node 3 for 600 s                  4800
#
# Price of the next pod on each node: 800, 800 (wide makes room for two, so each node bears half), 1600 (half and
# other), 4800. Node 0 is taken and wide is evicted; that makes room on node 1 as well, so 2 pods fit and it is done.
# With `apart` each node bears all of wide: 1600, 1600, 1600 and 4800. The search tries both and compares the results.
class Cover:
    """Evict pieces in some nodes until so many pods fit there.

    Again and again the node is taken whose next pods cost least each, and what has to go for them goes. A gang that
    goes leaves room on all of its nodes, so what is left of it costs nothing any more. Before that, each node bears the
    part of the gang's cost that is its part of the room which the gang would leave, as far as that is wanted; or, with
    `apart`, all of it, as if no other node were used.
    """

    def __init__(  # noqa: PLR0913 - two of them are keywords
        self,
        clearing: Clearing,
        demand: VictimRoomRequest,
        mask: NDArray[np.bool_],
        usable: NDArray[np.bool_],
        *,
        apart: bool,
        permit: Permit | None = None,
    ) -> None:
        """Prepare; `mask` are the (rows,) that count, `usable` the (units,) that may be evicted."""
        self._clearing = clearing
        self._units: Units = clearing.units
        self._asked = np.flatnonzero(demand.amounts > 0)
        self._amounts = demand.amounts[self._asked]
        self._demand = demand
        self._mask = mask & demand.admitted
        self._usable = usable.copy()
        self._apart = apart
        self._permit = permit
        rows = np.flatnonzero(self._mask)
        self._caps = np.zeros(mask.shape[0], dtype=np.int64)
        self._caps[rows] = demand.caps(clearing.free[:, rows], rows)
        self._ratio = np.full(mask.shape[0], np.inf)
        self._pick: dict[int, NDArray[np.int64]] = {}
        self._worth, most = self._units.worth(demand.amounts)
        self._share = most * self._mask[self._units.rows]
        self._total = np.bincount(self._units.of, weights=self._share, minlength=len(self._units))

    def run(self, need: int) -> bool:
        """Evict until `need` pods fit; return whether they do."""
        price_at = 0
        left = need - int(self._caps.sum())
        while left > 0:
            if 2 * left <= price_at or not price_at:
                self._price(np.flatnonzero(self._mask), left)
                price_at = left
            row = int(np.argmin(self._ratio))
            if not np.isfinite(self._ratio[row]):
                return False
            self._take(row, left)
            left = need - int(self._caps.sum())
        return True

    def settle(self, pods: int) -> None:
        """Take the room for so many pods, those nodes first that have most."""
        ranked = np.argsort(-self._caps, kind="stable")
        reached = np.minimum(np.cumsum(self._caps[ranked]), pods)
        shares = np.zeros_like(self._caps)
        shares[ranked] = np.diff(reached, prepend=0)
        self._clearing.free -= self._demand.amounts[:, None] * shares

    def _take(self, row: int, left: int) -> None:
        """Evict what the next pods on a node need."""
        going = [int(unit) for unit in self._pick[row]]
        if self._permit is not None and not self._permit(self._clearing.chosen, going):
            self._usable[going[-1]] = False  # the row may have other pieces: price it again without this one
            self._price(np.array([row], dtype=np.int64), left)
            return
        evicted = [each for unit in going for each in self._clearing.evict(unit)]
        touched = np.unique(np.concatenate([self._units.rows[self._units.entries(unit)] for unit in evicted]))
        touched = touched[self._mask[touched]]
        self._caps[touched] = self._demand.caps(self._clearing.free[:, touched], touched)
        self._price(touched, left)

    def _price(self, rows: NDArray[np.int64], left: int) -> None:
        """Work out what the next pods on each of `rows` cost, and what has to go for them."""
        units = self._units
        self._ratio[rows] = np.inf
        entries = self._entries_on(rows)
        entries = entries[self._usable[units.of[entries]] & ~self._clearing.chosen[units.of[entries]]]
        at = units.rows[entries]
        free = self._clearing.free[self._asked]
        # Only what is short for one pod more is worth anything.
        short = free[:, at] < self._amounts[:, None] * (self._caps[at] + 1)
        worth = np.where(short, self._worth[:, entries], 0.0).max(axis=0, initial=0.0)
        useful = worth > 0
        entries, at, worth = entries[useful], at[useful], worth[useful]
        if not entries.shape[0]:
            return
        of = units.of[entries]
        price = units.weight[of]
        if not self._apart:
            wanted = np.maximum(np.minimum(self._total[of], left), self._share[entries])
            price = price * self._share[entries] / wanted
        order = np.lexsort((of, price / worth, at))
        entries, at, price, of = entries[order], at[order], price[order], of[order]
        first = np.flatnonzero(np.diff(at, prepend=-1))
        segment = np.cumsum(np.diff(at, prepend=-1) != 0) - 1
        gained = np.cumsum(units.freed[self._asked][:, entries], axis=1)
        gained -= (gained[:, first] - units.freed[self._asked][:, entries[first]])[:, segment]
        caps = np.full(entries.shape[0], left, dtype=np.int64) + self._caps[at]
        for amount, column, more in zip(self._amounts.tolist(), free, gained, strict=True):
            np.minimum(caps, (column[at] + more) // amount, out=caps)
        gain = np.minimum(caps, self._demand.pods) - self._caps[at]
        paid = np.cumsum(price)
        paid -= (paid[first] - price[first])[segment]
        ratio = np.where(gain > 0, paid / np.maximum(gain, 1), np.inf)
        best = np.minimum.reduceat(ratio, first)
        self._ratio[at[first]] = best
        found = np.flatnonzero((ratio == best[segment]) & np.isfinite(ratio))
        _, firsts = np.unique(segment[found], return_index=True)
        for last in found[firsts].tolist():
            self._pick[int(at[last])] = of[int(first[segment[last]]) : last + 1]

    def _entries_on(self, rows: NDArray[np.int64]) -> NDArray[np.intp]:
        starts = self._units.row_starts
        rows = rows[rows < starts.shape[0] - 1]
        begin, end = starts[rows], starts[rows + 1]
        counts = end - begin
        offsets = np.repeat(begin - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
        found: NDArray[np.intp] = self._units.by_row[np.arange(int(counts.sum())) + offsets]
        return found
