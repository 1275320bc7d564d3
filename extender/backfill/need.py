"""Whether there is enough for pods by numbers: what can be told without a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from extender.cluster.whatif import WhatIf
from extender.domain.pod import Pod, Shape
from extender.placement.ground import Ground, Terms


@dataclass(frozen=True, slots=True)
class Need:
    """How many pods of each shape need a place, all of them in one domain of a level; -1: anywhere.

    `level` is None where nobody knows the level that they require.
    """

    counts: Mapping[Shape, int]
    level: int | None
    ground: Ground

    @classmethod
    def of(cls, pods: Sequence[Pod], ground: Ground, terms: Terms) -> Self:
        """Return what pods need that are to be placed together; members with a node may leave no choice of domain."""
        required = "" if ground.settled else terms.topology.required
        level = ground.tree.levels.find(required) if required else -1
        return cls(Counter(pod.shape for pod in pods), level, ground)

    def is_met(self, free: WhatIf) -> bool:
        """Tell whether there is enough if each shape had the nodes to itself, and for all shapes together.

        Where there is not, there is no plan. Once met it stays so as room comes back: only columns count, not which
        GPUs and NUMA zones are free.
        """
        if self.level is None:
            return False
        met: NDArray[np.bool_] = np.ones(1, dtype=np.bool_)
        for shape, wanted in self.counts.items():
            room = free.counts(free.table.vector(shape.requests), self.ground.eligible(shape))
            met = met & (self.ground.tree.sums(self.level, np.minimum(room, wanted)) >= wanted)
        if len(self.counts) > 1 and met.any():
            met = met & self._is_met_together(self.level, free)
        return bool(met.any())

    def _is_met_together(self, level: int, free: WhatIf) -> NDArray[np.bool_]:
        """Return (domains,) which have as much of every resource as all shapes ask for together."""
        admitted = np.logical_or.reduce([self.ground.eligible(shape) for shape in self.counts])
        asked = np.zeros(free.free.shape[0], dtype=np.int64)
        for shape, wanted in self.counts.items():
            vector = free.table.vector(shape.requests)
            asked[vector.columns] += vector.amounts * wanted
        met = [
            self.ground.tree.sums(level, np.where(admitted, np.maximum(free.free[column], 0), 0)) >= asked[column]
            for column in np.flatnonzero(asked).tolist()
        ]
        every: NDArray[np.bool_] = np.logical_and.reduce(met)
        return every
