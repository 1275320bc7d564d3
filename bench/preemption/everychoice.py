"""What is found and every choice that there is, on clusters small enough to try them all, by counting GPUs alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench.figures import Figure
from bench.options import Options, Say
from bench.placement import GPU
from bench.preemption.occupied import GPUS_OF_NODE, Occupied, Sizes, head, occupy
from extender.eviction.search.search import FoundPreemption, VictimEviction
from extender.objects.pod import Pod
from extender.objects.topology import TopologyRequest
from extender.placement.candidates import PlacementTerms

#: Clusters, and how many pieces (extras, and gangs whole) may go on one: few enough to try all choices here, too
#: many for the search to try them.
CLUSTERS, SHORT_CLUSTERS = 2_000, 40
PIECES = range(13, 17)

#: What is wanted: the share of searches that find the optimum, and how much more than it may be lost.
LEAST_OPTIMAL, MOST_LOST = 0.95, 1.5

Cost: TypeAlias = tuple[int, int, int, int]
"""The highest priority, GPU-milliseconds lost with whole gangs, how many of these, GPU-milliseconds of extras alone."""


class Piece(NamedTuple):
    """Pods that go together: an extra, or a core, and then which pieces go with it."""

    pods: tuple[Pod, ...]
    priority: int
    lost: int
    extras: tuple[int, ...] = ()
    core: bool = False


@dataclass
class Tally:
    """What came out: how many were compared, were optimal, were wrong, and how much more the others lost."""

    searches: int = 0
    optimal: int = 0
    wrong: int = 0
    higher: int = 0
    ratios: list[float] = field(default_factory=lambda: [1.0])

    def add(self, found: FoundPreemption | None, best: Cost | None) -> None:
        """Take in what a search found where `best` is the least cost there is, None if there is no way."""
        if found is None or best is None:
            self.wrong += (found is None) != (best is None)
            return
        cost = cost_of(found.evictions)
        self.searches += 1
        self.optimal += cost == best
        self.wrong += cost < best
        self.higher += cost[0] > best[0]
        if cost[0] == best[0]:
            self.ratios.append((cost[1] + 1) / (best[1] + 1))


def measure(options: Options, say: Say) -> list[Figure]:
    """Compare searches with the best of all choices."""
    count = (options.repeats or 1) * (SHORT_CLUSTERS if options.short else CLUSTERS)
    say(f"trying every choice on {count} small clusters")
    tally = Tally()
    for seed in range(count):
        random = Random(f"head {seed}")
        sizes = Sizes(
            random.randint(2, 4),
            random.randint(2, 4),
            2,
            (1, 2, 3, 4, 6),
            elastic=0.3,
            priorities=(0, 0, 0, 5),
            gangs=15,
        )
        site = occupy(seed, sizes)
        count, gpus = random.randint(2, 12), random.choice((1, 2, 4, 8, 8))
        level = random.choice(("", "", "rack", "block"))
        if len(pieces_of(site)) in PIECES:
            terms = PlacementTerms(topology=TopologyRequest(required=level))
            tally.add(site.search(head(count, gpus), terms), least(site, count, gpus, level))
    return [
        _exactly("searches_with_every_choice_tried", "searches", tally.searches),
        _exactly("searches_wrong_about_whether_there_is_a_way", "searches", tally.wrong, bound=0),
        _exactly("searches_that_disturb_a_higher_priority_than_needed", "searches", tally.higher, bound=0),
        _exactly("searches_not_optimal", "share", 1 - tally.optimal / max(tally.searches, 1), bound=1 - LEAST_OPTIMAL),
        _exactly("gpu_time_lost_vs_least_worst_search", "ratio", max(tally.ratios), bound=MOST_LOST),
        _exactly("gpu_time_lost_vs_least_mean", "ratio", sum(tally.ratios) / len(tally.ratios)),
    ]


def pieces_of(site: Occupied) -> list[Piece]:
    """Return what can be evicted piece by piece."""
    pieces: list[Piece] = []
    for victim in site.victims:
        milliseconds = round(victim.seconds * 1000)
        first = len(pieces)
        pieces += [Piece((pod,), victim.priority, milliseconds * pod.shape.whole_gpus) for pod in victim.extras]
        lost = milliseconds * sum(pod.shape.whole_gpus for pod in (*victim.core, *victim.extras))
        pieces.append(Piece(victim.core, victim.priority, lost, tuple(range(first, len(pieces))), core=True))
    return pieces


def least(site: Occupied, count: int, gpus: int, level: str) -> Cost | None:
    """Return the least cost of all choices after which so many pods of so many GPUs fit, None if none does it."""
    pieces = pieces_of(site)
    nodes = site.table.nodes()
    place = {node.name: index for index, node in enumerate(nodes)}
    freed = np.zeros((len(pieces), len(nodes)), dtype=np.int64)
    for index, piece in enumerate(pieces):
        for pod in piece.pods:
            freed[index, place[pod.node_name]] += pod.shape.request(GPU)
    chosen = (np.arange(1 << len(pieces))[:, None] >> np.arange(len(pieces)) & 1).astype(np.bool_)
    for index, piece in enumerate(pieces):
        chosen = chosen[~chosen[:, index] | chosen[:, list(piece.extras)].all(axis=1)]
    rooms = (GPUS_OF_NODE - freed.sum(axis=0) + chosen @ freed) // gpus
    domains = np.array([node.labels[level] if level else "" for node in nodes])
    fits = [rooms[:, domains == domain].sum(axis=1) >= count for domain in np.unique(domains)]
    return _cheapest(pieces, chosen[np.logical_or.reduce(fits)])


def _cheapest(pieces: Sequence[Piece], chosen: NDArray[np.bool_]) -> Cost | None:
    if not chosen.shape[0]:
        return None
    core = np.array([piece.core for piece in pieces])
    lost = np.array([piece.lost for piece in pieces])
    alone = chosen & ~core
    for index, piece in enumerate(pieces):
        alone[:, list(piece.extras)] &= ~chosen[:, [index]]
    priority = np.where(chosen, [piece.priority for piece in pieces], 0).max(axis=1)
    whole = chosen & core
    keys = (alone @ lost, whole.sum(axis=1), whole @ lost, priority)
    best = int(np.lexsort(keys)[0])
    return int(priority[best]), int(keys[2][best]), int(keys[1][best]), int(keys[0][best])


def cost_of(evictions: Sequence[VictimEviction]) -> Cost:
    """Return what evictions cost."""
    whole = [each for each in evictions if set(each.victim.core) <= set(each.pods)]
    alone = [each for each in evictions if each not in whole]
    priority = max((each.victim.priority for each in evictions), default=0)
    return priority, sum(map(_lost, whole)), len(whole), sum(map(_lost, alone))


def _lost(eviction: VictimEviction) -> int:
    return round(eviction.victim.seconds * 1000) * sum(pod.shape.whole_gpus for pod in eviction.pods)


def _exactly(name: str, unit: str, value: float, bound: float | None = None) -> Figure:
    return Figure(name, unit, value, value, value, bound)
