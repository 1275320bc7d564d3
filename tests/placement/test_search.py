"""Specification of the search: on every cluster small enough, trying all placements finds none that is better."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.tree import Tree
from extender.hardware.bandwidth import IslandUse, bus_bandwidth, step
from extender.objects.levels import Level, Levels
from extender.objects.topology import Objective, PlacementGoal
from extender.placement.bags import ANY_STEP, Score, Wanted, Worth, passed_by
from extender.placement.room import IMPOSSIBLE, Field, Unit
from extender.placement.search import DomainChoice, Search, assign

RACKS = Levels((Level("block", "block"), Level("rack", "rack")))
CLIQUES = Levels((Level("block", "block"), Level("clique", "nvidia.com/gpu.clique")))

#: GB/s among 1, 2, ... GPUs of a node, and of its network: an 8-GPU node of H100 as published.
H100_INNER = (inf, 365.0, 365.0, 365.0, 414.0, 436.0, 460.0, 475.0)
#: GB/s in a multi-node NVLink domain, as published for GB200.
CLIQUE = 835.0
#: A board with NVLink bridges: fast as a pair only.
BRIDGED_INNER = (inf, 208.0, 20.0, 20.0)

Placement = tuple[int, ...]
"""Pods per node."""


@dataclass(frozen=True)
class Problem:
    """A cluster with what is to be placed there; `cliques` says whether the lower level is one of NVLink domains."""

    ground: Field
    wanted: Wanted
    clique_units: tuple[Unit, ...]
    clique_kinds: tuple[int, ...]

    def search(self) -> Search:
        """Return the search under test."""
        return Search(self.ground, self.wanted, self.clique_units, np.array(self.clique_kinds, dtype=np.int64))


def unit(free: int, gpus: int, *, bridged: bool = False) -> Unit:
    """Return what a node with `free` GPUs does with pods of `gpus` each."""
    inner_of = BRIDGED_INNER if bridged else H100_INNER
    counts = [gpus * pods for pods in range(1, free // gpus + 1)]
    value = [sum(left // size * 100 for size in (2, 4, 8)) for left in (free, *(free - count for count in counts))]
    return Unit(
        cap=len(counts),
        gpus=gpus,
        inner=(inf, *(inner_of[count - 1] for count in counts)),
        outer=(inf, *(47.0 * count for count in counts)),
        loss=(0, *(value[0] - left for left in value[1:])),
        nic=47.0,
        nvls=not bridged,
        worth=100 * (4 + 2 + 1) / 8,
    )


def clique_unit(nodes: Sequence[Unit], pods: int, speed: float, broken: int, multiple: int) -> Unit:
    """Return what an NVLink domain does; its losses are found by trying."""
    cap = min(sum(node.cap for node in nodes), pods)
    losses = [
        min(
            (
                sum(node.loss[share] for node, share in zip(nodes, shares, strict=True))
                for shares in itertools.product(*(range(0, node.cap + 1, multiple) for node in nodes))
                if sum(shares) == count
            ),
            default=int(IMPOSSIBLE),
        )
        for count in range(1, cap + 1)
    ]
    gpus = nodes[0].gpus
    inner = [H100_INNER[count * gpus - 1] if count * gpus <= len(H100_INNER) else speed for count in range(1, cap + 1)]
    outer = [nodes[0].outer[1] * count for count in range(1, cap + 1)]
    losing = (broken, *losses)
    return Unit(cap, gpus, (speed, *inner), (inf, *outer), losing, 47.0, clique=True, worth=nodes[0].worth)


@st.composite
def problems(draw: st.DrawFn, *, cliques: bool = False) -> Problem:
    """Draw up to five nodes in up to two blocks of up to two racks, and up to six pods for them."""
    gpus = draw(st.sampled_from([1, 2, 4]))
    bridged = draw(st.booleans()) and not cliques
    sizes = st.integers(1, 4 if bridged else 8)
    free = draw(st.lists(sizes.map(lambda n: max(n, gpus)), min_size=1, max_size=5))
    blocks = [draw(st.integers(-1, 1)) for _ in free]
    racks = [draw(st.integers(0, 1)) for _ in free]
    return problem(
        free, gpus, blocks, racks, pods=draw(st.integers(1, 6)), bridged=bridged, cliques=cliques,
        objective=draw(st.sampled_from(list(Objective))), goal=draw(st.sampled_from(list(PlacementGoal))),
        slices=draw(st.sampled_from([(), ((2, 2),)] if cliques else [(), ((1, 2),), ((2, 2),), ((1, 4), (2, 2))])),
    )  # fmt: skip


def problem(
    free: Sequence[int],
    gpus: int,
    blocks: Sequence[int],
    racks: Sequence[int],
    *,
    pods: int,
    bridged: bool = False,
    cliques: bool = False,
    objective: Objective = Objective.ALLREDUCE,
    slices: tuple[tuple[int, int], ...] = (),
    goal: PlacementGoal = PlacementGoal.BALANCED,
) -> Problem:
    """Build a cluster: of each node how many GPUs are free, its block (-1 for none) and its rack in there."""
    if slices:
        pods = -(-pods // slices[0][1]) * slices[0][1]
    paths = sorted({(block, rack) for block, rack in zip(blocks, racks, strict=True)})
    known = sorted({block for block in blocks if block >= 0})
    levels = CLIQUES if cliques else RACKS
    domains = np.array(
        [
            [known.index(block) if block >= 0 else -1 for block in blocks],
            [paths.index(path) for path in zip(blocks, racks, strict=True)],
        ],
        dtype=np.int64,
    )
    tree = Tree(
        levels=levels,
        domains=domains,
        names=(tuple(map(str, known)), tuple(map(str, paths))),
        ranks=(np.arange(len(known)), np.arange(len(paths))),
        cliques=1 if cliques else None,
        outermost=levels.factor(-1),
        goal=goal,
    )
    distinct = sorted(set(free))
    units = [unit(count, gpus, bridged=bridged) for count in distinct]
    kinds = np.array([distinct.index(count) for count in free], dtype=np.intp)
    caps = np.array([units[kind].cap for kind in kinds], dtype=np.int64)
    order = np.arange(len(free))
    ground = Field(tree, order.astype(np.intp), caps, kinds, units, order, gpus)
    of_node = next((size for level, size in slices if level == tree.depth), 1)
    clique_units: list[Unit] = []
    clique_kinds = [-1] * len(free)
    if cliques:
        for index in range(len(paths)):
            inside = np.flatnonzero(domains[1] == index).tolist()
            nodes = [units[kinds[position]] for position in inside]
            whole = all(free[position] == 8 for position in inside)
            clique_units.append(clique_unit(nodes, pods, CLIQUE, round(CLIQUE) if whole else 0, of_node))
            for position in inside:
                clique_kinds[position] = index
    wanted = Wanted(pods, pods * gpus, objective, slices)
    return Problem(ground, wanted, tuple(clique_units), tuple(clique_kinds))


def all_placements(case: Problem) -> Iterator[Placement]:
    """Yield every way to place the pods that keeps the slices."""
    ground, wanted = case.ground, case.wanted
    for shares in itertools.product(*(range(cap + 1) for cap in ground.caps.tolist())):
        if sum(shares) != wanted.pods:
            continue
        if all(_multiple(ground, shares, level, size) for level, size in wanted.slices):
            yield shares


def _multiple(ground: Field, shares: Placement, level: int, size: int) -> bool:
    if level >= ground.tree.depth:
        return all(share % size == 0 for share in shares)
    path = ground.paths[level]
    sums = [sum(share for share, at in zip(shares, path, strict=True) if at == domain) for domain in set(path.tolist())]
    return all(total % size == 0 for total in sums)


def key(case: Problem, shares: Placement) -> tuple[Score, tuple[int, ...]]:
    """Return how good a placement is, from the definitions: its score, and the room of its domain outwards."""
    ground = case.ground
    used = [position for position, share in enumerate(shares) if share]
    level, domain = ground.tree.common(np.array(used, dtype=np.intp))
    cliques = ground.tree.cliques
    uses: dict[object, list[int]] = {}
    for position in used:
        uses.setdefault(ground.paths[cliques, position].item() if cliques is not None else position, []).append(
            position
        )
    islands = [_use(case, positions, shares, level) for positions in uses.values()]
    bandwidth = bus_bandwidth(islands, ground.tree.factors(level), case.wanted.objective)
    loss = sum(ground.units[ground.kinds[position]].loss[shares[position]] for position in used)
    if cliques is not None:
        kinds = {case.clique_kinds[positions[0]] for positions in uses.values()}
        loss += sum(case.clique_units[kind].loss[0] for kind in kinds)
    reached = step(inf) if bandwidth is None else step(bandwidth)
    units = (*ground.units, *case.clique_units)
    score = Worth(units, case.wanted.gpus, ground.tree.goal).score(reached, loss)
    return score, ground.free_chain(level, domain, used[0])


def best_of(case: Problem, candidates: Sequence[Placement]) -> tuple[Score, tuple[int, ...]]:
    """Return how good the best placement is: what is further out counts only where it is no slower."""
    best: tuple[Score, tuple[int, ...]] | None = None
    levels = [case.ground.tree.common(np.flatnonzero(candidate))[0] for candidate in candidates]
    for level in range(case.ground.tree.depth, -2, -1):
        slowest = ANY_STEP if best is None else -best[0].step
        here = [key(case, candidate) for candidate, own in zip(candidates, levels, strict=True) if own == level]
        fast = [each for each in here if -each[0].step >= slowest]
        if level == case.ground.tree.depth:  # one node: the fastest comes first
            fast.sort(key=lambda each: (each[0].step, each[0].loss, each[1]))
        else:
            fast.sort()
        best = min([best, *fast[:1]], key=lambda each: each) if best is not None else next(iter(fast), None)
    assert best is not None
    return best


def _use(case: Problem, positions: Sequence[int], shares: Placement, level: int) -> IslandUse:
    ground = case.ground
    if ground.tree.cliques is None or level >= ground.tree.depth:
        (position,) = positions
        return ground.units[int(ground.kinds[position])].use(shares[position])
    return case.clique_units[case.clique_kinds[positions[0]]].use(sum(shares[position] for position in positions))


def inside(case: Problem, shares: Placement, level: int) -> tuple[int, ...]:
    """Return how a placement uses its domain of `level`, from the definitions: less is better, the first term first."""
    ground = case.ground
    terms: list[int] = []
    for below in range(level + 1, ground.tree.depth):
        used = {int(ground.paths[below, p]) for p, share in enumerate(shares) if share} - {-1}
        inner = sum(share for p, share in enumerate(shares) if ground.paths[below, p] >= 0)
        terms += [len(used), sum(int(ground.totals(below)[domain]) for domain in used) - inner]
    nodes = [position for position, share in enumerate(shares) if share]
    room = sum(int(ground.caps[position]) - shares[position] for position in nodes)
    return (*terms, len(nodes), room, sum(share**2 for share in shares))


def found(case: Problem) -> tuple[DomainChoice, Placement] | None:
    """Return what the search chooses."""
    search = case.search()
    choices = search.best(range(-1, case.ground.tree.depth + 1), np.ones(case.ground.rows.shape[0], dtype=np.bool_))
    if not choices:
        return None
    shares = [0] * case.ground.rows.shape[0]
    for position, pods in assign(search, choices[0]):
        shares[position] += pods
    return choices[0], tuple(shares)


def check(case: Problem) -> None:
    """Compare the search with trying everything."""
    candidates = list(all_placements(case))
    result = found(case)
    if not candidates:
        assert result is None
        return
    assert result is not None
    choice, shares = result
    assert shares in candidates
    best = best_of(case, candidates)
    assert key(case, shares) == best
    assert choice.score == best[0]
    equal = [candidate for candidate in candidates if key(case, candidate) == best]
    level, domain = case.ground.tree.common(np.flatnonzero(shares))
    here = [other for other in equal if case.ground.tree.common(np.flatnonzero(other)) == (level, domain)]
    assert inside(case, shares, level) == min(inside(case, other, level) for other in here)


class TestSearch:
    """A gang of equal pods."""

    @given(case=problems())
    def test_exact(self, case: Problem) -> None:
        """No placement costs less, or as much and is faster or in a tighter domain; further out none is slower."""
        check(case)

    @given(case=problems(cliques=True))
    def test_exact_with_nvlink_domains(self, case: Problem) -> None:
        """The same where NVLink reaches across nodes: an island is then a domain of several nodes."""
        check(case)

    @given(case=problems())
    def test_passed_by(self, case: Problem) -> None:
        """What is said to have been passed by is a placement, or one that loses at least so much, and no better."""
        search, everywhere = case.search(), np.ones(case.ground.rows.shape[0], dtype=np.bool_)
        choices = search.best(range(-1, case.ground.tree.depth + 1), everywhere)
        way = passed_by(choices[0].score, search.bags.compared.values()) if choices else None
        if way is None:
            return
        assert way.score >= choices[0].score
        scores = [key(case, shares)[0] for shares in all_placements(case)]
        losses = [score.loss for score in scores if score.step <= way.score.step]
        assert min(losses) >= way.score.loss if way.bound else way.score.loss in losses

    def test_even_split(self) -> None:
        """Eight single-GPU pods go to 4 + 4 rather than 7 + 1: one lone GPU would have one network card for all."""
        result = found(problem([7, 4, 4], 1, [0, 0, 0], [0, 0, 0], pods=8))
        assert result is not None
        assert result[1] == (0, 4, 4)

    def test_one_node(self) -> None:
        """Eight single-GPU pods go to one node if there is one."""
        result = found(problem([7, 4, 4, 8], 1, [0, 0, 0, 0], [0, 0, 0, 0], pods=8))
        assert result is not None
        assert result[1] == (0, 0, 0, 8)

    def test_bridge_pairs(self) -> None:
        """On boards with NVLink bridges two pods of two GPUs each take a pair each."""
        result = found(problem([4, 2, 2], 2, [0, 0, 0], [0, 0, 0], pods=2, bridged=True))
        assert result is not None
        assert result[1] == (0, 1, 1)

    def test_tightest_domain(self) -> None:
        """Of racks that are equally fast the one with least room is used, so that the roomy one stays whole."""
        result = found(problem([8, 8, 8, 8, 8], 8, [0] * 5, [0, 0, 0, 1, 1], pods=2))
        assert result is not None
        assert result[1] == (0, 0, 0, 1, 1)

    @pytest.mark.parametrize(
        ("goal", "shares"),
        [
            (PlacementGoal.BANDWIDTH, (0, 6, 6, 0)),
            (PlacementGoal.BALANCED, (4, 8, 0, 0)),
            (PlacementGoal.CAPACITY, (4, 8, 0, 0)),
        ],
    )
    def test_goals(self, goal: PlacementGoal, shares: Placement) -> None:
        """Twelve pods of one GPU go to 6 + 6, or to 8 + 4 where what is left whole counts."""
        result = found(problem([4, 8, 8, 8], 1, [0] * 4, [0] * 4, pods=12, goal=goal))
        assert result is not None
        assert result[1] == shares

    def test_worth_a_node(self) -> None:
        """Seventeen pods of one GPU break up a node more where 8 + 8 + 1 would be a fifth as fast."""
        results = [found(problem([8, 8, 1, 8], 1, [0] * 4, [0] * 4, pods=17, goal=goal)) for goal in PlacementGoal]
        assert [result and result[1] for result in results] == [(6, 6, 0, 5), (7, 6, 0, 4), (8, 8, 1, 0)]

    @pytest.mark.parametrize("pods", [1, 5])
    def test_no_room(self, pods: int) -> None:
        """Where not all pods have room nothing is chosen."""
        case = problem([4], 4, [0], [0], pods=pods)
        assert (found(case) is None) == (pods > 1)
