"""Nodes that fail, for a while or for good, and what becomes of the pods there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from textwrap import dedent

import pytest

from extender.control.ports import WatchedKind
from extender.ledger.effects import EvictionReason
from muster_lab.simulation.accounting import Activity
from muster_lab.simulation.scenario import Scenario
from muster_lab.simulation.scenario_file import load_scenario, read_scenario
from muster_lab.simulation.simulate import simulate
from muster_lab.simulation.world import Connect, World
from tests.lab.conftest import Virtually, loop_clock, reach

EXAMPLE = Path(__file__).parents[3] / "examples" / "scenarios" / "node-failure.yaml"


def scenario(failures: str, nodes: int = 3, pods: str = "") -> Scenario:
    """Return a scenario in which a gang runs on the first two nodes, with a checkpoint every five minutes."""
    text = f"""
    nodes: [{{name: n, count: {nodes}, allocatable: {{nvidia.com/gpu: 8}}, taints: [{{key: k, effect: NoExecute}}]}}]
    gangs:
      - name: g
        minMember: 2
        requests: {{nvidia.com/gpu: 8}}
        rendezvous: 1m
        duration: 1h
        checkpointInterval: 5m
        belowMinimum: repair
        tolerations: [{{key: k, operator: Exists}}]
        {pods}
        pods: [{{name: g-0, node: n-0}}, {{name: g-1, node: n-1}}]
    nodeFailures: [{failures}]
    until: 6h
    """
    return read_scenario(dedent(text), "s.yaml")


@pytest.mark.parametrize(
    ("failure", "nodes", "finished", "last"),
    [
        ("{node: n-1, at: 10m}", 3, 66 * 60 + 40, "n-2"),  # placed elsewhere, and evicted, after 40 s
        ("{node: n-1, at: 10m, gone: true}", 3, 66 * 60 + 40, "n-2"),  # deleted 40 s after the Node
        ("{node: n-1, at: 10m, back: 10m30s}", 3, 66 * 60 + 30, "n-1"),  # it was not away for long
        ("{node: n-1, at: 10m, back: 12m}", 3, 66 * 60 + 40, "n-2"),
        ("{node: n-1, at: 10m, back: 12m}", 2, 68 * 60, "n-1"),  # there is no other node
        ("{node: n-1, at: 10m, back: 10m20s, gone: true}", 3, 66 * 60 + 20, "n-1"),  # the pods are still there
        ("{node: n-1, at: 10m, back: 40m}", 2, 96 * 60 + 40, "n-1"),  # deleted after five minutes; 40 s without a break
        ("{node: n-1, at: 10m, back: 40m, gone: true}", 2, 96 * 60, "n-1"),
    ],
)
def test_a_gang_goes_on_from_its_checkpoint_when_it_is_whole_again(
    connect: Connect, failure: str, nodes: int, finished: float, last: str
) -> None:
    """Where its lost member is replaced, or as soon as its node is back."""
    played = simulate(scenario(failure, nodes), connect)
    (gang,) = played.gangs
    assert (gang.finished_at, gang.pods[1].node) == (finished, last)
    assert played.summary.productive_gpu_hours == 16.0
    assert played.summary.lost_gpu_hours == pytest.approx(16 * 4 / 60)
    evicted = [(each.at, each.pod, each.reason) for each in played.evictions]
    assert evicted in ([], [(640.0, "default/g-1", EvictionReason.NODE_LOST)])
    assert bool(evicted) == (last == "n-2" and "gone" not in failure)


def test_a_node_that_does_not_answer_looks_as_in_a_cluster(virtually: Virtually, connect: Connect) -> None:
    """Its condition is Unknown, it is tainted beside its own taints, and its gang does nothing until it is back."""

    async def story() -> list[tuple[str, list[str], Activity]]:
        world = World(scenario("{node: n-1, at: 10m, back: 12m}"), loop_clock(), connect)
        running = asyncio.create_task(world.run())
        seen = []
        for minute in (9, 10.5, 14):
            await reach(60 * minute)
            json = world.cluster.get(WatchedKind.NODE, "", "n-1").json
            (ready,) = (each["status"] for each in json["status"]["conditions"] if each["type"] == "Ready")
            taints = [f"{taint['key']}:{taint['effect']}" for taint in json["spec"]["taints"]]
            seen.append((ready, taints, world.workload.gang("default", "g").activity))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return seen

    away = [f"node.kubernetes.io/unreachable:{effect}" for effect in ("NoSchedule", "NoExecute")]
    assert virtually(story()) == [
        ("True", ["k:NoExecute"], Activity.PRODUCTIVE),
        ("Unknown", ["k:NoExecute", *away], Activity.IDLE),
        ("True", ["k:NoExecute"], Activity.PRODUCTIVE),
    ]


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        ("false", [("n-1", True), ("n-1", True), ("n-2", False)]),
        ("true", [("n-2", False), ("n-2", False), ("n-2", False)]),
    ],
)
def test_only_a_kubelet_ends_a_pod_with_a_grace_period(
    virtually: Virtually, connect: Connect, gone: str, expected: list[tuple[str, bool]]
) -> None:
    """While its node does not answer it is there and being deleted; of a node that is gone it is removed."""
    failing = scenario(f"{{node: n-1, at: 10m, back: 30m, gone: {gone}}}", pods="terminationGracePeriod: 30s")

    async def story() -> list[tuple[str, bool]]:
        world = World(failing, loop_clock(), connect)
        running = asyncio.create_task(world.run())
        seen = []
        for minute in (16, 29, 31):
            await reach(60 * minute)
            pod = world.cluster.get(WatchedKind.POD, "default", "g-1").pod
            seen.append((pod.node_name, pod.deleting))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return seen

    assert virtually(story()) == expected


def test_a_pod_that_tolerates_it_stays(connect: Connect) -> None:
    """Then the gang waits for its node, though another one is free."""
    stays = "{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute}"
    text = dedent(
        f"""
        nodes: [{{name: n, count: 2, allocatable: {{nvidia.com/gpu: 8}}}}]
        gangs: [{{name: g, minMember: 1, requests: {{nvidia.com/gpu: 8}}, duration: 1h, checkpointInterval: 0,
                 tolerations: [{stays}], pods: [{{name: g-0, node: n-0}}]}}]
        nodeFailures: [{{node: n-0, at: 10m, back: 40m}}]
        """
    )
    (gang,) = simulate(read_scenario(text, "s.yaml"), connect).gangs
    assert (gang.pods[0].node, gang.finished_at) == ("n-0", 90 * 60)


def test_a_cluster_in_the_middle_of_its_day(connect: Connect) -> None:
    """The example: the lost member of the large gang has the small one evicted, which starts when the node is back."""
    played = simulate(load_scenario(EXAMPLE), connect)
    times = {gang.name: (gang.admitted_at, gang.finished_at) for gang in played.gangs}
    assert [times[name] for name in ("pretrain", "eval")] == [(0.0, 290 * 60 - 260), (90.0, 80 * 60 + 40)]
    assert {(each.at, each.gang, each.by) for each in played.evictions} == {
        (640.0, "default/eval", "default/pretrain"),
        (640.0, "default/pretrain", None),
    }
