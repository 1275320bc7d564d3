"""What a scenario says of the hardware: levels, labels by number, and objects of other APIs."""

from __future__ import annotations

from typing import Any

import pytest

from extender.settings import TopologyLevel
from muster_lab.simulation.manifests import pod_manifest
from muster_lab.simulation.scenario import PlacedState, Scenario, ScenarioPlacement
from muster_lab.simulation.scenario_file import ScenarioError, read_scenario

NODES = "nodes: [{name: n, count: 2, allocatable: {nvidia.com/gpu: 8}}]\ngangs: []\n"

ZONES = """
        attributes: [{name: topologyManagerPolicy, value: restricted}]
        zones:
          - name: node-0
            type: Node
            parent: socket-0
            costs: [{name: node-0, value: 10}, {name: node-1, value: 21}]
            resources: [{name: nvidia.com/gpu, capacity: "4", allocatable: "4", available: "2"}]
          - name: node-1
            type: Node
            resources: [{name: nvidia.com/gpu, capacity: 4}]
"""


def read(text: str) -> Scenario:
    """Read a scenario called `s.yaml`."""
    return read_scenario(text, "s.yaml")


def problems(text: str) -> list[str]:
    """Return what is wrong with a scenario, without its name."""
    with pytest.raises(ScenarioError) as refused:
        read(text)
    return [problem.removeprefix("s.yaml: ") for problem in refused.value.problems]


def level(name: str, label: str, allreduce: float | None = None, alltoall: float | None = None) -> TopologyLevel:
    """Return a level."""
    return TopologyLevel(name=name, nodeLabel=label, allreduceFactor=allreduce, alltoallFactor=alltoall)


def test_labels_and_annotations_may_follow_from_the_number_of_the_node() -> None:
    """Each of `count` nodes has its own values; a single node is number 0."""
    scenario = read(
        """
        nodes:
          - name: gpu
            count: 4
            allocatable: {}
            labels: {pool: a}
            labelsFrom: {rack: "rack-{index//2}", slot: "{index % 2}"}
            annotationsFrom: {note: "{{{index}}}"}
          - {name: one, allocatable: {}, labelsFrom: {rack: "rack-{index}"}}
        gangs: []
        """
    )
    assert [(node.labels.get("rack"), node.labels.get("slot")) for node in scenario.nodes] == [
        ("rack-0", "0"),
        ("rack-0", "1"),
        ("rack-1", "0"),
        ("rack-1", "1"),
        ("rack-0", None),
    ]
    assert scenario.nodes[3].labels["pool"] == "a"
    assert scenario.nodes[3].annotations == {"note": "{3}"}


def test_levels_are_outermost_first_and_may_end_with_the_node_itself() -> None:
    """A level that names single nodes goes without saying, and none says that there are no levels."""
    text = NODES + (
        "topology: {levels: [{name: block, nodeLabel: example.com/block, allreduceFactor: 0.8, alltoallFactor: 0.3}, "
        "{name: rack, nodeLabel: rack}, {name: host, nodeLabel: kubernetes.io/hostname}]}"
    )
    assert read(text).facts.levels == (level("block", "example.com/block", 0.8, 0.3), level("rack", "rack"))
    assert read(NODES + "topology: {levels: []}").facts.levels == ()
    assert read(NODES).facts.levels is None


