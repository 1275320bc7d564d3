"""Gangs that are alike: one of them is judged, and all are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.admission.events import Decide, NodeSeen, PodGone, PodSeen
from extender.objects.keys import Options
from extender.objects.meta import Selector
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef
from extender.objects.queue import QueueingStrategy
from extender.objects.reason import Reason, Wait
from extender.objects.sources.coscheduling import COSCHEDULING
from tests.counting import calls
from tests.queues.test_sharing import queue, tell
from tests.worlds import Job, TickingClock, World


def crowded(world: World, *, count: int = 10, gpus: int = 8, **pod: Any) -> list[Job]:
    """Let one gang take all four nodes, and others wait that are alike; return these."""
    world.nodes(4)
    world.gang("running", 4).run()
    return [world.gang(f"crowd-{index}", 1, gpus, **pod) for index in range(count)]


def judged(world: World) -> int:
    """Count the gangs that are judged in a pass for that a node has changed."""
    node = world.state.nodes()[0]
    world.tell(NodeSeen(replace(node, labels={**node.labels, "changed": str(world.now)})))
    return calls(lambda: world.tell(Decide()), "_judged")


def test_one_of_a_kind_is_judged() -> None:
    """Room is kept for the first, the second speaks for all that are behind it; each says why it waits."""
    world = World()
    crowd = crowded(world)
    assert judged(world) == 2
    assert {each.reason for each in crowd} == {Reason.INSUFFICIENT_CAPACITY}


def test_who_comes_later_is_told_what_the_others_were() -> None:
    """A newcomer of a kind that was judged is not judged itself, and says why it waits."""
    world = World()
    crowd = crowded(world)
    job = Job(world, GroupRef(COSCHEDULING, "default", "new"))
    world.group(job.ref, 1)
    world.tell(PodSeen(world.pod("new-0", 8, group=job.ref)))
    assert calls(lambda: world.tell(Decide()), "_judged") == 0
    assert job.wait == crowd[-1].wait is not None


def test_each_names_its_own_pod() -> None:
    """Where no node admits what they ask for, each says so of its own pod."""
    world = World()
    crowd = crowded(world, shape=replace(world.pod("x", 8).shape, selector=Selector(equals=(("zone", "none"),))))
    assert [each.wait.names["unplaceable"] for each in crowd if each.wait is not None] == [
        f"default/crowd-{index}-0" for index in range(10)
    ]


def test_they_start_in_their_order_when_room_comes() -> None:
    """Of ten that wait the oldest three have room on three new nodes; the others say why they wait."""
    world = World()
    crowd = crowded(world)
    world.nodes(3, prefix="new")
    world.judge()
    assert [bool(each.reserved) for each in crowd] == [True] * 3 + [False] * 7
    assert {each.reason for each in crowd[3:]} == {Reason.INSUFFICIENT_CAPACITY}


def test_the_first_in_a_strict_queue_holds_up_the_others() -> None:
    """Each time anew: those behind it wait for it, and not for room."""
    world = World()
    tell(world, queue("strict", 64, strategy=QueueingStrategy.STRICT_FIFO))
    crowd = crowded(world, options=Options(queue="strict"))
    for _ in range(3):
        judged(world)
        assert [each.reason for each in crowd] == [Reason.INSUFFICIENT_CAPACITY] + [Reason.BEHIND_IN_QUEUE] * 9


def test_who_was_refused_a_node_is_like_no_other() -> None:
    """A gang that kube-scheduler refused a node is judged for itself, and has that node no more."""
    world = World()
    crowd = crowded(world)
    node = world.nodes(1, prefix="new")[0]
    world.judge()
    world.refuse(crowd[0].pods[0])
    world.judge()
    assert [each.reserved for each in crowd[:2]] == [{}, {"crowd-1-0": node}]
    assert crowd[0].reason is Reason.REFUSED_BY_SCHEDULER
    assert {each.reason for each in crowd[2:]} == {Reason.INSUFFICIENT_CAPACITY}


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_what_ends_in_time_is_another_kind(seconds: float | None) -> None:
    """Who says how long it runs may use what is kept for others until then, and those that do not say may not."""
    world = World()
    crowd = crowded(world, count=2)
    options = Options(expected_duration=seconds)
    short = world.gang("short", 1, 8, options=options)
    kinds = world.state.kinds(*(each.ref for each in (*crowd, short)))
    assert len(set(kinds)) == (1 if seconds is None else 2)


class TestTelling:
    """Those behind the first of their kind are told in steps, after all has been decided."""

    @staticmethod
    def world() -> tuple[World, list[Pod]]:
        """Return a world whose clock ends each step at the first look, and pods of which some are not told yet."""
        world = World(TickingClock())
        crowded(world, count=1)
        pods = [world.pod(f"single-{index}", 8) for index in range(200)]
        for each in pods:
            world.tell(PodSeen(each))
        for _ in range(100):
            world.tell(Decide())
            if world.state.is_telling:
                return world, pods
        raise AssertionError

    @staticmethod
    def wait(world: World, pod: Pod) -> Wait | None:
        """Return why a single pod waits."""
        return world.state.waits().get(f"pod:{pod.uid}")

    def test_a_newcomer_goes_first(self) -> None:
        """What comes while they are told has its place before the last of them has its reason."""
        world, pods = self.world()
        newcomer = world.pod("newcomer")
        world.tell(PodSeen(newcomer))
        while world.state.slot(newcomer) is None:
            assert world.tell(Decide())
        assert self.wait(world, pods[-1]) is None
        world.judge()
        (same,) = {str(self.wait(world, each)) for each in pods}
        assert Reason.INSUFFICIENT_CAPACITY in same

    def test_who_is_gone_is_not_told(self) -> None:
        """A pod that goes while others are told has no reason afterwards."""
        world, pods = self.world()
        world.tell(PodGone(pods[-1].uid))
        world.judge()
        assert self.wait(world, pods[-1]) is None
        assert self.wait(world, pods[-2]) is not None
