"""A node's NUMA zones and how its kubelet aligns pods with them, as a NodeResourceTopology tells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct

from extender.objects.meta import Decoder, Int64, ObjectMeta
from extender.objects.reason import Problem
from extender.objects.requests import QuantityError, amount
from extender.objects.text import parse_integer


class NamedValue(Struct, gc=False, frozen=True):
    """An attribute of a NodeResourceTopology or one of its zones."""

    name: str | None = None
    value: str | None = None


class ZoneCost(Struct, gc=False, frozen=True):
    """The distance of a zone from the one called `name`, as in the ACPI SLIT."""

    name: str | None = None
    value: Int64 | None = None


class ZoneResource(Struct, gc=False, frozen=True):
    """How much of one resource a zone has, offers to pods, and has left."""

    name: str | None = None
    capacity: str | int | float | None = None
    allocatable: str | int | float | None = None
    available: str | int | float | None = None


class TopologyZone(Struct, gc=False, frozen=True):
    """A part of a node; one of type `NodeObject` is a NUMA node."""

    name: str | None = None
    type: str | None = None
    costs: list[ZoneCost] | None = None
    resources: list[ZoneResource] | None = None


class NodeResourceTopology(Struct, gc=False, frozen=True, rename="camel"):
    """A `topology.node.k8s.io/v1alpha2` NodeResourceTopology: its fields are top-level, without spec and status."""

    metadata: ObjectMeta | None = None
    topology_policies: list[str] | None = None
    attributes: list[NamedValue] | None = None
    zones: list[TopologyZone] | None = None


class TopologyPolicy(StrEnum):
    """The kubelet's `topologyManagerPolicy`."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class TopologyScope(StrEnum):
    """The kubelet's `topologyManagerScope`: what is aligned as one."""

    CONTAINER = "container"
    POD = "pod"


#: The kubelet's own limit unless its option max-allowable-numa-nodes raises it. Source: KEP-4622.
MAX_ZONES = 8

#: Zones are bits of a 64-bit mask in the kubelet. Source: k8s.io/kubernetes topologymanager/bitmask.
_MAX_ZONE_ID = 63

#: Deprecated `topologyPolicies` and what they mean. Source: noderesourcetopology-api v1alpha2, scheduler-plugins
#: pkg/noderesourcetopology/nodeconfig. `Restricted` and `BestEffort` without a level are those of containers.
_DEPRECATED_POLICIES = {
    "SingleNUMANodeContainerLevel": (TopologyPolicy.SINGLE_NUMA_NODE, TopologyScope.CONTAINER),
    "SingleNUMANodePodLevel": (TopologyPolicy.SINGLE_NUMA_NODE, TopologyScope.POD),
    "Restricted": (TopologyPolicy.RESTRICTED, TopologyScope.CONTAINER),
    "RestrictedContainerLevel": (TopologyPolicy.RESTRICTED, TopologyScope.CONTAINER),
    "RestrictedPodLevel": (TopologyPolicy.RESTRICTED, TopologyScope.POD),
    "BestEffort": (TopologyPolicy.BEST_EFFORT, TopologyScope.CONTAINER),
    "BestEffortContainerLevel": (TopologyPolicy.BEST_EFFORT, TopologyScope.CONTAINER),
    "BestEffortPodLevel": (TopologyPolicy.BEST_EFFORT, TopologyScope.POD),
    "None": (TopologyPolicy.NONE, TopologyScope.CONTAINER),
}

#: Names of attributes. Those of the Topology Manager and the fingerprint are written by NFD and the resource topology
#: exporter; those of the other managers by none yet, but attributes are called like the kubelet's options (README of
#: scheduler-plugins' NodeResourceTopologyMatch), so an exporter that writes them will call them this.
_POLICY = "topologyManagerPolicy"
_SCOPE = "topologyManagerScope"
_MAX_NUMA_NODES = "topologyManagerMaxNUMANodes"
_CPU_MANAGER = "cpuManagerPolicy"
_MEMORY_MANAGER = "memoryManagerPolicy"
_FINGERPRINT = "nodeTopologyPodsFingerprint"
_FINGERPRINT_METHOD = "nodeTopologyPodsFingerprintMethod"
_Choice = TypeVar("_Choice", TopologyPolicy, TopologyScope)
_TRAILING_INTEGER = re.compile(r"(?<![0-9])([0-9]{1,4})$")


@dataclass(frozen=True, slots=True)
class Managers:
    """Which of the kubelet's managers give pods parts of their own; NodeResourceTopology does not say it.

    `cpu_static` None takes CPUs for managed where zones list some as allocatable: exporters learn of them from the CPU
    manager (podresources GetAllocatableResources), which names none under its policy `none`. The same holds for memory
    and NFD, but who writes topologies by hand lists memory anyway, and taking part where it does not refuses pods that
    would have run: for memory the default is no.
    """

    cpu_static: bool | None = None
    memory_static: bool = False


