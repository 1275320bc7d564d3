"""What a domain does for a gang of equal pods, computed from what it consists of: equal domains are equal bags."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import lcm
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.cluster.tree import Tree
from extender.hardware.bandwidth import NO_COMMUNICATION, NOMINAL, STEP
from extender.objects.topology import Objective, PassedPlace, PlaceCost, PlacementGoal, WeighedPlace
from extender.placement.room import IMPOSSIBLE, Unit, UnitQuestion, fold, reach

#: Steps of arithmetic on one domain up to which the least loss is computed exactly; beyond it islands are filled one
#: after the other. 4 million are some 10 ms.
EXACT_WORK = 4_000_000

#: Below every step: any number of pods will do.
ANY_STEP = -1

Bag: TypeAlias = tuple[int, tuple[tuple[int, int], ...], tuple[tuple["Bag", int], ...]]
"""What a domain consists of, for the purpose of counting: only multiples of the first number of pods may go there, to
islands (kind, how many) and to domains that are bags of their own (bag, how many)."""


#: Share of a step of training that is communication, where the gang has the fastest place that there could be for it.
#: Sources: hiding it makes language models up to 1.3 times as fast (Domino, arXiv 2409.15241), that is up to 23 %, on
#: nodes whose network is not the bottleneck; with ranking models it is up to half (Meta, OCP Global Summit 2022).
COMMUNICATION = 0.25

#: What a goal weighs: the work that a gang does not do while it communicates, and what is taken from later gangs, of
#: which not all is missed. 0.7 is the least with which as many whole nodes are left as best fit by count leaves
#: (python -m bench --family fabric --case goals).
_WEIGHTS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        PlacementGoal.BANDWIDTH: (1.0, 0.0),
        PlacementGoal.BALANCED: (1.0, 0.7),
        PlacementGoal.CAPACITY: (0.0, 1.0),
    }
)

#: Costs are in millionths of a GPU, so that sums of them do not depend on their order.
_MILLIONTHS = 1_000_000


class Score(NamedTuple):
    """How good a placement is; less is better.

    Cost is what it takes of the cluster by the weights of the goal, in millionths of a GPU; bandwidth is in 5 % steps,
    negated; loss in GB/s.
    """

    cost: int
    step: int
    loss: int


class Way(NamedTuple):
    """A way to place pods that was compared, within a domain of `level`: its score, or what that is at best (`bound`).

    `gpus` are those on each of two islands.
    """

    bound: bool
    score: Score
    level: int = -1
    gpus: tuple[int, ...] = ()


class Worth:
    """Weigh what a gang does not do for slow collectives against what later ones lose, in GPUs.

    While it communicates a gang of n GPUs does no work: that costs n x `COMMUNICATION` GPUs in the fastest place that
    there could be for it, twice as much at half the bandwidth. What is free of a node is worth as many GPUs to later
    gangs as the bandwidth of its free sets is of that of the whole node: loss in GB/s by GB/s for each GPU.
    """

    def __init__(self, units: Sequence[Unit], gpus: int, goal: str) -> None:
        """Weigh places of a gang of so many GPUs on islands that do what `units` say."""
        work, whole = _WEIGHTS[goal]
        products = {unit.product for unit in units if unit.product is not None}
        fastest = max((product.fastest(max(gpus, 2)) for product in products), default=NOMINAL)
        worth = max((unit.worth for unit in units), default=0.0)
        self._idle = gpus * COMMUNICATION * fastest
        self._whole = worth or 1.0
        self._work = work * self._idle * _MILLIONTHS
        self._talk: dict[int, int] = {NO_COMMUNICATION: 0}
        self.each_lost = round(whole * _MILLIONTHS / worth) if worth else 0

    def talk(self, step: int) -> int:
        """Return what it costs that the gang communicates at a step of bandwidth."""
        known = self._talk.get(step)
        if known is None:
            known = self._talk[step] = round(self._work / STEP**step)
        return known

    def score(self, step: int, loss: int) -> Score:
        """Return the score of a placement: its step of bandwidth, and GB/s that later requests lose."""
        return Score(self.talk(step) + self.each_lost * loss, -step, loss)

    def told(self, score: Score) -> PlaceCost:
        """Return a score in GPUs, where bandwidth is predicted, and whatever the goal counts of it."""
        counted = (score.cost - self.talk(-score.step)) / _MILLIONTHS
        work, lost = self._idle * STEP**score.step, score.loss / self._whole
        return PlaceCost(round(work, 3), round(lost, 3), round(counted, 3))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be placed: so many pods, for a collective over `gpus` GPUs, every k of them within one domain.

    `slices` are (level, k), outermost first. `joined` tells pods that join others of their gang, on other islands.
    """

    pods: int
    gpus: int
    objective: Objective
    slices: tuple[tuple[int, int], ...] = ()
    joined: bool = False

    def multiple(self, level: int) -> int:
        """Return of which number the pods of each domain of a level must be a multiple."""
        return next((size for at, size in self.slices if at == level), 1)


