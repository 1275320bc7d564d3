"""Kinds of nodes, what is free of one node's GPUs and zones, and what a pod would take of it.

Nodes of a kind have the same GPUs and NUMA zones, whatever is taken of them. Nodes of one kind with the same GPUs and
zones free share one state, so that what is computed for one serves all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self, TypeAlias
from weakref import WeakKeyDictionary

from extender.caches import Shared, SizedDict, size_of
from extender.hardware.gpusets import Alignment, GpuLayout, GpuSets, mask_of, members
from extender.hardware.links import (
    HONOR,
    POLICY_LABEL,
    GpuFacts,
    LinkMatrix,
    Partitions,
    links_of_roots,
    read_gpu_facts,
)
from extender.hardware.products import PRODUCT_LABELS, Interconnect, Product, Products, same_product
from extender.hardware.topologymanager import KubeletVerdict, admit
from extender.objects.node import Node
from extender.objects.nodetopology import NodeTopology, TopologyPolicy
from extender.objects.pod import Shape
from extender.objects.reason import Problem, quoted

_ALIGNMENTS = {TopologyPolicy.RESTRICTED: Alignment.NARROWEST, TopologyPolicy.SINGLE_NUMA_NODE: Alignment.ONE_ZONE}


@dataclass(frozen=True, eq=False)
class NodeKind:
    """What nodes of one kind have.

    Attributes:
        resource: the GPU resource, "" without GPUs.
        sets: what sets of the GPUs are worth.
        zones_known: whether it is known, not assumed from the product, which zone each GPU is in.
        topology: how the kubelet aligns pods, None where it does not, or that is unknown.
    """

    resource: str
    sets: GpuSets
    zones_known: bool
    topology: NodeTopology | None

    @property
    def product(self) -> Product | None:
        """Return the product of the GPUs, None if it is not known."""
        return self.sets.layout.product


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is known of one node: its kind, the UUIDs of its GPUs, and why some of its zones are not considered."""

    kind: NodeKind
    uuids: tuple[str, ...] = ()
    distrust: str = ""


class NodeKinds:
    """Find the kind of a node. Equal kinds are one object, so that what is computed for one node serves all."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[object, ...], NodeKind] = {}

    def copied(self) -> NodeKinds:
        """Return the same kinds, to which others come than to these."""
        twin = NodeKinds()
        twin._kinds = dict(self._kinds)
        return twin

    def facts(
        self, node: Node, products: Products, topology: NodeTopology | None, partitions: Partitions | None
    ) -> NodeFacts:
        """Put together what is known of a node; `topology` and `partitions` as reported for it, if they are."""
        resource, gpus = node.gpus
        read = read_gpu_facts(node.annotations) if gpus else GpuFacts()
        distrust = ""
        if topology is not None:
            topology = topology.trusted(node.allocatable)
            distrust = "" if topology.problem is None else str(topology.problem)
        product = products.find(node.labels, gpus, node.described.product) if gpus else None
        zones = _zones(gpus, resource, read.zones or node.described.zones, topology)
        layout = GpuLayout(
            gpus=gpus,
            product=product,
            links=_links(gpus, read, product, node),
            partitions=() if partitions is None or not gpus else partitions.sets,
            zones=zones or _usual_zones(gpus, product),
            honor=node.labels.get(POLICY_LABEL) == HONOR,
            alignment=Alignment.NONE if topology is None else _ALIGNMENTS.get(topology.policy, Alignment.NONE),
        )
        aligning = (
            topology if topology is not None and topology.zones and topology.policy is not TopologyPolicy.NONE else None
        )
        kind = self._kind(resource, layout, bool(zones), aligning)
        uuids = read.uuids or node.described.uuids
        return NodeFacts(kind, uuids if len(uuids) == gpus else (), distrust)

    def _kind(self, resource: str, layout: GpuLayout, zones_known: bool, topology: NodeTopology | None) -> NodeKind:  # noqa: FBT001 - a field of the kind
        key = (resource, layout, zones_known, None if topology is None else topology.signature)
        kind = self._kinds.get(key)
        if kind is None:
            bare = None if topology is None else replace(topology, node="", fingerprint="", fingerprint_method="")
            kind = self._kinds[key] = NodeKind(resource, GpuSets(layout), zones_known, bare)
        return kind


def gpu_problems(node: Node) -> tuple[Problem, ...]:
    """Return what of a node's annotations about its GPUs cannot be used, and what ResourceSlices say otherwise."""
    read, (_, gpus), said = read_gpu_facts(node.annotations), node.gpus, node.described
    found = [*read.problems, *said.problems]
    if read.links is not None and gpus and read.links.gpus != gpus:
        found.append(Problem("metadata.annotations", f"links of {read.links.gpus} GPUs; the node has {gpus}"))
    label = next((key for key in PRODUCT_LABELS if node.labels.get(key)), "")
    if label and said.product and not same_product(node.labels[label], said.product):
        what = f"{quoted(node.labels[label])}; its ResourceSlices name {quoted(said.product)}. The label counts"
        found.append(Problem(f"metadata.labels[{label}]", what))
    if len(read.zones) == len(said.zones) and read.zones != said.zones:
        what = f"zones {_listed(read.zones)}; its ResourceSlices say {_listed(said.zones)}. The annotation counts"
        found.append(Problem("metadata.annotations", what))
    return tuple(found)


