"""Stories about kubelets that turn pods away although nothing said that they would, and controllers that insist."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from extender.control.ports import WatchedKind
from extender.objects.pod import Phase, Pod
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.objects import Json, ObjectChange
from muster_lab.simulation.scenario_file import read_scenario
from muster_lab.simulation.world import Connect, World
from tests.lab.conftest import Virtually, loop_clock, reach

#: A node of two zones with four GPUs each, of which one is left in each zone; a gang comes that needs two at once.
ONE_NODE = """
    nodes:
      - {name: strict, allocatable: {cpu: 96, memory: 1Ti, nvidia.com/gpu: 8}, labels: {spare: 'false'}}
    nodeResourceTopology:
      - metadata: {name: strict}
        attributes: [{name: topologyManagerPolicy, value: restricted}]
        zones:
          - {name: node-0, type: Node, resources: [{name: nvidia.com/gpu, capacity: 4, allocatable: 4, available: 4}]}
          - {name: node-1, type: Node, resources: [{name: nvidia.com/gpu, capacity: 4, allocatable: 4, available: 4}]}
    gangs:
      - {name: early, minMember: 2, requests: {nvidia.com/gpu: 3}}
      - {name: late, minMember: 1, arrival: 10s, requests: {nvidia.com/gpu: 2}}
    until: 1h
    gpuHourPrice: 1
"""
#: The same beside a node about whose zones nothing is known.
TWO_NODES = ONE_NODE.replace(
    "    nodeResourceTopology:",
    "      - {name: z-spare, allocatable: {cpu: 96, memory: 1Ti, nvidia.com/gpu: 8}, labels: {spare: 'true'}}\n"
    "    nodeResourceTopology:",
).replace("{nvidia.com/gpu: 3}}", "{nvidia.com/gpu: 3}, nodeSelector: {spare: 'false'}}")


@dataclass
class Stubborn:
    """A controller without patience: a pod that failed is deleted at once, and the workload makes it anew.

    Attributes:
        failures: when a kubelet turned a pod away (seconds), and on which node.
    """

    cluster: Cluster
    failures: list[tuple[float, str]] = field(default_factory=list)

    def watch(self) -> None:
        """Begin."""
        clock = loop_clock()

        def take_in(change: ObjectChange) -> None:
            if change.after is None or change.after.key.kind is not WatchedKind.POD:
                return
            pod = change.after.pod
            if pod.phase is Phase.FAILED and pod.rejection is not None:
                self.failures.append((clock.elapsed(), pod.node_name))
                self.cluster.delete(WatchedKind.POD, pod.namespace, pod.name, pod.uid)

        self.cluster.watch(take_in)


class Story:
    """A world whose kubelet on `strict` aligns, while its NodeResourceTopology says after 5 s that it does not."""

    def __init__(self, text: str, connect: Connect) -> None:
        """Put it together on the running loop."""
        self.world = World(read_scenario(text, "story"), loop_clock(), connect)
        self.controller = Stubborn(self.world.cluster)
        self.controller.watch()
        self._running = asyncio.create_task(self.world.run())

    async def begin(self) -> None:
        """Let the early gang start, then let the exporter lie."""
        await reach(5)
        assert self.pod("early-0").phase is self.pod("early-1").phase is Phase.RUNNING

        def lie(json: Json) -> None:
            json["attributes"] = [{"name": "topologyManagerPolicy", "value": "none"}]

        self.world.cluster.update(WatchedKind.NODE_TOPOLOGY, ("", "strict"), lie)

    def pod(self, name: str) -> Pod:
        """Return a pod as it stands."""
        return self.world.cluster.get(WatchedKind.POD, "default", name).pod

    def told(self) -> list[str]:
        """Return what the late gang's owner was told of kubelets."""
        return [each.event.message for each in self.world.cluster.events.about("late", "PodRejected")]

    async def end(self) -> None:
        """Stop the world; raise what stopped it before."""
        if self._running.done():
            await self._running
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)


def test_a_controller_that_insists_makes_no_loop(connect: Connect, virtually: Virtually) -> None:
    """Where there is no other node, the pod fails there at 30 s, 1, 2, 4, 5 and again 5 minutes' distance."""

    async def story() -> tuple[list[tuple[float, str]], Pod, list[str]]:
        told = Story(ONE_NODE, connect)
        await told.begin()
        await reach(1200)
        late, said = told.pod("late-0"), told.told()
        await told.end()
        return told.controller.failures, late, said

    failures, late, said = virtually(story())
    assert [round(when) for when, _ in failures] == [10, 40, 100, 220, 460, 760, 1060]
    assert (late.phase, late.node_name) == (Phase.PENDING, "")
    assert [text.partition("; ")[2].partition(" no ")[0] for text in said] == [
        f"for {seconds} s" for seconds in (30, 60, 120, 240, 300)
    ]


def test_the_pod_runs_soon_after_the_kubelet_has_aligned_gpus_again(connect: Connect, virtually: Virtually) -> None:
    """When a member of the early gang is deleted there is a whole zone: the next attempt is not five minutes away."""

    async def story() -> tuple[int, Phase]:
        told = Story(ONE_NODE, connect)
        await told.begin()
        await reach(500)  # turned away at 460 s, left out until 760 s
        told.world.workload.gang("default", "early").finished_at = 0.0  # its controller makes no more pods
        told.world.cluster.delete(WatchedKind.POD, "default", "early-0")
        await reach(501)
        late = told.pod("late-0")
        await told.end()
        return len(told.controller.failures), late.phase

    assert virtually(story()) == (5, Phase.RUNNING)


def test_another_node_is_taken_at_once(connect: Connect, virtually: Virtually) -> None:
    """One failed pod is the price of not knowing; its successor goes elsewhere in the same second."""

    async def story() -> tuple[list[tuple[float, str]], Phase, str]:
        told = Story(TWO_NODES, connect)
        await told.begin()
        await reach(11)
        late = told.pod("late-0")
        await told.end()
        return told.controller.failures, late.phase, late.node_name

    failures, phase, node = virtually(story())
    assert [(round(when), where) for when, where in failures] == [(10, "strict")]
    assert (phase, node) == (Phase.RUNNING, "z-spare")
