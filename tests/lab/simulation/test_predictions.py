"""What Muster predicts of GPUs and zones, against what the simulated kubelets give out."""

from __future__ import annotations

import asyncio

import pytest

from extender.control.ports import WatchedKind
from extender.objects.pod import Phase
from muster_lab.simulation.scenario_file import read_scenario
from muster_lab.simulation.world import Connect, World
from tests.lab.conftest import Virtually, loop_clock, reach

#: Gangs of different sizes come and go on nodes of two zones with four GPUs each, for ten minutes.
CHANGING = """
    nodes:
      - name: n
        count: 4
        allocatable: {cpu: 96, memory: 1Ti, nvidia.com/gpu: 8}
        nodeResourceTopology:
          attributes: [{name: topologyManagerPolicy, value: POLICY}]
          zones:
            - {name: node-0, type: Node, resources: [{name: nvidia.com/gpu, capacity: 4, allocatable: 4, available: 4}]}
            - {name: node-1, type: Node, resources: [{name: nvidia.com/gpu, capacity: 4, allocatable: 4, available: 4}]}
    gangs:
      - {name: a, minMember: 3, duration: 2m, requests: {nvidia.com/gpu: 1}}
      - {name: b, minMember: 2, duration: 4m, requests: {nvidia.com/gpu: 3}}
      - {name: c, minMember: 5, arrival: 10s, duration: 1m, requests: {nvidia.com/gpu: 2}}
      - {name: d, minMember: 2, arrival: 1m, duration: 3m, requests: {nvidia.com/gpu: 4}}
      - {name: e, minMember: 4, arrival: 2m, duration: 3m, requests: {nvidia.com/gpu: 1}}
      - {name: f, minMember: 3, arrival: 3m, duration: 2m, requests: {nvidia.com/gpu: 4}}
      - {name: g, minMember: 1, arrival: 4m, duration: 2m, requests: {nvidia.com/gpu: 2}}
    until: 10m
    gpuHourPrice: 1
"""


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node", "best-effort"])
def test_zones_are_predicted_as_the_kubelet_chooses_them(policy: str, connect: Connect, virtually: Virtually) -> None:
    """No pod is turned away, and each holds the zones that its Binding said, on kubelets that know nothing of it."""

    async def story() -> tuple[dict[str, float], set[Phase]]:
        world = World(read_scenario(CHANGING.replace("POLICY", policy), "story"), loop_clock(), connect)
        running = asyncio.create_task(world.run())
        await reach(600)
        assert world.muster is not None
        registry = world.muster.metrics.registry
        counts = {
            outcome: registry.get_sample_value("muster_predicted_zones_total", {"outcome": outcome}) or 0.0
            for outcome in ("match", "mismatch")
        }
        phases = {version.pod.phase for version in world.cluster.list(WatchedKind.POD)}
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return counts, phases

    counts, phases = virtually(story())
    assert counts == {"match": 20.0, "mismatch": 0.0}
    assert phases == {Phase.SUCCEEDED}
