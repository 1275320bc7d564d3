"""A gang has no more members on nodes at a time than `muster.dev/max-member` says."""

from __future__ import annotations

from typing import Any

import pytest

from extender.admission.events import PodGone
from extender.explain.documents import WaitReason
from extender.explain.explanation import Inspection, explanation
from extender.objects.keys import MAX_MEMBER, MIN_MEMBER, Options, read_options
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.reason import Problem, Reason
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.sources.table import LABEL
from extender.objects.topology import Slice, TopologyTerms
from tests.worlds import Job, World


def gang(world: World, members: int, minimum: int, most: int, **group: Any) -> Job:
    """Create a gang of pods with one GPU each."""
    options = Options(max_member=most, **group)
    return world.gang("job", members, 1, min_member=minimum, group={"options": options})


def test_members_beyond_it_wait_and_are_told_why(world: World) -> None:
    """However much is free; the first ones in member order have the places."""
    world.nodes(1)
    job = gang(world, 5, 2, 3)
    assert set(job.reserved) == {"job-0", "job-1", "job-2"}
    (refusal,) = world.filter(job.pods[3]).refusals
    assert refusal.text.endswith("the gang has as many members on nodes as its maximum allows")
    assert job.wait is None or job.reserved


def test_it_is_explained_as_kube_scheduler_is_told(world: World) -> None:
    """By the same reason, with the number of those that wait; no nodes are counted for them, nothing is suggested."""
    world.nodes(1)
    job = gang(world, 5, 2, 3)
    inspection = Inspection(world.admission, world.clock)
    assert explanation(inspection.explain(job.ref)).reason == WaitReason(
        Reason.AWAITING_MEMBERS, "placed; waits for 2 members to reach bind", {"minMember": 2}
    )
    job.run()
    found = explanation(inspection.explain(job.ref))
    said = "the gang has as many members on nodes as its maximum allows; 2 wait for one of them to end"
    assert found.reason == WaitReason(Reason.MAX_MEMBER_REACHED, said, {"beyond": 2})
    assert found.remarks[0] == f"waits: MaxMemberReached: {said}"
    assert (found.phase, found.waterfall, found.nearest_miss, found.suggestions) == ("Running", (), None, ())
    world.tell(PodGone(job.pods.pop().uid))
    world.tell(PodGone(job.pods.pop().uid))
    assert explanation(inspection.explain(job.ref)).reason is None


def test_who_ends_makes_place_for_the_next(world: World) -> None:
    """A member that is gone leaves its place, not before."""
    world.nodes(1)
    job = gang(world, 5, 2, 3)
    job.run()
    job.see(2, deleting=True)
    world.judge()
    assert not job.reserved
    world.tell(PodGone(job.pods.pop(2).uid))
    world.judge()
    assert set(job.reserved) == {"job-3"}


def test_members_that_have_succeeded_do_not_count(world: World) -> None:
    """They hold nothing any more."""
    world.nodes(1)
    job = gang(world, 5, 2, 3)
    job.run()
    job.finish()
    world.judge()
    assert set(job.reserved) == {"job-3", "job-4"}


def test_whoever_runs_stays_when_it_is_lowered(world: World) -> None:
    """Nothing is evicted, and nothing more starts."""
    world.nodes(1)
    job = gang(world, 5, 1, 4)
    job.run()
    world.group(job.ref, 1, options=Options(max_member=2), uid=job.gang.uid)
    world.later(60)
    assert job.gang.census().bound == 4
    assert not job.reserved
    assert not world.effects().evictions


def test_others_leave_for_no_more_than_that(world: World) -> None:
    """Members beyond the minimum have others evicted up to the maximum."""
    world.nodes(1)
    low = world.gang("low", 8, 1, min_member=1)
    low.run()
    world.nodes(1, 1, prefix="small")
    options = Options(max_member=3)
    world.gang("high", 6, 1, min_member=1, priority=5, group={"options": options}).run()
    world.later(60)
    assert len(world.effects().evictions) == 2


def test_what_a_gang_cannot_start_without_is_never_too_many(world: World) -> None:
    """A replacement goes beside a member that is being deleted."""
    world.nodes(1)
    job = gang(world, 2, 2, 2)
    job.run()
    job.see(1, deleting=True)
    job.pods.append(world.pod("job-2", 1, group=job.ref))
    job.see(2)
    world.judge()
    assert set(job.reserved) == {"job-2"}


def test_slices_are_whole(world: World) -> None:
    """Of a slice that would be beyond it no member is placed."""
    world.nodes(2)
    job = gang(world, 6, 2, 5, topology=TopologyTerms(slices=(Slice(2, "node"),)))
    assert len(job.reserved) == 4


def test_pods_may_say_it(world: World) -> None:
    """Those that have no object do; the first in member order counts."""
    world.nodes(1)
    options = Options(min_member=1, max_member=2)
    job = world.gang("job", 4, 1, api=LABEL, options=options)
    assert len(job.reserved) == 2


@pytest.mark.parametrize("text", ["0", "-1", "many", ""])
def test_a_bad_value_is_a_problem(text: str) -> None:
    """It does not count, and its object's owner is told."""
    (problem,) = read_options({}, {MAX_MEMBER: text}).problems
    assert problem == Problem(
        "metadata.annotations[muster.dev/max-member]", f"{text!r} is not a whole number of at least 1"
    )


def test_a_maximum_below_the_minimum_is_a_problem() -> None:
    """Beside `muster.dev/min-member`, and on a PodGroup with what it says in its fields."""
    found = read_options({}, {MIN_MEMBER: "4", MAX_MEMBER: "3"})
    problem = Problem("metadata.annotations[muster.dev/max-member]", "3 is less than the minimum of 4")
    assert found == Options(min_member=4, problems=(problem,))
    ref = GroupRef(COSCHEDULING, "default", "job")
    assert PodGroup(ref, "uid", 4, options=Options(max_member=3)).options == Options(problems=(problem,))
    roles = (("driver", 1), ("worker", 3))
    assert PodGroup(ref, "uid", role_minimums=roles, options=Options(max_member=3)).options.problems == (problem,)
    assert PodGroup(ref, "uid", 3, options=Options(max_member=3)).options.max_member == 3
