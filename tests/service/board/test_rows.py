"""Rows of nodes, and how much room there is in what pieces."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.admission.events import NodeSeen, PodSeen
from extender.objects.node import UNSCHEDULABLE_TAINT, Node
from extender.service.board.board import BoardChange, BoardPicture
from extender.service.board.documents import (
    CallLatency,
    GpuCounts,
    Island,
    LargestIsland,
    NodeCounts,
    RecordingState,
    StatusDocument,
)
from extender.service.board.rows import NodeRow, Totals
from extender.service.stream import board_document, capacity_document, change_document, node_item
from extender.settings import Settings, TopologyLevel
from tests.builders import as_sent, queue_row
from tests.service.board.conftest import Seen

#: A status of nothing.
STATUS = StatusDocument(
    version="0",
    time="2026-01-01T00:00:00Z",
    ready=True,
    leading=True,
    unready=(),
    nodes=NodeCounts(0, 0, 0),
    gpus=GpuCounts(0, 0, 0, 0),
    gangs={},
    waiting={},
    queues=0,
    oldest_wait=None,
    verbs=(),
    passes=CallLatency(0, None, None),
    recording=RecordingState(on=False, inputs=0, size=0, since=None, ended=None),
)
QUEUE = queue_row("q")


def row(name: str, *cells: str, domains: tuple[str, ...] = (), promised: int = 0, schedulable: bool = True) -> NodeRow:
    """Return a node whose last `promised` cells are reserved."""
    marks = tuple(index >= len(cells) - promised for index in range(len(cells)))
    return NodeRow(name, domains, "H100", schedulable, cells, marks)


def picture(*nodes: NodeRow, levels: tuple[str, ...] = ()) -> BoardPicture:
    """Return a picture of nodes alone."""
    return BoardPicture(1, STATUS, levels, {}, (), (), nodes, ())


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
            seen.muster.controller.tell(NodeSeen(Node(name, allocatable={"nvidia.com/gpu": 2}, labels=labels)))
        nodes = {node.name: node for node in (await seen.picture()).nodes}
        assert nodes["x"].domains == ("b0", "b0/r0")
        assert nodes["y"].domains == ("b1", "b1/r0")
        assert nodes["node-0"].domains == ("", "")
        assert (nodes["x"].product, nodes["node-0"].product) == ("H100", "")

    async def test_closed_nodes_take_nobody(self, seen: Seen) -> None:
        """A node that is cordoned, not ready or being deleted is not schedulable, and is counted so."""
        controller = seen.muster.controller
        controller.tell(NodeSeen(Node("node-0", allocatable={"nvidia.com/gpu": 8}, taints=(UNSCHEDULABLE_TAINT,))))
        controller.tell(NodeSeen(Node("node-1", allocatable={"nvidia.com/gpu": 8}, deleting=True)))
        found = await seen.picture()
        assert [node.schedulable for node in found.nodes] == [False, False, True, True]
        assert found.status.nodes == NodeCounts(total=4, schedulable=2, with_gpus=4)

    async def test_a_label_that_changes_moves_the_node(self, seen: Seen) -> None:
        """A node whose rack changes is told of anew, and no other is."""
        node = Node("x", allocatable={"nvidia.com/gpu": 2}, labels={"b": "b0", "r": "r0"})
        seen.muster.controller.tell(NodeSeen(node))
        await seen.change()
        seen.muster.controller.tell(NodeSeen(replace(node, labels={"b": "b0", "r": "r1"})))
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
        seen.muster.controller.tell(PodSeen(pod))
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
        found = {level.level: level for level in capacity_document(("rack",), nodes).levels}
        assert list(found) == ["node", "rack", "cluster"]
        islands = [(2, 2), (1, 1), (0, 1)]
        assert found["node"].islands == tuple(Island(size, count) for size, count in islands)
        assert found["rack"].largest == LargestIsland("r0", 3)
        assert found["cluster"].islands == (Island(5, 1),)

    def test_pods_of_usual_sizes(self) -> None:
        """How many pods fit is counted node by node: two half-free nodes hold no pod that needs a whole one."""
        nodes = [row("n0", *["a"] * 4, *[""] * 4), row("n1", *["a"] * 4, *[""] * 4)]
        fits = {size.gpus_per_pod: size.pods for size in capacity_document((), nodes).gangs}
        assert fits == {1: 8, 2: 4, 4: 2, 8: 0}

    def test_no_gpus_at_all(self) -> None:
        """A cluster without GPUs has no level to tell of."""
        assert as_sent(capacity_document(("rack",), [row("cpu")])) == {
            "levels": [],
            "gangs": [{"gpusPerPod": size, "pods": 0} for size in (1, 2, 4, 8)],
        }


class TestWriting:
    """The board as JSON."""

    def test_columns_say_what_rows_say(self) -> None:
        """From the columns the rows can be read back: names by number, promised cells below zero."""
        nodes = (row("n0", "a", "b", "", domains=("r0",)), row("n1", "b", "c", domains=("",), promised=1))
        found = as_sent(board_document(picture(*nodes, levels=("rack",))))
        assert found["nodes"]["cells"] == [[1, 2, 0], [2, -3]]
        assert found["holders"] == ["a", "b", "c"]
        assert found["nodes"]["domains"] == [[0, -1]]
        assert found["domains"] == [["r0"]]

    def test_node_row(self) -> None:
        """A node's row counts what is used, reserved and free."""
        found = as_sent(node_item(row("n0", "a", "", "b", promised=1), {"cpu": (64_000, 1_500)}))
        assert found["gpus"] == {"allocatable": 3, "used": 1, "reserved": 1, "free": 1}
        assert found["reserved"] == [False, False, True]
        assert found["resources"] == {"cpu": {"allocatable": 64_000, "free": 1_500}}

    def test_unchanged_parts_are_left_out(self) -> None:
        """Queues and order are only there if they changed."""
        nothing = BoardChange(1, STATUS, (), (), None, None, (), (), ())
        without = as_sent(change_document(nothing))
        assert "queues" not in without
        assert "order" not in without["gangs"]
        changed = as_sent(change_document(replace(nothing, queues=(QUEUE,), order=("a",))))
        assert changed["queues"] == [as_sent(QUEUE)]
        assert changed["gangs"]["order"] == ["a"]
