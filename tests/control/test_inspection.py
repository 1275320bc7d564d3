"""Looking at the state for people."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from extender.admission.events import GroupSeen, NodeSeen, NodeTopologySeen, PodSeen
from extender.explain.drawing.tree import draw
from extender.explain.explanation import Inspection, explain_further
from extender.objects.keys import Options
from extender.objects.node import Node
from extender.objects.nodetopology import NodeTopology, TopologyPolicy, Zone
from extender.objects.pod import Phase
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.sources.native import NATIVE
from muster_lab.simulation.virtual_time import LoopClock
from tests.control.conftest import GPU, Muster

REF = GroupRef(COSCHEDULING, "default", "train")
CLIQUE = "0e5a3ff4-1a6c-4f8b-9d2e-000000000001.7"


def inspection(muster: Muster) -> Inspection:
    """Return what is tested."""
    return muster.controller.inspection


async def test_a_gang_is_found_by_its_name(muster: Muster) -> None:
    """Whatever API describes it; of namesakes the one that Muster manages."""
    muster.sync()
    assert inspection(muster).find("default", "train") is None
    native = GroupRef(NATIVE, "default", "train")
    muster.controller.tell(GroupSeen(PodGroup(REF, uid="a", min_member=1, created="a")))
    muster.controller.tell(GroupSeen(PodGroup(native, uid="b", min_member=1, created="b")))
    assert inspection(muster).find("default", "train") == REF
    muster.controller.tell(PodSeen(muster.pod("train-0", 8, native)))
    assert inspection(muster).find("default", "train") == native
    assert inspection(muster).find("elsewhere", "train") is None


async def test_a_gang_that_is_not_there_is_not_explained(muster: Muster) -> None:
    """Whoever asks finds it first."""
    muster.sync()
    with pytest.raises(KeyError):
        inspection(muster).explain(REF)


async def test_a_survey_has_everybody_who_holds_gpus_and_what_the_gang_is_promised(muster: Muster) -> None:
    """Bound pods of all gangs, and reservations of the gang in question."""
    muster.nodes(2)
    muster.sync()
    other = replace(muster.pod("other", 4), node_name="node-0")
    muster.controller.tell(PodSeen(other))
    pods = muster.gang("train", 1)
    await muster.controller.filter(pods[0], ["node-0", "node-1"])
    survey = inspection(muster).survey(REF)
    assert sorted(pod.name for pod in survey.pods) == ["other", "train-0"]
    assert [(pod.name, node) for pod, node in survey.promised] == [("train-0", "node-1")]
    assert survey.held == {"train-0-uid": tuple(range(8))}
    cells = {node.name: node.cells for node in draw(survey, "default/train", "", ()).nodes}
    assert cells["node-0"].count("default/other") == 4
    assert cells["node-1"].count("default/train") == 8


async def test_a_survey_without_the_gang_shows_the_cluster(muster: Muster) -> None:
    """Nobody is promised anything, and nothing fails."""
    muster.nodes(2)
    muster.sync()
    survey = inspection(muster).survey(REF)
    assert (len(survey.nodes), survey.pods, survey.promised, survey.held) == (2, (), (), {})


async def test_zones_are_shown_where_the_kubelet_aligns_pods_with_them(muster: Muster) -> None:
    """One zone per GPU, zone by zone; nodes about which nobody says anything have none."""
    muster.nodes(2)
    zones = tuple(Zone(i, f"node-{i}", allocatable={GPU: 4}, available={GPU: 4}, capacity={GPU: 4}) for i in (0, 1))
    muster.controller.tell(NodeTopologySeen(NodeTopology("node-0", TopologyPolicy.RESTRICTED, zones=zones)))
    muster.sync()
    assert inspection(muster).survey(REF).zones == {"node-0": (0, 0, 0, 0, 1, 1, 1, 1)}


async def test_in_a_large_cluster_zones_are_those_of_the_gangs_nodes(muster: Muster) -> None:
    """Others are hardly ever drawn by themselves, and looking at all of them would keep the scheduler waiting."""
    names = muster.nodes(501)
    zones = tuple(Zone(i, f"node-{i}", allocatable={GPU: 4}, available={GPU: 4}, capacity={GPU: 4}) for i in (0, 1))
    for name in names[:10]:
        muster.controller.tell(NodeTopologySeen(NodeTopology(name, TopologyPolicy.BEST_EFFORT, zones=zones)))
    muster.sync()
    (pod,) = muster.gang("train", 1)
    muster.controller.tell(PodSeen(replace(pod, node_name="node-7")))
    assert inspection(muster).survey(REF).zones == {"node-7": (0, 0, 0, 0, 1, 1, 1, 1)}


async def test_what_is_not_believed_of_a_gangs_nodes_is_said(muster: Muster) -> None:
    """Zones that do not add up to the node's GPUs are not used, and whoever asks is told."""
    muster.nodes(1)
    zones = (Zone(0, "node-0", allocatable={GPU: 4}, available={GPU: 4}, capacity={GPU: 4}),)
    muster.controller.tell(NodeTopologySeen(NodeTopology("node-0", TopologyPolicy.RESTRICTED, zones=zones)))
    muster.sync()
    pods = muster.gang("train", 1)
    await muster.controller.filter(pods[0], ["node-0"])
    assert list(inspection(muster).explain(REF).doubts) == ["node-0"]


