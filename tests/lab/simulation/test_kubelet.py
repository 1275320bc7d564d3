"""A simulated kubelet starts pods, aligns them where zones are known, and turns away what it cannot align."""

from __future__ import annotations

import asyncio

from extender.control.ports import WatchedKind
from extender.objects.holdings import OBSERVED_GPUS, OBSERVED_ZONES
from extender.objects.pod import Phase, RejectionReason
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.kubelet import Kubelet
from tests.builders import GPU, Json, pod_json
from tests.lab.conftest import Virtually, loop_clock


def node_topology(name: str = "n", policy: str = "restricted") -> Json:
    """Build a node of two zones with four GPUs each, as the exporter writes it."""
    zones = [
        {
            "name": f"node-{zone}",
            "type": "Node",
            "resources": [{"name": GPU, "capacity": "4", "allocatable": "4", "available": "4"}],
        }
        for zone in range(2)
    ]
    attributes = [{"name": "topologyManagerPolicy", "value": policy}]
    return {"metadata": {"name": name}, "attributes": attributes, "zones": zones}


class Setting:
    """One node with zones, one without, and their kubelets."""

    def __init__(self, policy: str = "restricted") -> None:
        """Start on the running loop."""
        clock = loop_clock()
        self.cluster = Cluster(clock)
        self.cluster.create(WatchedKind.NODE_TOPOLOGY, node_topology(policy=policy))
        Kubelet(self.cluster, clock)

    async def run(self, name: str, gpus: int, node: str = "n") -> Json:
        """Bind a pod and return what the kubelet made of it."""
        self.cluster.create(WatchedKind.POD, pod_json(name, gpus=gpus))
        self.cluster.bind("default", name, node)
        await asyncio.sleep(1)
        return self.cluster.get(WatchedKind.POD, "default", name).json

    async def drop(self, name: str) -> None:
        """Delete a pod."""
        self.cluster.delete(WatchedKind.POD, "default", name)
        await asyncio.sleep(1)


def given(json: Json) -> tuple[str, str, str]:
    """Return phase, GPUs and zones of a pod."""
    annotations = json["metadata"].get("annotations") or {}
    return json["status"]["phase"], annotations.get(OBSERVED_GPUS, ""), annotations.get(OBSERVED_ZONES, "")


def test_what_a_pod_got_is_written_onto_it(virtually: Virtually) -> None:
    """On a node with zones a running pod says which GPUs and zones it holds; elsewhere nobody knows."""

    async def story() -> list[tuple[str, str, str]]:
        setting = Setting()
        pods = [await setting.run("a", 2), await setting.run("b", 4), await setting.run("c", 8, "elsewhere")]
        return [given(pod) for pod in pods]

    assert virtually(story()) == [("Running", "0,1", "0"), ("Running", "4,5,6,7", "1"), ("Running", "", "")]


def test_a_pod_that_cannot_be_aligned_fails(virtually: Virtually) -> None:
    """Four GPUs free as 2+2 are not four in one zone: the pod fails with the kubelet's reason, and holds nothing."""

    async def story() -> tuple[Json, tuple[str, str, str], Phase, RejectionReason | None]:
        setting = Setting()
        for name, gpus in (("a", 2), ("b", 3), ("c", 1)):
            await setting.run(name, gpus)
        await setting.drop("b")
        await setting.run("d", 2)
        refused = await setting.run("e", 4)
        pod = setting.cluster.get(WatchedKind.POD, "default", "e").pod
        return refused, given(await setting.run("f", 2)), pod.phase, pod.rejection.reason if pod.rejection else None

    refused, follower, phase, reason = virtually(story())
    assert refused["status"]["reason"] == "TopologyAffinityError"
    assert refused["status"]["message"] == "Pod was rejected: Resources cannot be allocated with Topology locality"
    assert (given(refused), phase, reason) == (
        ("Failed", "", ""),
        Phase.FAILED,
        RejectionReason.TOPOLOGY_AFFINITY,
    )
    assert follower[0] == "Running"


