"""Which pieces to evict: domain by domain, the cheapest that makes room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from extender.preemption.bounds import bounds
from extender.preemption.cover import Cover, Permit
from extender.preemption.few import choices
from extender.preemption.pruning import prune
from extender.preemption.room import Clearing, Demand
from extender.preemption.trial import Trial
from extender.preemption.units import Cost, Units

#: Domains of one level that are tried where none is required: nowhere is it cheaper than in the whole cluster, but what
#: is found there may be.
_MOST_HINTS = 2

#: Domains tried for each part of a gang that has to share one.
_MOST_PLACES = 3

#: Pieces of a choice that are tried to do without.
_MOST_EXCHANGES = 3

#: Choices that are exchanged, and domains of them in which all choices of a few pieces are looked at.
_MOST_IMPROVED = 2


@dataclass(frozen=True, slots=True)
class Choice:
    """Pieces that make room, by the columns, in the nodes of `mask`, (rows,); and what they cost."""

    cost: Cost
    chosen: NDArray[np.bool_]
    mask: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Means:
    """How to make room: in which nodes, (rows,), with which pieces, (units,), and how their cost is shared out."""

    mask: NDArray[np.bool_]
    usable: NDArray[np.bool_]
    apart: bool = False


class Chooser:
    """Choose among the pieces that may be evicted."""

    def __init__(self, trial: Trial, units: Units, usable: NDArray[np.bool_], permit: Permit | None) -> None:
        """Choose from `usable`, (units,), such that `permit` allows each step; None allows all."""
        self._trial = trial
        self._units = units
        self._usable = usable
        self._permit = permit

    def choices(self, start: NDArray[np.bool_]) -> list[Choice]:
        """Return choices that contain `start`, the cheapest first; none that leaves out what may be left out of it."""
        found: list[Choice] = []
        least = np.inf
        kinds = {
            (level, tuple((demand.amounts.tobytes(), demand.pods) for demand in demands))
            for level, demands in self._trial.parts
        }
        several = len(kinds) > 1  # which of them comes first can matter
        ways = [(False, False), (True, False), *([(False, True)] if several else [])]
        for bound, mask in self._scopes(start):
            if bound >= least:
                break
            for apart, backwards in ways:
                choice = self._cover(start, _Means(mask, self._usable, apart), backwards=backwards)
                if choice is not None:
                    found.append(choice)
                    least = min(least, self._units.price(choice.chosen))
        distinct = _distinct(found)
        if self._trial.plain:
            improved = (self._improve(start, choice) for choice in distinct[:_MOST_IMPROVED])
            distinct = _distinct([*improved, *distinct])
        return distinct

    def more(self, choice: Choice, extra: int) -> NDArray[np.bool_] | None:
        """Return a choice with room for `extra` pods more, None if that is not to be had there."""
        clearing = Clearing(self._units, self._trial.free, choice.chosen)
        demand = self._trial.demands[0]
        cover = Cover(clearing, demand, choice.mask, self._usable, apart=False, permit=self._permit)
        return clearing.chosen if cover.run(demand.pods + extra) else None

    def _scopes(self, start: NDArray[np.bool_]) -> Iterator[tuple[float, NDArray[np.bool_]]]:
        """Yield domains and the least price of room there: those of the required level, the cheapest first.

        Where none is required, the whole cluster comes first, then some domains of every level.
        """
        trial, tree = self._trial, self._trial.tree
        clearing = Clearing(self._units, trial.free, start)
        levels, most = [trial.level], tree.domains.shape[1]
        if trial.level < 0:
            yield 0.0, trial.reachable
            levels, most = list(range(tree.depth)), _MOST_HINTS
        hints: list[tuple[float, int, int]] = []
        for level in levels:
            path = np.where(trial.reachable, tree.path(level), -1)
            least = bounds(clearing, trial.demands, path, _domains(path), self._usable)
            cheapest = np.argsort(least, kind="stable")[:most].tolist()
            hints += [(float(least[domain]), -level, domain) for domain in cheapest if np.isfinite(least[domain])]
        already = self._units.price(start)
        for bound, level, domain in sorted(hints):
            yield already + bound, trial.reachable & (tree.path(-level) == domain)

    def _cover(self, start: NDArray[np.bool_], means: _Means, *, backwards: bool = False) -> Choice | None:
        """Make room, beginning with `start`, for the last part first if `backwards`; None if that cannot be done."""
        clearing: Clearing | None = Clearing(self._units, self._trial.free, start)
        for level, demands in reversed(self._trial.parts) if backwards else self._trial.parts:
            if clearing is not None:
                clearing = self._cover_part(clearing, level, demands, means)
        if clearing is None:
            return None
        chosen = clearing.chosen
        if self._trial.plain:
            chosen = prune(self._units, self._trial.free, chosen, self._trial.holds, keep=start)
        return Choice(self._units.cost(chosen), chosen, means.mask)

    def _cover_part(
        self, clearing: Clearing, level: int, demands: tuple[Demand, ...], means: _Means
    ) -> Clearing | None:
        """Make room for one part, in one domain of `level`; None if that cannot be done."""
        if level < 0 or level == self._trial.level:
            return self._cover_all(clearing.copy(), demands, means)
        path = np.where(means.mask, self._trial.tree.path(level), -1)
        least = bounds(clearing, demands, path, _domains(path), means.usable)
        best: tuple[float, Clearing] | None = None
        for domain in np.argsort(least, kind="stable")[:_MOST_PLACES].tolist():
            if best is not None and least[domain] + self._units.price(clearing.chosen) >= best[0]:
                break
            tried = self._cover_all(clearing.copy(), demands, replace(means, mask=path == domain))
            if tried is not None:
                price = self._units.price(tried.chosen)
                best = (price, tried) if best is None or price < best[0] else best
        return None if best is None else best[1]

    def _cover_all(self, clearing: Clearing, demands: tuple[Demand, ...], means: _Means) -> Clearing | None:
        """Make room for all demands and take it; None if that cannot be done."""
        alone = len(self._trial.parts) == len(demands) == 1
        for demand in demands:
            cover = Cover(clearing, demand, means.mask, means.usable, apart=means.apart, permit=self._permit)
            if not cover.run(demand.pods):
                return None
            if not alone:
                cover.settle(demand.pods)
        return clearing

    def _improve(self, start: NDArray[np.bool_], choice: Choice) -> Choice:
        """Return the best of a choice, those without one of its dearest pieces, and all of a few pieces there."""
        best = choice
        if self._permit is None and not start.any():
            best = min(best, self._exact(choice.mask) or best, key=lambda each: each.cost)
        for _ in range(_MOST_EXCHANGES):
            pieces = np.flatnonzero(best.chosen & ~start)
            dearest = pieces[np.argsort(-self._units.weight[pieces], kind="stable")][:_MOST_EXCHANGES].tolist()
            for piece in dearest:
                usable = self._usable.copy()
                usable[piece] = False
                kept = best.chosen.copy()
                kept[[piece, *self._units.extras(piece)]] = False
                other = self._exchange(kept | start, _Means(choice.mask, usable))
                if other is not None and other.cost < best.cost:
                    best = other
                    break
            else:
                break
        return best

    def _exchange(self, kept: NDArray[np.bool_], means: _Means) -> Choice | None:
        """Return a choice that begins with what is kept of another; what turns out to be needless is left out."""
        clearing = self._cover_all(Clearing(self._units, self._trial.free, kept), self._trial.demands, means)
        if clearing is None:
            return None
        chosen = prune(self._units, self._trial.free, clearing.chosen, self._trial.holds)
        return Choice(self._units.cost(chosen), chosen, means.mask)

    def _exact(self, mask: NDArray[np.bool_]) -> Choice | None:
        """Return the cheapest choice of pieces that have pods in the nodes of `mask`, if those are few."""
        trial, units = self._trial, self._units
        there = np.zeros(len(units), dtype=np.bool_)
        there[units.of[mask[units.rows]]] = True
        there &= self._usable
        for core in np.flatnonzero(there & units.core).tolist():
            there[units.extras(core)] = True
        found = choices(
            units,
            there,
            trial.free,
            trial.demands,
            tree=trial.tree,
            level=trial.level,
            reachable=trial.reachable & mask,
        )
        chosen = None if found is None else next(found, None)
        return None if chosen is None else Choice(units.cost(chosen), chosen, mask)


def _distinct(found: Iterable[Choice]) -> list[Choice]:
    """Return the choices in the order of their cost, each once."""
    return sorted({choice.chosen.tobytes(): choice for choice in found}.values(), key=lambda choice: choice.cost)


def _domains(path: NDArray[np.int64]) -> int:
    return int(path.max(initial=-1)) + 1
