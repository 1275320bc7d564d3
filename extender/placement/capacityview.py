"""What is free at one moment of a pass, and what has been found out about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from extender.caches import SizedDict
from extender.cluster.gangs import Gang, core
from extender.cluster.occupancy import HoldingScope
from extender.cluster.table import NodeTable
from extender.cluster.tree import Tree
from extender.cluster.whatif import WhatIf, withhold
from extender.objects.keys import Packing
from extender.objects.pod import CHARGED, Pod, Shape
from extender.objects.requests import MOST_AMOUNT
from extender.objects.topology import UNCONSTRAINED, TopologyRequest
from extender.placement.candidates import Candidates, Eligibility, Eligible, NodeCode, NodeFilter, PlacementTerms
from extender.placement.complete.regions import Regions
from extender.placement.plan import Shortfall, plan, sequence_of, short_part
from extender.placement.room import room as room_for

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""The labels of a flavor's nodes; none for any nodes."""

RowsOf: TypeAlias = Callable[[Shape], Sequence[int]]
"""Shape -> rows of nodes."""

#: Answers about single shapes that views may remember when a pass begins with them: some three for each shape.
_MOST_ANSWERS = 24

#: Views that are followed; of more that take turns each is made every time.
_MOST_VIEWS = 8

#: More pods than any gang has (2^40): a node that takes any number of pods that ask for nothing counts as this much.
_MANY = 1 << 40
#: What the rooms in domains may take that one view remembers by shape (bytes).
_ROOMS_BYTES = 32 << 20

_UNSETTLED: Mapping[int, int] = {}


class Capacity(Enum):
    """How much of the cluster a question is about."""

    FREE = auto()  # what is free now and not kept for the head of the queue
    UNKEPT = auto()  # what is free now
    EMPTY = auto()  # all there is


@dataclass(frozen=True, slots=True)
class PodSetRequest:
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
    def terms(self) -> PlacementTerms:
        """Return how they are to be placed."""
        return PlacementTerms(self.packing, self.topology)

    @property
    def most_demanding(self) -> Shape:
        """Return the shape that asks for the most GPUs."""
        return max((shape for shape, _ in self.shapes), key=lambda shape: (shape.whole_gpus, shape.requests))

    @classmethod
    def of_gang(cls, gang: Gang, pods: int) -> PodSetRequest:
        """Return what the `pods` members that `gang` needs first ask for; O(1) if all without a place are alike."""
        counts, topology = gang.wanted, gang.topology
        if topology.slices or topology.role_groups:
            return cls.of_members(gang, core(gang, pods))
        if pods < gang.unplaced_count:
            first = next(iter(counts))
            alike = len(counts) == 1
            counts = {first: pods} if alike else Counter(pod.shape for pod in core(gang, pods))
        return cls(frozenset(counts.items()), gang.packing, pods, topology)

    @classmethod
    def of_members(cls, gang: Gang, pods: Sequence[Pod]) -> PodSetRequest:
        """Return what some members of `gang`, in member order, ask for."""
        return cls.of_pods(gang.told_apart(list(pods)), PlacementTerms(gang.packing, gang.topology))

    @classmethod
    def of_pods(cls, pods: Sequence[Pod], terms: PlacementTerms) -> PodSetRequest:
        """Return what `pods`, in member order, ask for that are to be placed as `terms` say."""
        topology = terms.topology
        sequence: tuple[tuple[str, Shape, int], ...] = ()
        if topology.slices or topology.role_groups:
            sequence = tuple(sequence_of(pods))
        shapes = frozenset(Counter(pod.shape for pod in pods).items())
        return cls(shapes, terms.packing, len(pods), topology, sequence)


@dataclass(frozen=True, slots=True)
class Join:
    """What a member joins: a domain of `level` with others of its slice of `size`, or with others of its `roles`.

    `shape` is the pod's own, before the domain was written into its selector.
    """

    shape: Shape
    level: str
    size: int = 0
    roles: tuple[str, ...] = ()


