"""Which nodes admit members of a gang of some shape at all: taints, node selector, required node affinity.

A node that is announced to go admits none, whatever they tolerate: the whole gang would soon have to start anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import NodeTable
from extender.domain.node import Node
from extender.domain.pod import Shape
from extender.domain.selectors import Selector
from extender.domain.taints import Toleration, first_untolerated

_ANYWHERE = Selector()

_Constraints: TypeAlias = tuple[Selector, tuple[Toleration, ...]]


@dataclass(slots=True)
class _Entry:
    """A mask and the newest change of the table that it has taken in."""

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
            entry = _Entry(np.zeros(0, dtype=np.bool_), seen=-1)
        if entry.seen < table.last_change:
            mask = np.zeros(table.rows, dtype=np.bool_)  # a new array: whoever was given the former one keeps it
            mask[: entry.mask.shape[0]] = entry.mask
            for row in np.flatnonzero(table.changed_at[: table.rows] > entry.seen).tolist():
                mask[row] = bool(table.present[row]) and _admits(table.node(row), shape)
            entry.mask, entry.seen = mask, table.last_change
        self._entries[constraints] = entry
        if len(self._entries) > self.MAX_ENTRIES:
            del self._entries[next(iter(self._entries))]
        return entry.mask


def _admits(node: Node, shape: Shape) -> bool:
    # Most nodes have no taints and most pods select nothing: a new set of constraints then costs next to nothing.
    if node.deleting:
        return False
    if node.taints and (node.doomed or first_untolerated(node.taints, shape.tolerations) is not None):
        return False
    return shape.selector == _ANYWHERE or shape.selector.matches(node.name, node.labels)
