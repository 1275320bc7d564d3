"""Which nodes are of a flavor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import NodeTable
from extender.domain.pod import Shape
from extender.domain.selectors import Selector
from extender.domain.taints import Toleration
from extender.placement.eligibility import Eligibility
from extender.placement.ground import Eligible

#: Which nodes are of a flavor is asked of their labels alone.
_TOLERATES_ALL = (Toleration("", "Exists", "", ""),)


class FlavorMasks:
    """Answer which rows have some labels, re-judging only nodes that changed since the last time asked."""

    def __init__(self, table: NodeTable) -> None:
        """Look at the labels of the nodes in `table`."""
        self._eligibility = Eligibility(table)
        self._shapes: dict[tuple[tuple[str, str], ...], Shape] = {}

    def of(self, labels: tuple[tuple[str, str], ...]) -> NDArray[np.bool_]:
        """Return (rows,) which nodes have all of these labels, those left out that are announced to go."""
        shape = self._shapes.get(labels)
        if shape is None:
            shape = self._shapes[labels] = Shape((), Selector(equals=labels), _TOLERATES_ALL)
        return self._eligibility.mask(shape)

    def within(self, eligible: Eligible, labels: tuple[tuple[str, str], ...]) -> Eligible:
        """Return `eligible` without the nodes that lack one of these labels; itself without any labels."""
        if not labels:
            return eligible
        mask = self.of(labels)
        return lambda shape: eligible(shape) & mask
