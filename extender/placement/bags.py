"""What a domain does for a gang of equal pods, computed from what it consists of: equal domains are equal bags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import lcm
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.cluster.tree import Tree
from extender.objects.topology import Objective
from extender.placement.room import IMPOSSIBLE, Unit, UnitQuestion, fold, reach

#: Steps of arithmetic on one domain up to which the least loss is computed exactly; beyond it islands are filled one
#: after the other. 4 million are some 10 ms.
EXACT_WORK = 4_000_000

#: Below every step: any number of pods will do.
_ANY_STEP = -1

Bag: TypeAlias = tuple[int, tuple[tuple[int, int], ...], tuple[tuple["Bag", int], ...]]
"""What a domain consists of, for the purpose of counting: only multiples of the first number of pods may go there, to
islands (kind, how many) and to domains that are bags of their own (bag, how many)."""


class Score(NamedTuple):
    """How good a placement is; less is better. Bandwidth is in 5 % steps, negated; loss in GB/s."""

    step: int
    loss: int


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
# lower one counts. aa loses 2665 + 1095, ab 2665 + 1570: Score(-119, 3760) and Score(-119, 4235).
# `many`, three islands or more: what enters an island leaves it again, so 1 pod allows 107 only. Bisection over the
# steps {107, 121} finds that 121 has no place for 3 pods (it needs 2 on each island: sums 0, 2), and 107 has (0, 1, 2,
# 3). Then `fold` gives the least loss at step 107: Score(-107, 3760) for aa, which is worse than the pair.
class Bags:
    """Score bags of islands for one gang; exact, and remembered.

    Attributes:
        units: what islands of each kind do.
        wanted: what is to be placed.
    """

    def __init__(self, units: Sequence[Unit], wanted: Wanted, tree: Tree) -> None:
        self.units = units
        self.wanted = wanted
        self._tree = tree
        self._costs: dict[tuple[Bag, int, int], NDArray[np.int64]] = {}
        self._steps: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self._splits: dict[tuple[tuple[int, int], tuple[int, int], int], Score | None] = {}

    def clique(self, bag: Bag, kind: int) -> tuple[Score, int] | None:
        """Score nodes of one NVLink domain: however the pods lie there, they are as fast."""
        step = self.steps_of(kind, 1, self._tree.depth)[self.wanted.pods]
        loss = int(self._least_loss(bag, 1, self._tree.depth, _ANY_STEP)[self.wanted.pods])
        return None if loss >= IMPOSSIBLE else (Score(-step, loss + self.units[kind].loss[0]), 1)

    def many(self, bag: Bag, level: int, best: Score | None) -> tuple[Score, int] | None:
        """Score any number of islands, the highest step first: each limits it, and the fewer may be used the higher."""
        islands = 3
        if best is not None and not self._reaches(bag, islands, level, -best.step):
            return None
        reached = (step for kind in _kinds(bag) for step in self.steps_of(kind, islands, level)[1:])
        steps = sorted(set(reached))
        low, high = 0, len(steps) - 1
        while low < high:  # the highest step at which all pods have a place
            middle = (low + high + 1) // 2
            if self._reaches(bag, islands, level, steps[middle]):
                low = middle
            else:
                high = middle - 1
        if high < 0:
            return None
        cost = int(self._least_loss(bag, islands, level, steps[low])[self.wanted.pods])
        return None if cost >= IMPOSSIBLE else (Score(-steps[low], cost), islands)

    def pair(self, bag: Bag, level: int) -> Score | None:
        """Return the best score of two islands: what they exchange crosses the network only once each way."""
        multiple, counts, groups = bag
        if self.wanted.pods % multiple:
            return None
        inside = [self.pair(group, level) for group, _ in groups]
        best = min((score for score in inside if score is not None), default=None)
        # Of each kind of island two places are enough to know whether two islands can be in different ones.
        places: dict[tuple[int, int], set[tuple[int, int]]] = {}
        parts = [([(kind, self.node_multiple())], copies) for kind, copies in counts]
        parts += [(self._single_islands(group), copies) for group, copies in groups]
        for index, (islands, copies) in enumerate(parts):
            for island in islands:
                if len(found := places.setdefault(island, set())) < 2:  # noqa: PLR2004 - a pair
                    found.update((index, copy) for copy in range(min(copies, 2)))
        for one, other in combinations_with_replacement(sorted(places), 2):
            if len(places[one] | places[other]) > 1:
                score = self._best_split(one, other, level)
                best = score if best is None or (score is not None and score < best) else best
        return best

    def _single_islands(self, bag: Bag) -> list[tuple[int, int]]:
        """Return the kinds of island in a domain, each with the number of which its pods must be a multiple."""
        multiple, counts, groups = bag
        islands = [(kind, self.node_multiple()) for kind, _ in counts]
        islands += [island for group, _ in groups for island in self._single_islands(group)]
        return sorted({(kind, lcm(own, multiple)) for kind, own in islands})

    def _best_split(self, one: tuple[int, int], other: tuple[int, int], level: int) -> Score | None:
        """Return the best score of sharing all pods between two islands (kind, multiple), or None."""
        key = (one, other, level)
        if key not in self._splits:
            self._splits[key] = self._split(one, other, level)
        return self._splits[key]

    def _split(self, one: tuple[int, int], other: tuple[int, int], level: int) -> Score | None:
        pods, (first, of_first), (second, of_second) = self.wanted.pods, one, other
        steps, other_steps = self.steps_of(first, 2, level), self.steps_of(second, 2, level)
        others = set(self.shares(second, 2, level, _ANY_STEP))
        return min(
            (
                Score(
                    -min(steps[share], other_steps[pods - share]),
                    self._loss(first, share) + self._loss(second, pods - share),
                )
                for share in self.shares(first, 2, level, _ANY_STEP)
                if pods - share in others and share % of_first == 0 and (pods - share) % of_second == 0
            ),
            default=None,
        )

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
        multiple, loss = self.node_multiple(), self.units[kind].loss
        steps = self.steps_of(kind, islands, level)
        numbers = range(multiple, len(steps), multiple)
        return [pods for pods in numbers if steps[pods] >= step and loss[pods] < IMPOSSIBLE]

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

    def node_multiple(self) -> int:
        """Return of which number the pods of each node must be a multiple."""
        return self.wanted.multiple(self._tree.depth)


def _kinds(bag: Bag) -> set[int]:
    _, counts, groups = bag
    return {kind for kind, _ in counts}.union(*(_kinds(group) for group, _ in groups))


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
