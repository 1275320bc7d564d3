"""Scenario files: what they may say, and how mistakes are named."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_lab.simulation.scenario import PlacedState, Scenario, ScenarioMember, ScenarioPlacement
from muster_lab.simulation.scenario_file import ScenarioError, load_scenario, read_scenario

REPOSITORY = Path(__file__).parents[3]

#: What may be requested.
RESOURCES = "cpu, memory, ephemeral-storage, pods, hugepages-SIZE or DOMAIN/NAME"

NODES = "nodes: [{name: n, allocatable: {nvidia.com/gpu: 8}}]\n"


def read(text: str) -> Scenario:
    """Read a scenario called `s.yaml`."""
    return read_scenario(text, "s.yaml")


def problems(text: str) -> tuple[str, ...]:
    """Return what is wrong with a scenario called `s.yaml`."""
    with pytest.raises(ScenarioError) as refused:
        read(text)
    assert str(refused.value) == "\n".join(refused.value.problems)
    return refused.value.problems


def outcome(text: str) -> Scenario | tuple[str, ...]:
    """Return the scenario, or what is wrong with it; any other exception is a failure."""
    try:
        return read(text)
    except ScenarioError as refused:
        return refused.problems


def test_a_minimal_scenario_gets_sensible_defaults() -> None:
    """A name, a size and what a pod asks for are enough."""
    scenario = read(NODES + "gangs: [{name: g, minMember: 2, requests: {nvidia.com/gpu: 4}}]")
    (node,), (gang,) = scenario.nodes, scenario.gangs
    assert node.allocatable == {"pods": "110", "nvidia.com/gpu": "8"}
    assert node.labels == {"kubernetes.io/hostname": "n"}
    assert (node.taints, node.unschedulable) == ((), False)
    assert gang.key == "default/g"
    assert gang.members == (
        ScenarioMember("g-0", {"nvidia.com/gpu": "4"}),
        ScenarioMember("g-1", {"nvidia.com/gpu": "4"}),
    )
    assert (gang.min_member, gang.priority, gang.arrival, gang.rendezvous, gang.duration) == (2, 0, 0.0, 0.0, None)
    assert (scenario.until, scenario.gpu_hour_price) == (86_400.0, 0.0)


def test_everything_can_be_said() -> None:
    """Every key of the format reaches the scenario."""
    scenario = read(
        """
        nodes:
          - name: a
            count: 2
            allocatable: {cpu: 500m, memory: 64Gi, pods: 3, nvidia.com/gpu: "8"}
            labels: {zone: z1}
            annotations: {note: x}
            taints: [{key: k, value: v, effect: NoSchedule}, {key: l, effect: NoExecute}]
            unschedulable: true
        gangs:
          - name: g
            namespace: team
            minMember: 2
            replicas: 3
            requests: {cpu: 1}
            roles: [{name: driver}, {name: worker, replicas: 2, requests: {cpu: 2}}]
            priority: -5
            arrival: 1m
            rendezvous: 10s
            duration: 1h
            annotations: {muster.dev/placement: spread}
            nodeSelector: {zone: z1}
            tolerations: [{key: k, operator: Exists}, {key: l, value: x, effect: NoExecute}]
            pods: [{name: g-driver-0, node: a-1}, {name: g-worker-1, node: a-0, state: Succeeded}]
        until: 2h
        gpuHourPrice: 3.67
        """
    )
    first, second = scenario.nodes
    assert (first.name, second.name) == ("a-0", "a-1")
    assert second.labels == {"kubernetes.io/hostname": "a-1", "zone": "z1"}
    assert first.allocatable["pods"] == "3"
    assert first.taints == ({"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "l", "effect": "NoExecute"})
    assert first.unschedulable
    (gang,) = scenario.gangs
    assert gang.key == "team/g"
    assert gang.members == (
        ScenarioMember("g-driver-0", {"cpu": "1"}, "driver"),
        ScenarioMember("g-worker-0", {"cpu": "2"}, "worker"),
        ScenarioMember("g-worker-1", {"cpu": "2"}, "worker"),
    )
    assert (gang.priority, gang.arrival, gang.rendezvous, gang.duration) == (-5, 60.0, 10.0, 3600.0)
    assert gang.placed == {
        "g-driver-0": ScenarioPlacement("a-1", PlacedState.RUNNING),
        "g-worker-1": ScenarioPlacement("a-0", PlacedState.SUCCEEDED),
    }
    assert gang.tolerations == (
        {"key": "k", "operator": "Exists"},
        {"key": "l", "value": "x", "effect": "NoExecute"},
    )
    assert (scenario.until, scenario.gpu_hour_price) == (7200.0, 3.67)


def test_a_gang_may_lack_members() -> None:
    """More members needed than there are pods is how a gang looks whose controller has not created them all."""
    (gang,) = read(NODES + "gangs: [{name: g, minMember: 4, replicas: 3}]").gangs
    assert (gang.min_member, len(gang.members)) == (4, 3)


def test_sizes_follow_from_each_other() -> None:
    """MinMember is all pods where it is not given; the pods are minMember where their number is not."""
    text = (
        NODES + "gangs: [{name: a, replicas: 3}, {name: b, minMember: 2}, {name: c, roles: [{name: x, replicas: 4}]}]"
    )
    assert [(gang.min_member, len(gang.members)) for gang in read(text).gangs] == [(3, 3), (2, 2), (4, 4)]


@pytest.mark.parametrize(
    ("gang", "problem"),
    [
        (
            '{name: g, minMember: 1, requests: {nvidia.com/gpu: "-8"}}',
            "gangs[0].requests.nvidia.com/gpu: '-8' is negative",
        ),
        (
            "{name: g, minMember: 1, requests: {nvidia.com/gpu: -8}}",
            "gangs[0].requests.nvidia.com/gpu: '-8' is negative",
        ),
        (
            "{name: g, minMember: 1, requests: {cpu: 1x}}",
            "gangs[0].requests.cpu: '1x' is not a quantity (examples: 8, 500m, 64Gi)",
        ),
        (
            "{name: g, minMember: 1, requests: {cpu: [1]}}",
            "gangs[0].requests.cpu: '[1]' is not a quantity (examples: 8, 500m, 64Gi)",
        ),
        ("{name: g, minMember: 1, requests: {memory: 100E}}", "gangs[0].requests.memory: '100E' exceeds 2^63 - 1"),
        ("{name: g, minMember: 1, requests: {cpu: 8E}}", "gangs[0].requests.cpu: '8E' exceeds 2^63 - 1"),
        (
            "{name: g, minMember: 1, requests: {a.com/b: 500m}}",
            "gangs[0].requests.a.com/b: '500m' is not a whole number",
        ),
        (
            "{name: g, minMember: 1, requests: {gpu: 8}}",
            "gangs[0].requests.gpu: 'gpu' is no resource: " + RESOURCES,
        ),
        (
            "{name: g, minMember: 1, requests: {3: 8}}",
            "gangs[0].requests[3]: '3' is no resource: " + RESOURCES,
        ),
        ("{name: g, minMember: 0}", "gangs[0].minMember: '0' is not between 1 and 100000"),
        ("{name: g, minMember: -1}", "gangs[0].minMember: '-1' is negative"),
        ("{name: g, minMember: 1.5}", "gangs[0].minMember: '1.5' is not a whole number"),
        ("{name: g, minMember: true}", "gangs[0].minMember: 'True' is not a whole number"),
        ("{name: g, minMember: four}", "gangs[0].minMember: 'four' is not a whole number"),
        ("{name: g, replicas: 2, roles: [{name: x}]}", "gangs[0].replicas: '2' is not the sum over the roles, 1"),
        ("{name: g, roles: [{name: x}, {name: x}]}", "gangs[0].roles: role 'x' is defined 2 times"),
        (
            "{name: g, roles: [{name: x, requests: {a.com/b: 0.5}}]}",
            "gangs[0].roles[0].requests.a.com/b: '0.5' is not a whole number",
        ),
        ("{name: g, roles: [{name: x, foo: 1}]}", "gangs[0].roles[0].foo: unknown key"),
        ("{name: g}", "gangs[0]: one of minMember, replicas and roles is needed"),
        ("{minMember: 1}", "gangs[0].name: is missing"),
        (
            "{name: G_1, minMember: 1}",
            "gangs[0].name: 'G_1' is not a name: lower-case letters, digits, '-' and '.', quoted if it is a number",
        ),
        (f"{{name: {'g' * 64}, minMember: 1}}", f"gangs[0].name: '{'g' * 64}' is longer than 63 characters"),
        (
            "{name: g, minMember: 1, arrival: soon}",
            "gangs[0].arrival: 'soon' is not a duration (examples: 90, 30m, 1h30m)",
        ),
        ("{name: g, minMember: 1, duration: -1m}", "gangs[0].duration: '-1m' is negative"),
        (
            "{name: g, minMember: 1, priority: 3000000000}",
            "gangs[0].priority: '3000000000' is not between -2147483647 and 2147483647",
        ),
        ("{name: g, minMember: 1, annotations: {a: 1}}", "gangs[0].annotations.a: 1 should be a valid string"),
        ("{name: g, minMember: 1, pods: [{name: x, node: n}]}", "gangs[0].pods[0].name: 'x' is no pod of the gang"),
        (
            "{name: g, minMember: 1, pods: [{name: g-0, node: m}]}",
            "gangs[0].pods[0].node: 'm' is no node of the scenario",
        ),
        (
            "{name: g, minMember: 1, pods: [{name: g-0, node: n, state: Gone}]}",
            "gangs[0].pods[0].state: 'Gone' should be 'Running', 'Succeeded' or 'Failed'",
        ),
        (
            "{name: g, minMember: 1, pods: [{name: g-0, node: n}, {name: g-0, node: n}]}",
            "gangs[0].pods: pod 'g-0' is defined 2 times",
        ),
        (
            "{name: g, minMember: 1, source: kueue}",
            "gangs[0].source: 'kueue' should be 'coscheduling', 'volcano', 'native' or 'pod'",
        ),
        (
            "{name: g, minMember: 1, source: pod}",
            "gangs[0]: 'pod' is no source of a gang: pods without one are listed under pods of the scenario",
        ),
        (
            "{name: g, minMember: 1, podGroupSpec: {minMember: 2}}",
            "gangs[0].podGroupSpec.minMember: the gang's minMember and priority say it: leave it out",
        ),
        (
            "{name: g, minMember: 1, source: native, podGroupSpec: {minResources: {}}}",
            (
                "gangs[0].podGroupSpec.minResources: unknown key; known here: parentCompositePodGroupName, "
                "schedulingPolicy, schedulingConstraints, "
                "priority, priorityClassName, disruptionMode, preemptionPolicy"
            ),
        ),
        (
            "{name: g, minMember: 1, source: volcano, podGroupSpec: {queue: 3}}",
            "gangs[0].podGroupSpec.queue: Expected `str | null`, got `int`",
        ),
        (
            "{name: g, minMember: 1, age: 1h, arrival: 5m}",
            "gangs[0].age: '3600s' with an arrival: what is created later has no age at the start",
        ),
        (
            "{name: g, minMember: 1, age: 1h, pods: [{name: g-0, node: n, runningFor: 2h}]}",
            "gangs[0].pods[0].runningFor: '7200s' is longer than the age of the pod, 3600s",
        ),
        (
            "{name: g, minMember: 1, pods: [{name: g-0, node: n, state: Failed, terminating: 1m}]}",
            "gangs[0].pods[0]: terminating is said of a pod that is Failed: it is about one that is Running",
        ),
        (
            "{name: g, minMember: 1, pods: [{name: g-0, node: n, terminating: 0}]}",
            "gangs[0].pods[0]: a pod that is gone after 0 seconds is not there: leave it out",
        ),
        ("7", "gangs[0]: 7 is not a mapping"),
    ],
)
def test_a_mistake_in_a_gang_is_named_with_its_place_and_value(gang: str, problem: str) -> None:
    """Each error has the file, the YAML path and the value."""
    assert problems(NODES + f"gangs: [{gang}]") == (f"s.yaml: {problem}",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nodes: []", "gangs: is missing"),
        ("gangs: []", "nodes: is missing"),
        ("nodes: x\ngangs: []", "nodes: 'x' should be a valid list"),
        (
            "nodes: []\ngangs: []\nracks: 3",
            (
                "racks: unknown key; known here: nodes, gangs, pods, nodeFailures, nodeGroups, provisioningClass, "
                "provisioningParameters, topology, nodeResourceTopology, "
                "hyperNodes, devices, deviceClasses, resourceSlices, resourceClaimTemplates, resourceClaims, "
                "calibration, queues, namespaces, priorityClasses, declareDuration, until, gpuHourPrice"
            ),
        ),
        ("nodes: []\ngangs: []\ntopology: {}", "topology.levels: is missing"),
        ("nodes: []\ngangs: []\nuntil: -3", "until: '-3' is negative"),
        ("nodes: []\ngangs: []\ngpuHourPrice: -1", "gpuHourPrice: '-1' is negative"),
        ("nodes: []\ngangs: []\ngpuHourPrice: .inf", "gpuHourPrice: 'inf' is not a finite number"),
        ("nodes: []\ngangs: []\ngpuHourPrice: cheap", "gpuHourPrice: 'cheap' is not a number"),
        ("nodes: [{name: n}]\ngangs: []", "nodes[0].allocatable: is missing"),
        (
            NODES + "gangs: []\nnodeFailures: [{node: m, at: 1m}]",
            "nodeFailures[0].node: 'm' is no node of the scenario",
        ),
        (
            NODES + "gangs: []\nnodeFailures: [{node: n, at: 2m, back: 1m}]",
            "nodeFailures[0]: node 'n' is back before it fails: back is to be later than at",
        ),
        (
            NODES + "gangs: []\nnodeFailures: [{node: n, at: 9m, gone: true}, {node: n, at: 1m, back: 9m}]",
            "nodeFailures[0].at: node 'n' is away at that time already",
        ),
        (NODES + "gangs: []\nnodeFailures: [{node: n}]", "nodeFailures[0].at: is missing"),
        (NODES + "gangs: []\npods: [{name: p, node: m}]", "pods[0].node: 'm' is no node of the scenario"),
        (NODES + "gangs: []\npods: [{name: p, state: Failed}]", "pods[0].state: 'Failed' without a node"),
        (
            NODES + "gangs: []\npods: [{name: p, queue: q}]",
            "pods[0].queue: 'q' is no queue: there are none under queues",
        ),
        (
            NODES + "gangs: []\npods: [{name: p, node: n, terminating: soon}]",
            "pods[0].terminating: 'soon' is not a duration (examples: 90, 30m, 1h30m)",
        ),
        (
            NODES + "gangs: [{name: g, minMember: 1}]\npods: [{name: g}]",
            "gangs: gang 'default/g' is defined 2 times",
        ),
        ("nodes: [{name: n, allocatable: {cpu: -1}}]\ngangs: []", "nodes[0].allocatable.cpu: '-1' is negative"),
        (
            "nodes: [{name: n, allocatable: {pods: 0.5}}]\ngangs: []",
            "nodes[0].allocatable.pods: '0.5' is not a whole number",
        ),
        (
            "nodes: [{name: n, count: 200000, allocatable: {}}]\ngangs: []",
            "nodes[0].count: '200000' is not between 1 and 100000",
        ),
        (
            "nodes: [{name: n, allocatable: {}, taints: [{key: k, effect: Maybe}]}]\ngangs: []",
            "nodes[0].taints[0].effect: 'Maybe' should be 'NoSchedule', 'PreferNoSchedule' or 'NoExecute'",
        ),
        (
            "nodes: [{name: n-0, allocatable: {}}, {name: n, count: 2, allocatable: {}}]\ngangs: []",
            "nodes: node 'n-0' is defined 2 times",
        ),
        (
            NODES + "gangs: [{name: g, minMember: 1}, {name: g, minMember: 1}]",
            "gangs: gang 'default/g' is defined 2 times",
        ),
        (
            NODES + "gangs: [{name: g-x, minMember: 1}, {name: g, roles: [{name: x}]}]",
            "gangs: pod 'default/g-x-0' is defined 2 times",
        ),
        ("", "a mapping with `nodes` and `gangs` is expected, found nothing"),
        ("- 1", "a mapping with `nodes` and `gangs` is expected, found list"),
        ("nodes: [", "line 1, column 9: expected the node content, but found '<stream end>'"),
        ("a: 1\nb: 2\na: 3", "line 3, column 1: key 'a' is given twice"),
        ("{[a]: b}", "line 1, column 2: found unhashable key"),
        ("nodes: [{? {a: b} : c}]", "line 1, column 12: found unhashable key"),
        ("nodes: !!bool x", "not YAML: a value does not fit its tag"),
        ("nodes: !!timestamp x", "not YAML: a value does not fit its tag"),
        ("nodes: &x [*x]", "line 1, column 8: contains itself"),
        ("nodes: []\n---\ngangs: []", "one document is expected, found 2"),
        ("a: &x [*x, *y]", "line 1, column 12: found undefined alias 'y'"),
        (
            "a: !!python/none x",
            "line 1, column 4: could not determine a constructor for the tag 'tag:yaml.org,2002:python/none'",
        ),
    ],
)
def test_a_mistake_elsewhere_is_named_too(text: str, problem: str) -> None:
    """Syntax errors have a line; everything else a path."""
    assert problems(text) == (f"s.yaml: {problem}",)


def test_all_mistakes_are_listed_at_once() -> None:
    """A file need not be fixed error by error, whatever the kinds of the errors."""
    found = problems(
        """
        nodes: [{name: n, allocatable: {cpu: -1}, count: 0}, {name: m, allocatable: {a.com/b: 0.5}}]
        gangs:
          - {name: g, minMember: 9, roles: [{name: x}, {name: x}]}
          - {name: h, minMember: x, arrival: y}
        until: z
        """
    )
    assert found == (
        "s.yaml: until: 'z' is not a duration (examples: 90, 30m, 1h30m)",
        "s.yaml: nodes[0].allocatable.cpu: '-1' is negative",
        "s.yaml: nodes[0].count: '0' is not between 1 and 100000",
        "s.yaml: nodes[1].allocatable.a.com/b: '0.5' is not a whole number",
        "s.yaml: gangs[0].roles: role 'x' is defined 2 times",
        "s.yaml: gangs[1].arrival: 'y' is not a duration (examples: 90, 30m, 1h30m)",
        "s.yaml: gangs[1].minMember: 'x' is not a whole number",
    )


def test_a_long_value_is_shown_shortened() -> None:
    """A message stays readable whatever was written."""
    (problem,) = problems(f"nodes: {'x' * 500}\ngangs: []")
    assert len(problem) < 120


def test_a_control_character_is_no_yaml() -> None:
    """What the YAML reader refuses outright is an error of one line."""
    (problem,) = problems("\x00")
    assert problem.startswith("s.yaml: not YAML: unacceptable character")


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    """Reading problems are scenario errors with the file's name."""
    missing = tmp_path / "missing.yaml"
    with pytest.raises(ScenarioError, match=r"missing\.yaml: No such file or directory"):
        load_scenario(missing)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ScenarioError, match=r"binary\.yaml: not UTF-8"):
        load_scenario(binary)