def test_objects_are_taken_over_whole() -> None:
    """What an API server sets itself is left out; amounts of a zone that are not given follow from the others.

    Keys that only the CRD has are kept.
    """
    scenario = read(
        NODES
        + f"""
nodeResourceTopology:
      - apiVersion: topology.node.k8s.io/v1alpha2
        kind: NodeResourceTopology
        metadata: {{name: n-1, uid: x, resourceVersion: "7", labels: {{a: b}}, managedFields: []}}
        topologyPolicies: [RestrictedContainerLevel]
{ZONES}
hyperNodes:
      - metadata: {{name: leaf-0}}
        spec:
          tier: 1
          members:
            - {{type: Node, selector: {{exactMatch: {{name: n-0}}}}}}
            - {{type: Node, selector: {{regexMatch: {{pattern: "n-[1-9]"}}}}}}
            - {{type: Node, selector: {{labelMatch: {{matchExpressions: [{{key: a, operator: Exists}}]}}}}}}
        status: {{nodeCount: 2}}
      - metadata: {{name: spine}}
        spec: {{tier: 2, tierName: spine, members: [{{type: HyperNode, selector: {{exactMatch: {{name: leaf-0}}}}}}]}}
devices:
      - metadata: {{name: n-0, annotations: {{scheduling.koordinator.sh/gpu-partitions: "{{}}"}}}}
        spec: {{devices: [{{type: gpu, id: GPU-a, minor: 0, moduleID: 1, topology: {{nodeID: 0, busID: "0:1"}}}}]}}
calibration:
      - {{product: H100, gpusPerNode: 8, nodes: 4, level: rack, busBandwidthGBps: 366.2}}
"""
    )
    (topology,) = scenario.facts.node_topologies
    assert topology["metadata"] == {"name": "n-1", "labels": {"a": "b"}}
    assert topology["zones"][0]["parent"] == "socket-0"
    amounts = [zone["resources"][0] for zone in topology["zones"]]
    assert amounts == [
        {"name": "nvidia.com/gpu", "capacity": "4", "allocatable": "4", "available": "2"},
        {"name": "nvidia.com/gpu", "capacity": 4, "allocatable": 4, "available": 4},
    ]
    leaf, spine = scenario.facts.hyper_nodes
    assert leaf["spec"]["members"][2]["selector"]["labelMatch"]["matchExpressions"][0]["operator"] == "Exists"
    assert "status" not in leaf
    assert (spine["apiVersion"], spine["kind"]) == ("topology.volcano.sh/v1alpha1", "HyperNode")
    assert spine["spec"]["tierName"] == "spine"
    (device,) = scenario.facts.devices
    assert device["spec"]["devices"][0]["moduleID"] == 1
    assert device["spec"]["devices"][0]["topology"]["busID"] == "0:1"
    assert scenario.facts.calibration[0]["busBandwidthGBps"] == 366.2


def test_the_zones_of_nodes_that_are_alike_are_said_once() -> None:
    """An object without metadata stands for one per node."""
    scenario = read(
        f"""
nodes:
    - name: gpu
      count: 3
      allocatable: {{nvidia.com/gpu: 8}}
      nodeResourceTopology:
{ZONES}
gangs: []
"""
    )
    topologies = scenario.facts.node_topologies
    assert [topology["metadata"]["name"] for topology in topologies] == ["gpu-0", "gpu-1", "gpu-2"]
    assert len({str(topology["zones"]) for topology in topologies}) == 1
    assert topologies[0]["kind"] == "NodeResourceTopology"


def test_pods_carry_what_gang_role_and_place_say() -> None:
    """A role's annotations win over its gang's; a placed pod has its own as long as it is the one that was placed."""
    scenario = read(
        """
        nodes: [{name: n, allocatable: {}}]
        gangs:
          - name: g
            podAnnotations: {a: gang, b: gang}
            roles:
              - {name: x, labels: {tier: first}, annotations: {b: role}}
              - {name: y}
            pods: [{name: g-y-0, node: n, annotations: {muster.dev/observed-gpus: "0,1"}}]
        """
    )
    (gang,) = scenario.gangs
    first, second = gang.members
    assert gang.placed == {"g-y-0": ScenarioPlacement("n", PlacedState.RUNNING, {"muster.dev/observed-gpus": "0,1"})}
    metadata = pod_manifest(gang, first, "muster", placed=True)["metadata"]
    assert metadata["annotations"] == {"a": "gang", "b": "role"}
    assert metadata["labels"] == {
        "muster.dev/role": "x",
        "tier": "first",
        "scheduling.x-k8s.io/pod-group": "g",
    }
    placed = pod_manifest(gang, second, "muster", placed=True)["metadata"]["annotations"]
    assert placed == {"a": "gang", "b": "gang", "muster.dev/observed-gpus": "0,1"}
    assert "muster.dev/observed-gpus" not in pod_manifest(gang, second, "muster", placed=False)["metadata"].get(
        "annotations", {}
    )


