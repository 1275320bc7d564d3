"""Find the cheapest evictions that make a gang fit: lowest priorities, least GPU-time lost, fewest gangs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extender.eviction.search.choosing import BudgetCheck, Chooser, RightsCheck, Trial, VictimChoice
from extender.eviction.search.room import Clearing, choices, prune
from extender.eviction.search.units import Cost, Units, Victim, VictimEviction, lost_in_turn
from extender.judge import Case
from extender.placement.plan import Plan, Shortfall
from extender.queues.sharing import Option

__all__ = ["BudgetCheck", "FoundPreemption", "VictimEviction", "search"]

#: Plans that are made at most for one choice after the other where only a few pieces may be evicted.
_MOST_TRIALS = 64

#: Choices that are planned, and how often each is given more room if its plan fails.
_MOST_CHOICES, _MOST_STEPS = 8, 4

#: Choices that are looked at if the quota wants more than room, and that are compared if only planning can judge them.
_MOST_EXTENDED, _MOST_COMPARED = 2, 2


#: Pieces that one search starts from because the budgets refused them beside others. Each costs a search of its own,
#: so there are fewer where pods of many gangs are on many nodes.
_MOST_BEGINNINGS, _MOST_ENTRIES = 16, 4_000


#: Pieces of which each step minds what the queues still owe: that costs as much as all steps before it together. With
#: more it is asked when a choice is complete.
_MOST_WATCHED = 64


@dataclass(frozen=True, slots=True)
class FoundPreemption:
    """The evictions, the plan for the gang after them, and what the plan takes: (resources, rows)."""

    evictions: tuple[VictimEviction, ...]
    plan: Plan
    kept: NDArray[np.int64]


# Example. The nodes and gangs of the example in `cover.py`; one pod of 8 GPUs waits. Choices that make room, by `Cost`:
#
#   choice           priority   lost (GPU s)   gangs   pods
#   wide                    0           1600       1      2     chosen: as much is lost, by fewer gangs
#   half + other            0           1600       2      2
#   wide + half             0           2200       2      3     not minimal: half is not needed
#   long                    0           4800       1      1
#
# If wide had priority 5, half and other would go: the priority counts before what is lost, and pieces of priority 0
# are searched by themselves first. If a budget allowed no pod of wide, the same choice would be found. There are 4
# pieces, so `few` lists all 16 choices in this order; with more than 12 `Chooser` and `Cover` look for good ones.
def search(  # noqa: PLR0913, PLR0917 - whose evictions, for whom, and by which rules
    case: Case,
    option: Option,
    victims: Sequence[Victim],
    budgets: BudgetCheck,
    leaving: Sequence[str] = (),
    rights: RightsCheck | None = None,
) -> FoundPreemption | None:
    """Find the cheapest evictions after which the judge places a gang in one flavor; None if there are none.

    The case is as before afterwards. Any of the `victims` may be evicted, by rank and queue, and together as far as
    `rights` say; pods with the UIDs `leaving` leave anyway. None goes if those whose turn is before are enough. Of the
    others compared are the highest priority that loses pods, the GPU-time lost with gangs that go whole and with those
    that they would have evicted in turn, their number,
    then the GPU-time of extras that go alone (`Cost`). No eviction of the result can be left out. The result has no
    evictions if the gang is placed without any. Deterministic for equal input, whatever the order of the victims.
    """
    with case.clearing(option, leaving) as there:
        trial = Trial(case, option, there, budgets, leaving, rights)
        if not trial.possible:
            return None
        ordered = sorted(victims, key=lambda victim: (victim.priority, victim.name, victim.uid))
        turns = None if rights is None else rights.turns(ordered)
        in_turn = lost_in_turn(ordered, trial.has_room_beside)
        return _VictimSearch(trial, Units(ordered, there.table, trial.columns, turns, in_turn)).run()


class _VictimSearch:
    def __init__(self, trial: Trial, units: Units) -> None:
        self._trial = trial
        self._units = units
        self._none: NDArray[np.bool_] = np.zeros(len(units), dtype=np.bool_)
        self._refused: set[int] = set()
        self._beginnings_left = min(_MOST_BEGINNINGS, _MOST_ENTRIES // max(units.of.shape[0], 1))
        self._short_of_quota = not trial.within_quota(units, self._none)
        self._restricted = False
        self._many = len(units) > _MOST_WATCHED

    def run(self) -> FoundPreemption | None:
        trial, units, none = self._trial, self._units, self._none
        if not self._short_of_quota and trial.holds(Clearing(units, trial.free)):
            placed = trial.placed(units, none)
            if isinstance(placed, Plan):
                return self._result(none, placed)
        turns = np.unique(self._units.turn)
        low, high = self._first_with_room(turns), turns.shape[0] - 1
        if low > high:
            return None
        found = self._with(self._units.turn <= turns[low])
        if found is not None or low == high:
            return found
        found = self._with(self._units.turn <= turns[high])
        while found is not None and high - low > 1:
            middle = (low + high) // 2
            sooner = self._with(self._units.turn <= turns[middle])
            if sooner is None:
                low = middle
            else:
                found, high = sooner, middle
        return found

    def _first_with_room(self, turns: NDArray[np.int64]) -> int:
        """Return the place of the first turn up to which all victims together leave quota, and room by the columns."""
        trial, units = self._trial, self._units
        low, high = 0, turns.shape[0]
        while low < high:
            middle = (low + high) // 2
            everything = units.turn <= turns[middle]
            enough = not self._short_of_quota or trial.within_quota(units, everything)
            if enough and trial.holds(Clearing(units, trial.free, everything)):
                high = middle
            else:
                low = middle + 1
        return low

    def _with(self, usable: NDArray[np.bool_]) -> FoundPreemption | None:
        """Search among the pieces that are usable, (units,)."""
        trial, units = self._trial, self._units
        self._refused.clear()
        if self._short_of_quota and not trial.within_quota(units, usable):
            return None
        self._restricted = trial.rights_matter(units, usable)
        chooser = Chooser(trial, units, usable, None)
        if not self._is_permitted(usable):
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
                if isinstance(placed := trial.placed(units, chosen), Plan):
                    return self._result(chosen, placed)
                tried += 1
                if tried == _MOST_TRIALS:
                    break
            else:
                return None
        return self._among_many(chooser, usable)

    def _evictable(self, usable: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return (units,) which pieces may be evicted by themselves, cores with their extras."""
        units = self._units
        evictable = self._none.copy()
        for unit in np.flatnonzero(usable).tolist():
            alone = self._none.copy()
            alone[[unit, *units.extras(unit)]] = True
            evictable[unit] = self._is_permitted(alone)
        return evictable

    def _permits(self, chosen: NDArray[np.bool_], going: list[int]) -> bool:
        together = chosen.copy()
        for unit in going:
            together[[unit, *self._units.extras(unit)]] = True
        allowed = self._is_permitted(together)
        if not allowed:
            self._refused.update(going)
        return allowed

    def _is_permitted(self, chosen: NDArray[np.bool_]) -> bool:
        """Tell whether budgets and debts allow pieces to go together. Fewer of them never turn a yes into a no."""
        trial, units = self._trial, self._units
        owed = not self._restricted or self._many or trial.is_owed(units, chosen)
        return owed and trial.within_budgets(units, chosen)

    def _is_rightful(self, chosen: NDArray[np.bool_]) -> bool:
        """Tell whether quota allows the gang once the pieces have left, and the gang has a right to them."""
        trial, units = self._trial, self._units
        within = not self._short_of_quota or trial.within_quota(units, chosen)
        return within and (not self._restricted or trial.is_rightful(units, chosen))

    def _allowed(self, chosen: NDArray[np.bool_]) -> bool:
        return self._is_rightful(chosen) and self._trial.within_budgets(self._units, chosen)

    def _among_many(self, chooser: Chooser, usable: NDArray[np.bool_]) -> FoundPreemption | None:
        """Plan what was chosen, the cheapest first; what only planning can judge is compared once that is done."""
        found: list[tuple[Cost, FoundPreemption]] = []
        options = sorted(self._options(chooser, usable), key=lambda option: option.cost)
        for choice in options[:_MOST_CHOICES]:
            found += self._planned(chooser, choice)
            if len(found) >= (1 if self._trial.plain else _MOST_COMPARED):
                break
        if not found:
            found = self._last_resort(usable)
        return min(found, key=lambda each: each[0])[1] if found else None

    def _planned(self, chooser: Chooser, choice: VictimChoice) -> list[tuple[Cost, FoundPreemption]]:
        """Plan a choice: first without what by the columns is needless, which saves planning without each of it."""
        trial, units = self._trial, self._units
        if trial.loose and not trial.plain:
            lean = prune(units, trial.free, choice.chosen, self._suffices_by_columns)
            if isinstance(placed := trial.placed(units, lean), Plan):
                return self._allowed_result(lean, placed)
        placed = trial.placed(units, choice.chosen)
        if isinstance(placed, Plan):
            return self._finish(choice.chosen, placed)
        short = placed.needed - placed.fits if isinstance(placed, Shortfall) else 1
        return self._with_more(chooser, choice, short)

    def _options(self, chooser: Chooser, usable: NDArray[np.bool_]) -> Iterator[VictimChoice]:
        """Yield choices that make room by the columns, within quota and budgets."""
        if not (self._short_of_quota or self._restricted):
            yield from (each for each in chooser.choices(self._none) if self._allowed(each.chosen))
            for start in self._beginnings():
                for choice in chooser.choices(start)[:_MOST_EXTENDED]:
                    if self._trial.within_budgets(self._units, choice.chosen):
                        yield self._pruned(choice.chosen, choice)
            return
        for start in (self._none, *self._for_quota(usable, self._none)):
            for choice in chooser.choices(start)[:_MOST_EXTENDED]:
                enough = self._is_rightful(choice.chosen)
                for chosen in (choice.chosen,) if enough else self._for_quota(usable, choice.chosen):
                    if self._trial.within_budgets(self._units, chosen):
                        yield self._pruned(chosen, choice)

    def _beginnings(self) -> list[NDArray[np.bool_]]:
        """Return choices to start from: pieces that were refused only beside others that had been chosen."""
        beginnings = []
        pieces = sorted(self._refused, key=lambda piece: (float(self._units.weight[piece]), piece))
        for piece in pieces[: self._beginnings_left]:
            alone = self._none.copy()
            alone[[piece, *self._units.extras(piece)]] = True
            beginnings.append(alone)
        self._beginnings_left -= len(beginnings)
        return beginnings

    def _pruned(self, chosen: NDArray[np.bool_], choice: VictimChoice) -> VictimChoice:
        """Return what is left of `chosen`, which contains a choice, without what neither room nor quota needs."""
        if self._trial.plain:
            chosen = prune(self._units, self._trial.free, chosen, self._suffices_by_columns)
        return VictimChoice(self._units.cost(chosen), chosen, choice.mask)

    def _suffices_by_columns(self, clearing: Clearing) -> bool:
        return self._trial.holds(clearing) and self._is_rightful(clearing.chosen)

    def _suffices(self, clearing: Clearing) -> bool:
        return self._suffices_by_columns(clearing) and self._trial.fits(self._units, clearing.chosen)

    def _with_more(self, chooser: Chooser, choice: VictimChoice, short: int) -> list[tuple[Cost, FoundPreemption]]:
        """Evict more where the columns promise more than GPUs, zones or the rest of the topology keep."""
        for step in range(_MOST_STEPS):
            chosen = chooser.more(choice, short << step)
            if chosen is None:
                break
            if self._allowed(chosen) and isinstance(placed := self._trial.placed(self._units, chosen), Plan):
                return self._finish(chosen, placed, pruned=False)
        return []

    def _last_resort(self, usable: NDArray[np.bool_]) -> list[tuple[Cost, FoundPreemption]]:
        """Evict every piece, see where the gang goes, and spare the pieces that are not in its way."""
        trial, units = self._trial, self._units
        placed = trial.placed(units, usable)
        if not isinstance(placed, Plan):
            return []
        rows = np.flatnonzero(trial.taken_by(placed).any(axis=0))
        chosen = self._none.copy()
        chosen[units.of[np.isin(units.rows, rows)]] = True
        chosen &= usable
        for piece in units.joint[chosen[units.joint]].tolist():
            chosen[units.extras(piece)] = True
        for start in (chosen, usable):
            if self._suffices(Clearing(units, trial.free, start)):
                return self._finish(start, placed, pruned=False)
        return []

    def _finish(
        self, chosen: NDArray[np.bool_], placed: Plan, *, pruned: bool = True
    ) -> list[tuple[Cost, FoundPreemption]]:
        """Return the minimal result with its cost; nothing if the budgets refuse it."""
        trial, units = self._trial, self._units
        if not pruned or not trial.plain:
            chosen = prune(units, trial.free, chosen, self._suffices)
            after = trial.placed(units, chosen)
            if not isinstance(after, Plan):
                return []
            placed = after
        return self._allowed_result(chosen, placed)

    def _allowed_result(self, chosen: NDArray[np.bool_], placed: Plan) -> list[tuple[Cost, FoundPreemption]]:
        allowed = self._trial.within_budgets(self._units, chosen)
        return [(self._units.cost(chosen), self._result(chosen, placed))] if allowed else []

    def _result(self, chosen: NDArray[np.bool_], placed: Plan) -> FoundPreemption:
        return FoundPreemption(self._units.evictions(chosen), placed, self._trial.taken_by(placed))

    def _for_quota(self, usable: NDArray[np.bool_], start: NDArray[np.bool_]) -> Iterator[NDArray[np.bool_]]:
        """Yield choices with which the gang is within its quota, each `start` and what else is needed; (units,).

        What a quota counts is not known here, so pieces are added one after the other until it says yes, the cheapest
        first, and once more those first whose pods are the cheapest; then what did not help is left out.
        """
        units = self._units
        pieces = np.flatnonzero(usable & ~start)
        seen: set[bytes] = set()
        for price in (units.weight[pieces], units.weight[pieces] / np.maximum(units.sizes[pieces], 1)):
            order = pieces[np.argsort(price, kind="stable")]
            last = self._prefix(start, order)
            if last is None:
                return
            chosen = prune(
                units,
                self._trial.free,
                _with(units, start, order[:last]),
                lambda clearing: self._is_rightful(clearing.chosen),
                keep=start,
            )
            if chosen.tobytes() not in seen:
                seen.add(chosen.tobytes())
                yield chosen

    def _prefix(self, start: NDArray[np.bool_], order: NDArray[np.intp]) -> int | None:
        """Return how many of the pieces in `order` are needed at least; None if all of them do not do."""
        low, high = 0, 1
        while not self._is_rightful(_with(self._units, start, order[:high])):
            if high >= order.shape[0]:
                return None
            low, high = high, min(2 * high, order.shape[0])
        while high - low > 1:
            middle = (low + high) // 2
            if self._is_rightful(_with(self._units, start, order[:middle])):
                high = middle
            else:
                low = middle
        return high


def _with(units: Units, start: NDArray[np.bool_], pieces: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return a choice with pieces more, the extras of cores among them."""
    chosen = start.copy()
    for piece in pieces.tolist():
        chosen[[piece, *units.extras(piece)]] = True
    return chosen