def _listed(zones: Sequence[int]) -> str:
    return " ".join(map(str, zones))


def _links(gpus: int, read: GpuFacts, product: Product | None, node: Node) -> LinkMatrix | None:
    """Return what joins the GPUs, None if nothing says it.

    Where annotations do not, the PCIe roots say how near GPUs are, as long as no other way between them is usual.
    """
    if read.links is not None:
        return read.links if read.links.gpus == gpus else None
    roots = node.described.roots
    if product is None or product.links is not None or product.interconnect is Interconnect.MESH or len(roots) != gpus:
        return None
    return links_of_roots(roots)


def _zones(gpus: int, resource: str, stated: tuple[int, ...], topology: NodeTopology | None) -> tuple[int, ...]:
    """Return the zone of each GPU as far as it is stated, else ().

    A NodeResourceTopology tells only how many each zone has: unless what is `stated` agrees with it and says more, the
    GPUs are numbered zone by zone, as they are on the boards that this is about.
    """
    zones = stated if len(stated) == gpus else ()
    if topology is None or not gpus:
        return zones
    counts = {zone.id: zone.allocatable.get(resource, 0) for zone in topology.zones}
    if sum(counts.values()) != gpus:
        return zones
    if zones and all(zones.count(zone) == count for zone, count in counts.items()):
        return zones
    return tuple(zone for zone, count in counts.items() for _ in range(count))


def _usual_zones(gpus: int, product: Product | None) -> tuple[int, ...]:
    """Return the zones that nodes of a product usually have, () if this is not one of those."""
    counts = () if product is None else product.zones
    return tuple(zone for zone, count in enumerate(counts) for _ in range(count)) if sum(counts) == gpus else ()


Amounts: TypeAlias = Mapping[int, Mapping[str, int]]
"""Zone id -> resource -> milli-CPU, bytes or count; GPUs are not among them, as they are counted one by one."""

_NOTHING: Amounts = {}

#: What may be remembered of what pods are given in which state (bytes).
_STEPS_BYTES = 16 << 20

_Zones: TypeAlias = tuple[tuple[int, tuple[tuple[str, int], ...]], ...]

Demand: TypeAlias = Shape | int
"""All of a shape that matters to a kind of node: where nothing is aligned, how many GPUs it asks for."""


