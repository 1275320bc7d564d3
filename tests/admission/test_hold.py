"""Gangs that are held: `muster.dev/hold` on what describes them, or on a member."""

from __future__ import annotations

from dataclasses import replace

from extender.admission.events import GroupSeen, PodSeen
from extender.objects.keys import NO_OPTIONS, Options
from extender.objects.reason import Reason
from tests.worlds import World

HELD = Options(hold=True)


def test_a_held_gang_is_not_started_and_holds_up_no_other() -> None:
    """Nothing is kept for it; once it is released it is placed."""
    world = World()
    world.nodes(1, gpus=8)
    group = {"options": HELD}
    first = world.gang("first", 1, 8, group=group)
    second = world.gang("second", 1, 8)
    assert (first.reason, bool(first.reserved)) == (Reason.HELD, False)
    assert second.reserved
    second.run()
    second.finish()
    assert first.reason is Reason.HELD
    assert first.gang.group is not None
    world.tell(GroupSeen(replace(first.gang.group, options=NO_OPTIONS)))
    world.judge()
    assert first.reserved


def test_what_runs_goes_on_and_takes_no_more() -> None:
    """A member beyond the minimum is not started while the gang is held, and is when it is released."""
    world = World()
    world.nodes(1, gpus=4)
    job = world.gang("train", 2, 1)
    job.run()
    assert job.gang.group is not None
    free = job.gang.group
    world.tell(GroupSeen(replace(free, options=HELD)))
    extra = replace(world.pod("train-9", 1), group=job.ref)
    world.tell(PodSeen(extra))
    world.judge()
    assert job.reason is None
    assert not job.reserved
    world.tell(GroupSeen(free))
    world.judge()
    assert list(job.reserved) == ["train-9"]


def test_a_place_that_is_only_reserved_is_given_back() -> None:
    """A gang that is held while it starts does not start."""
    world = World()
    world.nodes(1, gpus=4)
    job = world.gang("train", 2, 1)
    assert job.reserved
    assert job.gang.group is not None
    world.tell(GroupSeen(replace(job.gang.group, options=HELD)))
    world.judge()
    assert (job.reason, job.reserved) == (Reason.HELD, {})


def test_a_pod_without_a_group_is_held_by_its_own_annotation() -> None:
    """So is a gang by any of its members."""
    world = World()
    world.nodes(1, gpus=4)
    pod = replace(world.pod("notebook", 1), options=HELD)
    world.tell(PodSeen(pod))
    job = world.gang("train", 2, 1)
    world.tell(PodSeen(replace(job.pods[1], options=HELD)))
    world.judge()
    assert job.reason is Reason.HELD
    assert "is held" in str(world.ask(pod, "node-0"))
