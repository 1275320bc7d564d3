"""Nodes that come and go: by requests of gangs, by pods that wait, and where pods have room elsewhere."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from muster_lab.simulation.autoscaler import NodeStay
from muster_lab.simulation.results import AutoscalingResult, Result
from muster_lab.simulation.scenario import Scenario
from muster_lab.simulation.scenario_file import ScenarioError, load_scenario, read_scenario
from muster_lab.simulation.simulate import record, simulate
from muster_lab.simulation.world import Connect

EXAMPLES = Path(__file__).parents[3] / "examples" / "scenarios"
CHECK, ATOMIC = ("check-capacity.autoscaling.x-k8s.io", "best-effort-atomic-scale-up.autoscaling.x-k8s.io")
GANG = "- {name: g, minMember: 3, requests: {nvidia.com/gpu: 8}, duration: 1h}"


def scenario(group: str, gangs: str = GANG, more: str = "") -> Scenario:
    """Return a scenario with one group of nodes of eight GPUs, which are ready after two minutes or as `group` says."""
    group += "" if "readyAfter" in group else ", readyAfter: 2m"
    return read_scenario(
        f"nodes: []\nnodeGroups: [{{name: n, allocatable: {{nvidia.com/gpu: 8}}, {group}}}]\n"
        f"gangs:\n{dedent(gangs)}\nuntil: 24h\n{dedent(more)}",
        "s.yaml",
    )


def autoscaled(result: Result) -> AutoscalingResult:
    """Return what came of the nodes."""
    assert result.autoscaling is not None
    return result.autoscaling


def stays(result: Result) -> list[tuple[str, float, float | None, float | None]]:
    """Return when each node was asked for, ready, and removed."""
    return [(stay.name, stay.asked, stay.ready, stay.removed) for stay in autoscaled(result).nodes]


def times(result: Result) -> dict[str, tuple[float | None, float | None]]:
    """Return when each gang started and ended."""
    return {gang.name: (gang.admitted_at, gang.finished_at) for gang in result.gangs}


def test_a_gang_asks_for_all_its_nodes_at_once(connect: Connect) -> None:
    """The example: they are made together, another gang uses them after it, and they go when they are empty."""
    result = simulate(load_scenario(EXAMPLES / "autoscaling.yaml"), connect)
    assert times(result) == {"train": (910.0, 4570.0), "wide": (4570.0, 5830.0), "sweep": (10_800.0, 12_000.0)}
    made = [(f"h100-{number}", 610.0, 910.0, 6430.0) for number in (1, 2, 3)]
    assert stays(result) == [("h100-0", 0.0, 0.0, None), *made]
    hours = (12_000 + 3 * (6430 - 610)) / 3600
    found = autoscaled(result)
    assert (found.node_hours, found.gpu_hours) == pytest.approx((hours, 8 * hours))
    assert found.cost == pytest.approx(8 * hours * 3.67)


def test_a_protected_gang_keeps_nodes_that_consolidation_would_empty(connect: Connect) -> None:
    """The example: only the notebook moves; with kube-scheduler alone a member of the gang does, and it starts over."""
    example = load_scenario(EXAMPLES / "karpenter.yaml")
    result, stock = simulate(example, connect), simulate(example, None)
    assert [(each.at, each.pod, each.node) for each in result.evictions] == [(1950.0, "default/notebook", "gpu-2")]
    assert result.summary.lost_gpu_hours == 0
    assert stays(result)[2] == ("gpu-2", 610.0, 730.0, 1960.0)
    assert [each.pod for each in stock.evictions] == ["default/notebook", "default/long-1"]
    assert stock.summary.lost_gpu_hours == pytest.approx(17.33, abs=0.01)


@pytest.mark.parametrize(("most", "made"), [(3, 3), (2, 2)])
def test_for_pods_that_wait_as_many_nodes_are_made_as_there_may_be(connect: Connect, most: int, made: int) -> None:
    """One by one, whether the gang can start on them or not; those that hold no pod go again."""
    result = simulate(scenario(f"max: {most}, removeAfter: 1h"), connect)
    assert [stay[:3] for stay in stays(result)] == [(f"n-{number}", 10.0, 130.0) for number in range(made)]
    assert (times(result)["g"][1] is not None) == (made == most == 3)


def test_a_request_for_more_than_there_may_be_makes_nothing(connect: Connect) -> None:
    """It is all or none, and the gang says what the autoscaler said."""
    result = simulate(scenario("max: 2", more=f"provisioningClass: {ATOMIC}"), connect)
    (gang,) = result.gangs
    assert gang.reason is not None
    assert gang.reason.code == "AwaitingNodes"
    assert "not Provisioned (CapacityIsNotFound): Capacity is not found" in gang.reason.message
    assert stays(result) == []


def test_a_request_that_has_failed_is_made_again(connect: Connect) -> None:
    """check-capacity makes no nodes, and with noRetry it gives up; when there is room the gang starts without it."""
    gangs = """
    - {name: a, minMember: 3, requests: {nvidia.com/gpu: 8}, duration: 10m}
    - {name: g, arrival: 1m, minMember: 3, requests: {nvidia.com/gpu: 8}, duration: 10m}
    - {name: more, arrival: 30m, minMember: 4, requests: {nvidia.com/gpu: 8}}
    """
    more = f'provisioningClass: {CHECK}\nprovisioningParameters: {{noRetry: "true"}}'
    result = simulate(scenario("min: 3, max: 9", gangs, more), connect)
    assert times(result) == {"a": (0.0, 600.0), "g": (600.0, 1200.0), "more": (None, None)}
    reason = result.gangs[2].reason
    assert reason is not None
    assert "Failed (CapacityIsNotFound)" in reason.message
    assert "asked again" in reason.message
    assert len(stays(result)) == 3


def test_what_a_request_was_promised_is_kept_for_ten_minutes(connect: Connect) -> None:
    """Nodes that take longer come all the same, and no more of them are made when the gang has asked once more."""
    slow = scenario("max: 9, readyAfter: 15m", more=f"provisioningClass: {ATOMIC}")
    result = simulate(slow, connect)
    assert [stay[:3] for stay in stays(result)] == [(f"n-{number}", 10.0, 910.0) for number in range(3)]
    assert times(result)["g"] == pytest.approx((915.0, 4515.0), abs=5)


def test_other_groups_are_for_other_pods(connect: Connect) -> None:
    """A group is one for a pod whose selector and tolerations say so; the first one of several is taken."""
    text = """
    nodes: [{name: cpu, allocatable: {cpu: 8}}]
    nodeGroups:
      - name: small
        max: 2
        allocatable: {nvidia.com/gpu: 1}
        labels: {kind: small}
        taints: [{key: t, effect: NoSchedule}]
      - {name: big, max: 2, allocatable: {nvidia.com/gpu: 8}, labelsFrom: {rack: "r{index}"}}
      - {name: other, max: 2, allocatable: {nvidia.com/gpu: 8}}
    gangs: [{name: g, minMember: 2, requests: {nvidia.com/gpu: 8}, duration: 1m}]
    pods:
      - name: p
        requests: {nvidia.com/gpu: 1}
        nodeSelector: {kind: small}
        tolerations: [{key: t, operator: Exists}]
        duration: 1m
    until: 1h
    """
    result = simulate(read_scenario(dedent(text), "s.yaml"), connect)
    assert {stay[0] for stay in stays(result)} == {"small-0", "big-0", "big-1"}
    assert all(gang.finished_at is not None for gang in result.gangs)
    found = autoscaled(result)
    assert found.gpu_hours == pytest.approx(17 * 60 / 3600)


def test_a_node_that_went_may_come_back(connect: Connect) -> None:
    """Nodes go ten minutes after the last pod, unless a group keeps them, and are made anew when they are needed."""
    gangs = """
    - {name: a, minMember: 2, requests: {nvidia.com/gpu: 8}, duration: 10m}
    - {name: b, arrival: 1h, minMember: 2, requests: {nvidia.com/gpu: 8}, duration: 10m}
    """
    played = record(scenario("min: 1, max: 2", gangs), connect)
    first, second, third = stays(played.result)
    assert first == ("n-0", 0.0, 0.0, None)
    assert second == ("n-1", 10.0, 130.0, 130.0 + 600.0 + 600.0)
    assert third == ("n-1", 3610.0, 3730.0, None)
    assert played.capacity == {"n-0": 8, "n-1": 8}


def test_pods_leave_a_node_as_their_budget_allows(connect: Connect) -> None:
    """Two of a gang's extras have room elsewhere, but only one of them may be away at a time."""
    text = """
    nodes: [{name: m, allocatable: {nvidia.com/gpu: 8}}]
    nodeGroups: [{name: n, max: 1, min: 0, allocatable: {nvidia.com/gpu: 8}, consolidate: true, removeAfter: 5m}]
    gangs:
      - {name: first, minMember: 1, requests: {nvidia.com/gpu: 6}, duration: 30m}
      - name: g
        arrival: 1m
        minMember: 1
        replicas: 3
        requests: {nvidia.com/gpu: 2}
        terminationGracePeriod: 20s
        disruptionBudget: {maxUnavailable: 1}
        annotations: {muster.dev/placement: spread}
    until: 2h
    """
    result = simulate(read_scenario(dedent(text), "s.yaml"), connect)
    assert [(each.at, each.pod) for each in result.evictions] == [(1810.0, "default/g-1"), (1840.0, "default/g-2")]
    assert stays(result) == [("n-0", 70.0, 70.0, 1870.0)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{name: n, max: 2, allocatable: {}, min: 3}", "nodeGroups[0]: min 3 is above max 2"),
        ("{name: n, max: 0, allocatable: {}}", "nodeGroups[0].max: '0' is not between 1 and 100000"),
        ("{name: n, allocatable: {}}", "nodeGroups[0].max: is missing"),
        ("{name: n, max: 2, allocatable: {}, readyAfter: soon}", "nodeGroups[0].readyAfter: 'soon' is not a duration"),
        ("{name: n, max: 2, allocatable: {}, count: 2}", "nodeGroups[0].count: unknown key; known here: name, "),
        ("{name: m, max: 2, allocatable: {}}", "nodes: node 'm-0' is defined 2 times"),
        ("{name: n, max: 2, allocatable: {gpu: 1}}", "nodeGroups[0].allocatable.gpu: 'gpu' is no resource"),
    ],
)
def test_what_is_wrong_with_a_group_is_named(text: str, problem: str) -> None:
    """With path and value."""
    with pytest.raises(ScenarioError) as refused:
        read_scenario(f"nodes: [{{name: m-0, allocatable: {{}}}}]\nnodeGroups: [{text}]\ngangs: []", "s.yaml")
    assert refused.value.problems[0].startswith(f"s.yaml: {problem}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "nodeGroups: [{name: n, min: 1, max: 1, allocatable: {}}]\nnodeFailures: [{node: n-0, at: 1m}]",
            "nodeFailures[0].node: 'n-0' is one of a group: only nodes that are always there fail",
        ),
        ("provisioningClass: queued", f"provisioningClass: 'queued' should be '{CHECK}' or '{ATOMIC}'"),
        (
            'provisioningParameters: {noRetry: "true"}',
            "provisioningParameters: there is no provisioningClass that takes them",
        ),
        (
            f"provisioningClass: {CHECK}\nprovisioningParameters: {{noRetry: true}}",
            "provisioningParameters.noRetry: True should be a valid string",
        ),
    ],
)
def test_what_is_wrong_with_requests_is_named(text: str, problem: str) -> None:
    """A class that is not played, parameters without a class, and a node of a group that is to fail."""
    with pytest.raises(ScenarioError) as refused:
        read_scenario(f"nodes: []\ngangs: []\n{text}", "s.yaml")
    assert refused.value.problems == (f"s.yaml: {problem}",)