@dataclass(frozen=True, slots=True)
class Taking:
    """What one pod takes: GPUs as a bit mask, amounts of zones, and the zones that it is in, as far as known."""

    gpus: int = 0
    amounts: Amounts = field(default_factory=dict)
    zones: tuple[int, ...] = ()


class Room:
    """What is free of one node.

    Attributes:
        kind: the node's kind.
        gpus: the free GPUs, as a bit mask.
        zones: what each zone has free, GPUs aside; empty where the kubelet aligns nothing.
    """

    __slots__ = ("gpus", "kind", "zones")

    def __init__(self, kind: NodeKind, gpus: int, zones: dict[int, dict[str, int]]) -> None:
        """Start with what is free; `zones` is the room's from now on."""
        self.kind = kind
        self.gpus = gpus
        self.zones = zones

    @classmethod
    def empty(cls, kind: NodeKind) -> Self:
        """Return the room of an empty node."""
        zones = {} if kind.topology is None else _without(kind.topology.allocatable(), kind.resource)
        return cls(kind, kind.sets.all, zones)

    def take(self, taking: Taking) -> None:
        """Take away what is there of a taking."""
        self.gpus &= ~taking.gpus
        for zone, amounts in taking.amounts.items():
            free = self.zones.get(zone, {})
            for resource, amount in amounts.items():
                if resource in free:
                    free[resource] = max(0, free[resource] - amount)

    def shift(self, before: Room, after: Room) -> None:
        """Gain, or lose, what `after` has more than `before`, or less, of the same node."""
        self.gpus = (self.gpus | after.gpus & ~before.gpus) & ~(before.gpus & ~after.gpus)
        for zone, amounts in self.zones.items():
            was, now = before.zones.get(zone, {}), after.zones.get(zone, {})
            for resource, amount in amounts.items():
                amounts[resource] = max(0, amount + now.get(resource, 0) - was.get(resource, 0))

    def fits(self, taking: Taking) -> bool:
        """Tell whether all of a taking is free."""
        return not taking.gpus & ~self.gpus and all(
            self.zones.get(zone, {}).get(resource, 0) >= amount
            for zone, amounts in taking.amounts.items()
            for resource, amount in amounts.items()
        )

    def serve(self, shape: Shape) -> Taking | None:
        """Return what a pod would be given; None if the kubelet would refuse it, or no set of GPUs may be given out."""
        asked = gpus_asked(shape, self.kind.resource)
        topology = self.kind.topology
        if topology is None:
            chosen = self.kind.sets.choose(self.gpus, asked) if asked else 0
            return None if chosen is None else self._taking(chosen)
        admission = admit(topology, self._with_gpus(topology), shape)
        if not isinstance(admission, KubeletVerdict):
            return None
        chosen = self._choose_in_zones(asked, admission.taken)
        if chosen is None:
            return None
        zones = tuple(sorted({zone for unit in admission.zones for zone in unit}))
        return self._taking(chosen, _beside_gpus(admission.taken, self.kind.resource), zones)

    def suppose(self, shape: Shape, gpus: int = 0, zones: tuple[int, ...] = ()) -> Taking:
        """Return what a pod has taken that is there, whether or not it would be let in.

        Args:
            shape: what it asks for.
            gpus: the GPUs that it is known to hold; without any, free ones are chosen, as many as there are.
            zones: the zones that it is known to be in.
        """
        known = gpus & self.kind.sets.all
        if not known:
            asked = gpus_asked(shape, self.kind.resource)
            known = (zones and self._some(asked, self._mask(zones))) or self._some(asked, self.gpus)
        topology = self.kind.topology
        if topology is None:
            return self._taking(known, _NOTHING, zones)
        zones = zones or self.kind.sets.zones_of(known)
        return self._taking(known, self._amounts(topology, shape, zones), zones)

    def _taking(self, gpus: int, amounts: Amounts = _NOTHING, zones: tuple[int, ...] = ()) -> Taking:
        if gpus and self.kind.zones_known:
            zones = tuple(sorted({*zones, *self.kind.sets.zones_of(gpus)}))
        return Taking(gpus, amounts, zones)

    def _with_gpus(self, topology: NodeTopology) -> dict[int, dict[str, int]]:
        """Return what each zone has free, with the free GPUs where the topology counts them."""
        resource = self.kind.resource
        free = {zone: dict(amounts) for zone, amounts in self.zones.items()}
        for zone in topology.zones:
            if resource in zone.allocatable:
                free[zone.id][resource] = (self.gpus & self.kind.sets.zone_mask(zone.id)).bit_count()
        return free

    def _choose_in_zones(self, asked: int, taken: Amounts) -> int | None:
        """Choose GPUs, as many from each zone as the kubelet takes there; from anywhere if it does not align them."""
        sets = self.kind.sets
        by_zone = {zone: amounts.get(self.kind.resource, 0) for zone, amounts in taken.items()}
        if sum(by_zone.values()) != asked:
            return sets.choose(self.gpus, asked) if asked else 0
        chosen = 0
        for zone, count in by_zone.items():
            if count:
                some = sets.choose(self.gpus & ~chosen, count, sets.zone_mask(zone))
                if some is None:
                    return None
                chosen |= some
        return chosen

    def _amounts(self, topology: NodeTopology, shape: Shape, zones: tuple[int, ...]) -> Amounts:
        """Return what a pod in these zones takes of them, GPUs aside; of all zones if these have not enough."""
        loose = replace(topology, policy=TopologyPolicy.BEST_EFFORT)
        for ids in (zones, tuple(self.zones)):
            within = replace(loose, zones=tuple(zone for zone in topology.zones if zone.id in ids))
            if not within.zones:
                continue
            free = {zone: dict(amounts) for zone, amounts in self.zones.items()}
            for zone in within.zones:
                if self.kind.resource in zone.allocatable:
                    # Its GPUs are known already: they must not keep the rest from being found.
                    free[zone.id][self.kind.resource] = gpus_asked(shape, self.kind.resource)
            admission = admit(within, free, shape)
            if isinstance(admission, KubeletVerdict):
                return _beside_gpus(admission.taken, self.kind.resource)
        return _NOTHING

    def _some(self, asked: int, allowed: int) -> int:
        """Choose as many free GPUs as there are of those asked for."""
        count = min(asked, (self.gpus & allowed).bit_count())
        chosen = self.kind.sets.choose(self.gpus, count, allowed) if count else 0
        if chosen is None:  # no set that may be given out, and yet the pod runs
            chosen = mask_of(members(self.gpus & allowed)[:count])
        return chosen

    def _mask(self, zones: tuple[int, ...]) -> int:
        mask = 0
        for zone in zones:
            mask |= self.kind.sets.zone_mask(zone)
        return mask