@dataclass(frozen=True, slots=True)
class Zone:
    """A NUMA node: amounts in milli-CPU, bytes and counts.

    `capacity` counts what is kept back for the system too, `allocatable` does not; `available` is what the exporter
    saw left.
    """

    id: int
    name: str = ""
    allocatable: Mapping[str, int] = field(default_factory=dict)
    available: Mapping[str, int] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)

    def total(self, resource: str) -> int:
        """Return the amount by which the kubelet tells how many zones a request needs at least.

        All there is of CPUs and devices, also what is reserved or unhealthy; of memory what is allocatable. Source:
        cpumanager and memorymanager policy_static.go, devicemanager topology_hints.go.
        """
        allocatable = self.allocatable.get(resource, 0)
        if is_memory(resource):
            return allocatable
        return max(allocatable, self.capacity.get(resource, 0))


@dataclass(frozen=True, slots=True)
class NodeTopology:
    """The zones of a node in order of their ids, and its kubelet's Topology Manager.

    Without zones nothing is known and nothing is refused. `fingerprint` is of the pods that `available` reflects.
    `problem` is the first thing in the object that could not be used.
    """

    node: str
    policy: TopologyPolicy = TopologyPolicy.NONE
    scope: TopologyScope = TopologyScope.CONTAINER
    zones: tuple[Zone, ...] = ()
    fingerprint: str = ""
    fingerprint_method: str = ""
    max_zones: int = MAX_ZONES
    managers: Managers = Managers()
    problem: Problem | None = None

    @property
    def signature(self) -> tuple[object, ...]:
        """Return a hashable value of all that decides admission: nodes that share it are alike."""
        return (
            self.policy,
            self.scope,
            self.managers,
            self.max_zones,
            tuple(
                (zone.id, *(tuple(sorted(some.items())) for some in (zone.allocatable, zone.capacity)))
                for zone in self.zones
            ),
        )

    def allocatable(self) -> dict[int, dict[str, int]]:
        """Return what each zone offers when no pod holds any of it, by zone id: a fresh dictionary."""
        return {zone.id: dict(zone.allocatable) for zone in self.zones}

    def lists(self, resource: str) -> bool:
        """Tell whether any zone offers some of `resource`: what none does has no place, and any place will do."""
        return any(zone.allocatable.get(resource) for zone in self.zones)

    def trusted(self, allocatable: Mapping[str, int]) -> NodeTopology:
        """Return the topology without the devices whose zones do not add up to the node's `allocatable`.

        A device plugin that knows the zone of some devices only, or of none (virtual machines), or one that counts a
        device in two zones, would otherwise make pods look unplaceable. CPUs and memory never add up exactly.
        """
        devices = {r for zone in self.zones for r in zone.allocatable if is_device(r)}
        wrong = {r for r in devices if sum(z.allocatable.get(r, 0) for z in self.zones) != allocatable.get(r, 0)}
        if not wrong:
            return self
        first = min(wrong)
        parts = "+".join(str(zone.allocatable.get(first, 0)) for zone in self.zones)
        problem = Problem(
            f"zones[].resources[{first}]",
            f"the zones have {parts}, the node {allocatable.get(first, 0)}; zones are not considered for it",
        )
        zones = tuple(
            replace(
                zone,
                allocatable=_without(zone.allocatable, wrong),
                available=_without(zone.available, wrong),
                capacity=_without(zone.capacity, wrong),
            )
            for zone in self.zones
        )
        return replace(self, zones=zones, problem=self.problem or problem)


def is_memory(resource: str) -> bool:
    """Tell whether the memory manager deals in `resource`."""
    return resource == "memory" or resource.startswith("hugepages-")


def is_device(resource: str) -> bool:
    """Tell whether the device manager deals in `resource`: extended resources have a domain."""
    return "/" in resource


def read_node_topology(topology: NodeResourceTopology, managers: Managers = Managers()) -> NodeTopology:
    """Read a NodeResourceTopology; `managers` is what to assume where it does not say.

    An attribute without meaning is passed over, as NodeResourceTopologyMatch does; a zone that cannot be read leaves
    the node without zones. Both are a `problem`; it never raises.
    """
    attributes = {a.name: a.value or "" for a in topology.attributes or () if a.name}
    problems: list[Problem] = []
    policy, scope = TopologyPolicy.NONE, TopologyScope.CONTAINER
    if topology.topology_policies:
        policy, scope = _read_deprecated(topology.topology_policies[0], problems)
    if (text := attributes.get(_POLICY)) is not None:
        policy = _choose(TopologyPolicy, _POLICY, text, policy, problems)
    if (text := attributes.get(_SCOPE)) is not None:
        scope = _choose(TopologyScope, _SCOPE, text, scope, problems)
    max_zones = _read_max_zones(attributes, problems)
    zones: tuple[Zone, ...] = ()
    try:
        zones = _read_zones(topology.zones or [], max_zones)
    except _ZoneError as error:
        problems.append(error.problem)
    return NodeTopology(
        node=(topology.metadata or ObjectMeta()).name or "",
        policy=policy,
        scope=scope,
        zones=zones,
        fingerprint=attributes.get(_FINGERPRINT, ""),
        fingerprint_method=attributes.get(_FINGERPRINT_METHOD, ""),
        max_zones=max_zones,
        managers=_read_managers(attributes, managers),
        problem=problems[0] if problems else None,
    )