def test_without_groups_nothing_is_said_of_nodes(connect: Connect) -> None:
    """They neither come nor go."""
    still = read_scenario(
        "nodes: [{name: n, allocatable: {}}]\ngangs: [{name: g, minMember: 1, duration: 1m}]", "s.yaml"
    )
    assert simulate(still, connect).autoscaling is None
    assert NodeStay("n", "g", 8).removed is None


_GANGS = st.lists(
    st.tuples(st.integers(0, 1800), st.integers(60, 3600), st.integers(1, 4), st.sampled_from([1, 3, 4, 8])),
    min_size=1,
    max_size=6,
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(gangs=_GANGS, requested=st.booleans(), consolidate=st.booleans(), least=st.integers(0, 2))
@example(  # the last one's request is refused, something else changes, and nothing does from then on
    gangs=[(207, 60, 4, 8), (234, 569, 1, 1), (436, 742, 1, 1), (500, 1109, 1, 1), (1348, 60, 4, 8)],
    requested=True,
    consolidate=False,
    least=1,
)
def test_whatever_comes_all_gangs_run_on_no_more_nodes_than_there_may_be(
    connect: Connect, gangs: list[tuple[int, int, int, int]], requested: bool, consolidate: bool, least: int
) -> None:
    """None is taken apart by Karpenter, what is paid is at least what is used, and equal scenarios come to the same."""
    items = "\n".join(
        f"- {{name: g{index}, arrival: {at}, duration: {runtime}, minMember: {pods}, "
        f"requests: {{nvidia.com/gpu: {gpus}}}}}"
        for index, (at, runtime, pods, gpus) in enumerate(gangs)
    )
    drawn = scenario(
        f"max: 4, min: {least}, consolidate: {str(consolidate).lower()}, removeAfter: 3m",
        items,
        f"provisioningClass: {ATOMIC}" if requested else "",
    )
    result = simulate(drawn, connect)
    assert all(gang.finished_at is not None for gang in result.gangs)
    assert (requested and consolidate) or result.evictions == ()  # members are protected from Karpenter alone
    assert result == simulate(drawn, connect)
    found = autoscaled(result)
    summary = result.summary
    assert found.gpu_hours >= summary.productive_gpu_hours + summary.idle_gpu_hours
    changes = [(stay.asked, 1) for stay in found.nodes]
    changes += [(stay.removed, -1) for stay in found.nodes if stay.removed is not None]
    there = [sum(step for at, step in changes if at <= moment) for moment, _ in changes]
    assert all(least <= number <= 4 for number in there)
