"""Which domain a gang of equal pods goes to: most bandwidth first, then least lost to others, then the best fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import lcm
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.domain.topology import Objective
from extender.placement.tables import IMPOSSIBLE, fold, reach
from extender.placement.units import Field, Question, Unit

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
class Choice:
    """The domain that was chosen: level and index (the node's position for the level of nodes), and how good it is.

    `islands` is how many islands are used: 1, 2, or 3 for any number of them. `positions` are the nodes in it, by name.
    """

    level: int
    domain: int
    islands: int
    score: Score
    positions: NDArray[np.intp]


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


_Found: TypeAlias = tuple[tuple[Score, tuple[int, ...], int, int], Choice]
"""A choice behind what it is compared by: score, room of the domain outwards, inner levels first, name."""


class Search:
    """Search the domains of a field for the best one.

    Exact: a domain's best is computed from what it consists of, and every domain is looked at, equal ones once.
    """

    def __init__(
        self, ground: Field, wanted: Wanted, clique_units: Sequence[Unit], clique_kinds: NDArray[np.int64]
    ) -> None:
        """Prepare.

        Args:
            ground: where the pods could go.
            wanted: what is to be placed.
            clique_units: what NVLink domains do as a whole, by kind.
            clique_kinds: (nodes,) the kind of the NVLink domain that each node is in, -1 for none.
        """
        self.field = ground
        self.wanted = wanted
        self.units = [*ground.units, *clique_units]
        self.clique_kinds = clique_kinds
        self._costs: dict[tuple[Bag, int, int], NDArray[np.int64]] = {}
        self._steps: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self._splits: dict[tuple[tuple[int, int], tuple[int, int], int], Score | None] = {}
        self._verdicts: dict[tuple[Bag, int], tuple[Score, int] | None] = {}

    def best(self, levels: Iterable[int], within: NDArray[np.bool_]) -> list[Choice]:
        """Return the best domain of each of `levels` that may be the best of all, best first; [] if none has the room.

        `within` says which nodes may be used: (nodes,).
        """
        choices: list[_Found] = []
        best: Score | None = None
        for level in sorted(levels, reverse=True):  # the innermost are judged fastest, and rule out most of the others
            found = (
                self._best_node(within) if level >= self.field.tree.depth else self._best_domain(level, within, best)
            )
            if found is not None:
                choices.append(found)
                best = min(best or found[0][0], found[0][0])
        return [choice for _, choice in sorted(choices, key=lambda entry: entry[0])]

    def allowed(self, kind: int, choice: Choice) -> list[int]:
        """Return the numbers of pods that an island of a kind may get, so that the choice keeps its bandwidth."""
        if choice.islands == 1:
            return list(range(1, min(self.units[kind].cap, self.wanted.pods) + 1))
        return self._shares(kind, choice.islands, choice.level, -choice.score.step)

    # One node.

    def _best_node(self, within: NDArray[np.bool_]) -> _Found | None:
        ground, pods = self.field, self.wanted.pods
        fitting = [kind for kind in np.unique(ground.kinds[within]).tolist() if ground.units[kind].cap >= pods]
        if pods % self._multiple_of_node() or not fitting:
            return None
        step = {kind: self._unit_steps(kind, 1, self.field.tree.depth)[pods] for kind in fitting}
        most = max(step.values())
        fastest = [kind for kind in fitting if step[kind] == most]
        positions = np.flatnonzero(np.isin(ground.kinds, fastest) & within)
        loss = np.array([unit.loss[pods] if unit.cap >= pods else 0 for unit in ground.units])[ground.kinds[positions]]
        loss += self._breaks(positions)
        positions = positions[loss == loss.min()]
        chains = ground.free_chains(positions)
        best = np.lexsort((ground.order[positions], *chains[::-1]))[0]
        position = int(positions[best])
        score = Score(-most, int(loss.min()))
        key = (score, tuple(int(chain[best]) for chain in chains), -ground.tree.depth, int(ground.order[position]))
        return key, Choice(ground.tree.depth, position, 1, score, np.array([position], dtype=np.intp))

    def _breaks(self, positions: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return what is lost of the NVLink domain around each node as soon as one pod goes there (GB/s)."""
        whole = [unit.loss[0] for unit in self.units[self.clique_base :]]
        return np.array([*whole, 0], dtype=np.int64)[self.clique_kinds[positions]]  # -1, no domain, reads the 0

    # Domains of several nodes.

    def _best_domain(self, level: int, within: NDArray[np.bool_], bound: Score | None) -> _Found | None:
        """Return the best domain of a level, None if none has the room or comes up to `bound`."""
        ground = self.field
        best: tuple[Score, tuple[int, ...], int, int] | None = None
        choice: tuple[int, int, NDArray[np.intp]] | None = None
        for domain, positions in self._domains(level, within):
            found = self._judge(level, positions, bound if best is None else best[0])
            if found is None:
                continue
            score, islands = found
            rank = int(ground.tree.ranks[level][domain]) if level >= 0 else 0
            key = (score, ground.free_chain(level, domain, int(positions[0])), -level, rank)
            if best is None or key < best:
                best, choice = key, (domain, islands, positions)
        if best is None or choice is None:
            return None
        domain, islands, positions = choice
        ordered = positions[np.argsort(ground.order[positions], kind="stable")]
        return best, Choice(level, domain, islands, best[0], ordered)

    def _domains(self, level: int, within: NDArray[np.bool_]) -> list[tuple[int, NDArray[np.intp]]]:
        """Return the domains of a level that have room for all pods, with the positions of their nodes."""
        ground = self.field
        caps = np.where(within, np.minimum(ground.caps, self.wanted.pods), 0)
        if level < 0:
            return [(0, np.flatnonzero(within))] if int(caps.sum()) >= self.wanted.pods else []
        path = np.where(within, ground.paths[level], -1)
        inside = np.flatnonzero(path >= 0)
        if not inside.shape[0]:
            return []
        room = np.bincount(path[inside], weights=caps[inside])
        roomy = room >= self.wanted.pods
        inside = inside[roomy[path[inside]]]
        inside = inside[np.argsort(path[inside], kind="stable")]
        ids, starts = np.unique(path[inside], return_index=True)
        return list(zip(ids.tolist(), np.split(inside, starts[1:]), strict=True)) if ids.shape[0] else []

    def _bag(self, level: int, positions: NDArray[np.intp]) -> Bag:
        """Return what the nodes at `positions`, a domain of `level`, consist of."""
        deeper = [(at, size) for at, size in self.wanted.slices if level < at < self.field.tree.depth]
        multiple = next((size for at, size in self.wanted.slices if at == level), 1)
        if deeper:
            at = deeper[0][0]
            path = self.field.paths[at, positions]
            groups = Counter(self._bag(at, positions[path == domain]) for domain in np.unique(path[path >= 0]).tolist())
            return multiple, (), tuple(sorted(groups.items()))
        kinds = self.field.kinds[positions]
        cliques = self.field.tree.cliques
        counts: Counter[int] = Counter()
        if cliques is not None and level < cliques:
            inside = self.clique_kinds[positions] >= 0
            first = np.unique(self.field.paths[cliques, positions[inside]], return_index=True)[1]
            counts.update((self.clique_base + self.clique_kinds[positions[inside][first]]).tolist())
            kinds = kinds[~inside]
        counts.update(kinds.tolist())
        return multiple, tuple(sorted(counts.items())), ()

    def _judge(self, level: int, positions: NDArray[np.intp], best: Score | None) -> tuple[Score, int] | None:
        """Return the best score of a domain and its number of islands (1, 2, 3 for more); None: no room, or no better.

        `best` is what another domain reaches.
        """
        bag = self._bag(level, positions)
        if (bag, level) in self._verdicts:
            return self._verdicts[bag, level]
        cliques = self.field.tree.cliques
        if cliques is not None and level >= cliques and int(self.clique_kinds[positions[0]]) >= 0:
            found = self._judge_clique(bag, self.clique_base + int(self.clique_kinds[positions[0]]))
        else:
            found = self._judge_many(bag, level, best)
            pair = None if self.wanted.joined else self._judge_pair(bag, level)
            if pair is not None and (found is None or pair < found[0]):
                found = pair, 2
        self._verdicts[bag, level] = found
        return found

    def _judge_clique(self, bag: Bag, kind: int) -> tuple[Score, int] | None:
        """Judge nodes of one NVLink domain: however the pods lie there, they are as fast."""
        step = self._unit_steps(kind, 1, self.field.tree.depth)[self.wanted.pods]
        loss = int(self._least_loss(bag, 1, self.field.tree.depth, _ANY_STEP)[self.wanted.pods])
        return None if loss >= IMPOSSIBLE else (Score(-step, loss + self.units[kind].loss[0]), 1)

    def _judge_many(self, bag: Bag, level: int, best: Score | None) -> tuple[Score, int] | None:
        """Judge any number of islands, the highest step first: each limits it, and the fewer may be used the higher."""
        islands = 3
        if best is not None and not self._reaches(bag, islands, level, -best.step):
            return None
        reached = (step for kind in _kinds(bag) for step in self._unit_steps(kind, islands, level)[1:])
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

    def _judge_pair(self, bag: Bag, level: int) -> Score | None:
        """Return the best score of two islands: what they exchange crosses the network only once each way."""
        multiple, counts, groups = bag
        if self.wanted.pods % multiple:
            return None
        inside = [self._judge_pair(group, level) for group, _ in groups]
        best = min((score for score in inside if score is not None), default=None)
        parts = [([(kind, self._multiple_of_node())], copies) for kind, copies in counts]
        parts += [(self._single_islands(group), copies) for group, copies in groups]
        for index, (first, copies) in enumerate(parts):
            for second, _ in parts[index if copies > 1 else index + 1 :]:
                for one, other in product(first, second):
                    score = self._best_split(one, other, level)
                    best = score if best is None or (score is not None and score < best) else best
        return best

    def _single_islands(self, bag: Bag) -> list[tuple[int, int]]:
        """Return the kinds of island in a domain, each with the number of which its pods must be a multiple."""
        multiple, counts, groups = bag
        islands = [(kind, self._multiple_of_node()) for kind, _ in counts]
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
        steps, other_steps = self._unit_steps(first, 2, level), self._unit_steps(second, 2, level)
        return min(
            (
                Score(
                    -min(steps[share], other_steps[pods - share]),
                    self._loss(first, share) + self._loss(second, pods - share),
                )
                for share in range(max(1, pods - len(other_steps) + 1), min(len(steps) - 1, pods - 1) + 1)
                if share % of_first == 0 and (pods - share) % of_second == 0
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
            sums = reach(sums, self._shares(kind, islands, level, step), min(copies, pods), pods)
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
            ([(p, self._loss(kind, p)) for p in self._shares(kind, islands, level, step)], min(copies, pods))
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
        elif all([p for p, _ in shares] == [1] for shares, _ in parts):
            cheapest = np.sort(np.repeat([shares[0][1] for shares, _ in parts], [copies for _, copies in parts]))
            placed = min(pods, cheapest.shape[0])
            costs[1 : placed + 1] = np.cumsum(cheapest[:placed])
        else:
            for shares, copies in parts:
                costs = np.minimum(fold(costs, shares, copies), IMPOSSIBLE)
        if multiple > 1:
            costs[np.arange(pods + 1) % multiple != 0] = IMPOSSIBLE
        return costs

    def _shares(self, kind: int, islands: int, level: int, step: int) -> list[int]:
        multiple = self._multiple_of_node()
        steps = self._unit_steps(kind, islands, level)
        return [pods for pods in range(1, len(steps)) if steps[pods] >= step and pods % multiple == 0]

    def _loss(self, kind: int, pods: int) -> int:
        unit = self.units[kind]
        return unit.loss[pods] + (unit.loss[0] if unit.clique else 0)

    def _unit_steps(self, kind: int, islands: int, level: int) -> tuple[int, ...]:
        key = (kind, islands, level)
        if key not in self._steps:
            unit, tree = self.units[kind], self.field.tree
            factors = tree.factors(level)
            if unit.product is not None:
                factors = unit.product.factors(tree.levels.name(level), factors)
            question = Question(self.wanted.gpus, factors, self.wanted.objective)
            self._steps[key] = unit.steps(self.wanted.pods, question, islands)
        return self._steps[key]

    def _multiple_of_node(self) -> int:
        return next((size for level, size in self.wanted.slices if level >= self.field.tree.depth), 1)

    @cached_property
    def clique_base(self) -> int:
        """Return the kind of the first NVLink domain."""
        return len(self.field.units)


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
