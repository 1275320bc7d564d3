"""What Muster's watches would tell, read off the simulated API server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from itertools import pairwise
from typing import Any

from extender.admission import events
from extender.control.ports import News, WatchedKind
from extender.control.watched import REQUIRED_KINDS
from extender.objects.sources.coscheduling import COSCHEDULING_POD_GROUPS
from muster_lab.simulation.api import BOOKMARK_SECONDS, SimulatedFeed
from muster_lab.simulation.cluster import Cluster
from tests.builders import coscheduling_json, node_json, pod_json
from tests.lab.conftest import Virtually, loop_clock, reach


class Told:
    """Writes down what it is told. Implements `extender.control.ports.EventSink`."""

    def __init__(self) -> None:
        """Start without having heard anything."""
        self.told: list[str] = []
        self.alive: list[tuple[float, str]] = []

    def tell(self, event: News) -> None:
        """Hear of something."""
        self.told.append(_words(event))

    def synced(self, kind: str) -> None:
        """Hear that the first list is complete."""
        self.told.append(f"synced {kind}")

    def heard(self, kind: str) -> None:
        """Hear that a watch is alive."""
        self.alive.append((asyncio.get_running_loop().time(), kind))

    def skipped(self, kind: str) -> None:
        """Hear that an object could not be decoded, which does not happen here."""
        raise AssertionError(kind)

    def watch_restarted(self, kind: str, cause: str, detail: str = "") -> None:
        """Hear that a watch started again, which this one never does."""
        raise AssertionError((kind, cause, detail))


def _words(event: News) -> str:  # noqa: C901, PLR0911, PLR0912 - one line for each kind
    """Return what an event says, briefly."""
    match event:
        case events.PodSeen(pod):
            return f"pod {pod.name} on {pod.node_name or 'nothing'}"
        case events.PodGone(uid):
            return f"pod gone {uid[:8]}"
        case events.NodeSeen(node):
            return f"node {node.name}"
        case events.GroupSeen(group):
            return f"group {group.ref.name} of {group.min_member}"
        case events.GroupGone(ref, uid):
            return f"group gone {ref.name} {uid[:8]}"
        case events.PriorityClassSeen(name, value, global_default):
            return f"class {name} {value} {global_default}"
        case events.NodeTopologySeen(topology):
            return f"node topology seen {topology.node} {topology.policy}"
        case events.HyperNodeSeen(hyper_node):
            return f"hyper node seen {hyper_node.name} {hyper_node.tier}"
        case events.LevelsSeen(levels):
            return " ".join(
                ["levels seen", levels.about.group, levels.about.name, *(level.label for level in levels.levels)]
            )
        case events.LevelsGone(group_name, name):
            return f"levels gone {group_name} {name}"
        case events.DeviceSeen(report):
            return f"device seen {report.node} {report.partitions}"
        case events.CalibrationSeen(about, data):
            return " ".join(["calibration seen", str(about), *data.values()])
        case events.QueueSeen(queue):
            return f"queue seen {queue.name} {queue.parent}"
        case events.NamespaceSeen(name, labels):
            return " ".join(["namespace seen", name, *labels.values()])
        case events.BudgetSeen(budget):
            return f"budget seen {budget.key} {budget.allowed}"
        case events.BudgetGone(namespace, name):
            return f"budget gone {namespace}/{name}"
        case (
            events.NodeGone()
            | events.NodeTopologyGone()
            | events.HyperNodeGone()
            | events.DeviceGone()
            | events.CalibrationGone()
            | events.QueueGone()
            | events.NamespaceGone()
            | events.PriorityClassGone()
        ):
            kind = re.sub("([a-z])([A-Z])", r"\1 \2", type(event).__name__).lower().replace("priority ", "")
            return " ".join([kind, *(getattr(event, each.name) for each in fields(event))])
        case _:
            raise AssertionError(event)


class Setting:
    """A cluster, and a sink fed from it."""

    def __init__(self, latency: float = 0.0) -> None:
        """Start on the running loop."""
        self.cluster = Cluster(loop_clock())
        self.sink = Told()
        self.feed = SimulatedFeed(self.cluster, self.sink, latency)
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
        setting.cluster.create(WatchedKind.NODE, node_json("n"))
        setting.cluster.create(WatchedKind.POD, pod_json("a"))
        setting.start()
        await setting.feed.synced.wait()
        await setting.stop()
        return setting.sink.told

    kinds = (*REQUIRED_KINDS, WatchedKind.PROVISIONING_REQUEST)
    assert virtually(story()) == ["node n", "pod a on nothing", *(f"synced {kind}" for kind in kinds)]


async def come_and_go(
    documents: Mapping[str, dict[str, Any]], between: Callable[[Cluster], object] = lambda _: None
) -> list[str]:
    """Create all objects, do something, and delete them; return what was told of it."""
    setting = Setting()
    setting.start()
    await setting.feed.synced.wait()
    setting.sink.told.clear()
    for kind, document in documents.items():
        setting.cluster.create(kind, document)
    between(setting.cluster)
    for kind, document in documents.items():
        setting.cluster.delete(kind, "default", document["metadata"]["name"])
    await reach(0)
    await setting.stop()
    return setting.sink.told


def test_every_kind_of_change_is_told(virtually: Virtually) -> None:
    """Additions, updates and deletions of all kinds, in order."""
    documents: dict[str, dict[str, Any]] = {
        WatchedKind.NODE: node_json("n"),
        WatchedKind.POD: pod_json("a"),
        WatchedKind.PRIORITY_CLASS: {"metadata": {"name": "high"}, "value": 10, "globalDefault": True},
        COSCHEDULING_POD_GROUPS: coscheduling_json("g", minMember=3),
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

    documents: dict[str, dict[str, Any]] = {
        WatchedKind.NODE_TOPOLOGY: {"metadata": {"name": "a"}, "topologyPolicies": ["Restricted"]},
        WatchedKind.HYPER_NODE: {"metadata": {"name": "b"}, "spec": {"tier": 1}},
        WatchedKind.KUEUE_TOPOLOGY: {"metadata": {"name": "c"}, "spec": levels},
        WatchedKind.KAI_TOPOLOGY: {"metadata": {"name": "d"}, "spec": levels},
        WatchedKind.NETWORK_TOPOLOGY: {"metadata": {"name": "e"}, "spec": layers},
        WatchedKind.DEVICE: {"metadata": {"name": "f"}},
        WatchedKind.CALIBRATION: {"metadata": {"name": "g", "namespace": "default"}, "data": {"key": "value"}},
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
    documents: dict[str, dict[str, Any]] = {
        WatchedKind.QUEUE: {"metadata": {"name": "q"}, "spec": {"parent": "root"}},
        WatchedKind.NAMESPACE: {"metadata": {"name": "blue", "labels": {"team": "b"}}},
        WatchedKind.DISRUPTION_BUDGET: {
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
        return [when for when, kind in setting.sink.alive if kind is WatchedKind.NODE]

    times = virtually(story())
    assert max(later - earlier for earlier, later in pairwise(times)) <= BOOKMARK_SECONDS
    assert times[-1] >= 3600 - BOOKMARK_SECONDS


def test_with_latency_the_sync_waits_for_the_list(virtually: Virtually) -> None:
    """Nothing is synced before it has been delivered."""

    async def story() -> tuple[list[str], float]:
        setting = Setting(latency=2.0)
        setting.cluster.create(WatchedKind.NODE, node_json("n"))
        setting.start()
        await setting.feed.synced.wait()
        await setting.stop()
        return setting.sink.told[:2], asyncio.get_running_loop().time()

    assert virtually(story()) == (["node n", "synced nodes"], 2.0)