# Example. 3 pods of 4 GPUs; kind 0 is an H100 node with 8 GPUs free, kind 1 one with 4 (their tables: `room.py`).
#
#   rack aa, a node of each kind   Bag (1, ((0, 1), (1, 1)), ())     1: any number of pods, no slices
#   rack ab, two nodes of kind 0   Bag (1, ((0, 2),), ())
#
# `pair`, two islands: 2 + 1 pods. Kind 0 allows step 119 with 1 pod and 126 with 2, kind 1 allows 119 with 1; the
# lower one counts. aa loses 2665 + 1095, ab 2665 + 1570: Score(11.3, -119, 3760) and Score(12.3, -119, 4235): step 119
# costs 3.4 GPUs, and the losses 7.9 and 8.9, which are 0.7 of them by 333 GB/s for each GPU of a whole node.
# `many`, three islands or more: what enters an island leaves it again, so 1 pod allows 107 only. Bisection over the
# steps {107, 121} finds that 121 has no place for 3 pods (it needs 2 on each island: sums 0, 2), and 107 has (0, 1, 2,
# 3). Then `fold` gives the least loss at step 107: Score(14.0, -107, 3760) for aa, which is worse than the pair.
class Bags:
    """Score bags of islands for one gang; exact, and remembered.

    Attributes:
        units: what islands of each kind do.
        wanted: what is to be placed.
        worth: what bandwidth and what is left whole are worth.
        compared: by step, the best of the ways that were compared.
        node_multiple: of which number the pods of each node must be a multiple.
    """

    def __init__(self, units: Sequence[Unit], wanted: Wanted, tree: Tree) -> None:
        self.units = units
        self.wanted = wanted
        self.worth = Worth(units, wanted.gpus, tree.goal)
        self.compared: dict[int, Way] = {}
        self.node_multiple = wanted.multiple(tree.depth)
        self._tree = tree
        self._hulls: dict[tuple[int, int, int, int], list[tuple[float, int]]] = {}
        self._costs: dict[tuple[Bag, int, int], NDArray[np.int64]] = {}
        self._steps: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self._shares: dict[tuple[int, int, int, int], list[int]] = {}
        self._splits: dict[tuple[tuple[int, int], tuple[int, int], int, int], Score | None] = {}

    def clique(self, bag: Bag, kind: int, slowest: int = ANY_STEP) -> tuple[Score, int] | None:
        """Score nodes of one NVLink domain: however the pods lie there, they are as fast."""
        step = self.steps_of(kind, 1, self._tree.depth)[self.wanted.pods]
        loss = int(self._least_loss(bag, 1, self._tree.depth, ANY_STEP)[self.wanted.pods])
        if loss >= IMPOSSIBLE or step < slowest:
            return None
        return (self.worth.score(step, loss + self.units[kind].loss[0]), 1)

    def many(self, bag: Bag, level: int, best: Score | None, slowest: int = ANY_STEP) -> tuple[Score, int] | None:
        """Score any number of islands, the highest step first: each limits it, and the fewer may be used the higher.

        A lower step, down to `slowest`, is looked at as long as it may be worth it: it may lose less, though never less
        than the floor. None if that cannot be better than `best`.
        """
        islands = 3
        reached = (step for kind in _kinds(bag) for step in self.steps_of(kind, islands, level)[1:])
        steps = sorted(set(reached))
        floor = self._floor(bag, islands, level, ANY_STEP)
        lowest = bisect_left(steps, slowest)
        if best is not None:
            worth_it = bisect_left(steps, -best.cost, key=lambda step: -self.worth.score(step, floor).cost)
            lowest = max(lowest, worth_it)
        if lowest == len(steps) or (
            (best is not None or lowest) and not self._reaches(bag, islands, level, steps[lowest])
        ):
            return None
        low, high = lowest, len(steps) - 1
        while low < high:  # the highest step at which all pods have a place
            middle = (low + high + 1) // 2
            if self._reaches(bag, islands, level, steps[middle]):
                low = middle
            else:
                high = middle - 1
        found: Score | None = None
        possible = steps[lowest : low + 1]
        bounds = [self.worth.score(step, self._floor(bag, islands, level, step)) for step in possible]
        for bound, step in sorted(zip(bounds, possible, strict=True)):
            if found is not None and bound >= found:
                self.note(bound, level, bound=True)
                continue
            loss = int(self._least_loss(bag, islands, level, step)[self.wanted.pods])
            if loss < IMPOSSIBLE:
                score = self.worth.score(step, loss)
                self.note(score, level)
                found = score if found is None else min(found, score)
        return None if found is None else (found, islands)

    def pair(self, bag: Bag, level: int, slowest: int = ANY_STEP) -> Score | None:
        """Return the best score of two islands: what they exchange crosses the network only once each way."""
        multiple, counts, groups = bag
        if self.wanted.pods % multiple:
            return None
        inside = [self.pair(group, level, slowest) for group, _ in groups]
        best = min((score for score in inside if score is not None), default=None)
        # Of each kind of island two places are enough to know whether two islands can be in different ones.
        places: dict[tuple[int, int], set[tuple[int, int]]] = {}
        parts = [([(kind, self.node_multiple)], copies) for kind, copies in counts]
        parts += [(self._single_islands(group), copies) for group, copies in groups]
        for index, (islands, copies) in enumerate(parts):
            for island in islands:
                if len(found := places.setdefault(island, set())) < 2:  # noqa: PLR2004 - a pair
                    found.update((index, copy) for copy in range(min(copies, 2)))
        for one, other in combinations_with_replacement(sorted(places), 2):
            if len(places[one] | places[other]) > 1:
                score = self._best_split(one, other, level, slowest)
                best = score if best is None or (score is not None and score < best) else best
        return best

    def _single_islands(self, bag: Bag) -> list[tuple[int, int]]:
        """Return the kinds of island in a domain, each with the number of which its pods must be a multiple."""
        multiple, counts, groups = bag
        islands = [(kind, self.node_multiple) for kind, _ in counts]
        islands += [island for group, _ in groups for island in self._single_islands(group)]
        return sorted({(kind, lcm(own, multiple)) for kind, own in islands})

    def _best_split(self, one: tuple[int, int], other: tuple[int, int], level: int, slowest: int) -> Score | None:
        """Return the best score of sharing all pods between two islands (kind, multiple), or None."""
        key = (one, other, level, slowest)
        if key not in self._splits:
            self._splits[key] = self._split(one, other, level, slowest)
        return self._splits[key]

    def _split(self, one: tuple[int, int], other: tuple[int, int], level: int, slowest: int) -> Score | None:
        pods, (first, of_first), (second, of_second) = self.wanted.pods, one, other
        steps, other_steps = self.steps_of(first, 2, level), self.steps_of(second, 2, level)
        others = set(self.shares(second, 2, level, slowest))
        best: Score | None = None
        for share in self.shares(first, 2, level, slowest):
            rest = pods - share
            if rest in others and share % of_first == 0 and rest % of_second == 0:
                step, loss = min(steps[share], other_steps[rest]), self._loss(first, share) + self._loss(second, rest)
                score = self.worth.score(step, loss)
                self.note(score, level, share)
                best = score if best is None else min(best, score)
        return best

    def note(self, score: Score, level: int, share: int = 0, *, bound: bool = False) -> None:
        """Note a way that was compared, with `share` of the pods on the first of two islands."""
        known = self.compared.get(-score.step)
        if known is None or (bound, score) < known[:2]:
            gpus = tuple(self.units[0].gpus * pods for pods in (share, self.wanted.pods - share) if share)
            self.compared[-score.step] = Way(bound, score, level, tuple(sorted(gpus, reverse=True)))

    def weighed(self, chosen: Score, ways: Iterable[Way] | None = None) -> WeighedPlace | None:
        """Return what was chosen, and what was passed by of `ways`, or of all that were compared.

        None where no bandwidth is predicted, or nothing is to be communicated.
        """
        if chosen.step <= -NO_COMMUNICATION or any(unit.product is None for unit in self.units):
            return None
        way, passed = passed_by(chosen, self.compared.values() if ways is None else ways), None
        if way is not None:
            name = self._tree.levels.name(way.level) if way.level >= 0 else ""
            speed = round(STEP ** (chosen.step - way.score.step), 3)
            passed = PassedPlace(self.worth.told(way.score), speed, name, way.gpus, not way.bound)
        return WeighedPlace(self.wanted.pods * self.units[0].gpus, self.worth.told(chosen), passed)

    def _reaches(self, bag: Bag, islands: int, level: int, step: int) -> bool:
        sums = self._sums(bag, islands, level, step)
        return bool(sums >> self.wanted.pods & 1)

    def _sums(self, bag: Bag, islands: int, level: int, step: int) -> int:
        multiple, counts, groups = bag
        pods, sums = self.wanted.pods, 1
        for kind, copies in counts:
            sums = reach(sums, self.shares(kind, islands, level, step), min(copies, pods), pods)
        for group, copies in groups:
            inner = self._sums(group, islands, level, step)
            shares = [count for count in range(1, pods + 1) if inner >> count & 1]
            sums = reach(sums, shares, min(copies, pods), pods)
        if multiple > 1:
            sums &= sum(1 << count for count in range(0, pods + 1, multiple))
        return sums

    def _floor(self, bag: Bag, islands: int, level: int, step: int) -> int:
        """Return what all pods lose at least at that step (GB/s), as if each island could take parts of its shares."""
        left, loss = self.wanted.pods, 0.0
        for price, pods in sorted(self._prices(bag, islands, level, step, 1)):
            loss += price * min(pods, left)
            left -= min(pods, left)
            if not left:
                break
        return int(loss)

    def _prices(self, bag: Bag, islands: int, level: int, step: int, times: int) -> Iterator[tuple[float, int]]:
        """Yield what pods lose at least (GB/s each), and how many, in `times` domains."""
        _, counts, groups = bag
        for kind, copies in counts:
            key = kind, islands, level, step
            if key not in self._hulls:
                loss = self.units[kind].loss
                self._hulls[key] = _hull([(pods, loss[pods]) for pods in self.shares(kind, islands, level, step)])
            yield from ((price, pods * copies * times) for price, pods in self._hulls[key])
        for group, copies in groups:
            yield from self._prices(group, islands, level, step, copies * times)

    def _least_loss(self, bag: Bag, islands: int, level: int, step: int) -> NDArray[np.int64]:
        """Return (pods + 1,) the least loss (GB/s) of putting 0, 1, 2, ... pods into a domain at that step."""
        key = (bag, step * 4 + islands, level)
        if key not in self._costs:
            self._costs[key] = self._fold(bag, islands, level, step)
        return self._costs[key]

    def _fold(self, bag: Bag, islands: int, level: int, step: int) -> NDArray[np.int64]:
        multiple, counts, groups = bag
        pods = self.wanted.pods
        parts = [
            ([(p, self._loss(kind, p)) for p in self.shares(kind, islands, level, step)], min(copies, pods))
            for kind, copies in counts
        ]
        for group, copies in groups:
            inner = self._least_loss(group, islands, level, step)
            possible = np.flatnonzero(inner < IMPOSSIBLE).tolist()
            parts.append(([(p, int(inner[p])) for p in possible if p], min(copies, pods)))
        costs = np.full(pods + 1, IMPOSSIBLE, dtype=np.int64)
        costs[0] = 0
        if sum(len(shares) * copies for shares, copies in parts) * (pods + 1) > EXACT_WORK:
            costs[pods] = _fill(parts, pods)
        elif parts and all([p for p, _ in shares] == [1] for shares, _ in parts):
            cheapest = np.sort(np.repeat([shares[0][1] for shares, _ in parts], [copies for _, copies in parts]))
            placed = min(pods, cheapest.shape[0])
            costs[1 : placed + 1] = np.cumsum(cheapest[:placed])
        else:
            for shares, copies in parts:
                costs = np.minimum(fold(costs, shares, copies), IMPOSSIBLE)
        if multiple > 1:
            costs[np.arange(pods + 1) % multiple != 0] = IMPOSSIBLE
        return costs

    def shares(self, kind: int, islands: int, level: int, step: int) -> list[int]:
        """Return the numbers of pods, from one on, that an island of a kind may get to allow at least `step`."""
        key = (kind, islands, level, step)
        if key not in self._shares:
            multiple, loss = self.node_multiple, self.units[kind].loss
            steps = self.steps_of(kind, islands, level)
            numbers = range(multiple, len(steps), multiple)
            self._shares[key] = [pods for pods in numbers if steps[pods] >= step and loss[pods] < IMPOSSIBLE]
        return self._shares[key]

    def _loss(self, kind: int, pods: int) -> int:
        unit = self.units[kind]
        return unit.loss[pods] + (unit.loss[0] if unit.clique else 0)

    def steps_of(self, kind: int, islands: int, level: int) -> tuple[int, ...]:
        """Return, for 0, 1, ... pods, the 5 % step that an island of a kind allows in a domain of `level`."""
        key = (kind, islands, level)
        if key not in self._steps:
            unit, tree = self.units[kind], self._tree
            factors = tree.factors(level)
            if unit.product is not None:
                factors = unit.product.factors(tree.levels.name(level), factors)
            question = UnitQuestion(self.wanted.gpus, factors, self.wanted.objective)
            self._steps[key] = unit.steps(self.wanted.pods, question, islands)
        return self._steps[key]


