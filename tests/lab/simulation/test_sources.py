"""By what the pods of a scenario are gangs: PodGroups of other APIs, and pods without a group."""

from __future__ import annotations

from textwrap import dedent

import pytest

from extender.control.ports import WatchedKind
from extender.objects.budget import DisruptionBudget
from extender.objects.podgroup import POD
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.sources.native import NATIVE
from extender.objects.sources.volcano import VOLCANO
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.manifests import disruption_budget_manifest, pod_manifest
from muster_lab.simulation.objects import Stored
from muster_lab.simulation.podgroups import GROUP_APIS, pod_group_manifest
from muster_lab.simulation.results import Result
from muster_lab.simulation.scenario import Scenario, ScenarioGang
from muster_lab.simulation.scenario_file import read_scenario
from muster_lab.simulation.simulate import simulate
from muster_lab.simulation.world import Connect
from tests.lab.conftest import Virtually, loop_clock

NODES = "nodes: [{name: n, count: 2, allocatable: {nvidia.com/gpu: 8}}]\n"


def scenario(rest: str) -> Scenario:
    """Return a scenario of two nodes with eight GPUs."""
    return read_scenario(f"{NODES}until: 4h\n{dedent(rest)}", "s.yaml")


def moments(result: Result) -> dict[str, tuple[float | None, float | None]]:
    """Return when each gang had its nodes and was over."""
    return {gang.name: (gang.admitted_at, gang.finished_at) for gang in result.gangs}


@pytest.mark.parametrize(("source", "api"), [("coscheduling", COSCHEDULING), ("volcano", VOLCANO), ("native", NATIVE)])
def test_the_pods_of_a_gang_name_its_podgroup(virtually: Virtually, source: str, api: str) -> None:
    """As its API has them do it, beside the minimum and what else the PodGroup's spec says; a budget is about them."""
    (spec,) = scenario(
        f"gangs: [{{name: g, source: {source}, minMember: 2, disruptionBudget: {{minAvailable: 1}}}}]"
    ).gangs

    async def story() -> list[Stored]:
        cluster = Cluster(loop_clock())
        limit = spec.disruption_budget
        assert limit is not None
        return [
            cluster.create(GROUP_APIS[spec.source].collection, pod_group_manifest(spec)),
            cluster.create(WatchedKind.POD, pod_manifest(spec, spec.members[0], "muster", placed=False)),
            cluster.create(WatchedKind.DISRUPTION_BUDGET, disruption_budget_manifest(spec, limit)),
        ]

    group, member, budget = virtually(story())
    assert (member.pod.group.api, member.pod.group.name) == (api, "g")
    assert group.key.kind.endswith(api)
    assert isinstance(budget.value, DisruptionBudget)
    assert budget.value.matches("default", member.pod.labels)


def test_gangs_of_all_sources_share_a_cluster(connect: Connect) -> None:
    """One after the other, by priority; what a PodGroup of Volcano says of places keeps it waiting here."""
    played = simulate(
        scenario(
            """
            gangs:
              - {name: v, source: volcano, minMember: 2, requests: {nvidia.com/gpu: 8}, priority: 2, duration: 1h,
                 podGroupSpec: {minTaskMember: {worker: 1}, networkTopology: {mode: hard, highestTierName: rack}}}
              - {name: k, source: native, minMember: 2, requests: {nvidia.com/gpu: 8}, priority: 3, duration: 1h}
              - {name: c, minMember: 2, requests: {nvidia.com/gpu: 8}, priority: 1, duration: 1h}
            """
        ),
        connect,
    )
    assert moments(played) == {"v": (None, None), "k": (0.0, 3600.0), "c": (3600.0, 7200.0)}
    assert played.gangs[0].reason is not None


def test_pods_without_a_gang_run_each_on_its_own(connect: Connect) -> None:
    """One of them may be on a node already, and one may wait with a reason of its own."""
    played = simulate(
        scenario(
            """
            gangs: [{name: g, minMember: 2, requests: {nvidia.com/gpu: 6}, duration: 1h}]
            pods:
              - {name: old, requests: {nvidia.com/gpu: 8}, node: n-0, duration: 30m}
              - {name: each, count: 2, requests: {nvidia.com/gpu: 1}, arrival: 1m, duration: 10m}
              - {name: large, requests: {nvidia.com/gpu: 9}, arrival: 1m}
            """
        ),
        connect,
    )
    assert moments(played) == {
        "g": (1800.0, 5400.0),
        "old": (0.0, 1800.0),
        "each-0": (60.0, 660.0),
        "each-1": (60.0, 660.0),
        "large": (None, None),
    }
    assert {gang.name: gang.pods[0].node for gang in played.gangs}["old"] == "n-0"
    (reason,) = (gang.reason for gang in played.gangs if gang.reason is not None)
    assert (reason.code, reason.message) == ("ExceedsCluster", "0 of 1 members would fit on the empty cluster")


def test_a_pod_without_a_gang_says_itself_what_else_its_podgroup_would(connect: Connect) -> None:
    """Its queue, and that it is not preemptible: a pod of a higher priority waits for it."""
    given = scenario(
        """
        queues: [{name: team, flavors: [{name: all, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]}]
        gangs: []
        pods:
          - {name: stays, queue: team, requests: {nvidia.com/gpu: 8}, preemptible: false, duration: 1h}
          - {name: urgent, queue: team, requests: {nvidia.com/gpu: 8}, priority: 9, arrival: 1m, duration: 1h}
        """
    )
    stays = given.gangs[0]
    metadata = pod_manifest(stays, stays.members[0], "muster", placed=False)["metadata"]
    assert (metadata["labels"]["muster.dev/queue"], metadata["annotations"]) == (
        "team",
        {"muster.dev/preemptible": "false"},
    )
    played = simulate(given, connect)
    assert moments(played) == {"stays": (0.0, 3600.0), "urgent": (3600.0, 7200.0)}
    assert played.evictions == ()


def test_a_pod_without_a_gang_is_one_of_its_own(virtually: Virtually) -> None:
    """It names no group, whatever its labels."""
    spec: ScenarioGang
    (spec,) = scenario("gangs: []\npods: [{name: p}]").gangs

    async def story() -> Stored:
        manifest = pod_manifest(spec, spec.members[0], "muster", placed=False)
        return Cluster(loop_clock()).create(WatchedKind.POD, manifest)

    pod = virtually(story()).pod
    assert (pod.group.api, pod.group.uid) == (POD, pod.uid)
