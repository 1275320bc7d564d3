"""Leaving out what need not be evicted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from extender.preemption.room import Clearing
from extender.preemption.units import Units


def prune(
    units: Units,
    free: NDArray[np.int64],
    chosen: NDArray[np.bool_],
    suffices: Callable[[Clearing], bool],
    *,
    keep: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Leave out of a choice that suffices whatever need not go, the dearest first; return (units,) what is left.

    Cores before extras; of equal extras the first one is the last to be left out. `keep`, (units,), stays. `free` is
    (columns, rows). The result is minimal: no piece of it can be left out, if more evictions never suffice less.
    """
    clearing = Clearing(units, free, chosen)
    pieces = np.flatnonzero(chosen if keep is None else chosen & ~keep)
    order = pieces[np.lexsort((-pieces, -units.weight[pieces], ~units.core[pieces]))]
    going: set[int] = {each for core in np.flatnonzero(chosen & units.core).tolist() for each in units.extras(core)}
    for piece in order.tolist():
        if piece in going:
            continue  # with its gang
        clearing.spare(piece)
        if not suffices(clearing):
            clearing.evict(piece)
        else:
            going.difference_update(units.extras(piece))
    return clearing.chosen
