"""Where a gang stands in line."""

from __future__ import annotations

from dataclasses import replace

from extender.admission.explaining.standing import MOST_NAMED, Standing
from extender.cluster.gangs import Gang
from extender.domain.keys import Options
from extender.domain.membership import GroupApi, GroupRef
from extender.domain.queue import Flavor, Queue, Quota
from tests.admission.conftest import GPU, Job, World
from tests.admission.explaining.conftest import explained


def standing(world: World, gang: Job | Gang) -> Standing:
    """Return where a gang stands."""
    return explained(world, gang).standing


def stranger(world: World, name: str, *, priority: int = 0, created: str = "", queue: str = "") -> Gang:
    """Return a gang that nobody has heard of."""
    ref = GroupRef(GroupApi.LABEL, "default", name)
    options = Options(min_member=1, queue=queue)
    pod = world.pod(name, 8, group=ref, priority=priority, options=options, created=created)
    return Gang(ref, f"new-{name}", 0.0, None, {pod.uid: pod}, created)


def test_those_who_wait_for_nodes_stand_in_the_order_of_the_pass(world: World) -> None:
    """Higher priority first, then age; those that are nearest ahead are named."""
    jobs = [world.gang(f"gang-{index}", 1) for index in range(MOST_NAMED + 2)]
    urgent = world.gang("urgent", 1, priority=5)
    assert standing(world, urgent) == Standing("", 1, MOST_NAMED + 3)
    last = standing(world, jobs[-1])
    assert (last.position, last.of) == (MOST_NAMED + 3, MOST_NAMED + 3)
    assert last.ahead == tuple(job.ref for job in jobs[1:-1])


def test_who_is_placed_or_waits_for_its_own_stands_nowhere(world: World) -> None:
    """It is not judged, and does not count for others."""
    world.nodes(1)
    placed, absent = world.gang("placed", 1), world.gang("absent", 1, min_member=2)
    waiting = world.gang("waiting", 1)
    assert standing(world, placed) == Standing("", None, 1)
    assert standing(world, absent) == Standing("", None, 1)
    assert standing(world, waiting) == Standing("", 1, 1)


def test_who_would_borrow_comes_after_all_who_would_not(world: World) -> None:
    """Though it is older, and so do those behind it in its queue."""
    for name, gpus in (("poor", 0), ("rich", 16)):
        flavors = (Flavor("all", {GPU: Quota(gpus)}),)
        world.admission.queue_seen(Queue(name, uid=name, parent="all", flavors=flavors))
    world.admission.queue_seen(Queue("all", uid="all"))
    poor = world.gang("poor", 1, options=Options(queue="poor"))
    rich = world.gang("rich", 1, options=Options(queue="rich"))
    world.judge()
    assert standing(world, rich) == Standing("rich", 1, 2)
    assert standing(world, poor) == Standing("poor", 2, 2, (rich.ref,))


def test_a_stranger_stands_where_it_would_if_it_came_now(world: World) -> None:
    """Behind all who are older, unless it has a higher priority."""
    first, second = world.gang("first", 1, priority=5), world.gang("second", 1)
    newcomer = stranger(world, "newcomer")
    assert standing(world, newcomer) == Standing("", 3, 3, (first.ref, second.ref))
    assert standing(world, stranger(world, "higher", priority=3)) == Standing("", 2, 3, (first.ref,))
    assert standing(world, first) == Standing("", 1, 2)


def test_a_stranger_of_another_queue_stands_by_that_queues_turn(world: World) -> None:
    """A queue that uses less of its share comes first, whoever is older."""
    for name in ("busy", "idle"):
        flavors = (Flavor("all", {GPU: Quota(8)}),)
        world.admission.queue_seen(Queue(name, uid=name, flavors=flavors, parent="all"))
    world.admission.queue_seen(Queue("all", uid="all"))
    world.nodes(1)
    world.gang("runs", 1, options=Options(queue="busy")).run()
    waits = world.gang("waits", 1, options=Options(queue="busy"))
    world.judge()
    assert standing(world, stranger(world, "new", queue="idle")) == Standing("idle", 1, 2)
    assert standing(world, stranger(world, "late", queue="busy")) == Standing("busy", 2, 2, (waits.ref,))


def test_a_stranger_whose_queue_is_not_there_stands_nowhere(world: World) -> None:
    """Nobody would judge it."""
    world.gang("first", 1)
    assert standing(world, stranger(world, "new", queue="nobody")) == Standing("nobody", None, 1)


def test_a_namesake_is_a_stranger(world: World) -> None:
    """What is known of a gang does not count for another of its name."""
    first = world.gang("first", 1)
    twin = stranger(world, "twin")
    twin = replace(twin, ref=first.ref)
    assert standing(world, twin) == Standing("", 2, 2, (first.ref,))
