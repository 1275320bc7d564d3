"""Which nodes admit a pod of some shape at all: taints, node selector, required node affinity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import NodeTable
from extender.domain.pod import Shape
from extender.domain.selectors import Selector
from extender.domain.taints import Toleration, first_untolerated

_Constraints: TypeAlias = tuple[Selector, tuple[Toleration, ...]]


@dataclass(slots=True)
class _Entry:
    """A mask and how much of the table's change log it has taken in."""

    mask: NDArray[np.bool_]
    seen: int


class Eligibility:
    """Answer which rows admit a shape, re-judging only nodes that changed since the last time asked.

    Memory: one byte per node and distinct set of constraints; sets not asked for in a while are dropped.
    """

    #: Distinct constraint sets kept; a cluster with more of them in use at once re-judges all nodes now and then.
    MAX_ENTRIES = 512

    def __init__(self, table: NodeTable) -> None:
        """Read from `table`, which may change between calls."""
        self._table = table
        self._entries: dict[_Constraints, _Entry] = {}

    def mask(self, shape: Shape) -> NDArray[np.bool_]:
        """Return (rows,) whether each node admits pods of `shape`. The array belongs to the cache: do not change it."""
        table = self._table
        constraints = (shape.selector, shape.tolerations)
        entry = self._entries.pop(constraints, None)
        if entry is None:
            entry = _Entry(np.zeros(table.rows, dtype=np.bool_), seen=len(table.changes))
            stale = list(range(table.rows))
        else:
            stale = sorted(set(table.changes[entry.seen :]))
            if entry.mask.shape[0] < table.rows:
                grown = np.zeros(table.rows, dtype=np.bool_)
                grown[: entry.mask.shape[0]] = entry.mask
                entry.mask = grown
            elif stale:
                entry.mask = entry.mask.copy()
            entry.seen = len(table.changes)
        for row in stale:
            entry.mask[row] = bool(table.present[row]) and _admits(table, row, shape)
        self._entries[constraints] = entry
        if len(self._entries) > self.MAX_ENTRIES:
            del self._entries[next(iter(self._entries))]
        return entry.mask


def _admits(table: NodeTable, row: int, shape: Shape) -> bool:
    node = table.node(row)
    if first_untolerated(node.taints, shape.tolerations) is not None:
        return False
    return shape.selector.matches(node.name, node.labels)
