"""Where pods may be placed, and how a gang wants to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.cluster.tree import Tree
from extender.domain.keys import Packing
from extender.domain.pod import Shape
from extender.domain.topology import UNCONSTRAINED, TopologyRequest

Eligible: TypeAlias = Callable[[Shape], NDArray[np.bool_]]
"""Shape -> (rows,) which nodes admit it."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a gang wants to be placed: spread or packed, and what it asks of the topology."""

    packing: Packing = Packing.BINPACK
    topology: TopologyRequest = UNCONSTRAINED

    @property
    def gathers(self) -> bool:
        """Tell whether anything has to be in one domain."""
        topology = self.topology
        return bool(topology.required or topology.slices or any(group.required for group in topology.role_groups))


@dataclass(frozen=True, slots=True)
class Ground:
    """Where pods may be placed.

    `eligible` says which nodes admit a shape; `settled` how many GPUs the gang has on which row already, zero for a
    node where it has members without any.
    """

    tree: Tree
    eligible: Eligible
    settled: Mapping[int, int] = field(default_factory=dict)

    def within(self, mask: NDArray[np.bool_]) -> Ground:
        """Return the same ground with no nodes but those of `mask`, (rows,)."""
        return replace(self, eligible=lambda shape: self.eligible(shape) & mask)


def without(eligible: Eligible, rows_of: Callable[[Shape], Sequence[int]]) -> Eligible:
    """Return `eligible` without the rows that `rows_of` names for a shape."""

    def remaining(shape: Shape) -> NDArray[np.bool_]:
        mask, rows = eligible(shape), rows_of(shape)
        if rows:
            mask = mask.copy()
            mask[rows] = False
        return mask

    return remaining
