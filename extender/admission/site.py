"""What is free at one moment of a pass, and what has been found out about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import groupby
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from extender.cluster.core import core
from extender.cluster.gangs import Gang
from extender.cluster.occupancy import Holding
from extender.cluster.table import NodeTable
from extender.cluster.tree import Tree
from extender.cluster.whatif import WhatIf
from extender.domain.keys import Packing
from extender.domain.pod import Pod, Shape
from extender.domain.topology import UNCONSTRAINED, TopologyRequest
from extender.placement.ground import Eligible, Ground, Terms
from extender.placement.plan import Shortfall, shortfall
from extender.placement.room import room as room_for

#: More pods than any gang has (2^40): a node that takes any number of pods that ask for nothing counts as this much.
_MANY = 1 << 40


class Capacity(Enum):
    """How much of the cluster a question is about."""

    FREE = auto()  # what is free now and not kept for the head of the queue
    UNKEPT = auto()  # what is free now
    EMPTY = auto()  # all there is


@dataclass(frozen=True, slots=True)
class Demand:
    """How many pods of which shapes are to be placed together, and how: equal demands fit equally.

    `sequence` says how many pods of which role and shape follow each other in member order; it is empty where that
    decides nothing, because the topology is not asked for slices or roles that share a domain.
    """

    shapes: frozenset[tuple[Shape, int]]
    packing: Packing
    pods: int
    topology: TopologyRequest = UNCONSTRAINED
    sequence: tuple[tuple[str, Shape, int], ...] = ()

    @property
    def terms(self) -> Terms:
        """Return how they are to be placed."""
        return Terms(self.packing, self.topology)

    @classmethod
    def of_gang(cls, gang: Gang, pods: int) -> Demand:
        """Return what the `pods` members that `gang` needs first ask for; O(1) if all without a place are alike."""
        counts, topology = gang.wanted, gang.topology
        if topology.slices or topology.role_groups:
            chosen = core(gang, pods)
            runs = groupby(chosen, key=lambda pod: (pod.role, pod.shape))
            sequence = tuple((role, shape, sum(1 for _ in run)) for (role, shape), run in runs)
            return cls(frozenset(Counter(pod.shape for pod in chosen).items()), gang.packing, pods, topology, sequence)
        if pods < gang.unplaced_count:
            first = next(iter(counts))
            alike = len(counts) == 1
            counts = {first: pods} if alike else Counter(pod.shape for pod in core(gang, pods))
        return cls(frozenset(counts.items()), gang.packing, pods, topology)

    @classmethod
    def of_pods(cls, pods: Sequence[Pod], gang: Gang) -> Demand:
        """Return what members of a gang ask for that cannot be placed yet."""
        return cls(frozenset(Counter(pod.shape for pod in pods).items()), gang.packing, len(pods), gang.topology)


@dataclass(slots=True)
class Party:
    """Members of one gang that are to be placed together: those without a place that it needs first.

    `settled` says how many GPUs other members have on which row. `ever` is what keeps them from fitting on the empty
    cluster (None: nothing) as the nodes were at a generation of their table.
    """

    gang: Gang
    demand: Demand
    settled: Mapping[int, int] = field(default_factory=dict)
    ever: tuple[int, Shortfall | None] | None = None
    _pods: list[Pod] | None = field(default=None, repr=False)
    _amounts: Mapping[str, int] | None = field(default=None, repr=False)

    @property
    def amounts(self) -> Mapping[str, int]:
        """Return how much of each resource the members ask for together."""
        if self._amounts is None:
            self._amounts = amounts_of(self.demand.shapes)
        return self._amounts

    @property
    def pods(self) -> list[Pod]:
        """Return the members in member order; sorted when first asked for, since most that wait are only counted."""
        if self._pods is None:
            self._pods = core(self.gang, self.demand.pods)
        return self._pods


@dataclass(frozen=True, slots=True)
class Misfit:
    """What was found out about a demand that does not fit.

    `now` is how far it falls short now, `ever` how far on the empty cluster, None if it would fit there; `unmatched`
    says that no node admits one of the shapes, however empty; `unknown` names a level that nobody knows. `unaligned` is
    how many would fit, now or ever, if only numbers counted and not NUMA zones. `vetoed` says that all would fit now
    but for nodes that kube-scheduler refused, `rejected` that they would but for nodes whose kubelet turned such pods
    away, `kept` that they would but for what is kept for the head of the queue.
    """

    now: Shortfall
    ever: Shortfall | None = None
    unmatched: bool = False
    unknown: str = ""
    unaligned: int | None = None
    vetoed: bool = False
    rejected: bool = False
    kept: bool = False


def amounts_of(shapes: Iterable[tuple[Shape, int]]) -> Mapping[str, int]:
    """Return how much of each resource so many pods of each shape ask for, by the resources' names."""
    total: Counter[str] = Counter()
    for shape, count in shapes:
        for resource, amount in shape.requests:
            if amount:
                total[resource] += amount * count
    return dict(sorted(total.items()))


class Nodes(Protocol):
    """The nodes of a cluster, and the domains that they are in."""

    @property
    def table(self) -> NodeTable:
        """Return the nodes."""
        ...

    @property
    def tree(self) -> Tree:
        """Return which domain of each tier every node is in."""
        ...


