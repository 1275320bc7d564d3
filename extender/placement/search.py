"""Which domain a gang of equal pods goes to: most bandwidth first, then least lost to others, then the best fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.placement.bags import Bag, Bags, Score, Wanted
from extender.placement.units import Field, Unit


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
        self._bags = Bags(self.units, wanted, ground.tree)
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
            multiple = self._bags.node_multiple() if kind < self.clique_base else 1
            return list(range(multiple, min(self.units[kind].cap, self.wanted.pods) + 1, multiple))
        return self._bags.shares(kind, choice.islands, choice.level, -choice.score.step)

    def step(self, kind: int, islands: int, level: int, pods: int) -> int:
        """Return the 5 % step that an island of a kind with so many pods allows a gang within a domain of `level`."""
        return self._bags.steps_of(kind, islands, level)[pods]

    # One node.

    def _best_node(self, within: NDArray[np.bool_]) -> _Found | None:
        ground, pods = self.field, self.wanted.pods
        fitting = [kind for kind in np.unique(ground.kinds[within]).tolist() if ground.units[kind].cap >= pods]
        if pods % self._bags.node_multiple() or not fitting:
            return None
        step = {kind: self._bags.steps_of(kind, 1, self.field.tree.depth)[pods] for kind in fitting}
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
        multiple = self.wanted.multiple(level)
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
            found = self._bags.clique(bag, self.clique_base + int(self.clique_kinds[positions[0]]))
        else:
            found = self._bags.many(bag, level, best)
            pair = None if self.wanted.joined else self._bags.pair(bag, level)
            if pair is not None and (found is None or pair < found[0]):
                found = pair, 2
        self._verdicts[bag, level] = found
        return found

    @property
    def node_multiple(self) -> int:
        """Return of which number the pods of each node must be a multiple."""
        return self._bags.node_multiple()

    @cached_property
    def clique_base(self) -> int:
        """Return the kind of the first NVLink domain."""
        return len(self.field.units)
