"""The all-reduce bandwidth among the GPUs of one set within a node, from its product, links and zones."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import combinations
from math import inf

from extender.fabric.islands import Islands
from extender.fabric.links import KNOWN_MATRICES, LinkMatrix, Path
from extender.fabric.products import Interconnect, Product

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
