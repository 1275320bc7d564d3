"""Rows of nodes, and how much room there is in what pieces."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.board.board import Change, Picture
from extender.board.capacity import capacity_json
from extender.board.noderows import NodeRow, Totals
from extender.board.writing import change_json, node_json, picture_json
from extender.domain.node import UNSCHEDULABLE_TAINT, Node
from extender.settings import Settings, TopologyLevel
from tests.board.conftest import Seen


def row(name: str, *cells: str, domains: tuple[str, ...] = (), promised: int = 0, schedulable: bool = True) -> NodeRow:
    """Return a node whose last `promised` cells are reserved."""
    marks = tuple(index >= len(cells) - promised for index in range(len(cells)))
    return NodeRow(name, domains, "H100", schedulable, cells, marks)


def picture(*nodes: NodeRow, levels: tuple[str, ...] = ()) -> Picture:
    """Return a picture of nodes alone."""
    return Picture(1, {}, levels, {}, (), (), nodes, ())


class TestNodes:
    """Nodes as the board keeps them."""

    @pytest.fixture
    def settings(self) -> Settings:
        """Return settings with two levels."""
        levels = (("block", "b"), ("rack", "r"))
        return Settings(topology_levels=tuple(TopologyLevel(name=name, nodeLabel=label) for name, label in levels))

    async def test_domains_are_paths(self, seen: Seen) -> None:
        """Racks of one name below two blocks are told apart; a node without labels is in no domain."""
        for name, block in (("x", "b0"), ("y", "b1")):
            labels = {"b": block, "r": "r0", "nvidia.com/gpu.product": "H100"}
            seen.muster.controller.observer.node_seen(Node(name, allocatable={"nvidia.com/gpu": 2}, labels=labels))
        nodes = {node.name: node for node in (await seen.picture()).nodes}
        assert nodes["x"].domains == ("b0", "b0/r0")
        assert nodes["y"].domains == ("b1", "b1/r0")
        assert nodes["node-0"].domains == ("", "")
        assert (nodes["x"].product, nodes["node-0"].product) == ("H100", "")

    async def test_closed_nodes_take_nobody(self, seen: Seen) -> None:
        """A node that is cordoned, not ready or being deleted is not schedulable, and is counted so."""
        observer = seen.muster.controller.observer
        observer.node_seen(Node("node-0", allocatable={"nvidia.com/gpu": 8}, taints=(UNSCHEDULABLE_TAINT,)))
        observer.node_seen(Node("node-1", allocatable={"nvidia.com/gpu": 8}, deleting=True))
        found = await seen.picture()
        assert [node.schedulable for node in found.nodes] == [False, False, True, True]
        assert found.status["nodes"] == {"total": 4, "schedulable": 2, "withGpus": 4}

    async def test_a_label_that_changes_moves_the_node(self, seen: Seen) -> None:
        """A node whose rack changes is told of anew, and no other is."""
        node = Node("x", allocatable={"nvidia.com/gpu": 2}, labels={"b": "b0", "r": "r0"})
        seen.muster.controller.observer.node_seen(node)
        await seen.change()
        seen.muster.controller.observer.node_seen(replace(node, labels={"b": "b0", "r": "r1"}))
        change = await seen.change()
        assert change is not None
        assert [(found.name, found.domains) for found in change.nodes] == [("x", ("b0", "b0/r1"))]

    async def test_nodes_have_room_for_more_than_gpus(self, seen: Seen) -> None:
        """CPU and memory are told with what is left of them; of a node that is gone, nothing."""
        await seen.picture()
        resources = seen.board.resources()
        assert resources("node-0") == {"cpu": (64_000, 64_000), "memory": (0, 0)}
        assert resources("gone") == {}

    async def test_single_pods_hold_cells_under_their_own_names(self, seen: Seen) -> None:
        """A pod without gang is shown as itself."""
        pod = replace(seen.muster.pod("notebook", 1), node_name="node-2")
        seen.muster.controller.observer.pod_seen(pod)
        await asyncio.sleep(1)
        nodes = {node.name: node for node in (await seen.picture()).nodes}
        assert nodes["node-2"].cells == ("default/notebook", *[""] * 7)
        assert nodes["node-2"].free == 7


@given(st.lists(st.tuples(st.lists(st.sampled_from(["", "a", "b"]), max_size=4), st.booleans()), max_size=8))
def test_totals_are_sums(nodes: list[tuple[list[str], bool]]) -> None:
    """Counting nodes in and out again leaves the sums of those that are there."""
    totals, rows = Totals(), [row(str(i), *cells, schedulable=open_) for i, (cells, open_) in enumerate(nodes)]
    for node in rows:
        totals.count(node, 1)
    for node in rows[::2]:
        totals.count(node, -1)
    left = rows[1::2]
    assert totals.nodes == len(left)
    assert totals.gpus == sum(len(node.cells) for node in left)
    assert totals.free == sum(node.free for node in left)


class TestCapacity:
    """Free islands."""

    def test_islands_by_level(self) -> None:
        """Free GPUs are summed up per domain of each level, and counted by the size of what is free there."""
        nodes = [
            row("n0", "", "", domains=("r0",)),
            row("n1", "a", "", domains=("r0",)),
            row("n2", "", "", domains=("r1",)),
            row("n3", "", "", domains=("r1",), schedulable=False),
        ]
        found = {level["level"]: level for level in capacity_json(("rack",), nodes)["levels"]}
        assert list(found) == ["node", "rack", "cluster"]
        islands = [(2, 2), (1, 1), (0, 1)]
        assert found["node"]["islands"] == [{"freeGpus": size, "domains": count} for size, count in islands]
        assert found["rack"]["largest"] == {"domain": "r0", "freeGpus": 3}
        assert found["cluster"]["islands"] == [{"freeGpus": 5, "domains": 1}]

    def test_pods_of_usual_sizes(self) -> None:
        """How many pods fit is counted node by node: two half-free nodes hold no pod that needs a whole one."""
        nodes = [row("n0", *["a"] * 4, *[""] * 4), row("n1", *["a"] * 4, *[""] * 4)]
        fits = {size["gpusPerPod"]: size["pods"] for size in capacity_json((), nodes)["gangs"]}
        assert fits == {1: 8, 2: 4, 4: 2, 8: 0}

    def test_no_gpus_at_all(self) -> None:
        """A cluster without GPUs has no level to tell of."""
        assert capacity_json(("rack",), [row("cpu")]) == {
            "levels": [],
            "gangs": [{"gpusPerPod": size, "pods": 0} for size in (1, 2, 4, 8)],
        }


class TestWriting:
    """The board as JSON."""

    def test_columns_say_what_rows_say(self) -> None:
        """From the columns the rows can be read back: names by number, promised cells below zero."""
        nodes = (row("n0", "a", "b", "", domains=("r0",)), row("n1", "b", "c", domains=("",), promised=1))
        found = picture_json(picture(*nodes, levels=("rack",)))
        assert found["nodes"]["cells"] == [[1, 2, 0], [2, -3]]
        assert found["holders"] == ["a", "b", "c"]
        assert found["nodes"]["domains"] == [[0, -1]]
        assert found["domains"] == [["r0"]]

    def test_node_row(self) -> None:
        """A node's row counts what is used, reserved and free."""
        found = node_json(row("n0", "a", "", "b", promised=1), {"cpu": (64_000, 1_500)})
        assert found["gpus"] == {"allocatable": 3, "used": 1, "reserved": 1, "free": 1}
        assert found["reserved"] == [False, False, True]
        assert found["resources"] == {"cpu": {"allocatable": 64_000, "free": 1_500}}

    @pytest.mark.parametrize(("part", "value"), [("queues", ({"name": "q"},)), ("order", ("a",))])
    def test_unchanged_parts_are_left_out(self, part: str, value: Any) -> None:
        """Queues and order are only there if they changed."""
        nothing = Change(1, {}, (), (), None, None, (), (), ())
        without = change_json(nothing)
        changed = change_json(replace(nothing, **{part: value}))
        assert part not in without
        assert part not in without["gangs"]
        assert (changed if part == "queues" else changed["gangs"])[part] == list(value)