async def test_nvlink_domains_are_levels_and_no_fabric_is_none(muster: Muster) -> None:
    """A label that names no domain joins no nodes in the picture either."""
    for name, clique in (("a", CLIQUE), ("b", CLIQUE), ("c", "00000000-0000-0000-0000-000000000000.0")):
        labels = {"nvidia.com/gpu.clique": clique}
        muster.controller.tell(NodeSeen(Node(name, allocatable={GPU: 4}, labels=labels)))
    muster.sync()
    picture = draw(inspection(muster).survey(REF), "default/train", "", ())
    assert picture.levels == ("clique",)
    assert [node.domains for node in picture.nodes] == [(CLIQUE,), (CLIQUE,), ("",)]


async def test_when_a_blocked_gang_starts_is_said(muster: Muster) -> None:
    """With what it waits for; when that overruns, the start has moved and says so."""
    muster.nodes(1)
    muster.sync()
    (old,) = muster.gang("old", 1, present=0)
    now = LoopClock(asyncio.get_running_loop()).now().timestamp()
    declared = Options(expected_duration=3600.0)
    runs = replace(old, node_name="node-0", phase=Phase.RUNNING, started_at=now, options=declared)
    muster.controller.tell(PodSeen(runs))
    muster.gang("train", 1)
    await asyncio.sleep(1)
    start = inspection(muster).explain(REF).start
    assert start is not None
    assert start.at is not None
    assert (start.at - now, start.because, start.overdue) == (3600, "default/old", False)
    await asyncio.sleep(3610)
    start = inspection(muster).explain(REF).start
    assert start is not None
    assert start.at is not None
    assert (start.at - now, start.because, start.overdue) == (3660, "default/old", True)


async def test_an_explanation_says_who_holds_what_a_gang_waits_for(muster: Muster) -> None:
    """Where it stands in line, which nodes are left for it, and whom it would have to wait for."""
    muster.nodes(2)
    muster.sync()
    other = replace(muster.pod("other", 8), node_name="node-0")
    muster.controller.tell(PodSeen(other))
    muster.gang("train", 2)
    await asyncio.sleep(1)
    explained = inspection(muster).explain(REF)
    assert explained.account is not None
    assert (explained.account.standing.position, explained.account.standing.of) == (1, 1)
    assert [fall.usable for fall in explained.account.waterfalls] == [1]
    assert [holder.gang for holder in explained.account.holders] == ["default/other"]
    assert explained.suggestions is not None
    assert [each.change for each in explained.suggestions][:1] == ["priority"]


async def test_what_would_help_is_searched_for_only_if_somebody_asks(muster: Muster) -> None:
    """It takes longer than all else."""
    muster.nodes(1)
    muster.sync()
    muster.gang("train", 2)
    await asyncio.sleep(1)
    collected = inspection(muster).collect(REF, suggesting=False)
    assert explain_further(collected).suggestions is None
    assert explain_further(inspection(muster).collect(REF)).suggestions
