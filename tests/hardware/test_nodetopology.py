"""A NodeResourceTopology is read whole, and what is wrong in it is said and survived."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from extender.objects.nodetopology import (
    Managers,
    NodeResourceTopology,
    NodeTopology,
    TopologyPolicy,
    TopologyScope,
    Zone,
    decode_node_resource_topology,
    read_node_topology,
)
from tests.builders import GPU, Json, written
from tests.hardware.nodes import topology
from tests.objects.documents import survivors

GIB = 2**30


def document(**fields: Any) -> Json:
    """Build a DGX H100 as an exporter writes it, four GPUs in each of two zones; keywords replace fields."""
    zones = [
        {
            "name": f"node-{zone}",
            "type": "Node",
            "costs": [{"name": f"node-{other}", "value": 10 if other == zone else 21} for other in range(2)],
            "resources": [
                {"name": "cpu", "capacity": "112", "allocatable": "110", "available": "78"},
                {"name": "memory", "capacity": "1025Gi", "allocatable": "1000Gi", "available": "750Gi"},
                {"name": GPU, "capacity": "4", "allocatable": "4", "available": "2"},
            ],
        }
        for zone in range(2)
    ]
    return {"metadata": {"name": "dgx-h100-01"}, "attributes": attributes(), "zones": zones} | fields


def attributes(**values: str) -> list[Json]:
    """Build attributes: those of a kubelet that is restricted by container, with some replaced."""
    some = {"topologyManagerPolicy": "restricted", "topologyManagerScope": "container"} | values
    return [{"name": name, "value": value} for name, value in some.items()]


def read(json: Json, managers: Managers = Managers()) -> NodeTopology:  # noqa: B008 - a frozen value
    """Read a NodeResourceTopology given as JSON."""
    return read_node_topology(decode_node_resource_topology(written(json)), managers)


def problem(json: Json) -> str:
    """Return what is wrong with an object, whose zones are then not known."""
    found = read(json)
    assert found.problem is not None
    assert found.zones == ()
    return str(found.problem)


def zone(index: int = 0, name: str | None = None, **resource: Any) -> Json:
    """Build a zone with one resource."""
    return {
        "name": name or f"node-{index}",
        "type": "Node",
        "resources": [{"name": GPU, "allocatable": "4"} | resource],
    }


def test_a_topology_is_read_whole() -> None:
    """Name, policy, scope, zones with amounts in milli-CPU and bytes, and fingerprint are taken over."""
    known = attributes(
        nodeTopologyPodsFingerprint="pfp0v001d1f53bbb1a7590bd",
        nodeTopologyPodsFingerprintMethod="with-exclusive-resources",
    )
    assert read(document(attributes=known)) == NodeTopology(
        "dgx-h100-01",
        TopologyPolicy.RESTRICTED,
        TopologyScope.CONTAINER,
        tuple(
            Zone(
                index,
                f"node-{index}",
                allocatable={"cpu": 110_000, "memory": 1000 * GIB, GPU: 4},
                available={"cpu": 78_000, "memory": 750 * GIB, GPU: 2},
                capacity={"cpu": 112_000, "memory": 1025 * GIB, GPU: 4},
            )
            for index in range(2)
        ),
        fingerprint="pfp0v001d1f53bbb1a7590bd",
        fingerprint_method="with-exclusive-resources",
    )


@pytest.mark.parametrize(
    ("name", "policy", "scope"),
    [
        ("SingleNUMANodePodLevel", TopologyPolicy.SINGLE_NUMA_NODE, TopologyScope.POD),
        ("SingleNUMANodeContainerLevel", TopologyPolicy.SINGLE_NUMA_NODE, TopologyScope.CONTAINER),
        ("Restricted", TopologyPolicy.RESTRICTED, TopologyScope.CONTAINER),
        ("RestrictedPodLevel", TopologyPolicy.RESTRICTED, TopologyScope.POD),
        ("BestEffortPodLevel", TopologyPolicy.BEST_EFFORT, TopologyScope.POD),
        ("None", TopologyPolicy.NONE, TopologyScope.CONTAINER),
    ],
)
def test_the_deprecated_policies_still_speak(name: str, policy: TopologyPolicy, scope: TopologyScope) -> None:
    """The first of `topologyPolicies` counts where no attribute says otherwise."""
    found = read(document(topologyPolicies=[name, "Restricted"], attributes=None))
    assert (found.policy, found.scope, found.problem) == (policy, scope, None)


def test_attributes_override_the_deprecated_policies() -> None:
    """An attribute replaces what the deprecated field says, each for itself."""
    found = read(document(topologyPolicies=["BestEffortPodLevel"], attributes=attributes()[:1]))
    assert (found.policy, found.scope) == (TopologyPolicy.RESTRICTED, TopologyScope.POD)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"attributes": attributes(topologyManagerPolicy="strict")},
            "attributes[topologyManagerPolicy]: 'strict' is not one of none, best-effort, restricted, single-numa-node",
        ),
        (
            {"attributes": attributes(topologyManagerScope="node")},
            "attributes[topologyManagerScope]: 'node' is not one of container, pod",
        ),
        (
            {"attributes": attributes(topologyManagerMaxNUMANodes="0")},
            "attributes[topologyManagerMaxNUMANodes]: '0' is not a whole number of at least 1",
        ),
    ],
)
def test_an_attribute_without_meaning_is_a_problem(fields: Json, message: str) -> None:
    """It is passed over, and the zones are known all the same."""
    found = read(document(**fields))
    assert (str(found.problem), len(found.zones), found.max_zones) == (message, 2, 8)


def test_a_deprecated_policy_without_meaning_is_a_problem() -> None:
    """An unknown word means no alignment, and says which words there are."""
    found = read(document(topologyPolicies=["Strict"], attributes=None))
    assert found.policy is TopologyPolicy.NONE
    assert str(found.problem).startswith("topologyPolicies[0]: 'Strict' is not one of SingleNUMANodeContainerLevel, ")


def test_zones_are_ordered_by_their_numbers() -> None:
    """Exporters list zones in any order, and people name them in other ways; what is no NUMA node is left out."""
    zones = [zone(1), {"name": "socket-0", "type": "Socket"}, zone(name="numa-node-0")]
    found = read(document(zones=zones))
    assert [(z.id, z.name) for z in found.zones] == [(0, "numa-node-0"), (1, "node-1")]


def test_what_is_not_said_is_taken_for_allocatable() -> None:
    """Capacity and available may be missing; distances to zones that do not exist are left out."""
    found = read(document(zones=[zone() | {"costs": [{"name": "node-7", "value": 20}, {"name": "node-0"}]}]))
    assert found.zones == (Zone(0, "node-0", {GPU: 4}, {GPU: 4}, {GPU: 4}),)


@pytest.mark.parametrize(
    ("zones", "message"),
    [
        ([zone(name="left")], "zones[0].name: 'left' does not end in the number of a NUMA node, 0 to 63"),
        ([zone(64)], "zones[0].name: 'node-64' does not end in the number of a NUMA node, 0 to 63"),
        ([zone(0), zone(name="numa-0")], "zones[1].name: 'numa-0' is the second zone 0"),
        ([zone(allocatable=None)], f"zones[0].resources[{GPU}].allocatable: is missing"),
        ([zone(allocatable="four")], f"zones[0].resources[{GPU}].allocatable: 'four' is not a quantity"),
        ([zone(available="-1")], f"zones[0].resources[{GPU}].available: '-1' is negative"),
        ([zone(i) for i in range(9)], "zones: 9 are more than the 8 with which the kubelet aligns"),
    ],
)
def test_a_zone_that_cannot_be_read_is_a_problem(zones: list[Json], message: str) -> None:
    """Half a topology would mislead: the node has no zones then, and the problem names the place."""
    assert problem(document(zones=zones)).startswith(message)


def test_more_zones_are_known_where_the_kubelet_aligns_more() -> None:
    """The attribute topologyManagerMaxNUMANodes raises the limit of eight."""
    many = document(zones=[zone(i) for i in range(16)], attributes=attributes(topologyManagerMaxNUMANodes="16"))
    assert (len(read(many).zones), read(many).max_zones) == (16, 16)
    limitless = document(attributes=attributes(topologyManagerMaxNUMANodes="1024"))
    assert read(limitless).max_zones == 64


def test_managers_are_assumed_unless_attributes_name_them() -> None:
    """An attribute called like the kubelet's option wins over what the caller assumes."""
    assumed = Managers(cpu_static=False, memory_static=True)
    assert read(document(), assumed).managers == assumed
    told = attributes(cpuManagerPolicy="static", memoryManagerPolicy="None")
    assert read(document(attributes=told), assumed).managers == Managers(cpu_static=True, memory_static=False)
    static = attributes(cpuManagerPolicy="none", memoryManagerPolicy="Static")
    assert read(document(attributes=static)).managers == Managers(cpu_static=False, memory_static=True)


