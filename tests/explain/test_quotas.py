"""What is said of the Queue of a gang that waits for quota: who has the rest, when it comes back, and why not now."""

from __future__ import annotations

from typing import Any

import pytest

from extender.admission.events import QueueSeen
from extender.explain.documents import QuotaStanding
from extender.explain.evictable import Evictable
from extender.explain.explanation import Inspection
from extender.explain.inquiry import inquire
from extender.explain.quotas import quota_standing
from extender.objects.keys import Options
from extender.objects.queue import Flavor, PreemptionPolicy, Queue, Quota, Reclaim
from extender.objects.reason import Reason
from tests.docs.conftest import ROOT
from tests.worlds import GPU, Job, World

KEEPS = PreemptionPolicy(reclaim_within_cohort=Reclaim.NEVER)


def queue(name: str, nominal: int, policy: PreemptionPolicy = KEEPS, **limits: Any) -> Queue:
    """Return a Queue below `org` with a quota of GPUs."""
    flavor = Flavor("any", {GPU: Quota(nominal, **limits)})
    return Queue(name, parent="org", flavors=(flavor,), preemption=policy)


@pytest.fixture
def cohort(world: World) -> World:
    """Return a world of six nodes of eight GPUs: `a` lends, `b` borrows for two gangs, the first of which says when."""
    world.nodes(6)
    for each in (Queue("org"), queue("a", 24), queue("b", 8, lending_limit=8)):
        world.tell(QueueSeen(each))
    world.gang("first", 2, options=Options(queue="b", expected_duration=600.0)).run()
    world.gang("second", 1, options=Options(queue="b")).run()
    return world


def standing(world: World, job: Job) -> QuotaStanding | None:
    """Return what is said of a gang's Queue."""
    inquiry = inquire(world.admission, job.gang, world.now)
    return quota_standing(inquiry, Evictable(world.admission, inquiry.live.queue, world.now))


def test_it_has_the_numbers_who_holds_the_rest_and_when_it_comes_back(cohort: World) -> None:
    """The Queue that borrows, its gangs, the first end that frees enough, and that policy forbids to take it back."""
    job = cohort.gang("late", 3, options=Options(queue="a"))
    assert job.reason is Reason.QUOTA_EXCEEDED
    found = standing(cohort, job)
    assert found is not None
    assert (found.queue, found.resource, found.asked, found.nominal, found.used) == ("a", GPU, 24, 24, 0)
    assert (found.available, found.short_at) == (8, "org")
    (row,) = found.holders
    assert (row.queue, row.nominal, row.used, row.borrowed, row.others) == ("b", 8, 24, 16, 0)
    assert [(each.gang, each.amount) for each in row.gangs] == [("default/first", 16), ("default/second", 8)]
    assert found.returns_with == ("default/first",)
    assert found.returns_at == row.gangs[0].ends_at is not None
    assert not found.reclaims
    assert "".join(f"  {line}\n" for line in found.lines) in (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")


def test_the_lines_are_among_the_remarks_of_an_explanation(cohort: World) -> None:
    """Where what would help is asked for, too."""
    job = cohort.gang("late", 3, options=Options(queue="a"))
    inspection = Inspection(cohort.admission, cohort.clock)
    facts = inspection.explain(job.gang.ref)
    assert facts.quota == standing(cohort, job)
    assert inspection.collect(job.gang.ref, suggesting=False).evictable is None


def test_what_is_reclaimed_is_named(world: World) -> None:
    """Those whom the search that decides would have evicted, once policy lets it."""
    world.nodes(6)
    for each in (Queue("org"), queue("a", 24), queue("b", 8)):
        world.tell(QueueSeen(each))
    world.gang("first", 3, options=Options(queue="b")).run()
    job = world.gang("late", 3, options=Options(queue="a"))
    world.tell(QueueSeen(queue("a", 24, PreemptionPolicy())))
    found = standing(world, job)
    assert found is not None
    assert found.reclaims
    assert found.lines[-1] == "reclaim: 3 pods of default/first may be evicted for it now"


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (PreemptionPolicy(reclaim_within_cohort=Reclaim.LOWER_PRIORITY), "none that borrows has a priority below 0"),
        (PreemptionPolicy(), "protected until"),
    ],
)
def test_why_nothing_is_reclaimed_is_the_policy_that_keeps_it(world: World, policy: PreemptionPolicy, why: str) -> None:
    """Priorities, and for how long a gang runs at least."""
    world.nodes(6)
    for each in (Queue("org"), queue("a", 24, policy), queue("b", 8, PreemptionPolicy(min_runtime=3600.0))):
        world.tell(QueueSeen(each))
    world.gang("first", 3, options=Options(queue="b")).run()
    job = world.gang("late", 3, options=Options(queue="a"))
    found = standing(world, job)
    assert found is not None
    assert why in found.lines[-1]


def test_what_borrows_itself_takes_nothing_back(cohort: World) -> None:
    """And of what is more than there will ever be, no return and no reclaim is told."""
    job = cohort.gang("more", 2, options=Options(queue="b"))
    found = standing(cohort, job)
    assert found is not None
    assert found.lines[-1] == "nothing is reclaimed for it: no other Queue has borrowed"
    never = standing(cohort, cohort.gang("never", 5, options=Options(queue="b")))
    assert never is not None
    assert never.returns_with == ()
    assert len(never.lines) == 2


def test_a_gang_that_waits_for_no_quota_has_none(world: World) -> None:
    """It waits for nodes, or has no Queue."""
    world.nodes(1)
    assert standing(world, world.gang("train", 2)) is None
