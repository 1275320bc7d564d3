"""Labels that are changed while pods run: they make no room for others, and take none from another team."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.admission.events import GroupSeen, NamespaceSeen, QueueSeen
from extender.objects.keys import GROUP, USER, Options
from extender.objects.meta import LabelSelector, Requirement
from extender.objects.queue import Flavor, Queue, Quota, RunningLimit
from tests.worlds import GPU, Job, World


@pytest.fixture
def world() -> World:
    """Return eight nodes, a Queue `team` with quota for two, and one of the same size that takes other namespaces."""
    world = World()
    world.nodes(8)
    world.tell(NamespaceSeen("default", {"team": "a"}))
    flavors = (Flavor("all", {GPU: Quota(16)}),)
    others = LabelSelector((Requirement("team", "In", ("b",)),))
    world.tell(QueueSeen(Queue("team", "q1", flavors=flavors)))
    world.tell(QueueSeen(Queue("others", "q2", flavors=flavors, namespaces=others)))
    world.tell(QueueSeen(Queue("second", "q3", flavors=flavors)))
    world.judge()
    return world


def running(world: World, name: str, queue: str) -> Job:
    """Return a gang of two whole nodes that runs in a queue."""
    job = world.gang(name, 2, group={"options": Options(queue=queue)})
    world.judge()
    job.run()
    return job


def move(world: World, job: Job, queue: str) -> None:
    """Let the PodGroup of a gang name another queue."""
    gang = world.state.gang(job.ref)
    assert gang is not None
    assert gang.group is not None
    world.tell(GroupSeen(replace(gang.group, options=Options(queue=queue))))
    world.judge()


@pytest.mark.parametrize("queue", ["", "no-such", "others"])
def test_what_runs_stays_where_it_is_charged(world: World, queue: str) -> None:
    """Out of every Queue, into none that exists, or into another team's: the quota is taken all the same."""
    first = running(world, "first", "team")
    move(world, first, queue)
    assert world.state.used("team", "all", GPU) == 16
    second = world.gang("second", 2, group={"options": Options(queue="team")})
    world.later(3600)
    assert not second.reserved
    assert world.state.used("others", "all", GPU) == 0


def test_it_may_go_where_it_could_start(world: World) -> None:
    """To a Queue that takes its namespace; there it is charged from then on."""
    first = running(world, "first", "team")
    move(world, first, "second")
    assert world.state.used("second", "all", GPU) == 16
    running(world, "next", "team")
    assert world.state.used("team", "all", GPU) == 16


def test_what_waits_is_where_it_says(world: World) -> None:
    """It holds nothing, so nothing is kept of where it was before."""
    waiting = world.gang("large", 5, group={"options": Options(queue="team")})
    move(world, waiting, "no-such")
    assert world.state.used("team", "all", GPU) == 0


def test_who_pays_stays(world: World) -> None:
    """Another's name on pods that run makes no room under the limit of the user who started them."""
    flavors = (Flavor("all", {GPU: Quota(64)}),)
    limits = (RunningLimit(USER, gpus=16),)
    world.tell(QueueSeen(Queue("team", "q1", flavors=flavors, limits=limits)))
    first = world.gang("first", 2, labels={USER: "ann", GROUP: ""}, group={"options": Options(queue="team")})
    world.judge()
    first.run()
    for index in range(2):
        first.see(index, labels={USER: "bob"})
    world.judge()
    second = world.gang("second", 2, labels={USER: "ann"}, group={"options": Options(queue="team")})
    world.judge()
    assert not second.reserved
    third = world.gang("third", 2, labels={USER: "bob"}, group={"options": Options(queue="team")})
    world.judge()
    assert third.reserved