TOPOLOGY = "nodeResourceTopology: [{metadata: {name: n-0}, zones: [%s]}]"
HYPER_NODE = "hyperNodes: [{metadata: {name: h}, spec: {tier: 1, members: [%s]}}]"
CALIBRATION = "calibration: [{product: H100, gpusPerNode: 8, nodes: 4, level: rack, busBandwidthGBps: %s}]"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("topology: {levels: [{name: rack}]}", "topology.levels[0].nodeLabel: is missing"),
        ("topology: {levels: [], tiers: 3}", "topology.tiers: unknown key"),
        (
            "topology: {levels: [{name: a b, nodeLabel: x}]}",
            "topology.levels[0].name: 'a b' should match pattern",
        ),
        (
            "topology: {levels: [{name: a, nodeLabel: x y}]}",
            "topology.levels[0].nodeLabel: 'x y' should match pattern",
        ),
        (
            "topology: {levels: [{name: a, nodeLabel: x, allreduceFactor: 1.5}]}",
            "topology.levels[0].allreduceFactor: 1.5 should be less than or equal to 1",
        ),
        (
            "topology: {levels: [{name: a, nodeLabel: x}, {name: a, nodeLabel: x}]}",
            "topology.levels: level 'a' is defined 2 times",
        ),
        (
            "topology: {levels: [{name: cluster, nodeLabel: x}]}",
            "topology.levels[0].name: 'cluster' is a level by itself: give another name",
        ),
        (
            "topology: {levels: [{name: host, nodeLabel: kubernetes.io/hostname}, {name: a, nodeLabel: x}]}",
            "topology.levels[0].nodeLabel: 'kubernetes.io/hostname' names single nodes: it goes last",
        ),
        (
            (
                "topology: {levels: [{name: a, nodeLabel: x, allreduceFactor: 0.9}, "
                "{name: b, nodeLabel: y, allreduceFactor: 0.5}]}"
            ),
            "topology.levels: level 1 (b): allreduceFactor 0.5 is below 0.9 of a level further out: ",
        ),
        (TOPOLOGY.replace("n-0", "m") % "", "nodeResourceTopology[0].metadata.name: 'm' is no node of the scenario"),
        ("nodeResourceTopology: [{zones: []}]", "nodeResourceTopology[0].metadata: is missing"),
        ("nodeResourceTopology: 7", "nodeResourceTopology: 7 should be a valid list"),
        (
            "nodeResourceTopology: [{metadata: {name: n-0}, spec: {}, zones: []}]",
            "nodeResourceTopology[0].spec: unknown key; known here: metadata, topologyPolicies, attributes, zones",
        ),
        (
            "nodeResourceTopology: [{apiVersion: v1, metadata: {name: n-0}, zones: []}]",
            "nodeResourceTopology[0].apiVersion: 'v1' should be 'topology.node.k8s.io/v1alpha2'",
        ),
        (
            TOPOLOGY % "{name: node-0, resources: [{name: cpu, allocatable: -1}]}",
            "nodeResourceTopology[0].zones[0].resources[cpu].allocatable: '-1' is negative",
        ),
        (
            TOPOLOGY % "{name: node-0, resources: [{name: cpu, available: 1}]}",
            "nodeResourceTopology[0].zones[0].resources[cpu].allocatable: is missing",
        ),
        (
            TOPOLOGY % "{name: node-0, costs: [{name: node-7, value: 10}]}",
            "nodeResourceTopology[0].zones[0].costs[0].name: 'node-7' is no zone of the node",
        ),
        (
            TOPOLOGY % "{name: node-0}, {name: node-0}",
            "nodeResourceTopology[0].zones[1].name: 'node-0' is the second zone 0",
        ),
        (
            f"{TOPOLOGY % ''}\n".replace("}]\n", "}, {metadata: {name: n-0}, zones: []}]\n"),
            "nodeResourceTopology: the topology of node 'n-0' is defined 2 times",
        ),
        (
            (
                "nodeResourceTopology: [{metadata: {name: n-0}, zones: [{name: node-0}], "
                "attributes: [{name: topologyManagerPolicy, value: strict}]}]"
            ),
            "nodeResourceTopology[0].attributes",
        ),
        (
            HYPER_NODE % "{type: Node, selector: {exactMatch: {name: x}}}",
            "hyperNodes[0].spec.members[0].selector.exactMatch.name: 'x' is no node of the scenario",
        ),
        (
            HYPER_NODE % "{type: HyperNode, selector: {exactMatch: {name: n-0}}}",
            "hyperNodes[0].spec.members[0].selector.exactMatch.name: 'n-0' is no HyperNode of the scenario",
        ),
        (
            HYPER_NODE % "{type: Node, selector: {}}",
            "hyperNodes[0].spec.members[0].selector: needs exactly one of exactMatch, regexMatch and labelMatch",
        ),
        (
            HYPER_NODE % "{type: Node, selector: {regexMatch: {pattern: '['}}}",
            "hyperNodes[0].spec.members[0].selector.regexMatch.pattern: '[' is not a regular expression of Go",
        ),
        (
            HYPER_NODE % "{type: Rack, selector: {exactMatch: {name: n-0}}}",
            "hyperNodes[0].spec.members[0].type: 'Rack' is neither Node nor HyperNode",
        ),
        (
            "hyperNodes: [{metadata: {name: h}, spec: {tier: -1}}]",
            "hyperNodes[0].spec.tier: -1 is not a whole number of at least 0",
        ),
        (
            HYPER_NODE % "{type: Node, selector: {exactMatch: {nom: n-0}}}",
            "hyperNodes[0].spec.members[0].selector.exactMatch.nom: unknown key; known here: name",
        ),
        (
            "hyperNodes: [{metadata: {name: h}, spec: {tier: [1]}}]",
            "hyperNodes[0].spec.tier: Expected `int | str | null`",
        ),
        ("hyperNodes: [{metadata: {name: h, 3: x}, spec: {tier: 1}}]", "hyperNodes[0].metadata.3: unknown key"),
        ("hyperNodes: [{metadata: {name: H}, spec: {tier: 1}}]", "hyperNodes[0].metadata.name: 'H' is not a name"),
        ("devices: [7]", "devices[0]: 7 is not a mapping"),
        (
            "devices: [{metadata: {name: x}, spec: {devices: []}}]",
            "devices[0].metadata.name: 'x' is no node of the scenario",
        ),
        (CALIBRATION % "fast", "calibration[0].busBandwidthGBps: "),
        ("calibration: [{speed: 3}]", "calibration[0].speed: unknown field"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_value(text: str, problem: str) -> None:
    """Each error has the YAML path and the value, whatever it is about."""
    assert any(found.startswith(problem) for found in problems(NODES + text)), problems(NODES + text)


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        (
            'labelsFrom: {rack: "r-{index/2}"}',
            (
                "nodes[0].labelsFrom.rack: 'r-{index/2}': '{index/2}' is not arithmetic; known are index, whole "
                "numbers, + - * // % and parentheses"
            ),
        ),
        ("labelsFrom: {rack: 3}", "nodes[0].labelsFrom.rack: '3' is not a text, such as \"rack-{index//4}\""),
        ('labelsFrom: {rack: "{index % 0}"}', "nodes[0].labelsFrom.rack: '{index % 0}' divides by zero for index 0"),
        (
            'labels: {rack: a}, labelsFrom: {rack: "{index}"}',
            "nodes[0].labelsFrom.rack: '{index}': nodes[0].labels.rack is there too",
        ),
        (
            'annotations: {a: b}, annotationsFrom: {a: "{"}',
            "nodes[0].annotationsFrom.a: '{': '{' has no counterpart; a literal brace is doubled",
        ),
        ("nodeResourceTopology: {metadata: {name: n}, zones: []}", "nodes[0].nodeResourceTopology.metadata: unknown"),
        ("nodeResourceTopology: {}", "nodes[0].nodeResourceTopology.zones: is missing"),
    ],
)
def test_a_mistake_in_a_node_is_named_with_its_place_and_value(node: str, problem: str) -> None:
    """A template's error quotes it; a node's own topology has no name to give."""
    (found,) = problems(f"nodes: [{{name: n, count: 3, allocatable: {{}}, {node}}}]\ngangs: []")
    assert found.startswith(problem)


def test_a_mistake_in_the_head_hides_none_in_a_list() -> None:
    """All are listed at once."""
    found = problems(NODES + f"until: soon\n{TOPOLOGY.replace('n-0', 'm') % ''}\nhyperNodes: [7]")
    assert [problem.partition(": ")[0] for problem in found] == [
        "until",
        "nodeResourceTopology[0].metadata.name",
        "hyperNodes[0]",
    ]


def test_facts_are_plain_json() -> None:
    """What an object says reaches the API server as it was written."""

    def plain(value: Any) -> bool:
        if isinstance(value, dict):
            return all(isinstance(key, str) and plain(inner) for key, inner in value.items())
        if isinstance(value, list):
            return all(map(plain, value))
        return value is None or isinstance(value, bool | int | float | str)

    text = NODES + HYPER_NODE % "{type: Node, selector: {labelMatch: {matchLabels: {a: b}}}}"
    assert all(map(plain, read(text).facts.hyper_nodes))