@dataclass(slots=True)
class PodSet:
    """Members of one gang that are to be placed together: those without a place that it needs first.

    `settled` says how many GPUs other members have on which row. `ever` is what keeps them from fitting on the empty
    cluster (None: nothing) as the nodes were at a generation of their table. `memory` is what searches for a place
    have found out, for the next to go on with. With `has_others` the gang has other members that do as well. `joins`
    says of a shape with a selector of its own what the members join that have it. `near` are the same members with
    those of the domains that they should share with others, the narrowest first; `otherwise` are the same members as
    they may join other slices, where no number says which is theirs.
    """

    gang: Gang
    demand: PodSetRequest
    settled: Mapping[int, int] = field(default_factory=dict)
    ever: tuple[int, Shortfall | None] | None = None
    memory: dict[Hashable, Regions] = field(default_factory=dict, repr=False, compare=False)
    has_others: bool = False
    joins: Mapping[Shape, Join] = field(default_factory=dict)
    near: tuple[PodSet, ...] = ()
    otherwise: tuple[PodSet, ...] = ()
    _pods: list[Pod] | None = field(default=None, repr=False)
    _amounts: Mapping[str, int] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Tell subgroups apart by the roles of members that are given."""
        if self._pods is not None:
            self._pods = self.gang.told_apart(self._pods)

    @classmethod
    def of_core(cls, gang: Gang, pods: int, settled: Mapping[int, int] = _UNSETTLED) -> PodSet:
        """Return the `pods` members that `gang` needs first."""
        return cls(gang, PodSetRequest.of_gang(gang, pods), settled, has_others=pods < gang.unplaced_count)

    @property
    def is_single(self) -> bool:
        """Tell whether it is one pod that joins no others, and need be in no domain with any."""
        return self.demand.pods == 1 and not (self.settled or self.demand.terms.gathers)

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
            self._pods = self.gang.told_apart(core(self.gang, self.demand.pods))
        return self._pods


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found out about a demand that does not fit.

    `now` is how far it falls short now, `ever` how far on the empty cluster, None if it would fit there; `unmatched`
    says that no node admits one of the shapes, however empty. `unaligned` is how many would fit, now or ever, if only
    numbers counted and not NUMA zones. `vetoed` says that all would fit now but for nodes that kube-scheduler refused,
    `rejected` that they would but for nodes whose kubelet rejected such pods, `kept` that they would but for what is
    kept for the head of the queue. `lacks` says in words what devices nodes lack, however empty.
    """

    now: Shortfall
    ever: Shortfall | None = None
    unmatched: bool = False
    unaligned: int | None = None
    vetoed: bool = False
    rejected: bool = False
    kept: bool = False
    lacks: str = ""


def amounts_of(shapes: Iterable[tuple[Shape, int]]) -> Mapping[str, int]:
    """Return how much of each resource so many pods of each shape ask for, by the names of what has quota."""
    total: Counter[str] = Counter()
    for shape, count in shapes:
        for resource, amount in shape.requests:
            if amount:
                total[resource.removesuffix(CHARGED)] += amount * count
    return dict(sorted(total.items()))


def settled_on(gang: Gang, table: NodeTable) -> Mapping[int, int]:
    """Return how many GPUs members have on which row of a table that have a node to stay, or one promised."""
    if gang.unplaced_count == len(gang.members):
        return {}
    settled: dict[int, int] = {}
    for uid, pod in gang.members.items():
        claim = None if pod.deleting else table.claim_of(uid)  # others do not follow one that leaves
        row = None if claim is None else table.row(claim.node)
        if claim is not None and row is not None:
            settled[row] = settled.get(row, 0) + claim.shape.whole_gpus
    return settled


