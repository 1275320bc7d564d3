"""What explanations rest on: copies that stay as they are, taken without a trace."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
from msgspec import structs

from extender.admission.events import NodeGone, QueueSeen
from extender.cluster.gangs import Gang
from extender.explain.account import explain_gang
from extender.explain.inquiry import Inquiry, inquire
from extender.objects.keys import Options
from extender.objects.queue import Flavor, Queue, Quota
from extender.objects.reason import Reason
from extender.placement.capacityview import Capacity
from tests.explain.conftest import asking, racked, take
from tests.worlds import GPU, World


def test_nothing_is_changed_by_asking() -> None:
    """Not what is claimed, not what anybody waits for, and the next pass decides as it would have."""
    world = racked(2, 2)
    take(world, "r0-0", 8)
    jobs = [asking(world, "placed", 1), asking(world, "wide", 2, required="rack"), world.gang("wait", 3)]
    before = world.state.everything()
    for job in jobs:
        explain_gang(inquire(world.admission, job.gang, world.now))
    assert world.state.everything() == before
    assert not world.admission.pending


def test_the_copy_stays_as_it_was(world: World) -> None:
    """Whatever happens between the question and the answer."""
    world.nodes(2)
    job = world.gang("train", 3)
    inquiry = inquire(world.admission, job.gang, world.now)
    take(world, "node-0", 8)
    world.tell(NodeGone("node-1"))
    job.see(0, deleting=True)
    (fall,) = explain_gang(inquiry).waterfalls
    assert (fall.nodes, fall.usable, fall.fits, fall.pods) == (2, 2, 2, 3)
    assert inquiry.gang.census().placeable == 3


def test_what_is_tried_on_a_copy_stays_there(world: World) -> None:
    """Claims on the copy are nobody else's."""
    world.nodes(1)
    job = world.gang("train", 2)
    inquiry = inquire(world.admission, job.gang, world.now)
    inquiry.table.claim(job.pods[0].uid, "node-0", job.pods[0].shape)
    assert np.array_equal(inquiry.table.free()[:, 0], world.state.free()[:, 0]) is False
    assert not world.state.has_room(job.pods[0])


def test_a_copy_is_gone_as_soon_as_it_is_let_go(world: World) -> None:
    """It does not wait for the collector of cycles, which comes hardly ever: a copy is megabytes."""
    world.nodes(2)
    world.gang("placed", 1)
    job = asking(world, "train", 2)
    explain_gang(inquire(world.admission, job.gang, world.now))
    gc.collect()
    gc.disable()
    try:
        explain_gang(inquire(world.admission, job.gang, world.now))
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        assert [each for each in gc.garbage if isinstance(each, np.ndarray | Inquiry)] == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_what_is_remembered_of_a_gang_does_not_count_for_its_namesake(world: World) -> None:
    """Neither refusals, nor reservations, nor that it runs in its queue already."""
    flavors = (Flavor("all", {GPU: Quota(32)}),)
    world.tell(QueueSeen(Queue("team", uid="team", flavors=flavors, max_running_gangs=1)))
    world.nodes(3)
    job = world.gang("train", 2, options=Options(queue="team"))
    world.refuse(job.pods[0])
    world.judge()
    own = inquire(world.admission, job.gang, world.now)
    pod = replace(job.pods[0], uid="other")
    namesake = inquire(world.admission, Gang(job.ref, "new", 0.0, job.gang.group, {pod.uid: pod}), world.now)
    assert (bool(own.case.refused), own.case.obstacle, len(own.promised), own.reserved) == (True, None, 2, ())
    assert (bool(namesake.case.refused), len(namesake.promised), len(namesake.reserved)) == (False, 0, 1)
    assert namesake.case.obstacle is not None
    assert namesake.case.obstacle.reason is Reason.TOO_MANY_RUNNING


def test_what_is_kept_is_kept_from_those_behind(world: World) -> None:
    """Not from the head itself, not from what ends before, not from a stranger of higher priority."""
    world.nodes(3)
    world.gang("runs", 1, priority=9).run()
    head = world.gang("head", 3, priority=1)
    behind = world.gang("behind", 1)
    world.judge()
    (keep,) = inquire(world.admission, behind.gang, world.now).case.earmarks
    assert keep.gang is head.gang
    assert not inquire(world.admission, head.gang, world.now).case.earmarks
    pod = world.pod("new", 8, group=structs.replace(behind.ref, name="new"), priority=2, options=Options(min_member=1))
    assert pod.group is not None
    newcomer = Gang(pod.group, "new", 0.0, None, {pod.uid: pod})
    assert not inquire(world.admission, newcomer, world.now).case.earmarks


def test_what_is_being_cleared_for_a_gang_is_its_own(world: World) -> None:
    """Others find it kept."""
    world.nodes(1)
    world.gang("low", 1, priority=1).run()
    high, later = world.gang("high", 1, priority=5), world.gang("later", 1)
    world.judge()
    assert high.reason is Reason.PREEMPTING
    assert not inquire(world.admission, high.gang, world.now).case.earmarks
    assert [keep.firm for keep in inquire(world.admission, later.gang, world.now).case.earmarks] == [True]


def test_the_flavor_with_quota_is_the_one_explained(world: World) -> None:
    """Else one that may have some later."""
    world.nodes(2)
    flavors = (Flavor("never", {GPU: Quota(0)}), Flavor("later", {GPU: Quota(8)}), Flavor("now", {GPU: Quota(16)}))
    world.tell(QueueSeen(Queue("team", uid="team", flavors=flavors)))
    job = world.gang("train", 2, options=Options(queue="team"))
    job.run()
    more = world.gang("more", 1, options=Options(queue="team"))
    inquiry = inquire(world.admission, more.gang, world.now)
    assert [offer.option.flavor for offer in inquiry.case.offers] == ["never", "later", "now"]
    assert inquiry.option.flavor == "later"
    assert inquiry.case.view(inquiry.option).snapshot(Capacity.FREE).free.shape[1] == 2
