"""Where a gang stands in line."""

from __future__ import annotations

from dataclasses import replace

from extender.admission.events import QueueSeen
from extender.cluster.gangs import Gang
from extender.explain.account import MOST_NAMED
from extender.explain.documents import QueuePosition
from extender.objects.keys import Options
from extender.objects.podgroup import GroupRef
from extender.objects.queue import Flavor, Queue, Quota, StopPolicy
from extender.objects.sources.table import LABEL
from tests.explain.conftest import explained
from tests.worlds import GPU, Job, World


def standing(world: World, gang: Job | Gang) -> QueuePosition:
    """Return where a gang stands."""
    return explained(world, gang).standing


def place(
    queue: str,
    position: int | None,
    of: int,
    ahead: tuple[GroupRef, ...] = (),
    own: tuple[int | None, int] | None = None,
) -> QueuePosition:
    """Return a place in line behind gangs; `own` is that in the line of its queue, where it differs."""
    return QueuePosition(queue or None, position, of, *(own or (position, of)), tuple(map(str, ahead)))


def stranger(world: World, name: str, *, priority: int = 0, created: str = "", queue: str = "") -> Gang:
    """Return a gang that nobody has heard of."""
    ref = GroupRef(LABEL, "default", name)
    options = Options(min_member=1, queue=queue)
    pod = world.pod(name, 8, group=ref, priority=priority, options=options, created=created)
    return Gang(ref, f"new-{name}", 0.0, None, {pod.uid: pod}, created)


def test_those_who_wait_for_nodes_stand_in_the_order_of_the_pass(world: World) -> None:
    """Higher priority first, then age; those that are nearest ahead are named."""
    jobs = [world.gang(f"gang-{index}", 1) for index in range(MOST_NAMED + 2)]
    urgent = world.gang("urgent", 1, priority=5)
    assert standing(world, urgent) == place("", 1, MOST_NAMED + 3)
    last = standing(world, jobs[-1])
    assert (last.position, last.of) == (MOST_NAMED + 3, MOST_NAMED + 3)
    assert last.ahead == tuple(str(job.ref) for job in jobs[1:-1])


def test_who_is_placed_or_waits_for_its_own_stands_nowhere(world: World) -> None:
    """It is not judged, and does not count for others."""
    world.nodes(1)
    placed, absent = world.gang("placed", 1), world.gang("absent", 1, min_member=2)
    waiting = world.gang("waiting", 1)
    assert standing(world, placed) == place("", None, 1)
    assert standing(world, absent) == place("", None, 1)
    assert standing(world, waiting) == place("", 1, 1)


def test_a_gang_of_another_scheduler_stands_nowhere(world: World) -> None:
    """Muster never tries it, though its members lack nodes; nor does it count for others."""
    world.nodes(1)
    foreign = world.gang("foreign", 2, scheduler_name="default-scheduler")
    waiting = world.gang("waiting", 2)
    assert standing(world, foreign) == place("", None, 1)
    assert standing(world, waiting) == place("", 1, 1)


def test_who_would_borrow_comes_after_all_who_would_not(world: World) -> None:
    """Though it is older, and so do those behind it in its queue."""
    for name, gpus in (("poor", 0), ("rich", 16)):
        flavors = (Flavor("all", {GPU: Quota(gpus)}),)
        world.tell(QueueSeen(Queue(name, uid=name, parent="all", flavors=flavors)))
    world.tell(QueueSeen(Queue("all", uid="all")))
    poor = world.gang("poor", 1, options=Options(queue="poor"))
    rich = world.gang("rich", 1, options=Options(queue="rich"))
    world.judge()
    assert standing(world, rich) == place("rich", 1, 2, own=(1, 1))
    assert standing(world, poor) == place("poor", 2, 2, (rich.ref,), own=(1, 1))


def test_a_stranger_stands_where_it_would_if_it_came_now(world: World) -> None:
    """Behind all who are older, unless it has a higher priority."""
    first, second = world.gang("first", 1, priority=5), world.gang("second", 1)
    newcomer = stranger(world, "newcomer")
    assert standing(world, newcomer) == place("", 3, 3, (first.ref, second.ref))
    assert standing(world, stranger(world, "higher", priority=3)) == place("", 2, 3, (first.ref,))
    assert standing(world, first) == place("", 1, 2)


def test_a_stranger_of_another_queue_stands_by_that_queues_turn(world: World) -> None:
    """A queue that uses less of its share comes first, whoever is older."""
    for name in ("busy", "idle"):
        flavors = (Flavor("all", {GPU: Quota(8)}),)
        world.tell(QueueSeen(Queue(name, uid=name, flavors=flavors, parent="all")))
    world.tell(QueueSeen(Queue("all", uid="all")))
    world.nodes(1)
    world.gang("runs", 1, options=Options(queue="busy")).run()
    waits = world.gang("waits", 1, options=Options(queue="busy"))
    world.judge()
    assert standing(world, stranger(world, "new", queue="idle")) == place("idle", 1, 2, own=(1, 1))
    assert standing(world, stranger(world, "late", queue="busy")) == place("busy", 2, 2, (waits.ref,))


def test_a_stranger_whose_queue_is_not_there_stands_nowhere(world: World) -> None:
    """Nobody would judge it."""
    world.gang("first", 1)
    assert standing(world, stranger(world, "new", queue="nobody")) == place("nobody", None, 1, own=(None, 0))


def test_a_stranger_that_would_borrow_comes_after_all_that_would_not(world: World) -> None:
    """Whatever the turn of its queue: so it would be judged."""
    for name, gpus in (("poor", 0), ("rich", 16)):
        flavors = (Flavor("all", {GPU: Quota(gpus)}),)
        world.tell(QueueSeen(Queue(name, uid=name, parent="all", flavors=flavors)))
    world.tell(QueueSeen(Queue("all", uid="all")))
    rich = world.gang("rich", 1, options=Options(queue="rich"))
    world.judge()
    assert standing(world, stranger(world, "new", queue="poor")) == place("poor", 2, 2, (rich.ref,), own=(1, 1))


def test_a_stranger_stands_in_the_line_of_a_stopped_queue(world: World) -> None:
    """As a gang that waits there does: it is considered as soon as the queue goes on."""
    flavors = (Flavor("all", {GPU: Quota(16)}),)
    world.tell(QueueSeen(Queue("team", uid="team", flavors=flavors, stop_policy=StopPolicy.HOLD)))
    first = world.gang("first", 1, options=Options(queue="team"))
    world.judge()
    assert standing(world, first) == place("team", 1, 1)
    assert standing(world, stranger(world, "new", queue="team")) == place("team", 2, 2, (first.ref,))


def test_a_namesake_is_a_stranger(world: World) -> None:
    """What is known of a gang does not count for another of its name."""
    first = world.gang("first", 1)
    twin = stranger(world, "twin")
    twin = replace(twin, ref=first.ref)
    assert standing(world, twin) == place("", 2, 2, (first.ref,))
