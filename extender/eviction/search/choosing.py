"""Which pieces to evict: domain by domain, the cheapest that makes room, tried against placement, quota and budgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from extender.cluster.table import Vector
from extender.cluster.tree import Tree
from extender.eviction.search.room import (
    Clearing,
    ColumnRequest,
    Cover,
    Permit,
    VictimRoomRequest,
    bounds,
    choices,
    prune,
)
from extender.eviction.search.units import Cost, Units, Victim, VictimEviction
from extender.judge import Case, fits, place
from extender.objects.pod import Pod, Shape
from extender.objects.reason import Wait
from extender.placement.candidates import ScopeDomains, group_by_shape
from extender.placement.capacityview import Capacity, CapacityView
from extender.placement.plan import Plan, Shortfall, parts_of, sequence_of, shape_orders
from extender.queues.sharing import Option


class BudgetCheck(Protocol):
    """What PodDisruptionBudgets say. Fewer evictions never turn a yes into a no."""

    def allows(self, pods: Sequence[Pod]) -> bool:
        """Tell whether all of these pods may be evicted together."""


class RightsCheck(Protocol):
    """What the queues of victims owe. Fewer evictions never turn a yes of `allow` into a no."""

    def turns(self, victims: Iterable[Victim]) -> Mapping[str, int]:
        """Return when it is the turn of each piece, by the UID of its first pod: extras before their core."""

    def matter(self, evictions: Sequence[VictimEviction]) -> bool:
        """Tell whether it matters which of these are made."""

    def allow(self, evictions: Sequence[VictimEviction]) -> bool:
        """Tell whether the queues owe as much as these take."""

    def entitle(self, evictions: Sequence[VictimEviction]) -> bool:
        """Tell whether there is a right to all of these together."""


class _Counted(NamedTuple):
    """Something of which so much is `wanted`: what rows have room for, and before any eviction each row and domain."""

    caps: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]
    wanted: int
    before: NDArray[np.int64]
    sums: NDArray[np.int64]


class Trial:
    """Try choices of pieces: in the asked columns alone, which is fast, and by asking the judge, which is the truth.

    Attributes:
        demands: what is asked for, by shape, the most demanding first.
        parts: the same, taken apart into what has to share a domain of some level, -1 for any.
        possible: whether there is any sense in trying.
        columns: the columns of the table that are asked for.
        plain: whether columns tell the truth, but for GPUs and zones: pods of one shape that are not counted off.
        loose: whether the pods need share no domain but the required one.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - on what, and by which rules
        self,
        case: Case,
        option: Option,
        view: CapacityView,
        budgets: BudgetCheck,
        leaving: Sequence[str],
        rights: RightsCheck | None = None,
    ) -> None:
        """Try on `view`, which is as it was after each trial; there, pods with the UIDs `leaving` have left already.

        Without `rights` any queue may be taken from.
        """
        self._case = case
        self._option = option
        self._view = view
        self._leaving = leaving
        self._budgets = budgets
        self._rights = rights
        pod_set, eligible = case.pod_set, case.eligible(view)
        self._candidates = view.candidates(pod_set, eligible)
        self._terms = pod_set.demand.terms
        groups, table = group_by_shape(pod_set.pods), view.table
        demanding = next(shape_orders(groups, table, eligible))
        self._groups = {shape: groups[shape] for shape in demanding}
        vectors = {shape: table.vector(shape.requests) for shape in self._groups}
        self.possible = not any(vector.unknown for vector in vectors.values())
        self.columns: NDArray[np.intp] = np.unique(np.concatenate([v.columns for v in vectors.values()]))
        asked = {shape: self._amounts(vector) for shape, vector in vectors.items()}
        self.demands = tuple(
            VictimRoomRequest(asked[shape], eligible(shape), len(members)) for shape, members in self._groups.items()
        )
        topology = self._terms.topology
        self.parts: tuple[tuple[int, tuple[VictimRoomRequest, ...]], ...] = tuple(
            (
                part.level,
                tuple(
                    VictimRoomRequest(asked[shape], eligible(shape), part.pods[shape])
                    for shape in demanding
                    if shape in part.pods
                ),
            )
            for part in parts_of(sequence_of(pod_set.pods), topology, view.tree)
        )
        roles = any(group.required for group in topology.role_groups)
        self.plain = len(self._groups) == 1 and not topology.slices and not roles
        self.loose = len(self.parts) == 1 and self.parts[0][0] < 0
        self._level = view.tree.levels.find(topology.required) if topology.required else -1
        if self._level is None:
            self.possible = False
        self._relief: tuple[Units, NDArray[np.int64]] | None = None
        self._within: dict[bytes, bool] = {}
        self._rooms: dict[Shape, int] = {}

    def _amounts(self, vector: Vector) -> NDArray[np.int64]:
        asked = np.zeros(self.columns.shape[0], dtype=np.int64)
        asked[np.searchsorted(self.columns, vector.columns)] = vector.amounts
        return asked

    @property
    def tree(self) -> Tree:
        """Return the tree of domains."""
        return self._view.tree

    @property
    def level(self) -> int:
        """Return the level of which one domain has to hold all, -1 for none."""
        return -1 if self._level is None else self._level

    @cached_property
    def free(self) -> NDArray[np.int64]:
        """Return (columns, rows) what is free of the columns that are asked for."""
        return self._view.snapshot(Capacity.FREE).free[self.columns]

    @cached_property
    def reachable(self) -> NDArray[np.bool_]:
        """Return (rows,) the nodes that can be used: in a domain of the required level, beside members there are."""
        domains = ScopeDomains(self._view.snapshot(Capacity.FREE), self._candidates, self._terms)
        mask = domains.reachable(self.level, self._candidates.settled)
        return mask & (self.tree.path(self.level) >= 0) if self.level >= 0 else mask

    @cached_property
    def _counted(self) -> tuple[_Counted, ...]:
        """Return how many pods of each demand there is room for, and what pods of several shapes can use together."""
        rows, counted = np.flatnonzero(self.reachable), []
        asked = [(demand.caps, demand.pods) for demand in self.demands]
        several = np.sum([demand.amounts > 0 for demand in self.demands], axis=0) > 1
        together = (ColumnRequest(self.demands, column) for column in np.flatnonzero(several).tolist())
        for caps, wanted in (*asked, *((each.caps, each.wanted) for each in together)):
            before = np.zeros(self.reachable.shape[0], dtype=np.int64)
            before[rows] = caps(self.free[:, rows], rows)
            counted.append(_Counted(caps, wanted, before, self.tree.sums(self.level, before)))
        return tuple(counted)

    @cached_property
    def _path(self) -> NDArray[np.int64]:
        return self.tree.path(self.level) if self.level >= 0 else np.zeros(self.reachable.shape[0], dtype=np.int64)

    def has_room_beside(self, victim: Victim) -> bool:
        """Tell by the columns whether what a victim needs has room where the gang has none; each shape by itself."""
        return all(self._beside(shape) >= pods for shape, pods in Counter(pod.shape for pod in victim.core).items())

    def _beside(self, shape: Shape) -> int:
        """Return how many pods of a shape have room on nodes that are of no use to the gang as they are."""
        if shape not in self._rooms:
            vector, free = self._view.table.vector(shape.requests), self._view.snapshot(Capacity.FREE).free
            useless = np.ones(self.reachable.shape[0], dtype=np.bool_)
            for demand in self._counted[: len(self.demands)]:
                useless &= demand.before == 0
            rows = np.flatnonzero(useless & self._view.admitted(shape))
            each = free[vector.columns][:, rows] // np.maximum(vector.amounts, 1)[:, None]
            self._rooms[shape] = 0 if vector.unknown else int(np.maximum(each.min(axis=0, initial=2**31), 0).sum())
        return self._rooms[shape]

    def holds(self, clearing: Clearing) -> bool:
        """Tell by the columns whether some domain has room: never false where planning would succeed."""
        units = clearing.units
        rows = np.unique(units.rows[clearing.chosen[units.of]])  # elsewhere all is as before
        rows = rows[self.reachable[rows]]
        free, path = clearing.free[:, rows], self._path[rows]
        rooms = []
        for caps, wanted, before, sums in self._counted:
            more = sums.copy()
            np.add.at(more, path, caps(free, rows) - before[rows])
            rooms.append(more >= wanted)
        return bool(np.logical_and.reduce(rooms).any())

    def placed(self, units: Units, chosen: NDArray[np.bool_]) -> Plan | Shortfall | Wait:
        """Place the gang as if the pieces had left."""
        with self._view.without(_uids(units, chosen)) as there:
            return place(self._case, there)

    def fits(self, units: Units, chosen: NDArray[np.bool_]) -> bool:
        """Tell whether the gang would be placed once the pieces have left."""
        with self._view.without(_uids(units, chosen)) as there:
            return fits(self._case, self._case.pod_set, there)

    def taken_by(self, plan: Plan) -> NDArray[np.int64]:
        """Return (resources, rows) what a plan takes."""
        return self._view.table.taken_by((plan.nodes[pod.uid], pod.shape) for pod in self._case.pod_set.pods)

    def within_quota(self, units: Units, chosen: NDArray[np.bool_]) -> bool:
        """Tell whether quota allows the gang once the pieces have left. More of them never turn a yes into a no.

        Thousands of choices are asked about, and what they give back together is often the same: it is asked once.
        """
        if not chosen.any():
            return self._asked_quota(units, chosen)
        if self._relief is None or self._relief[0] is not units:
            self._relief = units, self._charged(units)
            self._within.clear()
        key = self._relief[1][chosen].sum(axis=0).tobytes()
        if key not in self._within:
            self._within[key] = self._asked_quota(units, chosen)
        return self._within[key]

    def _asked_quota(self, units: Units, chosen: NDArray[np.bool_]) -> bool:
        offer = self._case.offer(self._option, (*self._leaving, *_uids(units, chosen)))
        return offer.shortage is None and not offer.saved_for

    def _charged(self, units: Units) -> NDArray[np.int64]:
        """Return (units, kinds of quota) what each piece gives back of what any of the queues is limited in."""
        given: list[tuple[int, int, int]] = []
        kinds: dict[tuple[str, str, str], int] = {}
        if (quota := self._case.quota) is not None:
            for unit in range(len(units)):
                for pod in units.pods([unit]):
                    returned = quota.given_back(pod.uid)
                    given += ((unit, kinds.setdefault(kind, len(kinds)), amount) for kind, amount in returned)
        amounts = np.zeros((len(units), len(kinds)), dtype=np.int64)
        for unit, kind, amount in given:
            amounts[unit, kind] += amount
        return amounts

    def within_budgets(self, units: Units, chosen: NDArray[np.bool_]) -> bool:
        """Tell whether the budgets allow to evict the pieces together."""
        return self._budgets.allows(units.pods(np.flatnonzero(chosen).tolist()))

    def rights_matter(self, units: Units, usable: NDArray[np.bool_]) -> bool:
        """Tell whether there is a right to some choices of these pieces only."""
        return self._rights is not None and self._rights.matter(units.evictions(usable))

    def is_owed(self, units: Units, chosen: NDArray[np.bool_]) -> bool:
        """Tell whether the queues owe what the pieces take. Fewer of them never turn a yes into a no."""
        return self._rights is None or self._rights.allow(units.evictions(chosen))

    def is_rightful(self, units: Units, chosen: NDArray[np.bool_]) -> bool:
        """Tell whether there is a right to the pieces together."""
        return self._rights is None or self._rights.entitle(units.evictions(chosen))


