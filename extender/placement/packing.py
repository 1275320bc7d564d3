"""How many pods of one shape go to each node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import NodeTable, Vector
from extender.domain.keys import Packing


@dataclass(frozen=True, slots=True)
class Share:
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
) -> tuple[Share, ...]:
    """Distribute `pods` equal pods over nodes.

    Args:
        counts: (rows,) how many each node takes, though it be more than `pods`: that is how tight a node is.
        pods: how many to place; at most the sum of `counts`.
        packing: binpack uses the fewest nodes and then the tightest one for the rest; spread keeps the fullest share
            as small as possible.
        preference: (rows,) classes of nodes, lower first. Binpack uses up a class before it touches the next; spread
            gives by it what an equal share for everybody leaves over.
        order: (rows,) what decides between equals, and the order of the result.

    Deterministic. Complexity: O(n log n) in the nodes that take any.
    """
    rows = np.flatnonzero(counts)
    spread = _binpack if packing is Packing.BINPACK else _spread
    shares = spread(counts[rows], pods, preference[rows], order[rows])
    chosen = np.flatnonzero(shares)
    chosen = chosen[np.argsort(order[rows[chosen]], kind="stable")]
    return tuple(Share(int(rows[i]), int(shares[i])) for i in chosen)


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
        tightest = candidates[np.lexsort((order[candidates], counts[candidates]))[0]]
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
    shares[above[np.lexsort((order[above], -counts[above], preference[above]))[:rest]]] += 1
    return shares
