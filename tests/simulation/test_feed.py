"""What Muster's watches would tell, read off the simulated API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from extender.control.ports import REQUIRED_KINDS, Kind
from extender.domain.budget import DisruptionBudget
from extender.domain.devices import DeviceReport
from extender.domain.hypernodes import HyperNode
from extender.domain.lease import Lease
from extender.domain.levelobjects import LevelList
from extender.domain.membership import GroupRef
from extender.domain.node import Node
from extender.domain.objectref import ObjectRef
from extender.domain.pod import Pod
from extender.domain.podgroup import PodGroup
from extender.domain.queue import Queue
from extender.numa.nodetopology import NodeTopology
from extender.simulation.cluster import Cluster
from extender.simulation.feed import BOOKMARK_SECONDS, Feed
from tests.builders import coscheduling_json, node_json, pod_json
from tests.simulation.conftest import Virtually, loop_clock, reach


class Listener:
    """Writes down what it is told. Implements `extender.control.observer.Observer`."""

    def __init__(self) -> None:
        """Start without having heard anything."""
        self.told: list[str] = []
        self.alive: list[tuple[float, Kind]] = []

    def pod_seen(self, pod: Pod) -> None:
        """Hear of a pod."""
        self.told.append(f"pod {pod.name} on {pod.node_name or 'nothing'}")

    def pod_gone(self, uid: str) -> None:
        """Hear that a pod is gone."""
        self.told.append(f"pod gone {uid[:8]}")

    def node_seen(self, node: Node) -> None:
        """Hear of a node."""
        self.told.append(f"node {node.name}")

    def node_gone(self, name: str) -> None:
        """Hear that a node is gone."""
        self.told.append(f"node gone {name}")

    def group_seen(self, group: PodGroup) -> None:
        """Hear of a PodGroup."""
        self.told.append(f"group {group.ref.name} of {group.min_member}")

    def group_gone(self, ref: GroupRef, uid: str) -> None:
        """Hear that a PodGroup is gone."""
        self.told.append(f"group gone {ref.name} {uid[:8]}")

    def default_priority(self) -> int:
        """Say what pods without priority have."""
        return 0

    def priority_class_seen(self, name: str, value: int, *, global_default: bool) -> None:
        """Hear of a PriorityClass."""
        self.told.append(f"class {name} {value} {global_default}")

    def priority_class_gone(self, name: str) -> None:
        """Hear that a PriorityClass is gone."""
        self.told.append(f"class gone {name}")

    def lease_seen(self, lease: Lease) -> None:
        """Hear of a Lease, which is not watched here."""
        raise AssertionError(lease)

    def lease_gone(self) -> None:
        """Hear that the Lease is gone, which is not watched here."""
        raise AssertionError

    def node_topology_seen(self, topology: NodeTopology) -> None:
        """Hear of a node's NUMA zones."""
        self._tell("node topology seen", topology.node, str(topology.policy))

    def node_topology_gone(self, name: str) -> None:
        """Hear that a node's NUMA zones are gone."""
        self._tell("node topology gone", name)

    def hyper_node_seen(self, hyper_node: HyperNode) -> None:
        """Hear of a HyperNode."""
        self._tell("hyper node seen", hyper_node.name, str(hyper_node.tier))

    def hyper_node_gone(self, name: str) -> None:
        """Hear that a HyperNode is gone."""
        self._tell("hyper node gone", name)

    def levels_seen(self, levels: LevelList) -> None:
        """Hear of a list of levels."""
        self._tell("levels seen", levels.about.group, levels.about.name, *(level.label for level in levels.levels))

    def levels_gone(self, group: str, name: str) -> None:
        """Hear that a list of levels is gone."""
        self._tell("levels gone", group, name)

    def device_seen(self, report: DeviceReport) -> None:
        """Hear of a report of devices."""
        self._tell("device seen", report.node, report.partitions)

    def device_gone(self, name: str) -> None:
        """Hear that a report of devices is gone."""
        self._tell("device gone", name)

    def calibration_seen(self, about: ObjectRef, data: Mapping[str, str]) -> None:
        """Hear of the data of a calibration."""
        self._tell("calibration seen", str(about), *data.values())

    def calibration_gone(self) -> None:
        """Hear that the calibration is gone."""
        self._tell("calibration gone")

    def queue_seen(self, queue: Queue) -> None:
        """Hear of a Queue."""
        self._tell("queue seen", queue.name, queue.parent)

    def queue_gone(self, name: str) -> None:
        """Hear that a Queue is gone."""
        self._tell("queue gone", name)

    def namespace_seen(self, name: str, labels: Mapping[str, str]) -> None:
        """Hear of a namespace."""
        self._tell("namespace seen", name, *labels.values())

    def namespace_gone(self, name: str) -> None:
        """Hear that a namespace is gone."""
        self._tell("namespace gone", name)

    def budget_seen(self, budget: DisruptionBudget) -> None:
        """Hear of a PodDisruptionBudget."""
        self._tell("budget seen", budget.key, str(budget.allowed))

    def budget_gone(self, namespace: str, name: str) -> None:
        """Hear that a PodDisruptionBudget is gone."""
        self._tell("budget gone", f"{namespace}/{name}")

    def _tell(self, *words: str) -> None:
        self.told.append(" ".join(words))

    def synced(self, kind: Kind) -> None:
        """Hear that the first list is complete."""
        self.told.append(f"synced {kind}")

    def heard(self, kind: Kind) -> None:
        """Hear that a watch is alive."""
        self.alive.append((asyncio.get_running_loop().time(), kind))

    def skipped(self, kind: Kind) -> None:
        """Hear that an object could not be decoded, which does not happen here."""
        raise AssertionError(kind)

    def watch_restarted(self, kind: Kind, cause: str) -> None:
        """Hear that a watch started again, which this one never does."""
        raise AssertionError((kind, cause))


