"""The board: what there is, and what is new since the last look."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from extender.admission.events import GroupGone, NodeGone, PodGone, PodSeen
from extender.objects.pod import Phase
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.service.board.documents import GpuCounts
from tests.service.board.conftest import Seen


async def test_shows_gangs_in_the_order_of_judgement(seen: Seen) -> None:
    """Gangs that wait come first, numbered in the order in which they are judged, with their reasons."""
    seen.muster.gang("a-runs", 3)
    await seen.picture()
    seen.muster.gang("b-waits", 2)
    seen.muster.gang("c-waits", 2)
    rows = await seen.gangs()
    assert list(rows) == ["b-waits", "c-waits", "a-runs"]
    assert [rows[name].position for name in ("b-waits", "c-waits")] == [1, 2]
    assert rows["b-waits"].reason is not None
    assert rows["b-waits"].reason.code == "InsufficientCapacity"
    assert rows["b-waits"].gpus == 16
    assert rows["a-runs"].members.reserved == 3
    assert rows["a-runs"].phase == "Scheduling"


async def test_first_change_has_everything(seen: Seen) -> None:
    """Whoever has seen nothing yet is told of all nodes and gangs."""
    seen.muster.gang("a", 1)
    change = await seen.change()
    assert change is not None
    assert [node.name for node in change.nodes] == ["node-0", "node-1", "node-2", "node-3"]
    assert [row.name for row in change.put] == ["a"]


async def test_nothing_new_is_no_change(seen: Seen) -> None:
    """While nothing happens but that time goes by there is no change."""
    seen.muster.gang("a", 9)
    await seen.change()
    await asyncio.sleep(120)
    await seen.change()  # latencies of the last minute are those of another minute now
    assert await seen.change() is None


async def test_change_has_what_changed_alone(seen: Seen) -> None:
    """A change names the gangs and nodes that changed, and leaves out the others."""
    pods = seen.muster.gang("a", 1)
    seen.muster.gang("b", 9)
    await seen.change()
    node = seen.muster.planned(pods[0])
    seen.muster.controller.tell(PodSeen(replace(pods[0], node_name=node, phase=Phase.RUNNING, started_at=1.0)))
    change = await seen.change()
    assert change is not None
    assert [row.name for row in change.put] == ["a"]
    assert [(row.name, row.promised) for row in change.nodes] == [(node, (False,) * 8)]
    assert change.put[0].started_at == "1970-01-01T00:00:01Z"


async def test_gone_gangs_and_nodes_are_named(seen: Seen) -> None:
    """A gang whose last pod and PodGroup went is gone, and so is a node that was removed."""
    pods = seen.muster.gang("a", 1)
    await seen.change()
    controller = seen.muster.controller
    controller.tell(PodGone(pods[0].uid))
    controller.tell(GroupGone(GroupRef(COSCHEDULING, "default", "a"), "a-uid"))
    controller.tell(NodeGone("node-3"))
    change = await seen.change()
    assert change is not None
    assert change.gone == ("default/a",)
    assert change.nodes_gone == ("node-3",)
    picture = await seen.picture()
    assert (len(picture.gangs), len(picture.nodes)) == (0, 3)
    assert picture.status.nodes.total == 3


async def test_released_reservation_is_seen_on_the_node(seen: Seen) -> None:
    """When a gang's promise is taken back, its GPUs are free on the board again."""
    seen.muster.gang("a", 1)
    picture = await seen.picture()
    assert picture.status.gpus == GpuCounts(allocatable=32, used=0, reserved=8, free=24)
    seen.muster.controller.tell(GroupGone(GroupRef(COSCHEDULING, "default", "a"), "a-uid"))
    picture = await seen.picture()
    assert picture.status.gpus == GpuCounts(allocatable=32, used=0, reserved=0, free=32)


async def test_order_is_told_when_it_changes(seen: Seen) -> None:
    """Who waits behind whom is told once, and again only when that changes."""
    seen.muster.gang("b", 9)
    change = await seen.change()
    assert change is not None
    assert change.order == ("default/b",)
    seen.muster.gang("c", 9)
    change = await seen.change()
    assert change is not None
    assert change.order == ("default/b", "default/c")
    seen.muster.controller.tell(NodeGone("node-0"))
    change = await seen.change()
    assert change is not None
    assert change.order is None


async def test_events_are_told_once(seen: Seen) -> None:
    """What was decided is part of one change, and of every picture."""
    seen.muster.gang("a", 1)
    change = await seen.change()
    assert change is not None
    assert [event.kind for event in change.events] == ["reserved"]
    seen.muster.controller.tell(NodeGone("node-3"))
    change = await seen.change()
    assert change is not None
    assert change.events == ()
    assert [event.kind for event in (await seen.picture()).events] == ["reserved"]


async def test_a_gang_of_another_scheduler_is_left_out(seen: Seen) -> None:
    """Gangs that Muster does not look after are not on the board, though their GPUs are."""
    ref = GroupRef(COSCHEDULING, "default", "foreign")
    pod = replace(seen.muster.pod("f-0", 8, ref), scheduler_name="volcano", node_name="node-1", phase=Phase.RUNNING)
    seen.muster.controller.tell(PodSeen(pod))
    picture = await seen.picture()
    assert picture.gangs == {}
    assert next(node for node in picture.nodes if node.name == "node-1").cells == ("default/foreign",) * 8


async def test_many_changes_are_remembered_as_all(seen: Seen) -> None:
    """When more gangs changed than are remembered, all are looked at, and those that went are noticed."""
    pods = seen.muster.gang("a", 1)
    await seen.change()
    controller = seen.muster.controller
    controller.tell(PodGone(pods[0].uid))
    controller.tell(GroupGone(GroupRef(COSCHEDULING, "default", "a"), "a-uid"))
    refs = (GroupRef(COSCHEDULING, "default", str(number)) for number in range(20_000))
    seen.muster.controller.changed_gangs.note(refs)
    change = await seen.change()
    assert change is not None
    assert change.gone == ("default/a",)


async def test_two_readers_do_not_wait_for_each_other(seen: Seen) -> None:
    """Who asks while another is bringing the board up to date is answered from what there is."""
    seen.muster.gang("a", 1)
    first, second = seen.board.refresh(), seen.board.refresh()
    next(first)
    assert list(second) == []
    for _ in first:
        pass
    assert len(seen.board.picture().nodes) == 4