def gpus_asked(shape: Shape, resource: str) -> int:
    """Return how much of `resource` a pod asks for; none of no resource."""
    if resource:
        for name, amount in shape.requests:
            if name == resource:
                return amount
    return 0


def _beside_gpus(taken: Amounts, resource: str) -> Amounts:
    """Return what is taken of zones other than GPUs."""
    return {zone: amounts for zone, amounts in _without(taken, resource).items() if amounts}


def _without(amounts: Amounts, resource: str) -> dict[int, dict[str, int]]:
    return {zone: {name: n for name, n in held.items() if name != resource} for zone, held in amounts.items()}


class NodeState(NamedTuple):
    """What is free of a node of one kind: GPUs as a bit mask, amounts of zones where pods are aligned with them."""

    kind: NodeKind
    gpus: int
    zones: _Zones


class StateChange(NamedTuple):
    """One pod more: what it takes, and the state that it leaves."""

    taking: Taking
    after: int


class NodeStates:
    """Number the states that nodes are in, and remember what one pod more does to each.

    Attributes:
        bytes: about what the states take.
    """

    def __init__(self, numbers: Iterator[int]) -> None:
        """Start without any state; each new one takes the next of `numbers`."""
        self._numbers = numbers
        self._ids: dict[NodeState, int] = {}
        self._states: dict[int, NodeState] = {}
        self._steps: SizedDict[tuple[int, Demand], StateChange | None] = SizedDict(_STEPS_BYTES)
        self._served: tuple[tuple[int, Shape, int] | None, tuple[Sequence[Taking], int]] = None, ((), 0)
        self._bare = Shared[Shape]()
        self._demands: WeakKeyDictionary[Shape, Shape] = WeakKeyDictionary()  # a shape -> all that matters of it
        self.bytes = 0

    def __len__(self) -> int:
        """Count the states."""
        return len(self._states)

    def __contains__(self, state: int) -> bool:
        """Tell whether a number is of one of these states."""
        return state in self._states

    def copied(self) -> NodeStates:
        """Return the same states, to which others come than to these; no number is given twice among both."""
        twin = NodeStates(self._numbers)
        twin._ids, twin._states, twin.bytes = dict(self._ids), dict(self._states), self.bytes
        return twin

    def kind(self, state: int) -> NodeKind:
        """Return the kind of node that a state is of."""
        return self._states[state].kind

    def gpus(self, state: int) -> int:
        """Return the GPUs that are free in a state, as a bit mask."""
        return self._states[state].gpus

    def room(self, state: int) -> Room:
        """Return what is free in a state."""
        kind, gpus, zones = self._states[state]
        return Room(kind, gpus, {zone: dict(amounts) for zone, amounts in zones})

    def number(self, room: Room) -> int:
        """Return the number of the state in which that much is free."""
        zones = tuple((zone, tuple(sorted(amounts.items()))) for zone, amounts in room.zones.items())
        state = NodeState(room.kind, room.gpus, zones)
        number = self._ids.get(state)
        if number is None:
            number = self._ids[state] = next(self._numbers)
            self._states[number] = state
            self.bytes += 500 + 200 * sum(1 + len(amounts) for _, amounts in zones)
        return number

    def step(self, state: int, shape: Shape) -> StateChange | None:
        """Return what one pod of `shape` would be given in a state, and the state then; None if nothing."""
        key = (state, self.demand(state, shape))
        if key not in self._steps:
            room = self.room(state)
            taking = room.serve(shape)
            if taking is not None:
                room.take(taking)
            step = None if taking is None else StateChange(taking, self.number(room))
            return self._steps.keep(key, step, _step_size(key[1], step))
        return self._steps[key]

    def serve(self, state: int, shape: Shape, pods: int) -> tuple[Sequence[Taking], int] | None:
        """Return what each of so many pods of `shape` would be given in turn, and the state then; None if any nothing.

        The last answer is kept: nodes that a gang fills are asked about one after the other.
        """
        asked = state, shape, pods
        if self._served[0] == asked:
            return self._served[1]
        takings: list[Taking] = []
        for _ in range(pods):
            step = self.step(state, shape)
            if step is None:
                return None
            takings.append(step.taking)
            state = step.after
        self._served = asked, (takings, state)
        return self._served[1]

    def demand(self, state: int, shape: Shape) -> Demand:
        """Return what of a shape matters in a state; equal demands are answered alike."""
        kind = self.kind(state)
        if kind.topology is None:
            return gpus_asked(shape, kind.resource) if kind.resource else shape.whole_gpus
        known = self._demands.get(shape)
        if known is None:
            bare = Shape(shape.requests, containers=shape.containers, guaranteed=shape.guaranteed)
            known = self._demands[shape] = self._bare(bare)
        return known


def _step_size(demand: Demand, step: StateChange | None) -> int:
    """Return about what a step takes (bytes); the demand may be of a pod that is gone."""
    return 500 + size_of(demand) + (0 if step is None else 300 * len(step.taking.amounts))
