"""What explanations rest on: copies that stay as they are, taken without a trace."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np

from extender.admission.explaining.account import explain_gang
from extender.admission.explaining.material import gather
from extender.admission.explaining.scene import Scene
from extender.admission.site import Capacity
from extender.cluster.gangs import Gang
from extender.domain.keys import Options
from extender.domain.queue import Flavor, Queue, Quota
from extender.domain.reason import Reason
from tests.admission.conftest import GPU, World
from tests.admission.explaining.conftest import asking, racked, take


def digest(world: World) -> tuple[object, ...]:
    """Return what an explanation could have changed."""
    table, admission = world.admission.model.table, world.admission
    return (
        table.generation,
        table.used.tobytes(),
        dict(admission.reservations.waits),
        [(each.gang_uid, sorted(each.slots)) for each in admission.reservations.ledger],
        {uid: table.claim_of(uid) for uid in admission.model.pods},
        len(admission.term.decider.queues),
        admission.heads,
    )


def test_nothing_is_changed_by_asking() -> None:
    """Not what is claimed, not what anybody waits for, and the next pass decides as it would have."""
    world = racked(2, 2)
    take(world, "r0-0", 8)
    jobs = [asking(world, "placed", 1), asking(world, "wide", 2, required="rack"), world.gang("wait", 3)]
    before = digest(world)
    for job in jobs:
        explain_gang(Scene(gather(world.admission, job.gang)))
    assert digest(world) == before
    assert not world.admission.pending


def test_the_copy_stays_as_it_was(world: World) -> None:
    """Whatever happens between the question and the answer."""
    world.nodes(2)
    job = world.gang("train", 3)
    material = gather(world.admission, job.gang)
    take(world, "node-0", 8)
    world.admission.node_gone("node-1")
    job.see(0, deleting=True)
    scene = Scene(material)
    (fall,) = explain_gang(scene).waterfalls
    assert (fall.nodes, fall.usable, fall.fits, fall.pods) == (2, 2, 2, 3)
    assert scene.gang.census().placeable == 3


def test_what_is_tried_on_a_scene_stays_there(world: World) -> None:
    """Claims on the copy are nobody else's."""
    world.nodes(1)
    job = world.gang("train", 2)
    scene = Scene(gather(world.admission, job.gang))
    scene.table.claim(job.pods[0].uid, "node-0", job.pods[0].shape)
    assert np.array_equal(scene.table.free()[:, 0], world.admission.model.table.free()[:, 0]) is False
    assert world.admission.model.table.claim_of(job.pods[0].uid) is None


def test_a_scene_is_gone_as_soon_as_nobody_holds_it(world: World) -> None:
    """It does not wait for the collector of cycles, which comes hardly ever: a scene is megabytes."""
    world.nodes(2)
    world.gang("placed", 1)
    job = asking(world, "train", 2)
    explain_gang(Scene(gather(world.admission, job.gang)))
    gc.collect()
    gc.disable()
    try:
        explain_gang(Scene(gather(world.admission, job.gang)))
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        assert [each for each in gc.garbage if isinstance(each, np.ndarray | Scene)] == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_what_is_remembered_of_a_gang_does_not_count_for_its_namesake(world: World) -> None:
    """Neither refusals, nor reservations, nor that it runs in its queue already."""
    flavors = (Flavor("all", {GPU: Quota(32)}),)
    world.admission.queue_seen(Queue("team", uid="team", flavors=flavors, max_running_gangs=1))
    world.nodes(3)
    job = world.gang("train", 2, options=Options(queue="team"))
    entry = world.admission.reservations.ledger.of_pod(job.pods[0].uid)
    assert entry is not None
    world.admission.refused(*entry)
    world.judge()
    own = gather(world.admission, job.gang)
    pod = replace(job.pods[0], uid="other")
    namesake = gather(world.admission, Gang(job.ref, "new", 0.0, job.gang.group, {pod.uid: pod}))
    assert (bool(own.vetoed), own.unusable, len(own.promised), own.reserved) == (True, None, 2, ())
    assert (bool(namesake.vetoed), len(namesake.promised), len(namesake.reserved)) == (False, 0, 1)
    assert namesake.unusable is not None
    assert namesake.unusable.reason is Reason.TOO_MANY_RUNNING


def test_what_is_kept_is_kept_from_those_behind(world: World) -> None:
    """Not from the head itself, not from what ends before, not from a stranger of higher priority."""
    world.nodes(3)
    world.gang("runs", 1, priority=9).run()
    head = world.gang("head", 3, priority=1)
    behind = world.gang("behind", 1)
    world.judge()
    (keep,) = gather(world.admission, behind.gang).keeps
    assert keep.gang is head.gang
    assert gather(world.admission, head.gang).keeps == ()
    pod = world.pod("new", 8, group=replace(behind.ref, name="new"), priority=2, options=Options(min_member=1))
    assert pod.group is not None
    newcomer = Gang(pod.group, "new", 0.0, None, {pod.uid: pod})
    assert gather(world.admission, newcomer).keeps == ()


def test_what_is_being_cleared_for_a_gang_is_its_own(world: World) -> None:
    """Others find it kept."""
    world.nodes(1)
    world.gang("low", 1, priority=1).run()
    high, later = world.gang("high", 1, priority=5), world.gang("later", 1)
    world.judge()
    assert high.reason is Reason.PREEMPTING
    assert gather(world.admission, high.gang).keeps == ()
    assert [keep.firm for keep in gather(world.admission, later.gang).keeps] == [True]


def test_the_flavor_with_quota_is_the_one_explained(world: World) -> None:
    """Else one that may have some later."""
    world.nodes(2)
    flavors = (Flavor("never", {GPU: Quota(0)}), Flavor("later", {GPU: Quota(8)}), Flavor("now", {GPU: Quota(16)}))
    world.admission.queue_seen(Queue("team", uid="team", flavors=flavors))
    job = world.gang("train", 2, options=Options(queue="team"))
    job.run()
    more = world.gang("more", 1, options=Options(queue="team"))
    scene = Scene(gather(world.admission, more.gang))
    assert [offered.option.flavor for offered in scene.material.options] == ["never", "later", "now"]
    assert scene.option.flavor == "later"
    assert scene.site(scene.option).snapshot(Capacity.FREE).free.shape[1] == 2