@given(st.text(max_size=200))
def test_no_text_makes_anything_but_a_scenario_or_a_scenario_error(text: str) -> None:
    """Whatever stands in a file, reading it ends with a scenario or with a list of problems."""
    assert outcome(text)


_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_trees = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "allocatable", "requests", "minMember", "roles", "pods", "node", "cpu"])
            | _scalars,
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_trees, _trees, _trees)
def test_no_document_makes_anything_but_a_scenario_or_a_scenario_error(
    nodes: object, gangs: object, until: object
) -> None:
    """The same for documents of about the right form with anything inside."""
    import yaml  # noqa: PLC0415 - only this test writes YAML

    text = yaml.safe_dump({"nodes": [nodes], "gangs": [gangs], "until": until}, allow_unicode=True)
    assert outcome(text)


@pytest.mark.parametrize(
    "path", sorted((REPOSITORY / "examples" / "scenarios").glob("*.yaml")), ids=lambda path: path.name
)
def test_the_examples_can_be_read(path: Path) -> None:
    """Every example is a scenario."""
    assert load_scenario(path).gangs


@pytest.mark.parametrize("name", ["two-jobs.yaml", "two-teams.yaml"])
def test_the_packaged_scenarios_are_the_examples(name: str) -> None:
    """What the demo plays, and what comes with the package, is what lies among the examples."""
    packaged = files("muster_lab.simulation").joinpath("scenarios", name).read_text(encoding="utf-8")
    assert packaged == (REPOSITORY / "examples" / "scenarios" / name).read_text(encoding="utf-8")