class CapacityView:
    """What is free in one flavor beside what is kept. Everything that is asked about a shape is counted once.

    Attributes:
        table: the nodes.
        tree: the level tree over them.
        kept: (resources, rows) what is kept for others, None for nothing.
        admitted: which nodes admit a shape now.
        possible: which nodes admit it at all, whatever their kubelets rejected lately.
        diagnoses: what was found out about demands without vetoes, of gangs that have no node yet.
        placeless: demands of such gangs that have no place now, whatever else may be said of them.
        generation: the table's, of which it shows everything.
    """

    def __init__(
        self, table: NodeTable, tree: Tree, kept: NDArray[np.int64] | None, admitted: NodeFilter, possible: NodeFilter
    ) -> None:
        self.table = table
        self.tree = tree
        self.kept = kept
        self.admitted = admitted
        self.possible = possible
        self.diagnoses: dict[PodSetRequest, Diagnosis] = {}
        self.placeless: set[PodSetRequest] = set()
        self.generation = table.generation
        self._numberings = table.occupancy.numberings
        self._snapshots: dict[Capacity, WhatIf] = {}
        self._rooms: dict[tuple[Capacity, Shape], int] = {}
        self._domain_rooms: SizedDict[tuple[Capacity, int, Shape], NDArray[np.int64]] = SizedDict(_ROOMS_BYTES)
        self._admits: dict[Shape, bool] = {}
        self._totals: dict[Capacity, dict[str, int]] = {}

    @property
    def answers(self) -> int:
        """Return how many answers about single shapes are remembered."""
        return len(self._rooms) + len(self._admits)

    def follow(self) -> bool:
        """Take in what has been claimed and given back since; return false if more than that has changed."""
        table, generation = self.table, self.generation
        table.occupancy.refresh()
        if table.last_node_change > generation or table.occupancy.numberings != self._numberings:
            return False
        snapshots = [(each, whatif) for each, whatif in self._snapshots.items() if each is not Capacity.EMPTY]
        if any(whatif.free.shape[0] != len(table.resources) for _, whatif in snapshots):
            return False
        rows = np.flatnonzero(table.moved_at[: table.rows] > generation)
        for capacity, whatif in snapshots:
            whatif.follow(rows, self._capacity(capacity, rows))
        self.generation = table.generation
        self._totals.clear()
        self.diagnoses.clear()
        self.placeless.clear()
        self._rooms = {key: room for key, room in self._rooms.items() if key[0] is Capacity.EMPTY}
        for key in [key for key in self._domain_rooms if key[0] is not Capacity.EMPTY]:
            self._domain_rooms.forget(key)
        return True

    def beside(self, kept: Sequence[NDArray[np.int64]]) -> CapacityView:
        """Return the same nodes as they are beside all that is `kept`, each (resources, rows), and nothing else."""
        return CapacityView(self.table, self.tree, _sum(kept, self.table), self.admitted, self.possible)

    def on_nodes(self, admitted: NodeFilter, possible: NodeFilter) -> CapacityView:
        """Return the same room, of which what is taken is taken here too, where other nodes admit pods."""
        there = CapacityView(self.table, self.tree, self.kept, admitted, possible)
        there._snapshots = self._snapshots
        return there

    @contextmanager
    def without(self, uids: Iterable[str]) -> Iterator[CapacityView]:
        """Return what would be free now if the pods with these UIDs had left, as long as the context lasts."""
        whatif = self.snapshot(Capacity.FREE)
        mark = whatif.mark()
        whatif.vacate(uids)
        there = CapacityView(self.table, self.tree, self.kept, self.admitted, self.possible)
        there._snapshots[Capacity.FREE] = whatif
        try:
            yield there
        finally:
            whatif.undo(mark)

    @contextmanager
    def withholding(self, kept: Sequence[NDArray[np.int64]]) -> Iterator[None]:
        """Keep back what is free now of all that is `kept`, each (resources, rows), as long as the context lasts."""
        total = _sum(kept, self.table)
        if total is None:
            yield
            return
        whatif = self.snapshot(Capacity.FREE)
        held = np.minimum(total, np.maximum(whatif.free[:, : total.shape[1]], 0))
        whatif.withhold(held)
        try:
            yield
        finally:
            whatif.withhold(-held)

    def take(self, pods: Iterable[Pod], nodes: Mapping[str, str]) -> None:
        """Take what pods ask for on the node of each (UID -> name), as long as the context of `without` lasts."""
        rows: dict[Shape, Counter[int]] = {}
        for pod in pods:
            rows.setdefault(pod.shape, Counter())[int(self.table.rows_of([nodes[pod.uid]])[0])] += 1
        for shape, there in rows.items():
            at, counts = np.array(list(there), np.intp), np.array(list(there.values()), np.int64)
            self.snapshot(Capacity.FREE).take_from(at, self.table.vector(shape.requests), counts)
            self.snapshot(Capacity.FREE).settle(at, shape, counts)

    def snapshot(self, capacity: Capacity) -> WhatIf:
        """Return what the question is about; a caller that takes from it puts it back, or drops the view."""
        if capacity not in self._snapshots:
            holding = HoldingScope.NONE if capacity is Capacity.EMPTY else HoldingScope.ALL
            self._snapshots[capacity] = WhatIf(self.table, self._capacity(capacity), holding)
        return self._snapshots[capacity]

    def totals(self, capacity: Capacity = Capacity.FREE) -> dict[str, int]:
        """Return how much of each resource is free in the whole cluster; of what others account for, any amount."""
        if capacity not in self._totals:
            sums = np.maximum(self.snapshot(capacity).free, 0).sum(axis=1)
            self._totals[capacity] = dict(zip(self.table.resources, sums.tolist(), strict=True))
            self._totals[capacity] |= dict.fromkeys(self.table.left_to_others, MOST_AMOUNT)
        return self._totals[capacity]

    def candidates(self, pod_set: PodSet, eligible: Eligible) -> Candidates:
        """Return where a pod set may be placed."""
        return Candidates(self.tree, eligible, pod_set.settled, pod_set.memory, self.admitted.avoided)

    def shortage(self, capacity: Capacity, pod_set: PodSet, eligible: Eligible) -> Shortfall | None:
        """Return how far the pod set falls short, None if all fit. What counting leaves open has to be tried."""
        demand = pod_set.demand
        short = self.count(capacity, pod_set, eligible)
        # Of equal pods that need no more than one domain for all of them, counting says everything.
        counted = len(demand.shapes) == 1 and not demand.sequence and not (demand.topology.required and pod_set.settled)
        if short is not None or counted:
            return short
        whatif = self.snapshot(capacity)
        mark = whatif.mark()
        result = plan(pod_set.pods, whatif, self.candidates(pod_set, eligible), demand.terms)
        whatif.undo(mark)
        return result if isinstance(result, Shortfall) else None

    def lack_ever(self, pod_set: PodSet) -> Shortfall | None:
        """Return how far the pod set falls short on the empty cluster, None if all fit; kept while no node changes."""
        nodes = self.table.last_node_change
        known = None if pod_set.ever is None or pod_set.ever[0] != nodes else pod_set.ever
        if known is None or (known[1] is not None and known[1].gave_up is not None):
            pod_set.ever = nodes, self.shortage(Capacity.EMPTY, pod_set, self.possible)
            known = pod_set.ever
        return known[1]

    def count(self, capacity: Capacity, pod_set: PodSet, eligible: Eligible) -> Shortfall | None:
        """Return how far the pod set falls short if each shape had the nodes to itself, None if all of them fit.

        Where a shape does not fit even so, the pod set does not fit: most gangs that wait need not be tried.
        """
        demand = pod_set.demand
        fits = sum(min(self.room(capacity, shape, eligible), wanted) for shape, wanted in demand.shapes)
        if fits < demand.pods:
            return Shortfall(demand.pods, fits)
        if pod_set.settled or not demand.terms.gathers:
            return None
        short = short_part(
            dict(demand.shapes),
            demand.sequence,
            demand.topology,
            self.tree,
            lambda level, shape: self.rooms(capacity, level, shape, eligible),
        )
        return None if short is None else Shortfall.of_part(short, self.tree)

    def counted(self, capacity: Capacity, pod_set: PodSet, eligible: Eligible) -> int:
        """Return how many of the pod set fit if only numbers counted, and not which NUMA zones and GPUs they are in."""
        whatif, fits = self.snapshot(capacity), 0
        for shape, wanted in pod_set.demand.shapes:
            if whatif.rooms(shape).limited:
                counts = whatif.counts(self.table.vector(shape.requests), eligible(shape))
            else:
                counts = room_for(whatif, shape, eligible(shape))
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
                self._domain_rooms.keep(key, rooms, 500 + rooms.nbytes)
        return rooms

    def _is_shared(self, capacity: Capacity, eligible: Eligible) -> bool:
        """Tell whether what is counted with `eligible` holds for every gang."""
        return eligible is (self.possible if capacity is Capacity.EMPTY else self.admitted)

    def _capacity(self, capacity: Capacity, rows: NDArray[np.intp] | None = None) -> NDArray[np.int64]:
        """Return (resources, rows) what a question is about, of some rows or of all."""
        table, at = self.table, slice(self.table.rows) if rows is None else rows
        allocatable = table.allocatable[:, at]
        if capacity is Capacity.EMPTY:
            return allocatable
        free: NDArray[np.int64] = allocatable - table.used[:, at]
        return free if self.kept is None or capacity is Capacity.UNKEPT else free - self.kept[:, at]


