"""What a scenario says of the past: objects that are older than it, that run, or are on their way out."""

from __future__ import annotations

import asyncio
from textwrap import dedent

from extender.control.ports import WatchedKind
from extender.objects.sources.coscheduling import COSCHEDULING_POD_GROUPS
from muster_lab.simulation.scenario import Scenario
from muster_lab.simulation.scenario_file import read_scenario
from muster_lab.simulation.simulate import simulate
from muster_lab.simulation.world import Connect, World
from tests.lab.conftest import Virtually, loop_clock, reach

NODES = "nodes: [{name: n, count: 4, allocatable: {nvidia.com/gpu: 8}}]\n"


def scenario(rest: str) -> Scenario:
    """Return a scenario of four nodes with eight GPUs."""
    return read_scenario(f"{NODES}until: 6h\n{dedent(rest)}", "s.yaml")


RUNS = """
gangs:
  - name: old
    age: 1h
    minMember: 2
    requests: {nvidia.com/gpu: 8}
    rendezvous: 10m
    duration: 2h
    pods: [{name: old-0, node: n-0}, {name: old-1, node: n-1, runningFor: 40m}]
  - {name: new, age: 30m, minMember: 1, requests: {nvidia.com/gpu: 8}, duration: 1h}
"""


def test_objects_may_be_older_than_the_scenario(virtually: Virtually, connect: Connect) -> None:
    """PodGroups, pods and what runs say when they were created and have been running since; a new pod is new."""

    async def story() -> tuple[list[str], list[str], str]:
        world = World(scenario(RUNS), loop_clock(), connect)
        running = asyncio.create_task(world.run())
        start = world.clock.now()
        await reach(60)

        def before(text: str) -> str:
            return f"{(start - start.fromisoformat(text)).total_seconds() / 60:.0f}m"

        pods = {version.pod.name: version.json for version in world.cluster.list(WatchedKind.POD)}
        groups = [version.json for version in world.cluster.list(COSCHEDULING_POD_GROUPS)]
        created = [before(json["metadata"]["creationTimestamp"]) for json in (*groups, *pods.values())]
        since = [before(pods[name]["status"]["startTime"]) for name in ("old-0", "old-1", "new-0")]
        world.cluster.delete(WatchedKind.POD, "default", "old-1")
        await reach(120)
        again = before(world.cluster.get(WatchedKind.POD, "default", "old-1").json["metadata"]["creationTimestamp"])
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return created, since, again

    created, since, again = virtually(story())
    assert sorted(created) == ["30m", "30m", "60m", "60m", "60m"]
    assert since == ["60m", "40m", "0m"]
    assert again == "-1m"


def test_what_was_done_before_the_scenario_is_done(connect: Connect) -> None:
    """A gang trains since its minimum ran, its rendezvous behind it; only what it does from now on is counted."""
    played = simulate(scenario(RUNS), connect)
    old, _ = played.gangs
    assert (old.admitted_at, old.finished_at) == (0.0, 90 * 60.0)
    assert (played.summary.init_gpu_hours, played.summary.productive_gpu_hours) == (0.0, 16 * 1.5 + 8)


def test_a_gang_may_be_in_its_rendezvous_when_the_scenario_begins(connect: Connect) -> None:
    """The rest of it is left."""
    text = """
    gangs: [{name: g, age: 4m, minMember: 1, requests: {nvidia.com/gpu: 8}, rendezvous: 10m, duration: 1h,
             pods: [{name: g-0, node: n-0}]}]
    """
    (gang,) = simulate(scenario(text), connect).gangs
    assert gang.finished_at == 66 * 60.0


def test_how_long_others_have_run_decides_when_a_start_is_expected(connect: Connect) -> None:
    """Backfill goes by when they will end: a gang that ends before that may go first."""
    text = """
    declareDuration: true
    gangs:
      - {name: runs, age: 50m, minMember: 2, requests: {nvidia.com/gpu: 8}, duration: 1h,
         pods: [{name: runs-0, node: n-0}, {name: runs-1, node: n-1}]}
      - {name: head, minMember: 4, requests: {nvidia.com/gpu: 8}, duration: 1h}
      - {name: short, minMember: 2, requests: {nvidia.com/gpu: 8}, duration: 10m, arrival: 1}
      - {name: brief, minMember: 2, requests: {nvidia.com/gpu: 8}, duration: 8m, arrival: 1}
    """
    played = {gang.name: gang.admitted_at for gang in simulate(scenario(text), connect).gangs}
    assert played == {"runs": 0.0, "head": 600.0, "short": 4200.0, "brief": 1.0}


def test_a_pod_may_be_on_its_way_out(virtually: Virtually, connect: Connect) -> None:
    """It holds its node for as long as is said, and who fits there starts when it is gone; a new one waits."""
    text = """
    gangs:
      - {name: big, minMember: 4, requests: {nvidia.com/gpu: 8}, priority: 1, duration: 1h}
    pods:
      - {name: going, age: 1h, requests: {nvidia.com/gpu: 2}, node: n-0, terminationGracePeriod: 10m, terminating: 90s,
         duration: 2h}
    """

    async def story() -> tuple[str, int]:
        world = World(scenario(text), loop_clock(), connect)
        running = asyncio.create_task(world.run())
        await reach(1)
        json = world.cluster.get(WatchedKind.POD, "default", "going").json["metadata"]
        left = world.clock.now().fromisoformat(json["deletionTimestamp"]) - world.clock.now()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return f"{left.total_seconds():.0f}", json["deletionGracePeriodSeconds"]

    assert virtually(story()) == ("89", 600)
    big, going = simulate(scenario(text), connect).gangs
    assert (big.admitted_at, big.finished_at) == (90.0, 3690.0)
    assert going.finished_at == 3690 + 7200
