"""Which domains may have to hold pods that belong together: by level, by room, and near to members that have a node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.cluster.nodekinds import whole_gpus
from extender.cluster.whatif import WhatIf
from extender.domain.pod import Pod, Shape
from extender.placement.ground import Ground, Terms
from extender.placement.room import room

Groups: TypeAlias = Mapping[Shape, Sequence[Pod]]
"""Pods by shape, shapes in the order in which they are placed."""

#: Domains of one level that are tried for pods of several shapes: counting says that each shape by itself fits there,
#: which for most is the whole truth.
MOST_SCOPES = 16


@dataclass(frozen=True, slots=True)
class Scope:
    """A domain that is to hold everything: its level, and (rows,) the nodes in it."""

    level: int
    mask: NDArray[np.bool_]


class Domains:
    """Tell which domains come into question for pods that belong together.

    Rows of members that have a node already, `settled`, keep whoever joins them near.
    """

    def __init__(self, whatif: WhatIf, ground: Ground, terms: Terms) -> None:
        """Look at `whatif` as it is whenever something is asked."""
        self._whatif = whatif
        self._ground = ground
        self._terms = terms
        self._tree = ground.tree

    def levels(self, groups: Groups, settled: Collection[int]) -> list[int]:
        """Return the levels of which one domain may have to hold everything, the most wanted first; -1: any will do."""
        levels, topology = self._tree.levels, self._terms.topology
        required = levels.find(topology.required) if topology.required else -1
        preferred = levels.find(topology.preferred) if topology.preferred else None
        if required is None:
            return []
        narrowest = required if preferred is None else max(preferred, required)
        if settled and any(map(whole_gpus, groups)):  # whoever computes with others comes as near as can be
            common, _ = self._tree.common(np.array(list(settled), dtype=np.intp))
            narrowest = max(common, required)
        return list(range(narrowest, required - 1, -1))

    def most_in_one_domain(self, groups: Groups) -> tuple[str, int]:
        """Return the level that keeps members out, and how many pods one of its domains holds at most.

        Shapes are counted each by itself. Where every k pods share a domain: how many find room in whole slices.
        """
        topology = self._terms.topology
        roles = next((group for group in topology.role_groups if group.required), None)
        level = (
            topology.required or (topology.slices[0].level if topology.slices else "") or (roles.level if roles else "")
        )
        at = self._tree.levels.find(level)
        if at is None:
            return level, 0
        most = 0
        size = 1 if topology.required or not topology.slices else topology.slices[0].size
        totals = [self._tree.sums(at, self.room(shape)) for shape in groups]
        capped = [np.minimum(total, len(pods)) for total, pods in zip(totals, groups.values(), strict=True)]
        if size > 1:
            most = sum(int((total // size * size).sum()) for total in totals)
        elif capped:
            most = int(np.sum(capped, axis=0).max(initial=0))
        return self._tree.levels.name(at), most

    def reachable(self, level: int, settled: Collection[int]) -> NDArray[np.bool_]:
        """Return (rows,) the nodes that may be used: those around the settled members where there are any."""
        everywhere: NDArray[np.bool_] = np.ones(self._whatif.free.shape[1], dtype=np.bool_)
        if level < 0 or not settled:
            return everywhere
        rows = np.array(list(settled), dtype=np.intp)
        around: NDArray[np.bool_] = ~everywhere
        if level >= self._tree.depth:
            around[rows] = True
            return around
        path = self._tree.domains[level]
        around[:] = np.isin(path, path[rows]) & (path >= 0)
        return around

    def roomy(self, level: int, groups: Groups, settled: Collection[int]) -> NDArray[np.bool_]:
        """Return (rows,) the nodes in domains of `level` that each shape by itself fits into; all there are for -1."""
        reachable = self.reachable(level, settled)
        if level < 0:
            return reachable
        holds = self.holding(level, groups, reachable)
        path = self._tree.path(level)
        mask = reachable & (path >= 0)
        required = self._tree.levels.find(self._terms.topology.required) if self._terms.topology.required else None
        if required is not None:  # a node without a domain of that level shares none with anybody
            mask &= self._tree.path(required) >= 0
        mask[mask] = holds[path[mask]]
        return mask

    def holding(self, level: int, groups: Groups, mask: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Return (domains,) which domains of `level` each shape by itself fits into, on the nodes of `mask` alone."""
        holds = [
            self._tree.sums(level, np.minimum(self.room(shape, mask), len(pods))) >= len(pods)
            for shape, pods in groups.items()
        ]
        every: NDArray[np.bool_] = np.logical_and.reduce(holds)
        return every

    def room(self, shape: Shape, mask: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return (rows,) how many pods of `shape` each node takes, of `mask` alone if it is given."""
        eligible = self._ground.eligible(shape)
        return room(self._whatif, shape, eligible if mask is None else eligible & mask)
