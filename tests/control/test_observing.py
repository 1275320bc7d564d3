"""News of network and hardware, from the watches to decisions, events and the log."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from extender.admission.events import (
    BudgetGone,
    BudgetSeen,
    CalibrationGone,
    CalibrationSeen,
    DeviceClassSeen,
    DeviceGone,
    DeviceSeen,
    GroupSeen,
    HyperNodeGone,
    HyperNodeSeen,
    LevelsGone,
    LevelsSeen,
    NamespaceGone,
    NamespaceSeen,
    NodeSeen,
    NodeTopologyGone,
    NodeTopologySeen,
    PodSeen,
    QueueGone,
    QueueSeen,
)
from extender.control.ports import LeaseGone
from extender.hardware.calibration import DATA_KEY
from extender.objects.budget import DisruptionBudget
from extender.objects.devices import DeviceReport
from extender.objects.hypernodes import HyperNode
from extender.objects.keys import Options
from extender.objects.levelobjects import LevelList
from extender.objects.levels import Level
from extender.objects.meta import LabelSelector, ObjectRef, Requirement
from extender.objects.node import Node
from extender.objects.nodetopology import NodeTopology, TopologyPolicy, Zone
from extender.objects.pod import Phase
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.queue import Queue, StopPolicy
from extender.objects.reason import Reason
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.topology import TopologyTerms
from extender.settings import Settings
from tests.control.conftest import GPU, Muster, Term
from tests.devicevalues import class_of

RACK = "example.com/rack"
LIST = LevelList(ObjectRef("kueue.x-k8s.io/v1beta2", "Topology", "", "default", "u"), (Level("rack", RACK),))
CALIBRATION = ObjectRef("v1", "ConfigMap", "muster-system", "muster-calibration", "u")


def hyper_node(name: str, tier: int, *nodes: str, children: tuple[str, ...] = ()) -> HyperNode:
    """Return a HyperNode."""
    about = ObjectRef("topology.volcano.sh/v1alpha1", "HyperNode", "", name, f"uid-{name}")
    return HyperNode(about, tier, nodes=frozenset(nodes), children=children)


def racks(muster: Muster, count: int) -> None:
    """Add nodes of eight GPUs, two in each rack."""
    for index in range(count):
        allocatable = {"cpu": 64_000, "pods": 110, GPU: 8}
        muster.controller.tell(
            NodeSeen(Node(f"node-{index}", allocatable=allocatable, labels={RACK: f"r{index // 2}"}))
        )


def require_rack(muster: Muster, name: str = "job") -> None:
    """Let a gang of two whole nodes ask for one rack."""
    pods = muster.gang(name, members=2)
    options = Options(topology=TopologyTerms(required="rack"))
    ref = GroupRef(COSCHEDULING, "default", name)
    muster.controller.tell(GroupSeen(PodGroup(ref, f"{name}-uid", len(pods), created=name, options=options)))


def warnings(muster: Muster) -> list[tuple[str, str]]:
    """Return what Warning events about other objects than gangs and pods say."""
    return [
        (f"{event.about.kind} {event.about.name}", event.message)
        for event in muster.api.events
        if event.warning and event.about.kind not in {"PodGroup", "Pod"}
    ]


async def test_a_gang_is_placed_once_its_level_is_known(muster: Muster) -> None:
    """A gang that asks for a level waits until some object says what that is; nothing else need change."""
    racks(muster, 4)
    require_rack(muster)
    muster.sync()
    await asyncio.sleep(1)
    assert muster.api.nominations == []
    muster.controller.tell(LevelsSeen(LIST))
    await asyncio.sleep(1)
    assert sorted(muster.api.nominations) == [("job-0", "node-0"), ("job-1", "node-1")]


async def test_a_gang_is_judged_anew_when_the_levels_are_gone(muster: Muster) -> None:
    """What was placed stays; who comes later waits for want of the level."""
    racks(muster, 4)
    muster.controller.tell(LevelsSeen(LIST))
    muster.sync()
    require_rack(muster)
    await asyncio.sleep(1)
    muster.controller.tell(LevelsGone("kueue.x-k8s.io", "default"))
    require_rack(muster, "other")
    await asyncio.sleep(1)
    assert {name for name, _node in muster.api.nominations} == {"job-0", "job-1"}


async def test_hyper_nodes_are_levels(muster: Muster) -> None:
    """Domains that objects describe are kept to as those of labels are."""
    controller = muster.controller
    muster.nodes(4)
    controller.tell(HyperNodeSeen(hyper_node("r0", 1, "node-0", "node-3")))
    controller.tell(HyperNodeSeen(hyper_node("r1", 1, "node-1", "node-2")))
    controller.tell(HyperNodeSeen(hyper_node("gone", 2, "node-1")))
    controller.tell(HyperNodeGone("gone"))
    muster.sync()
    pods = muster.gang("job", members=2)
    options = Options(topology=TopologyTerms(required="tier-1"))
    ref = GroupRef(COSCHEDULING, "default", "job")
    controller.tell(GroupSeen(PodGroup(ref, "job-uid", len(pods), created="job", options=options)))
    await asyncio.sleep(1)
    nodes = {node for _name, node in muster.api.nominations}
    assert nodes in ({"node-0", "node-3"}, {"node-1", "node-2"})


async def test_a_mistake_in_an_object_is_told_on_the_object_once(muster: Muster) -> None:
    """A Warning event on the HyperNode says what is wrong; the same again only after it had been mended."""
    controller = muster.controller
    muster.nodes(1)
    muster.sync()
    broken, whole = hyper_node("top", 2, children=("s9",)), hyper_node("top", 2)
    told = ("HyperNode top", "spec.members: there is no HyperNode 's9'")
    controller.tell(HyperNodeSeen(broken))
    await asyncio.sleep(1)
    assert warnings(muster) == [told]
    muster.nodes(2)
    await asyncio.sleep(1)
    assert warnings(muster) == [told]
    controller.tell(HyperNodeSeen(whole))
    await asyncio.sleep(1)
    controller.tell(HyperNodeSeen(broken))
    await asyncio.sleep(1)
    assert warnings(muster) == [told, told]
    assert {event.reason for event in muster.api.events} == {"InvalidField"}


async def test_mistakes_about_hardware_are_told_too(muster: Muster) -> None:
    """A table of partitions and a ConfigMap that cannot be read are named, and forgotten with their objects."""
    controller = muster.controller
    device = ObjectRef("scheduling.koordinator.sh/v1alpha1", "Device", "", "node-0", "u-d")
    muster.sync()
    controller.tell(DeviceSeen(DeviceReport(device, "{")))
    controller.tell(CalibrationSeen(CALIBRATION, {DATA_KEY: "measurements: none"}))
    await asyncio.sleep(1)
    assert {about for about, _message in warnings(muster)} == {"Device node-0", "ConfigMap muster-calibration"}
    controller.tell(DeviceGone("node-0"))
    controller.tell(CalibrationGone())
    await asyncio.sleep(1)
    assert len(warnings(muster)) == 2


async def test_a_standby_tells_nothing(muster: Muster, term: Term) -> None:
    """Only the replica that decides writes events; it tells what the other one would have told."""
    muster.sync()
    await asyncio.sleep(1)
    term.until = 0.0
    muster.controller.tell(LeaseGone())
    muster.controller.tell(HyperNodeSeen(hyper_node("top", 2, children=("s9",))))
    await asyncio.sleep(1)
    assert warnings(muster) == []


async def test_a_node_is_left_alone_once_its_kubelet_is_known_to_refuse(muster: Muster) -> None:
    """News of NUMA zones makes a gang wait that fitted before, and their end lets it go ahead."""
    controller = muster.controller
    muster.nodes(1)
    zones = tuple(Zone(number, allocatable={GPU: 4}) for number in range(2))
    controller.tell(NodeTopologySeen(NodeTopology("node-0", TopologyPolicy.SINGLE_NUMA_NODE, zones=zones)))
    muster.sync()
    muster.gang("job", members=1)
    await asyncio.sleep(1)
    assert muster.api.nominations == []
    controller.tell(NodeTopologyGone("node-0"))
    await asyncio.sleep(1)
    assert set(muster.api.nominations) == {("job-0", "node-0")}


class TestSync:
    """What is said when everything has been listed."""

    @pytest.fixture
    def settings(self) -> Settings:
        """Return settings with a preset."""
        return Settings(topology_preset="gke")

    async def test_the_log_says_what_the_network_is_taken_for(self, muster: Muster) -> None:
        """The levels and where they come from stand in the line that says that all is synced."""
        with capture_logs() as lines:
            muster.sync()
        (line,) = (line for line in lines if line["event"] == "synced")
        assert (line["levels"], line["levels_from"]) == (["block", "subblock"], "preset gke")


async def test_queues_and_namespaces_decide_who_starts(muster: Muster) -> None:
    """A gang is in the Queue that takes its namespace, and waits while that is stopped; without the Queue it starts."""
    controller = muster.controller
    research = LabelSelector((Requirement("team", "In", ("research",)),))
    stopped = Queue("q", uid="q", default=True, namespaces=research, stop_policy=StopPolicy.HOLD)
    controller.tell(QueueSeen(stopped))
    controller.tell(NamespaceSeen("default", {"team": "research"}))
    muster.nodes(1)
    muster.gang("job", members=1)
    muster.sync()
    await asyncio.sleep(2)
    assert muster.api.statuses[-1][1].reason == Reason.QUEUE_STOPPED
    controller.tell(NamespaceGone("elsewhere"))
    controller.tell(QueueGone("q"))
    await asyncio.sleep(2)
    assert muster.api.statuses[-1][1].reason != Reason.QUEUE_STOPPED
    assert set(muster.api.nominations) == {("job-0", "node-0")}


async def test_nobody_is_evicted_whom_a_budget_protects(muster: Muster) -> None:
    """The victim of an urgent gang stays while its PodDisruptionBudget allows nothing, and goes once that is gone."""
    controller = muster.controller
    (node,) = muster.nodes(1)
    (low,) = muster.gang("low", members=1, present=0)
    controller.tell(PodSeen(replace(low, node_name=node, phase=Phase.RUNNING)))
    controller.tell(BudgetSeen(DisruptionBudget("default", "b", LabelSelector(), allowed=0)))
    (urgent,) = muster.gang("urgent", members=1, present=0)
    controller.tell(PodSeen(replace(urgent, priority=10)))
    muster.sync()
    await asyncio.sleep(2)
    assert muster.api.evictions == []
    controller.tell(BudgetGone("default", "b"))
    await asyncio.sleep(2)
    assert ("low-0", False) in muster.api.evictions


class TestMappedClasses:
    """Classes of devices that the settings give a name for quota."""

    @pytest.fixture
    def settings(self) -> Settings:
        """Return settings with two classes."""
        mapping = {"name": "whole-gpus", "deviceClassNames": ["gpu.nvidia.com", "gpu.amd.com"]}
        return Settings.model_validate({"device_class_mappings": [mapping]})

    async def test_a_class_that_does_not_exist_is_told_with_its_place(self, muster: Muster) -> None:
        """Once everything is read; Muster works on, as a driver may come later."""
        muster.controller.tell(DeviceClassSeen(class_of()))
        with capture_logs() as lines:
            muster.sync()
        told = [(line["setting"], line["name"]) for line in lines if line["event"] == "no such DeviceClass"]
        assert told == [("device_class_mappings.0.deviceClassNames.1", "gpu.amd.com")]
        assert muster.controller.health.ready
