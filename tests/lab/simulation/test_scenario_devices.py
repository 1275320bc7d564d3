"""Scenarios whose pods claim devices: what they may say, what is wrong with others, and how they are played."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from extender.control.ports import WatchedKind
from muster_lab.simulation.results import Result
from muster_lab.simulation.scenario import Scenario
from muster_lab.simulation.scenario_file import ScenarioError, load_scenario, read_scenario
from muster_lab.simulation.simulate import record, simulate
from muster_lab.simulation.world import Connect

EXAMPLE = Path(__file__).parents[3] / "examples" / "scenarios" / "devices.yaml"

NODES = """
nodes:
  - name: n
    count: 2
    allocatable: {cpu: 8}
    devices: [{class: gpu.nvidia.com, product: H100, memory: 40Gi, count: 8}]
  - name: old
    allocatable: {cpu: 8}
    devices: [{class: gpu.nvidia.com, product: A100, memory: 80Gi, count: 8}]
"""
CLASSES = """
deviceClasses:
  - metadata: {name: large}
    spec:
      selectors:
        - {cel: {expression: 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("80Gi")) >= 0'}}
"""
TEMPLATES = """
resourceClaimTemplates:
  - metadata: {name: pair}
    spec: {spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: large, count: 2}}]}}}
"""


def read(*parts: str) -> Scenario:
    """Return a scenario of several parts."""
    return read_scenario("\n".join(map(dedent, parts)), "s.yaml")


def gangs(*lines: str) -> str:
    """Return gangs of two pods that train for ten minutes, one for each line of what else they say."""
    told = (f"- {{name: g{number}, minMember: 2, duration: 10m, {line}}}" for number, line in enumerate(lines))
    return "gangs:\n" + indent("\n".join(told), "  ")


def started(result: Result) -> dict[str, tuple[float | None, set[str | None]]]:
    """Return when each gang started, and on which nodes its pods were."""
    return {gang.name: (gang.admitted_at, {pod.node for pod in gang.pods}) for gang in result.gangs}


def test_the_example_runs_one_gang_after_the_other(connect: Connect) -> None:
    """With Muster the second waits without a device; kube-scheduler alone gives both so many that neither starts."""
    scenario = load_scenario(EXAMPLE)
    played = simulate(scenario, connect)
    assert [(gang.admitted_at, gang.finished_at) for gang in played.gangs] == [(0.0, 1800.0), (1800.0, 3600.0)]
    assert (played.summary.productive_gpu_hours, played.summary.idle_gpu_hours) == (24.0, 0.0)
    alone = simulate(scenario, None)
    assert [gang.admitted_at for gang in alone.gangs] == [None, None]
    assert alone.summary.idle_gpu_hours == 48.0


def test_devices_are_claimed_by_product_and_count(connect: Connect) -> None:
    """Who names a product gets it, who names none gets any; so do roles that say something of their own."""
    result = simulate(
        read(
            NODES,
            gangs(
                "devices: [{class: gpu.nvidia.com, product: A100, count: 4}]",
                "devices: [{class: gpu.nvidia.com, product: H100, count: 5}]",
                "roles: [{name: a, devices: []}, {name: b}], devices: [{class: gpu.nvidia.com, product: A100}]",
            ),
        ),
        connect,
    )
    where = started(result)
    assert where["g0"] == (0.0, {"old"})
    assert where["g1"] == (0.0, {"n-0", "n-1"})
    assert where["g2"][0] == 600.0  # the only A100s are taken until then


def test_objects_say_the_same_in_the_words_of_the_api(connect: Connect) -> None:
    """Classes, templates and claims are found by their names; a claim that pods share keeps them together."""
    shared = """
    resourceClaims:
      - metadata: {name: shared}
        spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu.nvidia.com, count: 8}}]}}
    """
    result = simulate(
        read(
            NODES,
            CLASSES,
            TEMPLATES,
            shared,
            gangs(
                "resourceClaims: [{name: c, resourceClaimTemplateName: pair}]",
                "resourceClaims: [{name: c, resourceClaimName: shared}], nodeSelector: {kubernetes.io/hostname: n-1}",
            ),
            "pods: [{name: p, duration: 1m, devices: [{class: large, count: 4}]}]",
        ),
        connect,
    )
    where = started(result)
    assert where["g0"] == (0.0, {"old"})
    assert where["g1"][1] == {"n-1"}  # a claim that is in flight keeps its second user from nodes for a moment
    assert where["p"] == (0.0, {"old"})
    # Four of g0's, eight that g1 shares, and four of the pod's.
    assert result.summary.productive_gpu_hours == pytest.approx((4 * 10 + 8 * 10 + 4) / 60)


def test_a_node_that_comes_back_has_its_devices_again(connect: Connect) -> None:
    """The ResourceSlices of a node that is gone go with it; who needs them waits, and starts when it is back."""
    scenario = read(
        "nodes: [{name: n, allocatable: {cpu: 8}, devices: [{class: gpu.nvidia.com, count: 8}]}]",
        "gangs: [{name: g, minMember: 2, arrival: 2m, duration: 10m, devices: [{class: gpu.nvidia.com, count: 4}]}]",
        "nodeFailures: [{node: n, at: 1m, back: 5m, gone: true}]",
    )
    played = record(scenario, connect)
    assert played.capacity == {"n": 8}
    assert played.result.gangs[0].admitted_at == 304.0  # its pods were refused before, and back off


def test_what_is_said_for_short_is_objects_of_the_api() -> None:
    """A class, a slice for each node, and a template for each gang: in the order in which they are needed."""
    scenario = read(NODES, gangs("devices: [{class: gpu.nvidia.com, count: 6}]"))
    kinds = [kind for kind, _ in scenario.claimable]
    assert kinds == [
        WatchedKind.DEVICE_CLASS,
        *[WatchedKind.RESOURCE_SLICE] * 3,
        WatchedKind.RESOURCE_CLAIM_TEMPLATE,
    ]
    template = scenario.claimable[-1][1]
    assert template["metadata"] == {"name": "g0-devices", "namespace": "default"}
    assert scenario.gangs[0].members[0].claims == ({"name": "devices", "resourceClaimTemplateName": "g0-devices"},)


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        (
            ("nodes: [{name: n, allocatable: {}, devices: [{class: GPU}]}]", "gangs: []"),
            "nodes[0].devices[0].class: 'GPU'",
        ),
        (
            ("nodes: [{name: n, allocatable: {}, devices: [{class: g, count: 129}]}]", "gangs: []"),
            "nodes[0].devices: more than 128 devices of class 'g' on one node",
        ),
        ((NODES, gangs("devices: [{count: 2}]")), "gangs[0].devices[0].class: is missing"),
        (
            (NODES, gangs("devices: [{class: gpu.nvidia.com, count: 33}]")),
            "gangs[0].devices[0].count: '33' is not between",
        ),
        (
            (NODES, gangs("devices: [{class: gpu.nvidia.com, memory: 80Gi}]")),
            "gangs[0].devices[0].memory: unknown key",
        ),
        (
            (NODES, gangs("devices: [{class: tpu}]")),
            "gangs[0].devices[0].class: 'tpu' is no DeviceClass of the scenario",
        ),
        (
            (NODES, gangs("resourceClaims: [{name: c, resourceClaimTemplateName: six}]")),
            "gangs[0].resourceClaims[0].resourceClaimTemplateName: 'six' is no ResourceClaimTemplate of the scenario",
        ),
        (
            (NODES, gangs("resourceClaims: [{name: c}]")),
            "gangs[0].resourceClaims[0]: exactly one of resourceClaimName and resourceClaimTemplateName is needed",
        ),
        (
            (
                NODES,
                CLASSES,
                TEMPLATES,
                gangs("namespace: team, resourceClaims: [{name: c, resourceClaimTemplateName: pair}]"),
            ),
            "gangs[0].resourceClaims[0].resourceClaimTemplateName: 'pair' is no ResourceClaimTemplate of the scenario",
        ),
        (
            (NODES, gangs("devices: [{class: gpu.nvidia.com}], pods: [{name: g0-0, node: n-0}]")),
            "gangs[0].pods[0].name: 'g0-0' claims devices, and has to find a node first",
        ),
        (
            (NODES, "gangs: []", "pods: [{name: p, node: n-0, devices: [{class: gpu.nvidia.com}]}]"),
            "pods[0].node: 'n-0': a pod that claims devices has to find a node first",
        ),
        (
            (
                NODES,
                "gangs: []",
                "deviceClasses: [{metadata: {name: c}, spec: {selectors: [{cel: {expression: 'device.'}}]}}]",
            ),
            "deviceClasses[0].spec.selectors[0].cel.expression: 'device.'",
        ),
        (
            (
                NODES,
                "gangs: []",
                "deviceClasses: [{metadata: {name: c}, spec: {extendedResourceName: nvidia.com/gpu}}]",
            ),
            "deviceClasses[0].spec.extendedResourceName: 'nvidia.com/gpu' is not played",
        ),
        (
            (NODES, "gangs: []", "resourceClaims: [{metadata: {name: c}, spec: {devices: {requests: [{name: r}]}}}]"),
            "resourceClaims[0].spec.devices.requests[0]: has neither exactly nor firstAvailable",
        ),
        (
            (
                NODES,
                "gangs: []",
                "resourceClaimTemplates: [{metadata: {name: c}, spec: {spec: {devices: {requests: [{name: r}]}}}}]",
            ),
            "resourceClaimTemplates[0].spec.spec.devices.requests[0]: has neither exactly nor firstAvailable",
        ),
        (
            (
                NODES,
                "gangs: []",
                "resourceSlices: [{metadata: {name: s}, spec: {driver: d, nodeName: x, pool: {name: p}}}]",
            ),
            "resourceSlices[0].spec.nodeName: 'x' is no node of the scenario",
        ),
    ],
)
def test_mistakes_are_named_with_their_place(parts: tuple[str, ...], problem: str) -> None:
    """What is unknown, missing, out of bounds or no part of the simulation is said with the field and its value."""
    with pytest.raises(ScenarioError) as error:
        read(*parts)
    assert any(line.startswith(f"s.yaml: {problem}") for line in error.value.problems), error.value.problems