def passed_by(chosen: Score, ways: Iterable[Way]) -> Way | None:
    """Return the least costly way that is faster than what was chosen or loses less, rather one that is no bound."""
    others = (way for way in ways if way.score.step < chosen.step or way.score.loss < chosen.loss)
    return min(others, default=None)


def _kinds(bag: Bag) -> set[int]:
    _, counts, groups = bag
    return {kind for kind, _ in counts}.union(*(_kinds(group) for group, _ in groups))


def _hull(shares: Sequence[tuple[int, int]]) -> list[tuple[float, int]]:
    """Return the lower convex hull of (pods, GB/s lost), from nothing on: GB/s of each further pod, and how many."""
    hull: list[tuple[float, int]] = []
    first, lost = 0, 0
    rest = shares
    while rest:
        price, last, loss = min(((loss - lost) / (pods - first), pods, loss) for pods, loss in rest)
        hull.append((price, last - first))
        first, lost = last, loss
        rest = [share for share in rest if share[0] > last]
    return hull


def _fill(parts: Sequence[tuple[list[tuple[int, int]], int]], pods: int) -> np.int64:
    """Return the loss of filling the islands that lose least per pod one after the other; IMPOSSIBLE if that fails."""
    shares = sorted((cost / p, -p, cost, copies) for options, copies in parts for p, cost in options[-1:])
    left, loss = pods, 0
    for _, negative, cost, copies in shares:
        take = min(left // -negative, copies)
        left += take * negative
        loss += take * cost
    if left:
        rest = [cost for options, _ in parts for p, cost in options if p == left]
        if not rest:
            return np.int64(loss + max((cost for _, _, cost, _ in shares), default=0))
        loss += min(rest)
    return np.int64(loss)
