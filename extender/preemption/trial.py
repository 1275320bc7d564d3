"""Whether evictions do what they are for: room where the gang can be, quota, and budgets that allow them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import Vector
from extender.cluster.tree import Tree
from extender.cluster.whatif import WhatIf
from extender.domain.pod import Pod
from extender.placement.ground import Ground, Terms
from extender.placement.plan import Plan, Shortfall, group_by_shape, plan, shape_orders, shortfall
from extender.placement.scopes import Domains
from extender.preemption.parts import parts_of
from extender.preemption.room import Clearing, Demand
from extender.preemption.units import Units
from extender.preemption.victim import Victim


class QuotaCheck(Protocol):
    """What the preemptor's quota says. More evictions never turn a yes into a no."""

    def allows(self, evicted: Sequence[tuple[Victim, Sequence[Pod]]]) -> bool:
        """Tell whether the preemptor is within its quota once these are gone."""


class BudgetCheck(Protocol):
    """What PodDisruptionBudgets say. Fewer evictions never turn a yes into a no."""

    def allows(self, pods: Sequence[Pod]) -> bool:
        """Tell whether all of these pods may be evicted together."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A plan, and what it takes of the capacity with the victims gone: (resources, rows)."""

    plan: Plan
    kept: NDArray[np.int64]


class Trial:
    """Try choices of pieces: in the asked columns alone, which is fast, and by planning, which is the truth.

    Attributes:
        demands: what is asked for, by shape, the most demanding first.
        parts: the same, taken apart into what has to share a domain of some level, -1 for any.
        possible: whether there is any sense in trying.
        columns: the columns of the table that are asked for.
        plain: whether columns tell the truth, but for GPUs and zones: pods of one shape that are not counted off.
    """

    def __init__(  # noqa: PLR0913 - what a gang is placed by, and what evictions are checked by
        self,
        pods: Sequence[Pod],
        free: WhatIf,
        ground: Ground,
        terms: Terms,
        *,
        quota: QuotaCheck,
        budgets: BudgetCheck,
    ) -> None:
        """Try on `free`, which is as it was after each trial."""
        self._pods = pods
        self._whatif = free
        self._ground = ground
        self._terms = terms
        self._quota = quota
        self._budgets = budgets
        groups, table = group_by_shape(pods), free.table
        demanding = next(shape_orders(groups, table, ground.eligible))
        self._groups = {shape: groups[shape] for shape in demanding}
        vectors = {shape: table.vector(shape.requests) for shape in self._groups}
        self.possible = not any(vector.unknown for vector in vectors.values())
        self.columns: NDArray[np.intp] = np.unique(np.concatenate([v.columns for v in vectors.values()]))
        asked = {shape: self._amounts(vector) for shape, vector in vectors.items()}
        self.demands = tuple(
            Demand(asked[shape], ground.eligible(shape), len(members)) for shape, members in self._groups.items()
        )
        self.parts: tuple[tuple[int, tuple[Demand, ...]], ...] = tuple(
            (
                part.level,
                tuple(
                    Demand(asked[shape], ground.eligible(shape), part.pods[shape])
                    for shape in demanding
                    if shape in part.pods
                ),
            )
            for part in parts_of(pods, terms.topology, ground.tree)
        )
        topology = terms.topology
        roles = any(group.required for group in topology.role_groups)
        self.plain = len(self._groups) == 1 and not topology.slices and not roles
        self._level = ground.tree.levels.find(topology.required) if topology.required else -1
        if self._level is None:
            self.possible = False

    def _amounts(self, vector: Vector) -> NDArray[np.int64]:
        asked = np.zeros(self.columns.shape[0], dtype=np.int64)
        asked[np.searchsorted(self.columns, vector.columns)] = vector.amounts
        return asked

    @property
    def tree(self) -> Tree:
        """Return the tree of domains."""
        return self._ground.tree

    @property
    def level(self) -> int:
        """Return the level of which one domain has to hold all, -1 for none."""
        return -1 if self._level is None else self._level

    @cached_property
    def free(self) -> NDArray[np.int64]:
        """Return (columns, rows) what is free of the columns that are asked for."""
        return self._whatif.free[self.columns]

    @cached_property
    def reachable(self) -> NDArray[np.bool_]:
        """Return (rows,) the nodes that can be used: in a domain of the required level, beside members there are."""
        domains = Domains(self._whatif, self._ground, self._terms)
        mask = domains.reachable(self.level, self._ground.settled)
        return mask & (self._ground.tree.path(self.level) >= 0) if self.level >= 0 else mask

    @cached_property
    def _before(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Return for each demand how many of its pods each row takes, and each domain, while nobody is evicted."""
        rows, found = np.flatnonzero(self.reachable), []
        for demand in self.demands:
            caps = np.zeros(self.reachable.shape[0], dtype=np.int64)
            caps[rows] = demand.caps(self.free[:, rows], rows)
            found.append((caps, self.tree.sums(self.level, caps)))
        return found

    @cached_property
    def _path(self) -> NDArray[np.int64]:
        return self.tree.path(self.level) if self.level >= 0 else np.zeros(self.reachable.shape[0], dtype=np.int64)

    def holds(self, clearing: Clearing) -> bool:
        """Tell by the columns whether some domain has room: never false where planning would succeed."""
        units = clearing.units
        rows = np.unique(units.rows[clearing.chosen[units.of]])  # elsewhere all is as before
        rows = rows[self.reachable[rows]]
        free, path = clearing.free[:, rows], self._path[rows]
        rooms = []
        for demand, (before, sums) in zip(self.demands, self._before, strict=True):
            more = sums.copy()
            np.add.at(more, path, demand.caps(free, rows) - before[rows])
            rooms.append(more >= demand.pods)
        return bool(np.logical_and.reduce(rooms).any())

    def placed(self, units: Units, chosen: NDArray[np.bool_]) -> Placed | Shortfall:
        """Plan the gang as if the pieces were gone."""
        whatif = self._whatif
        mark = whatif.mark()
        self._vacate(units, chosen)
        before = whatif.free.copy()
        found = plan(self._pods, whatif, self._ground, self._terms)
        kept = before - whatif.free
        whatif.undo(mark)
        return Placed(found, kept) if isinstance(found, Plan) else found

    def fits(self, units: Units, chosen: NDArray[np.bool_]) -> bool:
        """Tell by planning whether the gang fits once the pieces are gone."""
        whatif = self._whatif
        mark = whatif.mark()
        self._vacate(units, chosen)
        lack = shortfall(self._pods, whatif, self._ground, self._terms)
        whatif.undo(mark)
        return lack is None

    def _vacate(self, units: Units, chosen: NDArray[np.bool_]) -> None:
        self._whatif.vacate(pod.uid for pod in units.pods(np.flatnonzero(chosen).tolist()))

    def within_quota(self, units: Units, chosen: NDArray[np.bool_]) -> bool:
        """Tell whether the gang is within its quota once the pieces are gone."""
        return self._quota.allows([(each.victim, each.pods) for each in units.evictions(chosen)])

    def within_budgets(self, units: Units, chosen: NDArray[np.bool_]) -> bool:
        """Tell whether the budgets allow to evict the pieces together."""
        return self._budgets.allows(units.pods(np.flatnonzero(chosen).tolist()))
