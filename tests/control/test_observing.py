"""News of network and hardware, from the watches to decisions, events and the log."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from extender.domain.budget import DisruptionBudget
from extender.domain.devices import DeviceReport
from extender.domain.hypernodes import HyperNode
from extender.domain.keys import Options
from extender.domain.labelselector import LabelSelector
from extender.domain.levelobjects import LevelList
from extender.domain.levels import Level
from extender.domain.membership import GroupApi, GroupRef
from extender.domain.node import Node
from extender.domain.objectref import ObjectRef
from extender.domain.pod import Phase
from extender.domain.podgroup import PodGroup
from extender.domain.queue import Queue, StopPolicy
from extender.domain.reason import Problem, Reason
from extender.domain.selectors import Requirement
from extender.domain.topology import TopologyTerms
from extender.fabric.calibration import DATA_KEY
from extender.numa.nodetopology import NodeTopology, Policy, Zone
from extender.settings import Settings
from tests.control.conftest import GPU, Muster, Term

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
        muster.controller.observer.node_seen(
            Node(f"node-{index}", allocatable=allocatable, labels={RACK: f"r{index // 2}"})
        )


def require_rack(muster: Muster, name: str = "job") -> None:
    """Let a gang of two whole nodes ask for one rack."""
    pods = muster.gang(name, members=2)
    options = Options(topology=TopologyTerms(required="rack"))
    ref = GroupRef(GroupApi.COSCHEDULING, "default", name)
    muster.controller.observer.group_seen(PodGroup(ref, f"{name}-uid", len(pods), created=name, options=options))


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
    muster.controller.observer.levels_seen(LIST)
    await asyncio.sleep(1)
    assert sorted(muster.api.nominations) == [("job-0", "node-0"), ("job-1", "node-1")]


async def test_a_gang_is_judged_anew_when_the_levels_are_gone(muster: Muster) -> None:
    """What was placed stays; who comes later waits for want of the level."""
    racks(muster, 4)
    muster.controller.observer.levels_seen(LIST)
    muster.sync()
    require_rack(muster)
    await asyncio.sleep(1)
    muster.controller.observer.levels_gone("kueue.x-k8s.io", "default")
    require_rack(muster, "other")
    await asyncio.sleep(1)
    assert {name for name, _node in muster.api.nominations} == {"job-0", "job-1"}


async def test_hyper_nodes_are_levels(muster: Muster) -> None:
    """Domains that objects describe are kept to as those of labels are."""
    observer = muster.controller.observer
    muster.nodes(4)
    observer.hyper_node_seen(hyper_node("r0", 1, "node-0", "node-3"))
    observer.hyper_node_seen(hyper_node("r1", 1, "node-1", "node-2"))
    observer.hyper_node_seen(hyper_node("gone", 2, "node-1"))
    observer.hyper_node_gone("gone")
    muster.sync()
    pods = muster.gang("job", members=2)
    options = Options(topology=TopologyTerms(required="tier-1"))
    ref = GroupRef(GroupApi.COSCHEDULING, "default", "job")
    observer.group_seen(PodGroup(ref, "job-uid", len(pods), created="job", options=options))
    await asyncio.sleep(1)
    nodes = {node for _name, node in muster.api.nominations}
    assert nodes in ({"node-0", "node-3"}, {"node-1", "node-2"})


async def test_a_mistake_in_an_object_is_told_on_the_object_once(muster: Muster) -> None:
    """A Warning event on the HyperNode says what is wrong; the same again only after it had been mended."""
    observer = muster.controller.observer
    muster.nodes(1)
    muster.sync()
    broken, whole = hyper_node("top", 2, children=("s9",)), hyper_node("top", 2)
    told = ("HyperNode top", "spec.members: there is no HyperNode 's9'")
    observer.hyper_node_seen(broken)
    await asyncio.sleep(1)
    assert warnings(muster) == [told]
    muster.nodes(2)
    await asyncio.sleep(1)
    assert warnings(muster) == [told]
    observer.hyper_node_seen(whole)
    await asyncio.sleep(1)
    observer.hyper_node_seen(broken)
    await asyncio.sleep(1)
    assert warnings(muster) == [told, told]
    assert {event.reason for event in muster.api.events} == {"InvalidField"}


async def test_mistakes_about_hardware_are_told_too(muster: Muster) -> None:
    """A table of partitions and a ConfigMap that cannot be read are named, and forgotten with their objects."""
    observer = muster.controller.observer
    device = ObjectRef("scheduling.koordinator.sh/v1alpha1", "Device", "", "node-0", "u-d")
    muster.sync()
    observer.device_seen(DeviceReport(device, "{"))
    observer.calibration_seen(CALIBRATION, {DATA_KEY: "measurements: none"})
    await asyncio.sleep(1)
    assert {about for about, _message in warnings(muster)} == {"Device node-0", "ConfigMap muster-calibration"}
    observer.device_gone("node-0")
    observer.calibration_gone()
    await asyncio.sleep(1)
    assert len(warnings(muster)) == 2


async def test_a_standby_tells_nothing(muster: Muster, term: Term) -> None:
    """Only the replica that decides writes events; it tells what the other one would have told."""
    muster.sync()
    await asyncio.sleep(1)
    term.until = 0.0
    muster.controller.observer.lease_gone()
    muster.controller.observer.hyper_node_seen(hyper_node("top", 2, children=("s9",)))
    await asyncio.sleep(1)
    assert warnings(muster) == []


async def test_a_node_is_left_alone_once_its_kubelet_is_known_to_refuse(muster: Muster) -> None:
    """News of NUMA zones makes a gang wait that fitted before, and their end lets it go ahead."""
    observer = muster.controller.observer
    muster.nodes(1)
    zones = tuple(Zone(number, allocatable={GPU: 4}) for number in range(2))
    observer.node_topology_seen(NodeTopology("node-0", Policy.SINGLE_NUMA_NODE, zones=zones))
    muster.sync()
    muster.gang("job", members=1)
    await asyncio.sleep(1)
    assert muster.api.nominations == []
    observer.node_topology_gone("node-0")
    await asyncio.sleep(1)
    assert set(muster.api.nominations) == {("job-0", "node-0")}


async def test_what_is_wrong_with_zones_is_logged(muster: Muster) -> None:
    """Exporters write NodeResourceTopologies, not people: the log says what cannot be used."""
    problem = Problem("zones[0].name", "does not end in a number")
    with capture_logs() as lines:
        muster.controller.observer.node_topology_seen(NodeTopology("a", problem=problem))
    assert [(line["node"], line["problem"]) for line in lines] == [("a", str(problem))]


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
    observer = muster.controller.observer
    research = LabelSelector((Requirement("team", "In", ("research",)),))
    stopped = Queue("q", uid="q", default=True, namespaces=research, stop_policy=StopPolicy.HOLD)
    observer.queue_seen(stopped)
    observer.namespace_seen("default", {"team": "research"})
    muster.nodes(1)
    muster.gang("job", members=1)
    muster.sync()
    await asyncio.sleep(2)
    assert muster.api.statuses[-1][1].reason == Reason.QUEUE_STOPPED
    observer.namespace_gone("elsewhere")
    observer.queue_gone("q")
    await asyncio.sleep(2)
    assert muster.api.statuses[-1][1].reason != Reason.QUEUE_STOPPED
    assert set(muster.api.nominations) == {("job-0", "node-0")}


async def test_nobody_is_evicted_whom_a_budget_protects(muster: Muster) -> None:
    """The victim of an urgent gang stays while its PodDisruptionBudget allows nothing, and goes once that is gone."""
    observer = muster.controller.observer
    (node,) = muster.nodes(1)
    (low,) = muster.gang("low", members=1, present=0)
    observer.pod_seen(replace(low, node_name=node, phase=Phase.RUNNING))
    observer.budget_seen(DisruptionBudget("default", "b", LabelSelector(), allowed=0))
    (urgent,) = muster.gang("urgent", members=1, present=0)
    observer.pod_seen(replace(urgent, priority=10))
    muster.sync()
    await asyncio.sleep(2)
    assert muster.api.evictions == []
    observer.budget_gone("default", "b")
    await asyncio.sleep(2)
    assert ("low-0", False) in muster.api.evictions
