"""Choosing pieces so that enough pods fit: node by node, the cheapest room first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.preemption.room import Clearing, Demand
from extender.preemption.units import Units

Permit: TypeAlias = Callable[[NDArray[np.bool_], list[int]], bool]
"""Whether pieces may be evicted beside a choice, (units,)."""


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
        demand: Demand,
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
            self._usable[going[-1]] = False  # its row may have others; whoever needs just this one asks anew
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