def test_devices_return_when_a_pod_ends(virtually: Virtually) -> None:
    """GPUs of a pod that succeeded or was deleted go to the next one."""

    async def story() -> list[tuple[str, str, str]]:
        setting = Setting("single-numa-node")
        seen = [given(await setting.run(name, 4)) for name in ("a", "b")]
        setting.cluster.update(WatchedKind.POD, ("default", "a"), lambda json: json["status"].update(phase="Succeeded"))
        await asyncio.sleep(1)
        seen.append(given(await setting.run("c", 4)))
        await setting.drop("b")
        seen.append(given(await setting.run("d", 4)))
        return seen

    assert virtually(story()) == [
        ("Running", "0,1,2,3", "0"),
        ("Running", "4,5,6,7", "1"),
        ("Running", "0,1,2,3", "0"),
        ("Running", "4,5,6,7", "1"),
    ]


def test_a_node_that_comes_back_is_empty(virtually: Virtually) -> None:
    """Another NodeResourceTopology of the same name is another kubelet, with nothing given away."""

    async def story() -> tuple[str, str, str]:
        setting = Setting()
        await setting.run("a", 4)
        setting.cluster.delete(WatchedKind.NODE_TOPOLOGY, "", "n")
        setting.cluster.create(WatchedKind.NODE_TOPOLOGY, node_topology())
        return given(await setting.run("b", 4))

    assert virtually(story()) == ("Running", "0,1,2,3", "0")


def test_old_news_are_not_acted_on(virtually: Virtually) -> None:
    """Two changes in one moment, or a pod replaced by a namesake, and the kubelet deals with what there is, once."""

    async def story() -> tuple[list[tuple[str, str, str]], int]:
        setting = Setting()
        cluster = setting.cluster
        writes: list[str] = []
        cluster.create(WatchedKind.POD, pod_json("a", gpus=5))
        cluster.bind("default", "a", "n")
        cluster.update(WatchedKind.POD, ("default", "a"), lambda json: json["metadata"].update(labels={"x": "y"}))
        cluster.create(WatchedKind.POD, pod_json("b", gpus=2))
        cluster.bind("default", "b", "n")
        cluster.delete(WatchedKind.POD, "default", "b")
        cluster.create(WatchedKind.POD, pod_json("b", gpus=1))
        cluster.audit(lambda change: writes.append(change.object.key.name))
        await asyncio.sleep(1)
        cluster.bind("default", "b", "n")
        await asyncio.sleep(1)
        return [given(cluster.get(WatchedKind.POD, "default", name).json) for name in "ab"], writes.count("a")

    assert virtually(story()) == ([("Running", "0,1,2,3,4", "0,1"), ("Running", "5", "1")], 1)


def test_pods_that_run_from_the_start_are_accounted_for(virtually: Virtually) -> None:
    """One keeps the GPUs that its annotation names, one is given some; both are told, and others get what is left."""

    async def story() -> list[tuple[str, str, str]]:
        setting = Setting()
        named = {OBSERVED_GPUS: "1,2", OBSERVED_ZONES: "0"}
        setting.cluster.create(WatchedKind.POD, pod_json("a", gpus=2, node="n", annotations=named))
        setting.cluster.create(WatchedKind.POD, pod_json("b", gpus=1, node="n"))
        setting.cluster.create(WatchedKind.POD, pod_json("c", gpus=1, node="elsewhere"))
        await asyncio.sleep(1)
        seen = [given(setting.cluster.get(WatchedKind.POD, "default", name).json) for name in "abc"]
        return [*seen, given(await setting.run("d", 2)), given(await setting.run("e", 3))]

    assert virtually(story()) == [
        ("Running", "1,2", "0"),
        ("Running", "0", "0"),
        ("Running", "", ""),
        ("Running", "4,5", "1"),
        ("Failed", "", ""),
    ]
