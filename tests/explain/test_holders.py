"""Who holds what a gang needs, and until when."""

from __future__ import annotations

import pytest

from extender.admission.events import GroupGone, PodGone, QueueSeen
from extender.explain.account import MOST_HOLDERS, explain_gang, name_holders
from extender.explain.documents import HolderRow
from extender.explain.inquiry import inquire
from extender.objects.keys import Options
from extender.objects.meta import time_text
from extender.objects.pod import Phase
from extender.objects.queue import Queue
from tests.explain.conftest import asking, explained, racked, take
from tests.worlds import Job, World


def running(world: World, name: str, members: int, gpus: int = 8, **fields: object) -> Job:
    """Return a gang that runs since now."""
    job = world.gang(name, members, gpus, **{"priority": 3, **fields})  # type: ignore[arg-type]  # fields of Pod
    job.run()
    for index, _ in enumerate(job.pods):
        job.see(index, started_at=world.clock.now().timestamp())
    return job


def test_gangs_are_named_with_what_they_hold_and_when_they_end(world: World) -> None:
    """The one that holds most first; who has not said how long it runs has no end."""
    world.nodes(3)
    world.tell(QueueSeen(Queue("team", uid="team")))
    now = world.clock.now().timestamp()
    running(world, "large", 2, options=Options(expected_duration=600.0))
    running(world, "small", 1, 4, options=Options(queue="team"))
    assert explained(world, world.gang("train", 3)).holders == (
        HolderRow("default/large", 16, 2, 3, None, time_text(now + 600), overdue=False),
        HolderRow("default/small", 4, 1, 3, "team", None, overdue=False),
    )


def test_who_should_have_ended_is_overdue(world: World) -> None:
    """A while longer, as starts are worked out; nobody knows any more of what has run for days beyond its time."""
    world.nodes(1)
    running(world, "old", 1, options=Options(expected_duration=600.0))
    job = world.gang("train", 1)
    began = world.clock.now().timestamp()
    world.later(620)
    (holder,) = explained(world, job).holders
    assert (holder.ends_at, holder.overdue) == (time_text(began + 660), True)
    world.later(10_000_000)
    (holder,) = explained(world, job).holders
    assert (holder.ends_at, holder.overdue) == (None, True)


@pytest.mark.parametrize("scheduler", ["muster", "default-scheduler"])
def test_pods_without_gang_are_named_themselves(world: World, scheduler: str) -> None:
    """Those of other schedulers too, which end at their deadline if they have one."""
    world.nodes(1)
    now = world.clock.now().timestamp()
    take(world, "node-0", 8, scheduler_name=scheduler, started_at=now, active_deadline=60.0, phase=Phase.RUNNING)
    assert explained(world, world.gang("train", 1)).holders == (
        HolderRow("default/on-node-0", 8, 1, 0, None, time_text(now + 60), overdue=False),
    )


def test_only_those_in_the_nearest_miss_count_and_not_the_gang_itself() -> None:
    """Nor those that hold nothing of what is short."""
    world = racked(2, 2)
    running(world, "filler", 1, 8)
    busy = next(pod.node_name for pod in world.state.pods())
    rack = busy.partition("-")[0]
    other = next(f"r{index}" for index in range(2) if f"r{index}" != rack)
    take(world, f"{other}-0", 8)
    take(world, f"{other}-1", 8)
    take(world, f"{rack}-0" if busy != f"{rack}-0" else f"{rack}-1", 0)
    (holder,) = explained(world, asking(world, "train", 2, required="rack")).holders
    assert (holder.gang, holder.gpus) == ("default/filler", 8)


def test_who_is_promised_a_node_holds_it(world: World) -> None:
    """Nothing runs there yet."""
    world.nodes(2)
    world.gang("placed", 2)
    (holder,) = explained(world, world.gang("train", 1)).holders
    assert (holder.gang, holder.gpus, holder.nodes) == ("default/placed", 16, 2)


def test_there_are_so_many_at_most(world: World) -> None:
    """Those who hold most."""
    for index, name in enumerate(world.nodes(MOST_HOLDERS + 5)):
        take(world, name, 1 + index % 8)
    holders = explained(world, world.gang("train", MOST_HOLDERS + 5)).holders
    assert len(holders) == MOST_HOLDERS
    assert [holder.gpus for holder in holders] == sorted((holder.gpus for holder in holders), reverse=True)


def test_who_is_gone_meanwhile_is_left_out(world: World) -> None:
    """Between the copy and the answer pods and gangs may end."""
    world.nodes(2)
    uid = take(world, "node-0", 8)
    filler = running(world, "filler", 1)
    account = explain_gang(inquire(world.admission, world.gang("train", 2).gang, world.now))
    assert len(account.holdings) == 2
    world.tell(PodGone(uid))
    world.tell(GroupGone(filler.ref, filler.gang.uid))
    world.tell(PodGone(filler.pods[0].uid))
    assert name_holders(world.admission, account, world.now).holders == ()