class Site:
    """Where pods could go on one footing. Everything that is asked about a shape is counted once for all gangs.

    Attributes:
        table: the nodes.
        tree: the level tree over them.
        kept: (resources, rows) what is kept for the head of the queue, None without one.
        admitted: which nodes admit a shape now.
        possible: which nodes admit it at all, whatever their kubelets turned away lately.
        misfits: what was found out about demands without vetoes, of gangs that have no node yet.
    """

    def __init__(self, nodes: Nodes, kept: NDArray[np.int64] | None, admitted: Eligible, possible: Eligible) -> None:
        """Look at `nodes` as they are now."""
        self.table = nodes.table
        self.tree = nodes.tree
        self.kept = kept
        self.admitted = admitted
        self.possible = possible
        self.misfits: dict[Demand, Misfit] = {}
        self._snapshots: dict[Capacity, WhatIf] = {}
        self._rooms: dict[tuple[Capacity, Shape], int] = {}
        self._domain_rooms: dict[tuple[Capacity, int, Shape], NDArray[np.int64]] = {}
        self._admits: dict[Shape, bool] = {}
        self._totals: dict[str, int] | None = None

    def snapshot(self, capacity: Capacity) -> WhatIf:
        """Return what the question is about; whoever takes from it puts it back, or the site is done with."""
        if capacity not in self._snapshots:
            holding = Holding.NONE if capacity is Capacity.EMPTY else Holding.ALL
            self._snapshots[capacity] = WhatIf(self.table, self._capacity(capacity), holding)
        return self._snapshots[capacity]

    def totals(self) -> dict[str, int]:
        """Return how much of each resource is free in the whole cluster."""
        if self._totals is None:
            sums = np.maximum(self.snapshot(Capacity.FREE).free, 0).sum(axis=1)
            self._totals = dict(zip(self.table.resources, sums.tolist(), strict=True))
        return self._totals

    def ground(self, party: Party, eligible: Eligible) -> Ground:
        """Return where a party may be placed."""
        return Ground(self.tree, eligible, party.settled)

    def lack(self, capacity: Capacity, party: Party, eligible: Eligible) -> Shortfall | None:
        """Return how far the party falls short, None if all fit. What counting leaves open has to be tried."""
        demand = party.demand
        short = self.count(capacity, party, eligible)
        # Of equal pods that need no more than one domain for all of them, counting says everything.
        counted = len(demand.shapes) == 1 and not demand.sequence and not (demand.topology.required and party.settled)
        if short is not None or counted:
            return short
        return shortfall(party.pods, self.snapshot(capacity), self.ground(party, eligible), demand.terms)

    def lack_ever(self, party: Party) -> Shortfall | None:
        """Return how far the party falls short on the empty cluster, None if all fit; kept while no node changes."""
        nodes = self.table.last_node_change
        if party.ever is None or party.ever[0] != nodes:
            party.ever = nodes, self.lack(Capacity.EMPTY, party, self.possible)
        return party.ever[1]

    def count(self, capacity: Capacity, party: Party, eligible: Eligible) -> Shortfall | None:
        """Return how far the party falls short if each shape had the nodes to itself, None if all of them fit.

        Where a shape does not fit even so, the party does not fit: most gangs that wait need not be tried.
        """
        demand = party.demand
        fits = sum(min(self.room(capacity, shape, eligible), wanted) for shape, wanted in demand.shapes)
        if fits < demand.pods:
            return Shortfall(demand.pods, fits)
        level = self.tree.levels.find(demand.topology.required) if demand.topology.required else None
        if level is None or party.settled:
            return None
        rooms = [np.minimum(self.rooms(capacity, level, shape, eligible), wanted) for shape, wanted in demand.shapes]
        most = int(np.sum(rooms, axis=0).max(initial=0))
        return None if most >= demand.pods else Shortfall(demand.pods, most, level=self.tree.levels.name(level))

    def counted(self, capacity: Capacity, party: Party, eligible: Eligible) -> int:
        """Return how many of the party fit if only numbers counted, and not which NUMA zones and GPUs they are in."""
        whatif, fits = self.snapshot(capacity), 0
        for shape, wanted in party.demand.shapes:
            counts = whatif.counts(self.table.vector(shape.requests), eligible(shape))
            fits += int(np.minimum(counts, wanted).sum().clip(max=wanted))
        return fits

    def admits(self, shape: Shape) -> bool:
        """Tell whether any node admits pods of one shape, however empty."""
        if shape not in self._admits:
            self._admits[shape] = bool(self.possible(shape).any())
        return self._admits[shape]

    def room(self, capacity: Capacity, shape: Shape, eligible: Eligible) -> int:
        """Return how many pods of one shape fit; 2^40 and more are any number."""
        shared = self._is_shared(capacity, eligible)
        room = self._rooms.get((capacity, shape)) if shared else None
        if room is None:
            room = int(np.minimum(room_for(self.snapshot(capacity), shape, eligible(shape)), _MANY).sum())
            if shared:
                self._rooms[capacity, shape] = room
        return room

    def rooms(self, capacity: Capacity, level: int, shape: Shape, eligible: Eligible) -> NDArray[np.int64]:
        """Return (domains,) how many pods of one shape fit into each domain of a level, the node's included."""
        key = (capacity, level, shape)
        rooms = self._domain_rooms.get(key) if self._is_shared(capacity, eligible) else None
        if rooms is None:
            rooms = self.tree.sums(level, np.minimum(room_for(self.snapshot(capacity), shape, eligible(shape)), _MANY))
            if self._is_shared(capacity, eligible):
                self._domain_rooms[key] = rooms
        return rooms

    def _is_shared(self, capacity: Capacity, eligible: Eligible) -> bool:
        """Tell whether what is counted with `eligible` holds for everybody."""
        return eligible is (self.possible if capacity is Capacity.EMPTY else self.admitted)

    def _capacity(self, capacity: Capacity) -> NDArray[np.int64]:
        match capacity:
            case Capacity.FREE:
                free = self.table.free()
                return free if self.kept is None else free - self.kept
            case Capacity.UNKEPT:
                return self.table.free()
            case Capacity.EMPTY:
                return self.table.allocatable[:, : self.table.rows]
