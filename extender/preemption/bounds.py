"""What evictions in a domain cost at least, for all domains at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from extender.preemption.room import Clearing, Demand


def bounds(
    clearing: Clearing,
    demands: Sequence[Demand],
    path: NDArray[np.int64],
    domains: int,
    usable: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return (domains,) the least weight of pieces that can make room for all demands in one domain; inf: none can.

    `path` is (rows,) the domain of each row, -1 for none. It is a bound, not a cost: rooms of nodes are added up, and
    pieces may go in part.
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
    """Return (domains,) what it costs at least to free as much as is short, pieces in part; inf if all do not do."""
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
