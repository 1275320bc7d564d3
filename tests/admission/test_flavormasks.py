"""Which nodes are of a flavor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from extender.admission.flavormasks import FlavorMasks
from extender.domain.pod import Shape
from extender.domain.taints import Taint
from tests.admission.conftest import World

SPOT = (("kind", "spot"),)


@pytest.fixture
def world() -> World:
    """Return a world of two spot nodes and one other."""
    world = World()
    world.nodes(2, prefix="spot", labels={"kind": "spot", "zone": "a"})
    world.nodes(1, prefix="own", labels={"kind": "own"})
    return world


def named(world: World, masks: FlavorMasks, labels: tuple[tuple[str, str], ...]) -> set[str]:
    """Return the names of the nodes of a flavor."""
    return {
        node.name
        for node in world.admission.model.table.nodes()
        if masks.of(labels)[world.admission.model.table.rows_of([node.name])[0]]
    }


def test_the_nodes_with_all_its_labels_are_of_a_flavor(world: World) -> None:
    """Without labels all are."""
    masks = FlavorMasks(world.admission.model.table)
    assert named(world, masks, SPOT) == {"spot-0", "spot-1"}
    assert named(world, masks, (*SPOT, ("zone", "b"))) == set()
    assert named(world, masks, ()) == {"spot-0", "spot-1", "own-0"}


def test_a_node_that_changes_is_looked_at_anew(world: World) -> None:
    """A label comes or goes; a taint that pods may tolerate does not matter."""
    masks = FlavorMasks(world.admission.model.table)
    assert "own-0" not in named(world, masks, SPOT)
    own = world.admission.model.table.find("own-0")
    assert own is not None
    world.admission.node_seen(replace(own, labels={"kind": "spot"}, taints=(Taint("dedicated", "x", "NoSchedule"),)))
    assert "own-0" in named(world, masks, SPOT)


def test_it_narrows_where_a_shape_may_go(world: World) -> None:
    """Without labels nothing is asked twice."""
    masks = FlavorMasks(world.admission.model.table)
    everywhere = np.ones(world.admission.model.table.rows, dtype=np.bool_)

    def anywhere(_: Shape) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return everywhere

    assert masks.within(anywhere, ()) is anywhere
    assert int(masks.within(anywhere, SPOT)(Shape(())).sum()) == 2