def test_nothing_at_all_is_a_topology_without_zones() -> None:
    """An object without fields says nothing, and nothing is wrong with it."""
    assert read({}) == NodeTopology("")


@given(survivors(decode_node_resource_topology, document()))
def test_whatever_is_decoded_is_read(decoded: NodeResourceTopology) -> None:
    """Reading never raises, and zones come with different ids in order."""
    ids = [z.id for z in read_node_topology(decoded).zones]
    assert ids == sorted(set(ids))


def test_devices_that_do_not_add_up_are_not_trusted() -> None:
    """Where the zones have other GPUs than the node, zones are not considered for GPUs; CPUs stay."""
    node = topology(gpus=(4, 0), gib=(64, 64))
    assert node.trusted({GPU: 4, "cpu": 30_000}) is node
    doubted = node.trusted({GPU: 8, "cpu": 30_000})
    assert str(doubted.problem) == (
        "zones[].resources[nvidia.com/gpu]: the zones have 4+0, the node 8; zones are not considered for it"
    )
    assert [sorted(z.allocatable) for z in doubted.zones] == [["cpu", "memory"], ["cpu", "memory"]]
    assert not doubted.lists(GPU)


def test_nodes_that_are_alike_share_a_signature() -> None:
    """Names and what is available at the moment make no difference; amounts and policy do."""
    one, other = read(document()), read(document(metadata={"name": "dgx-h100-02"}))
    assert one.signature == other.signature
    assert hash(one.signature) == hash(other.signature)
    assert one.signature != read(document(attributes=attributes(topologyManagerScope="pod"))).signature
    assert one.signature != read(document(zones=[zone(0), zone(1)])).signature
    less = [
        entry | {"resources": [r | {"available": "0"} for r in entry["resources"]]} for entry in document()["zones"]
    ]
    assert one.signature == read(document(zones=less)).signature
