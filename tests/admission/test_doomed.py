"""Nodes that are announced to go: gangs keep off them, whatever their pods tolerate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.admission.events import NodeSeen
from extender.objects.node import Node
from extender.objects.podspec import Taint, Toleration
from tests.cluster.conftest import shape
from tests.worlds import World

SPOT = Taint("aws-node-termination-handler/spot-itn", "", "NoSchedule")
EVERYTHING = (Toleration("", "Exists", "", ""),)
TOLERANT = shape(8, tolerations=EVERYTHING)


def announce(world: World, name: str, *, deleting: bool = False) -> None:
    """Announce that a node will be gone: by a taint, or because it is being deleted."""
    node = world.state.node(name)
    world.tell(NodeSeen(replace(node, deleting=True) if deleting else replace(node, taints=(SPOT,))))


@pytest.mark.parametrize("deleting", [False, True])
def test_a_gang_that_tolerates_the_announcement_waits_for_other_nodes(deleting: bool) -> None:
    """What would be gone again soon is no room, and that the node stays after all makes it room."""
    world = World()
    world.nodes(2)
    announce(world, "node-1", deleting=deleting)
    job = world.gang("a", 2, shape=TOLERANT)
    assert job.reason is not None
    world.tell(NodeSeen(Node("node-1", "node-1", {"cpu": 64_000, "memory": 2**40, "pods": 110, "nvidia.com/gpu": 8})))
    world.judge()
    assert sorted(job.reserved.values()) == ["node-0", "node-1"]


def test_who_has_not_come_to_bind_is_placed_elsewhere() -> None:
    """A reservation on a node that is announced to go is given up for another one; what runs there runs on."""
    world = World()
    world.nodes(3)
    runs = world.gang("runs", 1, shape=TOLERANT)
    runs.run()
    job = world.gang("a", 1, shape=TOLERANT)
    (before,) = job.reserved.values()
    announce(world, before)
    announce(world, runs.pods[0].node_name)
    world.judge()
    (after,) = job.reserved.values()
    assert after not in {before, runs.pods[0].node_name}
    assert runs.gang.has_minimum
