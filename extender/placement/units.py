"""What members can be given: NVLink islands, and what each does with one pod, two pods, and so on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from extender.cluster.offers import Offer
from extender.cluster.tree import Tree
from extender.domain.topology import Objective
from extender.fabric.bandwidth import IslandUse, contribution, step
from extender.fabric.product import Product

#: More pods on one island than are told apart when its tables are written.
MOST_PODS = 128


@dataclass(frozen=True, slots=True)
class Unit:
    """An NVLink island that some pods of one shape can go to: a node, or the nodes of a multi-node NVLink domain.

    The tables are by number of pods, 0 to `cap`: GB/s among all GPUs of the gang there (`inner`), GB/s of their network
    (`outer`), and GB/s that future requests lose (`loss`, rounded). `gpus` is what one pod asks for, `settled` how many
    GPUs there the gang has already. `nic` is the GB/s of one network card; `product` is None where nobody knows it.
    """

    cap: int
    gpus: int
    inner: tuple[float, ...]
    outer: tuple[float, ...]
    loss: tuple[int, ...]
    nic: float = inf
    nvls: bool = False
    clique: bool = False
    settled: int = 0
    product: Product | None = None

    def use(self, pods: int) -> IslandUse:
        """Return what the gang uses there with `pods` pods more."""
        count = self.settled + pods * self.gpus
        return IslandUse(self.inner[pods], self.outer[pods], self.nic, count, nvls=self.nvls, clique=self.clique)

    def steps(self, most: int, question: Question, islands: int) -> tuple[int, ...]:
        """Return, for 0 to `most` pods, the 5 % step that the island allows a gang on `islands` islands."""
        pods = range(1, min(self.cap, most) + 1)
        return (step(inf), *(question.step(self.use(count), islands) for count in pods))


@dataclass(frozen=True, slots=True)
class Question:
    """What a bandwidth is asked of: the GPUs of the whole gang, the factors of the network, the collective."""

    gpus: int
    factors: tuple[float, float]
    objective: Objective

    def step(self, use: IslandUse, islands: int) -> int:
        """Return the 5 % step that one island allows."""
        return step(contribution(use, islands, self.gpus, self.factors, self.objective))


@dataclass(frozen=True)
class Field:
    """The nodes that pods of one shape can go to.

    Attributes:
        tree: the level tree.
        rows: (nodes,) their rows.
        caps: (nodes,) how many pods each takes, however many are asked for.
        kinds: (nodes,) index of each in `units`.
        units: what nodes of each kind do.
        order: (nodes,) each one's place in the natural order of names.
        gpus: whole GPUs that one pod asks for.
    """

    tree: Tree
    rows: NDArray[np.intp]
    caps: NDArray[np.int64]
    kinds: NDArray[np.intp]
    units: Sequence[Unit]
    order: NDArray[np.int64]
    gpus: int
    _totals: dict[int, NDArray[np.int64]] = field(default_factory=dict, repr=False)

    @cached_property
    def paths(self) -> NDArray[np.int64]:
        """Return (levels, nodes): the domain of each node on each level, -1 for none."""
        return self.tree.domains[:, self.rows]

    def totals(self, level: int) -> NDArray[np.int64]:
        """Return (domains,) how many pods the domains of a level take; (1,) for the cluster, level -1."""
        if level not in self._totals:
            if level < 0:
                totals = np.array([self.caps.sum()], dtype=np.int64)
            else:
                inside = self.paths[level] >= 0
                totals = np.bincount(
                    self.paths[level][inside], weights=self.caps[inside], minlength=len(self.tree.names[level])
                ).astype(np.int64)
            self._totals[level] = totals
        return self._totals[level]

    def inside(self, level: int, domain: int) -> NDArray[np.intp]:
        """Return the positions of the nodes in a domain, all for the cluster, in order of their names."""
        chosen = np.arange(self.rows.shape[0]) if level < 0 else np.flatnonzero(self.paths[level] == domain)
        return chosen[np.argsort(self.order[chosen], kind="stable")]

    def free_chain(self, level: int, domain: int, position: int) -> tuple[int, ...]:
        """Return how many pods a domain takes, then the one around it, out to the cluster.

        `position` is that of any node in it. Nodes without a domain on a level have the cluster around them there.
        """
        if level >= self.tree.depth:
            return tuple(int(chain[0]) for chain in self.free_chains(np.array([position], dtype=np.intp)))
        whole = int(self.totals(-1)[0])
        chain = [int(self.totals(level)[domain])] if level >= 0 else []
        for outer in range(level - 1, -1, -1):
            around = int(self.paths[outer, position])
            chain.append(int(self.totals(outer)[around]) if around >= 0 else whole)
        return (*chain, whole)

    def free_chains(self, positions: NDArray[np.intp]) -> list[NDArray[np.int64]]:
        """Return how many pods each node takes, then each domain around it, innermost first, then the cluster."""
        chains = [self.caps[positions]]
        whole = self.totals(-1)
        for level in range(self.tree.depth - 1, -1, -1):
            around = self.paths[level, positions]
            chains.append(np.append(self.totals(level), whole)[around])  # -1, no domain, reads the cluster's
        return [*chains, np.broadcast_to(whole, positions.shape)]


def node_unit(offer: Offer, cap: int, settled: int) -> Unit:
    """Return what a node does that makes `offer`, `cap` pods at most, beside `settled` GPUs of the gang."""
    pods = min(cap, offer.pods, MOST_PODS)
    inner, outer = offer.inner[:pods], offer.outer[:pods]
    if settled and offer.product is not None:
        totals = [settled + count * offer.gpus for count in range(1, pods + 1)]
        inner = tuple(min(own, offer.product.inner(total)) for own, total in zip(inner, totals, strict=True))
        outer = tuple(offer.product.outer(total) for total in totals)
    return Unit(
        cap=pods,
        gpus=offer.gpus,
        inner=(inf, *inner),
        outer=(inf, *outer),
        loss=(0, *(round(loss) for loss in offer.loss[:pods])),
        nic=offer.product.nic if offer.product is not None else inf,
        nvls=offer.nvls,
        settled=settled,
        product=offer.product,
    )
