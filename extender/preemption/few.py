"""All choices of a few pieces, the cheapest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from extender.cluster.tree import Tree
from extender.preemption.room import Demand
from extender.preemption.units import Units

#: Pieces of which every choice is looked at: 4,096 of them.
MOST_PIECES = 12

#: Numbers that are worked out for that at most: some 10 ms.
_MOST_WORK = 2_000_000


def choices(  # noqa: PLR0913 - what there is, what is asked for, where
    units: Units,
    usable: NDArray[np.bool_],
    free: NDArray[np.int64],
    demands: Sequence[Demand],
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
    """Iterate over cores and their extras, as places in `pieces`."""
    for place, unit in enumerate(pieces.tolist()):
        if units.core[unit]:
            yield place, np.searchsorted(pieces, np.array(units.extras(unit), dtype=np.intp))


def _by_cost(units: Units, pieces: NDArray[np.intp], chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the order of the choices by `Units.cost`."""
    core = units.core[pieces]
    alone = chosen & ~core
    for place, extras in _families(units, pieces):
        alone[:, extras] &= ~chosen[:, [place]]
    lowest = np.iinfo(np.int64).min
    priority = np.where(chosen, units.priority[pieces], lowest).max(axis=1, initial=lowest)
    lost, pods = units.lost[pieces], units.sizes[pieces]
    whole = chosen & core
    return np.lexsort((chosen @ pods, alone @ lost, whole.sum(axis=1), whole @ lost, priority))


def _spread(chosen: NDArray[np.bool_], pieces: NDArray[np.intp], number: int) -> NDArray[np.bool_]:
    choice = np.zeros(number, dtype=np.bool_)
    choice[pieces] = chosen
    return choice
