"""The bandwidth among GPUs, in GB/s of nccl-tests' bus bandwidth: of one set within a node, and of a gang over islands.

Within a node it follows from product, links and zones. A small board has few sets: all are looked at. Of a large board
only sets within `Islands` are.

An island, for a gang, is what NVLink joins: a node, or the nodes of one multi-node NVLink domain (a clique). A ring
over islands is as fast as its slowest part: NVLink inside an island, or the network between islands.
`docs/bandwidth.md` compares the model with published measurements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import inf

from extender.hardware.links import KNOWN_MATRICES, LinkMatrix, Path
from extender.hardware.product import Interconnect, Product
from extender.objects.topology import Objective

#: Share of a clique's own bandwidth that is left over two cliques, and over more. Source: coreweave/nccl-tests README,
#: GB200: 835-847 GB/s in one rack, 792-820 in two, 405 in twenty; nothing is published for what lies between.
TWO_CLIQUES, MORE_CLIQUES = 0.96, 0.5

#: Islands for which NVLink SHARP makes the all-reduce hierarchical, so that a NIC carries less than a ring's share.
#: Source: two nodes of H100 reach 440-470 GB/s with NICs of 376, four reach 366 (nccl-tests #309).
_HIERARCHICAL_ISLANDS = 2

_FEWEST_GPUS = 2

#: Bandwidths that differ by less are the same: the model is off by that much itself (docs/bandwidth.md).
STEP = 1.05

#: The step of infinite bandwidth: nothing is to be communicated.
NO_COMMUNICATION = 1_000_000

# What lies on the edge between two steps but for rounding belongs to the upper one.
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class IslandUse:
    """What a gang has of one island.

    `inner` is the GB/s among its GPUs there, `outer` that of the NICs local to them (efficiency included, no tier
    factor), `nic` that of one NIC, `gpus` how many they are; `clique` tells a multi-node NVLink domain from a node.
    """

    inner: float
    outer: float
    nic: float
    gpus: int
    nvls: bool = False
    clique: bool = False


def contribution(use: IslandUse, islands: int, gpus: int, factors: tuple[float, float], objective: Objective) -> float:
    """Return the GB/s that one of `islands` islands allows a gang of `gpus` GPUs.

    `factors` are the shares of the network's bandwidth, all-reduce and all-to-all, that the lowest level which all
    islands have in common leaves. Infinite where bandwidth is not the objective.
    """
    if objective is Objective.NONE:
        return math.inf
    if islands == 1:
        return use.inner
    allreduce, alltoall = factors
    if objective is Objective.ALLTOALL:
        return min(use.inner, use.nic * alltoall)
    network = use.outer * allreduce
    if use.clique:
        return min(use.inner * (TWO_CLIQUES if islands == _HIERARCHICAL_ISLANDS else MORE_CLIQUES), network)
    if use.nvls and islands == _HIERARCHICAL_ISLANDS:
        return min(use.inner, network * 2 * (gpus - 1) / gpus)
    return min(use.inner, network)


def bus_bandwidth(uses: Sequence[IslandUse], factors: tuple[float, float], objective: Objective) -> float | None:
    """Return the GB/s of a gang over its islands: the least that one of them allows; None for less than two GPUs."""
    gpus = sum(use.gpus for use in uses)
    if gpus < _FEWEST_GPUS:
        return None
    return min(contribution(use, len(uses), gpus, factors, objective) for use in uses)


def step(gbps: float) -> int:
    """Return which step of 5 % a bandwidth lies on, so that what the model cannot tell apart compares equal."""
    if gbps <= 0:
        return 0
    if math.isinf(gbps):
        return NO_COMMUNICATION
    return max(0, math.floor(math.log(gbps) / math.log(STEP) + _EPSILON))


#: Up to so many GPUs every set is looked at. Twice as many have 65,536 sets, and that is too long for one decision.
EXACT = 8

#: GB/s among GPUs of which nothing is known: any number will do, as it only tells larger sets from smaller ones.
NOMINAL = 100.0

#: GB/s of an all-reduce that one NVLink carries. Source: NCCL's model of Volta and Ampere, src/graph/topo.h.
_NVLINK = 20.0

#: GB/s over PCIe Gen4 by the longest path in the set: assumptions around the 20 GB/s of nccl-tests #178. For products
#: with figures of their own only the ratios count.
_PCIE = {
    Path.BOARD: 24.0,
    Path.PIX: 24.0,
    Path.PXB: 24.0,
    Path.PHB: 20.0,
    Path.NODE: 20.0,
    Path.UNKNOWN: 20.0,
    Path.SYS: 15.0,
}

_PATHS = tuple(reversed(Path))

_SCORE = 100


class Islands:
    """The islands of one board: GPUs that are joined more closely with each other than with the rest.

    For every score that a pair has, those GPUs are one island that pairs of at least this score connect. Islands are
    nested, so there are at most twice as many as GPUs.
    """

    def __init__(self, gpus: int, pair: Callable[[int, int], int], given: Sequence[int] = ()) -> None:
        """Find the islands of `gpus` GPUs.

        Args:
            gpus: how many there are.
            pair: the score of two GPUs by device index; higher is closer.
            given: further islands as bit masks, such as NUMA zones.
        """
        self.exact = gpus <= EXACT
        scores = {pair(i, j) for i in range(gpus) for j in range(i)}
        found = {(1 << gpus) - 1, *given}
        if not self.exact:
            for score in scores:
                found |= _connected(gpus, pair, score)
        self._islands = sorted((mask for mask in found if mask), key=lambda mask: (mask.bit_count(), mask))
        self._children = {island: self._inside(island) for island in self._islands}

    def sets(self, free: int, size: int) -> Iterator[int]:
        """Yield sets of `size` of the `free` GPUs: each once, all of them on a small board.

        On a large one: single GPUs, and one set within each island that holds it, which leaves islands inside whole
        where it can.
        """
        if self.exact or size == 1:
            bits = [1 << index for index in range(free.bit_length()) if free >> index & 1]
            yield from map(sum, combinations(bits, size))
            return
        seen: set[int] = set()
        for island in self._islands:
            if (island & free).bit_count() >= size:
                chosen = self._fill(island, free, size)
                if chosen not in seen:
                    seen.add(chosen)
                    yield chosen

    def _fill(self, island: int, free: int, size: int) -> int:
        """Take `size` free GPUs of an island: the tightest island inside that holds them, else whole ones first."""
        within = island & free
        if within.bit_count() == size or not self._children.get(island):
            return _lowest(within, size)
        children = {child & free: child for child in self._children[island] if child & free}
        chosen = 0
        while size and children:
            holding = [mask for mask in children if mask.bit_count() >= size]
            if holding:
                tightest = min(holding, key=lambda mask: (mask.bit_count(), mask))
                return chosen | self._fill(children[tightest], free, size)
            largest = min(children, key=lambda mask: (-mask.bit_count(), mask))
            del children[largest]
            chosen |= largest
            size -= largest.bit_count()
        return chosen

    def _inside(self, island: int) -> tuple[int, ...]:
        """Return the largest islands inside one, and its other GPUs one by one; disjoint, together the whole of it."""
        children: list[int] = []
        rest = island
        for other in reversed(self._islands):
            if other != island and not other & ~rest:
                children.append(other)
                rest &= ~other
        singles = (1 << index for index in range(rest.bit_length()) if rest >> index & 1)
        return (*children, *singles) if children else ()


def _connected(gpus: int, pair: Callable[[int, int], int], score: int) -> set[int]:
    """Return the sets of GPUs that pairs of at least `score` connect."""
    groups: list[int] = []
    for gpu in range(gpus):
        joined = [group for group in groups if any(group >> i & 1 and pair(gpu, i) >= score for i in range(gpu))]
        groups = [group for group in groups if group not in joined]
        groups.append(sum(joined) | 1 << gpu)
    return set(groups)


def _lowest(mask: int, count: int) -> int:
    """Return the `count` lowest bits of a mask."""
    chosen = 0
    for _ in range(count):
        low = mask & -mask
        chosen |= low
        mask ^= low
    return chosen


class SetBandwidth:
    """What each set of a node's GPUs reaches; remembers it by bit mask.

    A product's figure for a size is that of its best set of that size. Any other set has the share of it that the
    weakest GPU's links, or the longest PCIe path, are of the best set's.
    """

    def __init__(self, gpus: int, product: Product | None, links: LinkMatrix | None, zones: tuple[int, ...]) -> None:
        """Rate the sets of a node; `links` and `zones` that are not of `gpus` GPUs are left out."""
        self._gpus = gpus
        self._product = product
        if links is None and product is not None and product.links is not None:
            links = KNOWN_MATRICES.get(product.links)
        self._links = links if links is not None and links.gpus == gpus else None
        self._zones = zones if len(zones) == gpus else ()
        self._known: dict[int, float] = {}
        self._best: dict[int, float] = {}

    def of(self, chosen: int) -> float:
        """Return the GB/s of an all-reduce among the GPUs of a set; infinite for one GPU or none."""
        known = self._known.get(chosen)
        if known is None:
            known = self._known[chosen] = self._rate(chosen)
        return known

    def pair(self, first: int, second: int) -> int:
        """Return the score of a pair: 100 for each NVLink, and 10 to 60 for the PCIe path; zero where nothing is known.

        Source: go-gpuallocator, besteffort_policy.go.
        """
        return self._pairs[first][second]

    def closeness(self, chosen: int) -> int:
        """Return the sum of the scores of the PCIe paths between the GPUs of a set."""
        return sum(self._pairs[a][b] % _SCORE for a, b in combinations(_indices(chosen), 2))

    @cached_property
    def islands(self) -> Islands:
        """Return which sets are worth a look."""
        zones: dict[int, int] = {}
        for gpu, zone in enumerate(self._zones):
            zones[zone] = zones.get(zone, 0) | 1 << gpu
        return Islands(self._gpus, self.pair, tuple(zones.values()))

    @cached_property
    def _pairs(self) -> list[list[int]]:
        """Return (GPUs, GPUs) of scores; where a matrix shows NVLinks only, the zones say what the path is."""
        scores = [list(row) for row in self._links.scores] if self._links else [[0] * self._gpus] * self._gpus
        if not self._zones:
            return scores
        paths = [[Path.NODE if a == b else Path.SYS for b in self._zones] for a in self._zones]
        return [
            [score if i == j or score % _SCORE else score + paths[i][j] for j, score in enumerate(row)]
            for i, row in enumerate(scores)
        ]

    def _rate(self, chosen: int) -> float:
        size = chosen.bit_count()
        product = self._product
        if size <= 1:
            return inf
        if product is None:
            return NOMINAL if self._links is None else self._joined(chosen)
        if product.interconnect is Interconnect.NVSWITCH or not product.peer_to_peer:
            return product.inner(size)
        if product.interconnect is Interconnect.MESH:
            return (
                product.inner(size) if self._links is None else product.inner(size) * self._share(chosen, self._joined)
            )
        if (linked := self._links_within(chosen)) > 0:
            return linked if product.bridged is None else product.bridged * linked / self._most_links
        return product.inner(size) * self._share(chosen, self._unbridged)

    def _share(self, chosen: int, quality: Callable[[int], float]) -> float:
        """Return what a set reaches of the best set of its size; 1 for that one."""
        size = chosen.bit_count()
        if size not in self._best:
            self._best[size] = max(map(quality, self.islands.sets((1 << self._gpus) - 1, size)))
        # Of a large board not every set was looked at: the best one may be this.
        return min(1.0, quality(chosen) / self._best[size]) if self._best[size] else 1.0

    def _joined(self, chosen: int) -> float:
        """Return the GB/s of a set by its NVLinks, by PCIe if they do not connect it."""
        return self._links_within(chosen) or self._pcie(chosen)

    def _unbridged(self, chosen: int) -> float:
        """Return the GB/s of a set by PCIe; none of one that NVLinks connect, which has another figure."""
        return 0.0 if self._links_within(chosen) else self._pcie(chosen)

    def _pcie(self, chosen: int) -> float:
        """Return the GB/s that the longest PCIe path within a set allows, of those that are known."""
        paths = {self._pairs[a][b] % _SCORE for a, b in combinations(_indices(chosen), 2)}
        worst = min(paths - {Path.UNKNOWN}, default=Path.UNKNOWN)
        return _PCIE[next(path for path in _PATHS if path <= worst)]

    def _links_within(self, chosen: int) -> float:
        """Return the GB/s of the GPU with fewest NVLinks inside a set; zero if NVLinks do not connect all of it.

        Where every pair of the node has equally many, these are links to a switch, the same ones for every peer.
        """
        if self._links is None:
            return 0.0
        gpus = _indices(chosen)
        counts = [[self._pairs[a][b] // _SCORE for b in gpus] for a in gpus]
        reached, new = {0}, [0]
        while new:
            gpu = new.pop()
            further = [other for other, count in enumerate(counts[gpu]) if count and other not in reached]
            reached.update(further)
            new += further
        if len(reached) < len(gpus):
            return 0.0
        if self._switched:
            return _NVLINK * counts[0][1]
        return _NVLINK * min(map(sum, counts))

    @cached_property
    def _switched(self) -> bool:
        counts = {self._pairs[a][b] // _SCORE for a, b in combinations(range(self._gpus), 2)}
        return self._gpus > 2 and len(counts) == 1  # noqa: PLR2004 - two GPUs have one pair

    @cached_property
    def _most_links(self) -> float:
        """Return the GB/s of the GPU with most NVLinks."""
        if self._switched:
            return _NVLINK * (self._pairs[0][1] // _SCORE)
        return _NVLINK * max(sum(score // _SCORE for score in row) for row in self._pairs)


def _indices(mask: int) -> list[int]:
    return [index for index in range(mask.bit_length()) if mask >> index & 1]