def _uids(units: Units, chosen: NDArray[np.bool_]) -> list[str]:
    return [pod.uid for pod in units.pods(np.flatnonzero(chosen).tolist())]


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
class VictimChoice:
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

    def choices(self, start: NDArray[np.bool_]) -> list[VictimChoice]:
        """Return choices that contain `start`, the cheapest first; none that leaves out what may be left out of it."""
        found: list[VictimChoice] = []
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

    def more(self, choice: VictimChoice, extra: int) -> NDArray[np.bool_] | None:
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

    def _cover(self, start: NDArray[np.bool_], means: _Means, *, backwards: bool = False) -> VictimChoice | None:
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
        return VictimChoice(self._units.cost(chosen), chosen, means.mask)

    def _cover_part(
        self, clearing: Clearing, level: int, demands: tuple[VictimRoomRequest, ...], means: _Means
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

    def _cover_all(self, clearing: Clearing, demands: tuple[VictimRoomRequest, ...], means: _Means) -> Clearing | None:
        """Make room for all demands and take it; None if that cannot be done."""
        alone = len(self._trial.parts) == len(demands) == 1
        for demand in demands:
            cover = Cover(clearing, demand, means.mask, means.usable, apart=means.apart, permit=self._permit)
            if not cover.run(demand.pods):
                return None
            if not alone:
                cover.settle(demand.pods)
        return clearing

    def _improve(self, start: NDArray[np.bool_], choice: VictimChoice) -> VictimChoice:
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

    def _exchange(self, kept: NDArray[np.bool_], means: _Means) -> VictimChoice | None:
        """Return a choice that begins with what is kept of another; what turns out to be needless is left out."""
        clearing = self._cover_all(Clearing(self._units, self._trial.free, kept), self._trial.demands, means)
        if clearing is None:
            return None
        chosen = prune(self._units, self._trial.free, clearing.chosen, self._trial.holds)
        return VictimChoice(self._units.cost(chosen), chosen, means.mask)

    def _exact(self, mask: NDArray[np.bool_]) -> VictimChoice | None:
        """Return the cheapest choice of pieces that have pods in the nodes of `mask`, if those are few."""
        trial, units = self._trial, self._units
        there = np.zeros(len(units), dtype=np.bool_)
        there[units.of[mask[units.rows]]] = True
        there &= self._usable
        for piece in units.joint[there[units.joint]].tolist():
            there[units.extras(piece)] = True
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
        return None if chosen is None else VictimChoice(units.cost(chosen), chosen, mask)


def _distinct(found: Iterable[VictimChoice]) -> list[VictimChoice]:
    """Return the choices in the order of their cost, each once."""
    return sorted({choice.chosen.tobytes(): choice for choice in found}.values(), key=lambda choice: choice.cost)


def _domains(path: NDArray[np.int64]) -> int:
    return int(path.max(initial=-1)) + 1
