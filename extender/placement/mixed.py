"""Gangs whose pods ask for different numbers of GPUs: how many GPUs each node had best give, whoever gets them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from math import gcd
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.cluster.nodekinds import GPU_RESOURCES, whole_gpus
from extender.cluster.whatif import WhatIf
from extender.domain.pod import Pod, Shape
from extender.domain.topology import Objective
from extender.placement.assign import assign
from extender.placement.bags import Score, Wanted
from extender.placement.ground import Ground
from extender.placement.room import clique_units, field_of
from extender.placement.search import Search

Quota: TypeAlias = list[tuple[int, int]]
"""(row, GPUs) in the order of the tree."""

#: Worse than anything that can be placed.
_UNKNOWN = Score(1, 0)


class Relaxation:
    """The gang as if it were equal pods, each with as many GPUs as the pods' numbers have for a common divisor.

    What is best for those is exact and a bound for the gang; sharing its pods out by it mostly reaches that bound.
    """

    def __init__(
        self, whatif: WhatIf, ground: Ground, groups: Mapping[Shape, Sequence[Pod]], objective: Objective
    ) -> None:
        """Relax the pods of `groups`, all of which ask for GPUs; `whatif` is not changed."""
        self._gpus = reduce(gcd, map(whole_gpus, groups))
        pods = sum(whole_gpus(shape) * len(members) for shape, members in groups.items()) // self._gpus
        self._field = field_of(whatif, ground.tree, self._average(groups, pods), _everybodys(ground, groups), {})
        units, self._kinds = clique_units(self._field, whatif, pods)
        self._search = Search(self._field, Wanted(pods, pods * self._gpus, objective), units, self._kinds)
        self._position = {int(row): position for position, row in enumerate(self._field.rows)}

    def quotas(self, levels: Iterable[int]) -> list[Quota]:
        """Return how many GPUs each node had best give, for the best domain of each level that may be the best."""
        everywhere = np.ones(self._field.rows.shape[0], dtype=np.bool_)
        return [
            [(int(self._field.rows[position]), pods * self._gpus) for position, pods in assign(self._search, choice)]
            for choice in self._search.best(levels, everywhere)
        ]

    def score(self, gpus: Mapping[int, int]) -> Score:
        """Return how good it is to have so many GPUs on each row; worse than anything for what it does not know."""
        used = {self._position.get(row, -1): count // self._gpus for row, count in gpus.items()}
        units = self._field.units
        if any(at < 0 or pods > units[int(self._field.kinds[at])].cap for at, pods in used.items()):
            return _UNKNOWN
        tree = self._field.tree
        level, _ = tree.common(np.array(list(gpus), dtype=np.intp))
        islands: Counter[tuple[int, int]] = Counter()  # (kind, which of its kind) -> pods
        loss = 0
        for at, pods in used.items():
            kind, clique = int(self._field.kinds[at]), int(self._kinds[at])
            loss += units[kind].loss[pods]
            if clique >= 0 and tree.cliques is not None:
                domain = int(self._field.paths[tree.cliques, at])
                islands[self._search.clique_base + clique, domain] += pods
            else:
                islands[kind, at] += pods
        loss += sum(self._search.units[kind].loss[0] for kind, _ in islands)  # of a node nothing is broken: its is 0
        count = min(len(islands), 3)
        steps = (self._search.step(kind, count, level, pods) for (kind, _), pods in islands.items())
        return Score(-min(steps), loss)

    def _average(self, groups: Mapping[Shape, Sequence[Pod]], pods: int) -> Shape:
        """Return the shape of the equal pods: their GPUs, and of everything else what the gang asks for on average."""
        totals: Counter[str] = Counter()
        for shape, members in groups.items():
            for resource, amount in shape.requests:
                totals[resource] += amount * len(members)
        asked = {r: self._gpus if r in GPU_RESOURCES else -(-amount // pods) for r, amount in totals.items()}
        return Shape(tuple(sorted(asked.items())))


def _everybodys(ground: Ground, groups: Iterable[Shape]) -> NDArray[np.bool_]:
    """Return (rows,) the nodes that admit all shapes."""
    masks = [ground.eligible(shape) for shape in groups]
    admitted: NDArray[np.bool_] = np.logical_and.reduce(masks)
    return admitted