class Setting:
    """A cluster, and a listener fed from it."""

    def __init__(self, latency: float = 0.0) -> None:
        """Start on the running loop."""
        self.cluster = Cluster(loop_clock())
        self.listener = Listener()
        self.feed = Feed(self.cluster, self.listener, latency)
        self.running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start feeding."""
        self.running = asyncio.create_task(self.feed.run())

    async def stop(self) -> None:
        """Stop feeding."""
        assert self.running is not None
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)


def test_what_is_there_comes_before_the_sync(virtually: Virtually) -> None:
    """All objects are delivered, then every kind is reported as synced, those that are not installed included."""

    async def story() -> list[str]:
        setting = Setting()
        setting.cluster.create(Kind.NODE, node_json("n"))
        setting.cluster.create(Kind.POD, pod_json("a"))
        setting.start()
        await setting.feed.synced.wait()
        await setting.stop()
        return setting.listener.told

    assert virtually(story()) == ["node n", "pod a on nothing", *(f"synced {kind}" for kind in REQUIRED_KINDS)]


async def come_and_go(
    documents: Mapping[Kind, dict[str, Any]], between: Callable[[Cluster], object] = lambda _: None
) -> list[str]:
    """Create all objects, do something, and delete them; return what was told of it."""
    setting = Setting()
    setting.start()
    await setting.feed.synced.wait()
    setting.listener.told.clear()
    for kind, document in documents.items():
        setting.cluster.create(kind, document)
    between(setting.cluster)
    for kind, document in documents.items():
        setting.cluster.delete(kind, "default", document["metadata"]["name"])
    await reach(0)
    await setting.stop()
    return setting.listener.told


def test_every_kind_of_change_is_told(virtually: Virtually) -> None:
    """Additions, updates and deletions of all kinds, in order."""
    documents: dict[Kind, dict[str, Any]] = {
        Kind.NODE: node_json("n"),
        Kind.POD: pod_json("a"),
        Kind.PRIORITY_CLASS: {"metadata": {"name": "high"}, "value": 10, "globalDefault": True},
        Kind.COSCHEDULING_POD_GROUP: coscheduling_json("g", minMember=3),
    }
    assert virtually(come_and_go(documents, lambda cluster: cluster.bind("default", "a", "n"))) == [
        "node n",
        "pod a on nothing",
        "class high 10 True",
        "group g of 3",
        "pod a on n",
        "node gone n",
        "pod gone 00000002",
        "class gone high",
        "group gone g 00000004",
    ]


def test_what_describes_network_and_hardware_is_told(virtually: Virtually) -> None:
    """Objects of other projects are read as the watches read them; those of the cluster have no namespace."""
    levels = {"levels": [{"nodeLabel": "x/rack"}]}
    layers = {"networkTopologySpec": [{"topologyLayer": "spine", "labelKey": ["x/spine"]}]}

    documents: dict[Kind, dict[str, Any]] = {
        Kind.NODE_TOPOLOGY: {"metadata": {"name": "a"}, "topologyPolicies": ["Restricted"]},
        Kind.HYPER_NODE: {"metadata": {"name": "b"}, "spec": {"tier": 1}},
        Kind.KUEUE_TOPOLOGY: {"metadata": {"name": "c"}, "spec": levels},
        Kind.KAI_TOPOLOGY: {"metadata": {"name": "d"}, "spec": levels},
        Kind.NETWORK_TOPOLOGY: {"metadata": {"name": "e"}, "spec": layers},
        Kind.DEVICE: {"metadata": {"name": "f"}},
        Kind.CALIBRATION: {"metadata": {"name": "g", "namespace": "default"}, "data": {"key": "value"}},
    }
    assert virtually(come_and_go(documents)) == [
        "node topology seen a restricted",
        "hyper node seen b 1",
        "levels seen kueue.x-k8s.io c x/rack",
        "levels seen kai.scheduler d x/rack",
        "levels seen scheduling.koordinator.sh e x/spine",
        "device seen f ",
        "calibration seen ConfigMap default/g value",
        "node topology gone a",
        "hyper node gone b",
        "levels gone kueue.x-k8s.io c",
        "levels gone kai.scheduler d",
        "levels gone scheduling.koordinator.sh e",
        "device gone f",
        "calibration gone",
    ]


def test_what_is_shared_is_told(virtually: Virtually) -> None:
    """Queues, namespaces with their labels, and budgets with what they allow."""
    documents: dict[Kind, dict[str, Any]] = {
        Kind.QUEUE: {"metadata": {"name": "q"}, "spec": {"parent": "root"}},
        Kind.NAMESPACE: {"metadata": {"name": "blue", "labels": {"team": "b"}}},
        Kind.DISRUPTION_BUDGET: {
            "metadata": {"name": "g", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {}},
            "status": {"disruptionsAllowed": 2, "observedGeneration": 1},
        },
    }
    assert virtually(come_and_go(documents)) == [
        "queue seen q root",
        "namespace seen blue b",
        "budget seen default/g 2",
        "queue gone q",
        "namespace gone blue",
        "budget gone default/g",
    ]


def test_the_watches_stay_alive_without_news(virtually: Virtually) -> None:
    """A silent watch has bookmarks, or a service would call itself stale."""

    async def story() -> list[float]:
        setting = Setting()
        setting.start()
        await reach(3600)
        await setting.stop()
        return [when for when, kind in setting.listener.alive if kind is Kind.NODE]

    times = virtually(story())
    assert max(later - earlier for earlier, later in pairwise(times)) <= BOOKMARK_SECONDS
    assert times[-1] >= 3600 - BOOKMARK_SECONDS


def test_with_latency_the_sync_waits_for_the_list(virtually: Virtually) -> None:
    """Nothing is synced before it has been delivered."""

    async def story() -> tuple[list[str], float]:
        setting = Setting(latency=2.0)
        setting.cluster.create(Kind.NODE, node_json("n"))
        setting.start()
        await setting.feed.synced.wait()
        await setting.stop()
        return setting.listener.told[:2], asyncio.get_running_loop().time()

    assert virtually(story()) == (["node n", "synced nodes"], 2.0)
