"""Stories about gangs that lose a node while they run."""

from __future__ import annotations

import asyncio

from extender.control.ports import WatchedKind
from muster_lab.simulation.scenario_file import read_scenario
from muster_lab.simulation.world import Connect, World
from tests.lab.conftest import Virtually, loop_clock, reach

#: Two racks of three nodes. Each gang takes two nodes of one of them, so that each rack has one left.
TWO_RACKS = """
    topology: {levels: [{name: rack, nodeLabel: rack}]}
    nodes:
      - name: n
        count: 6
        allocatable: {cpu: 96, memory: 1Ti, nvidia.com/gpu: 8}
        labelsFrom: {rack: "rack-{index//3}"}
    gangs:
      - {name: one, minMember: 2, requests: {nvidia.com/gpu: 8}}
      - {name: two, minMember: 2, arrival: 1s, requests: {nvidia.com/gpu: 8}}
    until: 1h
    gpuHourPrice: 1
"""


def racks(world: World, gang: str) -> list[str]:
    """Return the rack of each member's node, "" for a member without one."""
    found = []
    for member in range(2):
        node = world.cluster.get(WatchedKind.POD, "default", f"{gang}-{member}").pod.node_name
        found.append(world.cluster.get(WatchedKind.NODE, "", node).json["metadata"]["labels"]["rack"] if node else "")
    return found


def test_a_lost_member_is_replaced_beside_the_others(connect: Connect, virtually: Virtually) -> None:
    """Whichever gang loses a node gets the spare one of its own rack, though the other rack's would do as well."""

    async def story(loser: str) -> tuple[list[str], list[str], str]:
        world = World(read_scenario(TWO_RACKS, "story"), loop_clock(), connect)
        running = asyncio.create_task(world.run())
        await reach(5)
        before = racks(world, loser)
        lost = world.cluster.get(WatchedKind.POD, "default", f"{loser}-1").pod.node_name
        world.cluster.delete(WatchedKind.NODE, "", lost)
        world.cluster.delete(WatchedKind.POD, "default", f"{loser}-1")  # as the pod garbage collector does
        await reach(10)
        after, node = racks(world, loser), world.cluster.get(WatchedKind.POD, "default", f"{loser}-1").pod.node_name
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert node != lost
        return before, after, node

    seen = {}
    for loser in ("one", "two"):
        before, after, _ = virtually(story(loser))
        assert len(set(before)) == 1
        assert after == before
        seen[loser] = before[0]
    assert seen["one"] != seen["two"]
