"""A gang moves beside another on the real control plane, so that a larger one fits that waits."""

from __future__ import annotations

import pytest

from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.story import Gang
from tests.controlplane.test_reclaim import queue

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]

MOVES = {"consolidation": {"policy": "WhenGangsWait", "delay": "0s", "coolDown": "0s"}}


def job(cluster: Sandbox, name: str, gpus: int, *, controller: bool = True) -> Gang:
    """Create a gang of one pod that a controller makes, and makes again; it saves its work every second."""
    labels, saves = {"muster.dev/queue": "team"}, {"muster.dev/checkpoint-interval": "1s"}
    found = cluster.gang(name, members=1, gpus=gpus, labels=labels, group_annotations=saves, create=0)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"job-{name}", "controller": True}
    for member in found.members if controller else ():
        member.manifest["metadata"]["ownerReferences"] = [owner]
    found.create()
    return found


def halves(cluster: Sandbox, *, controller: bool = True) -> list[Gang]:
    """Return two gangs that run on half of each of two nodes."""
    cluster.create(queue("team", 16, preemption=MOVES))
    cluster.nodes(1, gpus=8)
    first, between = (job(cluster, name, 4, controller=controller) for name in ("first", "between"))
    for each in (first, between):
        each.wait_bound(1, timeout=30)
    cluster.nodes(1, gpus=8)
    second = job(cluster, "second", 4, controller=controller)
    second.wait_bound(1, timeout=30)
    between.delete()
    return [first, second]


def test_one_moves_beside_the_other_and_comes_back(cluster: Sandbox, muster: Server) -> None:
    """The larger gang gets a node for itself, and the one that has moved the place that was kept for it."""
    first, second = halves(cluster)
    assert first.members[0].node != second.members[0].node
    large = job(cluster, "large", 8)
    large.wait_bound(1, timeout=60)
    (moved,) = (each for each in (first, second) if not each.bound)
    (stays,) = (each for each in (first, second) if each.bound)
    moved.members[0].create()
    moved.wait_bound(1, timeout=30)
    assert moved.members[0].node == stays.members[0].node
    assert any("8 GPUs start for at most 0.0 GPU-hours lost" in message for message in large.messages)
    muster.check()


def test_what_no_controller_makes_again_stays(cluster: Sandbox, muster: Server) -> None:
    """The larger gang waits, and says what for."""
    first, second = halves(cluster, controller=False)
    large = job(cluster, "large", 8)
    large.wait_condition("False", "InsufficientCapacity")
    cluster.nodes(1, gpus=8)
    large.wait_bound(1, timeout=30)
    assert (len(first.bound), len(second.bound)) == (1, 1)
    muster.check()