class _ZoneError(ValueError):
    """A zone that cannot be read; `problem` says where and why."""

    def __init__(self, field: str, message: str) -> None:
        self.problem = Problem(field, message)
        super().__init__(str(self.problem))


def _read_deprecated(text: str, problems: list[Problem]) -> tuple[TopologyPolicy, TopologyScope]:
    if text not in _DEPRECATED_POLICIES:
        problems.append(Problem("topologyPolicies[0]", f"{text!r} is not one of {', '.join(_DEPRECATED_POLICIES)}"))
    return _DEPRECATED_POLICIES.get(text, (TopologyPolicy.NONE, TopologyScope.CONTAINER))


def _choose(kind: type[_Choice], name: str, text: str, otherwise: _Choice, problems: list[Problem]) -> _Choice:
    if text in set(kind):
        return kind(text)
    problems.append(Problem(f"attributes[{name}]", f"{text!r} is not one of {', '.join(kind)}"))
    return otherwise


def _read_max_zones(attributes: Mapping[str, str], problems: list[Problem]) -> int:
    text = attributes.get(_MAX_NUMA_NODES)
    if text is None:
        return MAX_ZONES
    value = parse_integer(text)
    if value is None or value < 1:
        problems.append(Problem(f"attributes[{_MAX_NUMA_NODES}]", f"{text!r} is not a whole number of at least 1"))
        return MAX_ZONES
    return min(value, _MAX_ZONE_ID + 1)


def _read_managers(attributes: Mapping[str, str], managers: Managers) -> Managers:
    cpu, memory = attributes.get(_CPU_MANAGER), attributes.get(_MEMORY_MANAGER)
    return Managers(
        cpu_static=managers.cpu_static if cpu is None else cpu.lower() == "static",
        memory_static=managers.memory_static if memory is None else memory.lower() == "static",
    )


def _read_zones(zones: list[TopologyZone], max_zones: int) -> tuple[Zone, ...]:
    """Read the zones that are NUMA nodes, in order of their ids; raise _ZoneError."""
    numa = [(index, zone) for index, zone in enumerate(zones) if zone.type in (None, "", "Node")]
    if len(numa) > max_zones:
        raise _ZoneError("zones", f"{len(numa)} are more than the {max_zones} with which the kubelet aligns")
    ids: dict[str, int] = {}
    for index, zone in numa:
        number = _zone_id(zone.name, f"zones[{index}].name")
        if number in ids.values():
            raise _ZoneError(f"zones[{index}].name", f"{zone.name!r} is the second zone {number}")
        ids[zone.name or ""] = number
    read = (_read_zone(zone, ids, f"zones[{index}]") for index, zone in numa)
    return tuple(sorted(read, key=lambda zone: zone.id))


def _zone_id(name: str | None, field: str) -> int:
    """Return the integer at the end of a name: exporters write `node-<N>`, people `numa-node-0` and the like."""
    match = _TRAILING_INTEGER.search(name or "")
    number = int(match[1]) if match else _MAX_ZONE_ID + 1
    if number > _MAX_ZONE_ID:
        raise _ZoneError(field, f"{name!r} does not end in the number of a NUMA node, 0 to {_MAX_ZONE_ID}")
    return number


def _read_zone(zone: TopologyZone, ids: Mapping[str, int], field: str) -> Zone:
    allocatable: dict[str, int] = {}
    available: dict[str, int] = {}
    capacity: dict[str, int] = {}
    for resource in zone.resources or ():
        name = resource.name or ""
        place = f"{field}.resources[{name}]"
        if resource.allocatable is None:
            raise _ZoneError(f"{place}.allocatable", "is missing")
        allocatable[name] = _amount(name, resource.allocatable, f"{place}.allocatable")
        for amounts, key, quantity in (
            (available, "available", resource.available),
            (capacity, "capacity", resource.capacity),
        ):
            amounts[name] = allocatable[name] if quantity is None else _amount(name, quantity, f"{place}.{key}")
    return Zone(ids[zone.name or ""], zone.name or "", allocatable, available, capacity)


def _amount(resource: str, quantity: str | float, field: str) -> int:
    try:
        return amount(resource, quantity)
    except QuantityError as error:
        raise _ZoneError(field, str(error)) from error


def _without(amounts: Mapping[str, int], resources: Iterable[str]) -> dict[str, int]:
    return {resource: value for resource, value in amounts.items() if resource not in resources}


decode_node_resource_topology = Decoder(NodeResourceTopology)