class CapacityViews:
    """The views of one table, by flavor and by what is kept: each is made once as long as nothing moves.

    Valid as long as no node changes and no kubelet rejects anything; claims may come and go.

    Attributes:
        table: the nodes.
        tree: the level tree over them.
        eligibility: which nodes admit a shape by their taints and labels.
        nodes: the last change of any node that they have seen.
    """

    def __init__(self, table: NodeTable, tree: Tree, eligibility: Eligibility, rejected: RowsOf | None = None) -> None:
        """Look at `table`; `rejected` says on which rows kubelets rejected pods of a shape lately, None for none."""
        self.table = table
        self.tree = tree
        self.eligibility = eligibility
        self.nodes = table.last_node_change
        self._rejected = rejected
        self._possible = NodeFilter.of(eligibility)
        self._admitted = self._possible if rejected is None else self._possible.without(NodeCode.REJECTED, rejected)
        self._filters: dict[Labels, tuple[NodeFilter, NodeFilter]] = {(): (self._admitted, self._possible)}
        self._views: dict[tuple[Labels, tuple[int, ...]], tuple[Sequence[NDArray[np.int64]], CapacityView]] = {}

    @property
    def admitted(self) -> NodeFilter:
        """Return which nodes of any flavor admit a shape now."""
        return self._admitted

    @property
    def is_crowded(self) -> bool:
        """Tell whether they remember more shapes than it pays to keep: most may be of pods that are gone."""
        return sum(view.answers for _, view in self._views.values()) > _MOST_ANSWERS

    def filters(self, labels: Labels) -> tuple[NodeFilter, NodeFilter]:
        """Return which nodes with the labels of a flavor admit a shape now, and which do at all."""
        if labels not in self._filters:
            mask = self.eligibility.labelled(labels)
            possible = self._possible.within(mask)
            admitted = possible if self._admitted is self._possible else self._admitted.within(mask)
            self._filters[labels] = admitted, possible
        return self._filters[labels]

    def view(self, labels: Labels = (), kept: Sequence[NDArray[np.int64]] = ()) -> CapacityView:
        """Return what is free now on nodes with some labels, beside all that is `kept`, each (resources, rows).

        What it shows follows the table with the next call.
        """
        key = labels, tuple(map(id, kept))
        found = self._views.get(key)
        if found is not None and (found[1].generation == self.table.generation or found[1].follow()):
            return found[1]
        if len(self._views) >= _MOST_VIEWS:
            del self._views[next(iter(self._views))]
        view = CapacityView(self.table, self.tree, _sum(kept, self.table), *self.filters(labels))
        self._views[key] = kept, view  # with `kept`, so that no other array gets one of its identities
        return view

    def on(self, table: NodeTable, tree: Tree) -> CapacityViews:
        """Return the views of a copy of the table, with other nodes perhaps; of new ones no kubelet rejected any."""
        return CapacityViews(table, tree, self.eligibility.on(table), self._rejected)


def _sum(kept: Sequence[NDArray[np.int64]], table: NodeTable) -> NDArray[np.int64] | None:
    """Return (resources, rows) of all that is kept, None if that is nothing."""
    if not kept:
        return None
    total = np.zeros((len(table.resources), table.rows), dtype=np.int64)
    for each in kept:
        withhold(total, -each)
    return total
