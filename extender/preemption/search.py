"""Whom to evict so that a gang fits: the least disturbed priorities, the least GPU-time lost, the fewest gangs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extender.cluster.whatif import WhatIf
from extender.domain.pod import Pod
from extender.placement.ground import Ground, Terms
from extender.placement.plan import Plan
from extender.preemption.choosing import Choice, Chooser
from extender.preemption.few import choices
from extender.preemption.pruning import prune
from extender.preemption.quotaneed import for_quota
from extender.preemption.room import Clearing
from extender.preemption.trial import BudgetCheck, Placed, QuotaCheck, Trial
from extender.preemption.units import Cost, Units
from extender.preemption.victim import Eviction, Victim

__all__ = ["BudgetCheck", "Eviction", "Preemption", "QuotaCheck", "search"]

#: Plans that are made at most for one choice after the other where only a few pieces may be evicted.
_MOST_TRIALS = 64

#: Choices that are planned, and how often each is given more room if its plan fails.
_MOST_CHOICES, _MOST_STEPS = 8, 4

#: Choices that are looked at if the quota wants more than room, and that are compared if only planning can judge them.
_MOST_EXTENDED, _MOST_COMPARED = 2, 2


#: Pieces that are begun with in one search because the budgets refused them beside others: so many at most, and fewer
#: where pods of many gangs are on many nodes, as each costs a search of its own.
_MOST_BEGINNINGS, _MOST_ENTRIES = 16, 4_000


@dataclass(frozen=True, slots=True)
class Preemption:
    """Who is evicted, the plan for the gang once they are gone, and what it takes: (resources, rows)."""

    evictions: tuple[Eviction, ...]
    plan: Plan
    kept: NDArray[np.int64]


def search(  # noqa: PLR0913, PLR0917 - what a gang is placed by, and what evictions are checked by
    pods: Sequence[Pod],
    free: WhatIf,
    ground: Ground,
    terms: Terms,
    victims: Sequence[Victim],
    quota: QuotaCheck,
    budgets: BudgetCheck,
) -> Preemption | None:
    """Find the cheapest evictions after which all pods have a place; None if there are none.

    `free` lacks what is kept for others, and is as before afterwards. All `victims` may be evicted by rank and queue.
    Compared are the highest priority that loses pods, the GPU-time lost with gangs that go whole, their number, then
    the GPU-time of extras that go alone. No eviction of the result can be left out; where nobody has to go there are
    none. Deterministic for equal input, whatever the order of the victims.
    """
    trial = Trial(pods, free, ground, terms, quota=quota, budgets=budgets)
    if not trial.possible:
        return None
    ordered = sorted(victims, key=lambda victim: (victim.priority, victim.name, victim.uid))
    return _Search(trial, Units(ordered, free.table, trial.columns)).run()


class _Search:
    def __init__(self, trial: Trial, units: Units) -> None:
        self._trial = trial
        self._units = units
        self._nobody: NDArray[np.bool_] = np.zeros(len(units), dtype=np.bool_)
        self._refused: set[int] = set()
        self._beginnings_left = min(_MOST_BEGINNINGS, _MOST_ENTRIES // max(units.of.shape[0], 1))
        self._short_of_quota = not trial.within_quota(units, self._nobody)

    def run(self) -> Preemption | None:
        if not self._short_of_quota and isinstance(placed := self._trial.placed(self._units, self._nobody), Placed):
            return Preemption((), placed.plan, placed.kept)
        priorities = np.unique(self._units.priority)
        first = self._first_with_room(priorities)
        for priority in priorities[first:].tolist():
            found = self._with(self._units.priority <= priority)
            if found is not None:
                return found
        return None

    def _first_with_room(self, priorities: NDArray[np.int64]) -> int:
        """Return the place of the lowest priority up to which all victims together leave room, by the columns."""
        low, high = 0, priorities.shape[0]
        while low < high:
            middle = (low + high) // 2
            everybody = self._units.priority <= priorities[middle]
            if self._trial.holds(Clearing(self._units, self._trial.free, everybody)):
                high = middle
            else:
                low = middle + 1
        return low

    def _with(self, usable: NDArray[np.bool_]) -> Preemption | None:
        """Search among the pieces that are usable, (units,)."""
        trial, units = self._trial, self._units
        self._refused.clear()
        if self._short_of_quota and not trial.within_quota(units, usable):
            return None
        chooser = Chooser(trial, units, usable, None)
        if not trial.within_budgets(units, usable):
            usable = self._evictable(usable)
            chooser = Chooser(trial, units, usable, self._permits)
        few = choices(
            units,
            usable,
            trial.free,
            trial.demands,
            tree=trial.tree,
            level=trial.level,
            reachable=trial.reachable,
        )
        if few is not None:
            tried = 0
            for chosen in few:
                if not self._allowed(chosen):
                    continue
                if isinstance(placed := trial.placed(units, chosen), Placed):
                    return self._result(chosen, placed)
                tried += 1
                if tried == _MOST_TRIALS:
                    break
            else:
                return None
        return self._among_many(chooser, usable)

    def _evictable(self, usable: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return (units,) which pieces the budgets allow to evict by themselves, cores with their extras."""
        units, trial = self._units, self._trial
        evictable = self._nobody.copy()
        for unit in np.flatnonzero(usable).tolist():
            alone = self._nobody.copy()
            alone[[unit, *units.extras(unit)]] = True
            evictable[unit] = trial.within_budgets(units, alone)
        return evictable

    def _permits(self, chosen: NDArray[np.bool_], going: list[int]) -> bool:
        together = chosen.copy()
        for unit in going:
            together[[unit, *self._units.extras(unit)]] = True
        allowed = self._trial.within_budgets(self._units, together)
        if not allowed:
            self._refused.update(going)
        return allowed

    def _allowed(self, chosen: NDArray[np.bool_]) -> bool:
        trial, units = self._trial, self._units
        within = not self._short_of_quota or trial.within_quota(units, chosen)
        return within and trial.within_budgets(units, chosen)

    def _among_many(self, chooser: Chooser, usable: NDArray[np.bool_]) -> Preemption | None:
        """Plan what was chosen, the cheapest first; what only planning can judge is compared once that is done."""
        found: list[tuple[Cost, Preemption]] = []
        options = sorted(self._options(chooser, usable), key=lambda option: option.cost)
        for choice in options[:_MOST_CHOICES]:
            placed = self._trial.placed(self._units, choice.chosen)
            if isinstance(placed, Placed):
                found += self._finish(choice.chosen, placed)
            else:
                found += self._with_more(chooser, choice, placed.needed - placed.fits)
            if len(found) >= (1 if self._trial.plain else _MOST_COMPARED):
                break
        if not found:
            found = self._last_resort(usable)
        return min(found, key=lambda each: each[0])[1] if found else None

    def _options(self, chooser: Chooser, usable: NDArray[np.bool_]) -> Iterator[Choice]:
        """Yield choices that make room by the columns, within quota and budgets."""
        if not self._short_of_quota:
            yield from (each for each in chooser.choices(self._nobody) if self._allowed(each.chosen))
            for start in self._beginnings():
                for choice in chooser.choices(start)[:_MOST_EXTENDED]:
                    if self._trial.within_budgets(self._units, choice.chosen):
                        yield self._pruned(choice.chosen, choice)
            return
        for start in (self._nobody, *for_quota(self._trial, self._units, usable, self._nobody)):
            for choice in chooser.choices(start)[:_MOST_EXTENDED]:
                enough = self._trial.within_quota(self._units, choice.chosen)
                more = (choice.chosen,) if enough else for_quota(self._trial, self._units, usable, choice.chosen)
                for chosen in more:
                    if self._trial.within_budgets(self._units, chosen):
                        yield self._pruned(chosen, choice)

    def _beginnings(self) -> list[NDArray[np.bool_]]:
        """Return choices to begin with: pieces that the budgets refused only beside others that had been chosen."""
        beginnings = []
        pieces = sorted(self._refused, key=lambda piece: (float(self._units.weight[piece]), piece))
        for piece in pieces[: self._beginnings_left]:
            alone = self._nobody.copy()
            alone[[piece, *self._units.extras(piece)]] = True
            beginnings.append(alone)
        self._beginnings_left -= len(beginnings)
        return beginnings

    def _pruned(self, chosen: NDArray[np.bool_], choice: Choice) -> Choice:
        """Return what is left of `chosen`, which contains a choice, without what neither room nor quota needs."""
        if self._trial.plain:
            chosen = prune(self._units, self._trial.free, chosen, self._suffices_by_columns)
        return Choice(self._units.cost(chosen), chosen, choice.mask)

    def _suffices_by_columns(self, clearing: Clearing) -> bool:
        within = not self._short_of_quota or self._trial.within_quota(self._units, clearing.chosen)
        return within and self._trial.holds(clearing)

    def _suffices(self, clearing: Clearing) -> bool:
        return self._suffices_by_columns(clearing) and self._trial.fits(self._units, clearing.chosen)

    def _with_more(self, chooser: Chooser, choice: Choice, short: int) -> list[tuple[Cost, Preemption]]:
        """Evict more where the columns promise more than GPUs, zones or the rest of the topology keep."""
        for step in range(_MOST_STEPS):
            chosen = chooser.more(choice, short << step)
            if chosen is None:
                break
            if self._allowed(chosen) and isinstance(placed := self._trial.placed(self._units, chosen), Placed):
                return self._finish(chosen, placed, anew=True)
        return []

    def _last_resort(self, usable: NDArray[np.bool_]) -> list[tuple[Cost, Preemption]]:
        """Evict everybody, see where the gang goes, and spare whoever is not in its way."""
        trial, units = self._trial, self._units
        placed = trial.placed(units, usable)
        if not isinstance(placed, Placed):
            return []
        rows = np.flatnonzero(placed.kept.any(axis=0))
        chosen = self._nobody.copy()
        chosen[units.of[np.isin(units.rows, rows)]] = True
        chosen &= usable
        for core in np.flatnonzero(chosen & units.core).tolist():
            chosen[units.extras(core)] = True
        for start in (chosen, usable):
            if self._suffices(Clearing(units, trial.free, start)):
                return self._finish(start, placed, anew=True)
        return []

    def _finish(
        self, chosen: NDArray[np.bool_], placed: Placed, *, anew: bool = False
    ) -> list[tuple[Cost, Preemption]]:
        """Return the result, what is needless left out of it, with its cost; nothing if the budgets refuse it."""
        trial, units = self._trial, self._units
        if anew or not trial.plain:
            chosen = prune(units, trial.free, chosen, self._suffices)
            after = trial.placed(units, chosen)
            if not isinstance(after, Placed):
                return []
            placed = after
        allowed = trial.within_budgets(units, chosen)
        return [(units.cost(chosen), self._result(chosen, placed))] if allowed else []

    def _result(self, chosen: NDArray[np.bool_], placed: Placed) -> Preemption:
        return Preemption(self._units.evictions(chosen), placed.plan, placed.kept)
