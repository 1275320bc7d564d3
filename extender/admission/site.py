"""What is free at one moment of a pass, and what has been found out about it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from extender.cluster.gangs import Gang
from extender.cluster.table import NodeTable
from extender.cluster.whatif import WhatIf
from extender.domain.keys import Packing
from extender.domain.pod import Pod, Shape
from extender.placement.plan import Eligible, shortfall

#: More pods than any gang has (2^40): a node that takes any number of pods that ask for nothing counts as this much.
_MANY = 1 << 40


class Capacity(Enum):
    """How much of the cluster a question is about."""

    FREE = auto()  # what is free now and not kept for the head of the queue
    UNKEPT = auto()  # what is free now
    EMPTY = auto()  # all there is


@dataclass(frozen=True, slots=True)
class Demand:
    """How many pods of which shapes are to be placed together, and how they spread: equal demands fit equally."""

    shapes: frozenset[tuple[Shape, int]]
    packing: Packing
    pods: int

    @classmethod
    def of_gang(cls, gang: Gang, pods: int) -> Demand:
        """Return what the first `pods` members of `gang` without a place ask for; O(1) if all of those are alike."""
        counts = gang.wanted
        if pods < gang.unplaced_count:
            first = next(iter(counts))
            alike = len(counts) == 1
            counts = {first: pods} if alike else Counter(pod.shape for pod in gang.unplaced()[:pods])
        return cls(frozenset(counts.items()), gang.packing, pods)


@dataclass(slots=True)
class Party:
    """Members of one gang that are to be placed together: the first of those without a place.

    `ever` is how many of them fit on the empty cluster (None: all) as the nodes were at a generation of their table.
    """

    gang: Gang
    demand: Demand
    ever: tuple[int, int | None] | None = None
    _pods: list[Pod] | None = field(default=None, repr=False)

    @property
    def pods(self) -> list[Pod]:
        """Return the members in member order; sorted when first asked for, since most that wait are only counted."""
        if self._pods is None:
            self._pods = self.gang.unplaced()[: self.demand.pods]
        return self._pods


@dataclass(frozen=True, slots=True)
class Misfit:
    """What was found out about a demand that does not fit.

    `fits` of the pods fit now. `unmatched` says that no node admits one of the shapes, however empty. `fits_ever` of
    the pods would fit on the empty cluster, None if all would. `vetoed` says that they would fit now but for nodes that
    kube-scheduler refused, `kept` that they would but for what is kept for the head of the queue.
    """

    fits: int
    unmatched: bool = False
    fits_ever: int | None = None
    vetoed: bool = False
    kept: bool = False


class Site:
    """Where pods could go on one footing. Everything that is asked about a shape is counted once for all gangs.

    Attributes:
        table: the nodes.
        kept: (resources, rows) what is kept for the head of the queue, None without one.
        admitted: which nodes admit a shape.
        misfits: what was found out about demands without vetoes.
    """

    def __init__(self, table: NodeTable, kept: NDArray[np.int64] | None, admitted: Eligible) -> None:
        """Look at `table` as it is now."""
        self.table = table
        self.kept = kept
        self.admitted = admitted
        self.misfits: dict[Demand, Misfit] = {}
        self._snapshots: dict[Capacity, WhatIf] = {}
        self._rooms: dict[tuple[Capacity, Shape], int] = {}
        self._admits: dict[Shape, bool] = {}
        self._totals: dict[str, int] | None = None

    def snapshot(self, capacity: Capacity) -> WhatIf:
        """Return what the question is about; whoever takes from it puts it back, or the site is done with."""
        if capacity not in self._snapshots:
            self._snapshots[capacity] = WhatIf(self.table, self._capacity(capacity))
        return self._snapshots[capacity]

    def totals(self) -> dict[str, int]:
        """Return how much of each resource is free in the whole cluster."""
        if self._totals is None:
            sums = np.maximum(self.snapshot(Capacity.FREE).free, 0).sum(axis=1)
            self._totals = dict(zip(self.table.resources, sums.tolist(), strict=True))
        return self._totals

    def lack(self, capacity: Capacity, party: Party, eligible: Eligible) -> int | None:
        """Return how many of the party fit, or None if all do. What counting leaves open has to be tried."""
        fits = self.count(capacity, party, eligible)
        if fits is not None or len(party.demand.shapes) == 1:
            return fits
        short = shortfall(party.pods, self.snapshot(capacity), eligible, party.demand.packing)
        return None if short is None else short.fits

    def lack_ever(self, party: Party) -> int | None:
        """Return how many of the party fit on the empty cluster, or None if all do; kept while no node changes."""
        nodes = self.table.last_node_change
        if party.ever is None or party.ever[0] != nodes:
            party.ever = nodes, self.lack(Capacity.EMPTY, party, self.admitted)
        return party.ever[1]

    def count(self, capacity: Capacity, party: Party, eligible: Eligible) -> int | None:
        """Return how many of the party fit if each shape had the nodes to itself, or None if that is all of them.

        Where a shape does not fit even so, the party does not fit: most gangs that wait need not be tried.
        """
        fits = sum(min(self.room(capacity, shape, eligible), wanted) for shape, wanted in party.demand.shapes)
        return None if fits >= party.demand.pods else fits

    def admits(self, shape: Shape) -> bool:
        """Tell whether any node admits pods of one shape, however empty."""
        if shape not in self._admits:
            self._admits[shape] = bool(self.admitted(shape).any())
        return self._admits[shape]

    def room(self, capacity: Capacity, shape: Shape, eligible: Eligible) -> int:
        """Return how many pods of one shape fit; 2^40 and more are any number."""
        room = self._rooms.get((capacity, shape)) if eligible is self.admitted else None
        if room is None:
            counts = self.snapshot(capacity).counts(self.table.vector(shape.requests), eligible(shape))
            room = int(np.minimum(counts, _MANY).sum())
            if eligible is self.admitted:
                self._rooms[capacity, shape] = room
        return room

    def _capacity(self, capacity: Capacity) -> NDArray[np.int64]:
        match capacity:
            case Capacity.FREE:
                free = self.table.free()
                return free if self.kept is None else free - self.kept
            case Capacity.UNKEPT:
                return self.table.free()
            case Capacity.EMPTY:
                return self.table.allocatable[:, : self.table.rows]
