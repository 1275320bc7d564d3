"""How the work of one turn of the event loop grows, counted in calls: what `docs/stalls.md` says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from extender.admission.events import (
    Decide,
    Filter,
    GroupGone,
    NodeSeen,
    PodSeen,
    Prioritize,
    QueueSeen,
    Rebuild,
    StandDown,
)
from extender.explain.inquiry import inquire
from extender.explain.views import queue_reports
from extender.objects.podgroup import GroupRef
from extender.objects.queue import Queue
from extender.objects.sources.coscheduling import COSCHEDULING
from tests.counting import calls
from tests.worlds import Job, World

FEW, MANY = 50, 200
#: Work that is in proportion grows so much from few to many, and work that does not depend on the number so much.
PROPORTION, NOT_AT_ALL = 1.1 * MANY / FEW, 1.1


def come(world: World, count: int, gpus: int = 1) -> World:
    """Let a gang come that fits, and has not been judged yet."""
    ref = GroupRef(COSCHEDULING, "default", "gang")
    world.group(ref, count)
    for number in range(count):
        world.tell(PodSeen(world.pod(f"gang-{number}", gpus, group=ref)))
    return world


def members(count: int) -> World:
    """Return a world with room for a gang of so many members that comes."""
    world = World()
    world.nodes(MANY // 8 + 1)
    return come(world, count)


def placed(count: int) -> World:
    """Return one in which it has its nodes."""
    world = members(count)
    world.judge()
    return world


def nodes(count: int) -> World:
    """Return a world with so many nodes, of which four have GPUs, and a gang that comes."""
    world = World()
    world.nodes(count - 4, gpus=0)
    world.nodes(4, prefix="gpu")
    world.judge()
    return come(world, 4)


def free_nodes(count: int) -> World:
    """Return a world with so many nodes that are alike and free, and a gang that comes and needs four of them."""
    world = World()
    world.nodes(count)
    world.judge()
    return come(world, 4, gpus=8)


def gangs(count: int) -> World:
    """Return a full world in which so many gangs wait, no two alike."""
    world = World()
    world.nodes(4)
    world.gang("running", 4).run()
    for number in range(count):
        world.gang(f"waiting-{number}", 1 + number % 4, cpu=1000 + number)
    world.judge()
    return world


def differing(count: int, gpus: int = 8) -> tuple[World, Job]:
    """Return a full world in which so many pods wait, each of another size, and a gang that runs without GPUs."""
    world = World()
    world.nodes(4)
    world.gang("running", 4).run()
    other = world.gang("other", 1, gpus=0)
    other.run()
    for number in range(count):
        world.gang(f"waiting-{number}", 1, gpus, cpu=1000 + number)
    world.judge()
    return world, other


def unlike(count: int, gpus: int = 8) -> World:
    """Return one in which a pod comes that wants no GPU."""
    world, _ = differing(count, gpus)
    return come(world, 1, gpus=0)


def ending(count: int) -> World:
    """Return one in which another has ended since they were judged."""
    world, other = differing(count)
    other.finish()
    return come(world, 1, gpus=0)


def asked(world: World, question: type[Filter | Prioritize]) -> int:
    """Return the work of a question about a member with all nodes."""
    names = [node.name for node in world.state.nodes()]
    (pod, *_) = world.state.pods()
    return calls(lambda: world.tell(question(pod, names)))


def explained(world: World) -> int:
    """Return the work of gathering what an explanation rests on; the explanation itself has a thread."""
    (gang, *_) = (each for each in world.state.gangs() if each.ref.name == "gang")
    return calls(lambda: inquire(world.admission, gang, 0.0))


def gone(world: World) -> int:
    """Return the work of taking back all that was promised to a gang that is deleted."""
    (gang, *_) = world.state.reservations()
    return calls(lambda: world.tell(GroupGone(gang.ref, gang.gang_uid)))


def regrown(world: World) -> int:
    """Return the work of taking in a Queue."""
    return calls(lambda: world.tell(QueueSeen(Queue("queue", uid="queue"))))


def relabelled(world: World) -> int:
    """Return the work of a node that is in another rack now, and of the pass that follows."""
    (node, *_) = world.state.nodes()
    world.judge()
    world.tell(NodeSeen(replace(node, labels={"cloud.google.com/gce-topology-block": "b", **node.labels})))
    return calls(lambda: world.tell(Decide()))


WORLDS: dict[str, tuple[Callable[[int], World], Callable[[World], int], float]] = {
    "placing a gang, by members": (members, lambda world: calls(lambda: world.tell(Decide())), PROPORTION),
    "a gang that goes, by members": (placed, gone, PROPORTION),
    "standing down, by reservations": (placed, lambda world: calls(lambda: world.tell(StandDown())), PROPORTION),
    "taking up, by gangs": (gangs, lambda world: calls(lambda: world.tell(Rebuild())), PROPORTION),
    "statuses of Queues, by gangs": (
        gangs,
        lambda world: calls(lambda: list(queue_reports(world.admission))),
        PROPORTION,
    ),
    "placing a gang, by nodes": (nodes, lambda world: calls(lambda: world.tell(Decide())), NOT_AT_ALL),
    "placing a gang, by free nodes": (free_nodes, lambda world: calls(lambda: world.tell(Decide())), NOT_AT_ALL),
    "placing a gang, by gangs that differ": (unlike, lambda world: calls(lambda: world.tell(Decide())), NOT_AT_ALL),
    "placing a gang as a pod ends, by gangs that differ": (
        ending,
        lambda world: calls(lambda: world.tell(Decide())),
        NOT_AT_ALL,
    ),
    "placing a gang, by gangs that are too large": (
        lambda count: unlike(count, gpus=9),
        lambda world: calls(lambda: world.tell(Decide())),
        NOT_AT_ALL,
    ),
    "filter, by nodes": (nodes, lambda world: asked(world, Filter), NOT_AT_ALL),
    "prioritize, by nodes": (nodes, lambda world: asked(world, Prioritize), NOT_AT_ALL),
    "gathering for an explanation, by nodes": (nodes, explained, NOT_AT_ALL),
}


@pytest.mark.parametrize("what", WORLDS)
def test_a_turn_grows_no_faster_than_what_it_is_about(what: str) -> None:
    """Four times as many are at most four times the work, and where nothing is done for each, none more."""
    make, work, most = WORLDS[what]
    few, many = work(make(FEW)), work(make(MANY))
    assert many <= most * few


def test_what_ends_is_asked_of_those_that_say_so() -> None:
    """Of gangs that run and have not said for how long, their members are not looked at for the gang at the head."""

    def work(size: int) -> int:
        world = World()
        world.nodes(2 * size)
        for number in range(10):
            world.gang(f"running-{number}", size // 10, gpus=8).run()
        world.gang("blocker", size, gpus=8).run()
        world.gang("head", 4)
        world.judge()
        world.tell(PodSeen(world.pod("other", 0, node_name="node-0")))
        return calls(lambda: world.tell(Decide()))

    assert work(MANY) <= NOT_AT_ALL * work(FEW)


def test_a_pass_searches_for_victims_a_few_times_at_most() -> None:
    """The other gangs that might evict others are judged again when there is time for a search."""
    world = World()
    world.nodes(4)
    world.gang("low", 4, gpus=8).run()
    for number in range(20):
        ref = GroupRef(COSCHEDULING, "default", f"high-{number}")
        world.group(ref, 2)
        for member in range(2):
            world.tell(PodSeen(world.pod(f"high-{number}-{member}", 8, cpu=60_000 + number, group=ref, priority=5)))
    assert 0 < calls(lambda: world.tell(Decide()), "find_evictions") <= 4
