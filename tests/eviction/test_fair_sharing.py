"""Weighted shares even out by eviction where a Queue asks for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.admission.events import PodGone, PodSeen, QueueSeen
from extender.ledger.effects import EvictionReason
from extender.objects.keys import Options
from extender.objects.meta import write_timestamp
from extender.objects.pod import Phase
from extender.objects.queue import BorrowWithin, FairSharingStrategy, Flavor, PreemptionPolicy, Queue, Quota, Reclaim
from extender.objects.reason import Reason
from tests.worlds import GPU, Job, World

EVENS = PreemptionPolicy(fair_sharing=FairSharingStrategy.FINAL_SHARE, fair_sharing_delay=0.0)


def tree(world: World, gpus: int, policy: PreemptionPolicy, **weights: float) -> None:
    """Create queues with these weights and without quota of their own below one that has all."""
    world.tell(QueueSeen(Queue("root", uid="root", flavors=(Flavor("all", {GPU: Quota(gpus)}),))))
    for name, weight in weights.items():
        flavors = (Flavor("all", {GPU: Quota()}),)
        each = Queue(name, uid=name, parent="root", weight=weight, flavors=flavors, preemption=policy)
        world.tell(QueueSeen(each))


def branches(world: World, policy: PreemptionPolicy, **weights: float) -> None:
    """Create queues with these weights, and below the first two of weights 1 and 2: a brother and a sister."""
    tree(world, 24, policy, **weights)
    for name, weight in (("brother", 1.0), ("sister", 2.0)):
        flavors = (Flavor("all", {GPU: Quota()}),)
        parent = next(iter(weights))
        world.tell(QueueSeen(Queue(name, uid=name, parent=parent, weight=weight, flavors=flavors, preemption=policy)))


def gang(world: World, name: str, queue: str, gpus: int = 1, members: int = 1, **options: Any) -> Job:
    """Create a gang of a queue."""
    return world.gang(name, members, gpus, options=Options(queue=queue, **options), created=created(world))


def created(world: World) -> str:
    """Return the time as the API server writes it."""
    return write_timestamp(world.clock.now())


def run(jobs: list[Job]) -> None:
    """Let those run that have been promised nodes, from now on."""
    for job in jobs:
        if job.reserved:
            job.run()
            for index, pod in enumerate(job.pods):
                if pod.bound and pod.started_at is None:
                    job.see(index, started_at=job.world.clock.now().timestamp(), phase=Phase.RUNNING)


def come_back(world: World, jobs: list[Job]) -> list[tuple[str, str]]:
    """Let pods that are evicted go and come again; return the names of their gangs and for which they left."""
    by_name = {job.ref.name: job for job in jobs}
    left: dict[str, str] = {}
    for each in world.effects().evictions.values():
        assert each.reason is EvictionReason.FAIR_SHARING
        job = by_name[each.pod.group.name]
        left[job.ref.name] = each.by.removeprefix("default/")
        world.tell(PodGone(each.pod.uid))
        index = [pod.uid for pod in job.pods].index(each.pod.uid)
        job.pods[index] = world.pod(
            each.pod.name, 0, group=job.ref, options=each.pod.options, created=created(world), shape=each.pod.shape
        )
        world.tell(PodSeen(job.pods[index]))
    return list(left.items())


def settle(world: World, jobs: list[Job], rounds: int = 300) -> list[tuple[str, str]]:
    """Let everybody start, leave and come again until nothing happens for ten minutes; return who left for whom."""
    left: list[tuple[str, str]] = []
    quiet = 0
    for _ in range(rounds):
        world.later(60.0)
        world.judge()
        now = come_back(world, jobs)
        quiet = 0 if now or any(job.reserved for job in jobs) else quiet + 1
        run(jobs)
        left += now
        if quiet == 10:
            return left
    pytest.fail(f"gangs still leave after {rounds} rounds: {left}")


def used(jobs: list[Job]) -> Counter[str]:
    """Return how many GPUs each queue uses."""
    amounts: Counter[str] = Counter()
    for job in jobs:
        for pod in job.pods:
            amounts[pod.options.queue] += pod.bound * pod.shape.whole_gpus
    return amounts


def crowd(world: World, queue: str, gangs: int, gpus: int = 1) -> list[Job]:
    """Create gangs of one pod, and let those run that have room."""
    jobs = [gang(world, f"{queue}-{number}", queue, gpus) for number in range(gangs)]
    world.judge()
    run(jobs)
    world.effects()
    return jobs


def test_a_newcomer_has_its_weighted_share(world: World) -> None:
    """A queue of weight 3 ends with three quarters of what one of weight 1 had to itself."""
    world.nodes(2)
    tree(world, 16, EVENS, a=1.0, b=3.0)
    jobs = crowd(world, "a", 16)
    assert used(jobs) == {"a": 16}
    jobs += [gang(world, f"b-{number}", "b") for number in range(16)]
    left = settle(world, jobs)
    assert used(jobs) == {"a": 4, "b": 12}
    assert len(left) == 12


def test_nobody_leaves_unless_it_is_asked_for(world: World) -> None:
    """By default what is borrowed stays with whoever was first."""
    world.nodes(1)
    tree(world, 8, PreemptionPolicy(), a=1.0, b=1.0)
    jobs = [*crowd(world, "a", 8), *(gang(world, f"b-{number}", "b") for number in range(4))]
    assert not settle(world, jobs)


@pytest.mark.parametrize(
    ("strategy", "leaves"), [(FairSharingStrategy.FINAL_SHARE, False), (FairSharingStrategy.INITIAL_SHARE, True)]
)
def test_a_gang_that_is_larger_than_the_difference(
    world: World, strategy: FairSharingStrategy, *, leaves: bool
) -> None:
    """It leaves by the share before it has left alone: afterwards its queue would have less than the other."""
    world.nodes(1)
    tree(world, 8, replace(EVENS, fair_sharing=strategy), a=1.0, b=1.0)
    jobs = [gang(world, "whole", "a", 8)]
    run(jobs)
    world.effects()
    jobs.append(gang(world, "part", "b", 4))
    assert bool(settle(world, jobs)) is leaves


def test_who_leaves_last_leaves_by_what_is_left_then(world: World) -> None:
    """The share that a queue has when its first gang leaves is no right to all of them."""
    world.nodes(1)
    tree(world, 8, replace(EVENS, fair_sharing=FairSharingStrategy.INITIAL_SHARE), a=1.0, b=1.0)
    jobs = [gang(world, f"part-{number}", "a", 4) for number in range(2)]
    run(jobs)
    world.effects()
    gang(world, "six", "b", 6)
    assert not world.effects().evictions


def test_who_gives_way_in_any_case_does_so_last(world: World) -> None:
    """Of two gangs one leaves while its queue has more, and then one of a priority that always gives way."""
    world.nodes(1)
    policy = replace(EVENS, borrow_within_cohort=BorrowWithin.LOWER_PRIORITY, max_priority_threshold=0)
    tree(world, 8, replace(policy, fair_sharing=FairSharingStrategy.INITIAL_SHARE), a=1.0, b=1.0)
    jobs = [world.gang(f"of-{priority}", 1, 4, options=Options(queue="a"), priority=priority) for priority in (0, 1)]
    run(jobs)
    world.effects()
    world.gang("six", 1, 6, options=Options(queue="b"), priority=5)
    assert {each.pod.name for each in world.effects().evictions.values()} == {"of-0-0", "of-1-0"}


def test_gangs_leave_whole_and_the_place_keeps_its_topology(world: World) -> None:
    """A gang of two pods leaves for one that needs a node of its own, and not two halves of others."""
    world.nodes(2)
    tree(world, 16, EVENS, a=1.0, b=1.0)
    jobs = [gang(world, "both", "a", 4, 2), gang(world, "one", "a", 4), gang(world, "other", "a", 4)]
    run(jobs)
    world.effects()
    jobs.append(gang(world, "wide", "b", 8))
    assert settle(world, jobs) == [("both", "wide")] or used(jobs) == {"a": 8, "b": 8}


def test_a_gang_waits_before_others_leave_for_it(world: World) -> None:
    """As long as its queue says, from when its pods were created; nothing else has to happen then."""
    world.nodes(1)
    tree(world, 8, replace(EVENS, fair_sharing_delay=600.0), a=1.0, b=1.0)
    crowd(world, "a", 8)
    waiting = gang(world, "b-0", "b")
    assert waiting.reason is Reason.QUOTA_EXCEEDED
    world.later(590.0)
    world.judge()
    assert not world.effects().evictions
    world.later(20.0)
    world.judge()
    (evict,) = world.effects().evictions.values()
    assert evict.message == "evicted for default/b-0: queue b has less of its weighted share than queue a"


def test_the_queue_of_the_victim_protects_it(world: World) -> None:
    """By minRuntime, and gangs that cannot be evicted."""
    world.nodes(1)
    tree(world, 8, replace(EVENS, min_runtime=900.0), a=1.0, b=1.0)
    crowd(world, "a", 8)
    gang(world, "b-0", "b")
    for _ in range(14):
        world.later(60.0)
        world.judge()
        assert not world.effects().evictions
    world.later(120.0)
    world.judge()
    assert len(world.effects().evictions) == 1


def test_priority_counts_where_reclaim_goes_by_it(world: World) -> None:
    """With `reclaimWithinCohort: LowerPriority` only gangs of lower priority leave."""
    world.nodes(1)
    policy = replace(EVENS, reclaim_within_cohort=Reclaim.LOWER_PRIORITY)
    tree(world, 8, policy, a=1.0, b=1.0)
    jobs = crowd(world, "a", 8)
    jobs.append(gang(world, "b-0", "b"))
    assert not settle(world, jobs)


def test_members_beyond_the_minimum_leave_first(world: World) -> None:
    """An elastic gang shrinks before another leaves whole."""
    world.nodes(1)
    tree(world, 8, EVENS, a=1.0, b=1.0)
    elastic = world.gang("elastic", 8, 1, min_member=4, options=Options(queue="a"))
    elastic.run()
    world.effects()
    jobs = [elastic, *(gang(world, f"b-{number}", "b") for number in range(8))]
    settle(world, jobs)
    assert used(jobs) == {"a": 4, "b": 4}
    assert elastic.gang.has_minimum


def test_branches_are_compared_where_they_meet(world: World) -> None:
    """Two teams of one department have together what a department with one team has."""
    world.nodes(1)
    tree(world, 8, EVENS, first=1.0, second=1.0)
    for name, parent in (("a", "first"), ("b", "first"), ("c", "second")):
        flavors = (Flavor("all", {GPU: Quota()}),)
        world.tell(QueueSeen(Queue(name, uid=name, parent=parent, flavors=flavors, preemption=EVENS)))
    jobs = [*crowd(world, "a", 8)]
    jobs += [gang(world, f"{name}-{number}", name) for name in ("b", "c") for number in range(8)]
    settle(world, jobs)
    assert used(jobs) == {"a": 2, "b": 2, "c": 4}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([1.0, 2.0, 3.0, 5.0]), min_size=2, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, 1, 2, 4])), min_size=4, max_size=30),
    st.sampled_from([FairSharingStrategy.FINAL_SHARE, FairSharingStrategy.INITIAL_SHARE]),
)
def test_it_comes_to_rest(weights: list[float], gangs: list[tuple[int, int]], strategy: FairSharingStrategy) -> None:
    """Whatever the weights and sizes, evictions end; no gang leaves twice for gangs of the same queue."""
    world = World()
    world.nodes(2)
    names = [f"q{number}" for number in range(len(weights))]
    tree(world, 16, replace(EVENS, fair_sharing=strategy), **dict(zip(names, weights, strict=True)))
    jobs: list[Job] = []
    for number, (queue, gpus) in enumerate(gangs):
        jobs.append(gang(world, f"g{number}", names[queue % len(names)], gpus))
        world.judge()
        run(jobs)
        come_back(world, jobs)
    left = settle(world, jobs)
    queues = {job.ref.name: job.pods[0].options.queue for job in jobs}
    pairs = Counter((gone, queues[by]) for gone, by in left)
    assert max(pairs.values(), default=0) <= 1


def test_no_sibling_leaves_only_so_that_another_branch_has_to(world: World) -> None:
    """It would have its place again, and its branch what the other lost: both would take from each other for ever."""
    world.nodes(3)
    branches(world, replace(EVENS, fair_sharing=FairSharingStrategy.INITIAL_SHARE), both=1.0, other=2.0)
    jobs = [gang(world, f"brother-{number}", "brother", 2) for number in range(3)]
    jobs += [gang(world, f"other-{number}", "other", gpus) for number, gpus in enumerate((4, 4, 4, 4, 2))]
    run(jobs)
    world.effects()
    assert used(jobs) == {"brother": 6, "other": 18}
    gang(world, "wants", "sister", 4)
    left = {each.pod.group.name for each in world.effects().evictions.values()}
    assert len(left & {"brother-0", "brother-1", "brother-2"}) == len(left) == 2


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from([1.0, 2.0, 5.0]), min_size=3, max_size=3),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, 2, 4, 8])), min_size=6, max_size=24),
    st.sampled_from([FairSharingStrategy.FINAL_SHARE, FairSharingStrategy.INITIAL_SHARE]),
)
def test_it_comes_to_rest_between_branches(
    weights: list[float], gangs: list[tuple[int, int]], strategy: FairSharingStrategy
) -> None:
    """Whatever the weights and sizes, evictions end where two of the queues share a branch."""
    world = World()
    world.nodes(3)
    branches(
        world, replace(EVENS, fair_sharing=strategy), **dict(zip(("both", "other", "third"), weights, strict=True))
    )
    names = ("brother", "sister", "other", "third")
    jobs: list[Job] = []
    for number, (queue, gpus) in enumerate(gangs):
        jobs.append(gang(world, f"g{number}", names[queue], gpus))
        world.judge()
        run(jobs)
        come_back(world, jobs)
    settle(world, jobs)
