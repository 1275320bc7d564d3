"""What a node is to GPU sets and zones, beside what is taken of it: nodes of one kind are interchangeable."""

from __future__ import annotations

from dataclasses import dataclass, replace

from extender.domain.node import Node
from extender.domain.pod import Shape
from extender.domain.reason import Problem
from extender.fabric.gpusets import Alignment, GpuLayout, GpuSets
from extender.fabric.links import GpuFacts, read_gpu_facts
from extender.fabric.partitions import HONOR, POLICY_LABEL, Partitions
from extender.fabric.products import Product, Products
from extender.numa.nodetopology import NodeTopology, Policy

#: Resources that count whole GPUs. Sources: NVIDIA's and AMD's device plugins.
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")

#: No usual board has more. A node that offers more has slices of GPUs or shares them; which it means nobody can tell,
#: so they are counted like any other device.
_MOST_GPUS = 16

_ALIGNMENTS = {Policy.RESTRICTED: Alignment.NARROWEST, Policy.SINGLE_NUMA_NODE: Alignment.ONE_ZONE}


@dataclass(frozen=True, eq=False)
class NodeKind:
    """What nodes of one kind have.

    Attributes:
        resource: the GPU resource, "" without GPUs.
        sets: what sets of the GPUs are worth.
        zones_known: whether it is known, not assumed from the product, which zone each GPU is in.
        topology: how the kubelet aligns pods, None where it does not, or nobody says.
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
    """What is known of one node: its kind, the UUIDs of its GPUs, and what of that could not be used."""

    kind: NodeKind
    uuids: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    distrust: str = ""


class NodeKinds:
    """Tell of which kind a node is; equal kinds are one object, so that what is worked out for one serves all."""

    def __init__(self) -> None:
        """Know no kind yet."""
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
        resource, gpus = gpus_of(node)
        read = read_gpu_facts(node.annotations) if gpus else GpuFacts()
        problems = list(read.problems)
        links = read.links
        if links is not None and links.gpus != gpus:
            problems.append(Problem("metadata.annotations", f"links of {links.gpus} GPUs; the node has {gpus}"))
            links = None
        distrust = ""
        if topology is not None:
            topology = topology.trusted(node.allocatable)
            distrust = "" if topology.problem is None else str(topology.problem)
        product = products.find(node.labels, gpus) if gpus else None
        zones = _zones(gpus, resource, read, topology)
        layout = GpuLayout(
            gpus=gpus,
            product=product,
            links=links,
            partitions=() if partitions is None or not gpus else partitions.sets,
            zones=zones or _usual_zones(gpus, product),
            honor=node.labels.get(POLICY_LABEL) == HONOR,
            alignment=Alignment.NONE if topology is None else _ALIGNMENTS.get(topology.policy, Alignment.NONE),
        )
        aligning = topology if topology is not None and topology.zones and topology.policy is not Policy.NONE else None
        kind = self._kind(resource, layout, bool(zones), aligning)
        return NodeFacts(kind, read.uuids if len(read.uuids) == gpus else (), tuple(problems), distrust)

    def _kind(self, resource: str, layout: GpuLayout, zones_known: bool, topology: NodeTopology | None) -> NodeKind:  # noqa: FBT001 - a field of the kind
        key = (resource, layout, zones_known, None if topology is None else topology.signature)
        kind = self._kinds.get(key)
        if kind is None:
            bare = None if topology is None else replace(topology, node="", fingerprint="", fingerprint_method="")
            kind = self._kinds[key] = NodeKind(resource, GpuSets(layout), zones_known, bare)
        return kind


def gpus_of(node: Node) -> tuple[str, int]:
    """Return a node's GPU resource and how many whole GPUs it has; ("", 0) without any, or if it shares them."""
    for resource in GPU_RESOURCES:
        gpus = node.allocatable.get(resource, 0)
        if 0 < gpus <= _MOST_GPUS:
            return resource, gpus
    return "", 0


def _zones(gpus: int, resource: str, read: GpuFacts, topology: NodeTopology | None) -> tuple[int, ...]:
    """Return the zone of each GPU as far as somebody says, else ().

    A NodeResourceTopology tells only how many each zone has: unless an annotation that agrees with it says more, the
    GPUs are numbered zone by zone, as they are on the boards that this is about.
    """
    zones = read.zones if len(read.zones) == gpus else ()
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


def whole_gpus(shape: Shape) -> int:
    """Return how many whole GPUs one pod of `shape` asks for, of whichever resource."""
    for name, amount in shape.requests:
        if name in GPU_RESOURCES:
            return amount
    return 0
