"""Members beyond the minimum have others evicted, for less than what a gang needs to start."""

from __future__ import annotations

from typing import Any

import pytest

from extender.admission.events import PodGone, PodSeen, QueueSeen
from extender.objects.keys import Options
from extender.objects.queue import BorrowWithin, Flavor, PreemptionPolicy, Queue, Quota, Reclaim, WithinQueue
from tests.worlds import GPU, Job, World, elastic


def running(world: World, name: str, members: int, **fields: Any) -> Job:
    """Return an elastic gang of pods with one GPU each that runs with all that have room."""
    job = elastic(world, name, members, **fields)
    world.judge()
    job.run()
    world.judge()
    world.effects()
    return job


def evicted(world: World) -> list[set[str]]:
    """Let pods that are to leave do so at once; return who they were, decision by decision."""
    decisions = []
    for _ in range(10):
        world.later(60.0)
        world.judge()
        evictions = world.effects().evictions
        if evictions:
            decisions.append({each.pod.name for each in evictions.values()})
        for uid in evictions:
            world.tell(PodGone(uid))
    return decisions


def grow(world: World, job: Job, members: int, gpus: int = 1, **fields: Any) -> None:
    """Create further members of a gang."""
    name, there = job.ref.name, len(job.pods)
    job.pods += [world.pod(f"{name}-{index}", gpus, group=job.ref, **fields) for index in range(there, there + members)]
    for pod in job.pods[there:]:
        world.tell(PodSeen(pod))
    world.judge()


def queue(world: World, name: str, gpus: int, **fields: Any) -> dict[str, Any]:
    """Create a queue below root; return what the pods of its gangs have."""
    world.tell(QueueSeen(Queue("root", uid="root")))
    flavors = (Flavor("all", {GPU: Quota(gpus)}),)
    world.tell(QueueSeen(Queue(name, uid=name, parent="root", flavors=flavors, **fields)))
    return {"options": Options(queue=name)}


class TestPriority:
    """Within one queue, or without any."""

    def test_members_beyond_the_minimum_of_lower_priority_leave(self, world: World) -> None:
        """As many as are wanted, the last first, in one decision."""
        world.nodes(1)
        high, _ = running(world, "high", 1, priority=10), running(world, "low", 7)
        grow(world, high, 4, priority=10)
        assert evicted(world) == [{"low-3", "low-4", "low-5", "low-6"}]
        assert len(high.reserved) == 4

    def test_the_core_stays(self, world: World) -> None:
        """A gang of higher priority has fewer than it wants rather than that another stops."""
        world.nodes(1)
        high, _ = running(world, "high", 1, priority=10), running(world, "low", 7)
        grow(world, high, 8, priority=10)
        assert evicted(world) == [{"low-3", "low-4", "low-5", "low-6"}, {"low-1", "low-2"}]
        assert len(high.reserved) == 6

    def test_nobody_leaves_for_members_that_have_a_place(self, world: World) -> None:
        """Of three new members one finds room as it is: two others leave, not three."""
        world.nodes(1)
        high, _ = running(world, "high", 1, priority=10), running(world, "low", 6)
        grow(world, high, 3, priority=10)
        assert evicted(world) == [{"low-4", "low-5"}]
        assert len(high.reserved) == 3

    @pytest.mark.parametrize("priority", [0, -1])
    def test_neither_equal_nor_higher_priority_leaves(self, world: World, priority: int) -> None:
        """Whoever came first keeps what it has."""
        world.nodes(1)
        grown, _ = running(world, "grown", 1, priority=priority), running(world, "first", 7)
        grow(world, grown, 4, priority=priority)
        assert not evicted(world)

    def test_nobody_leaves_for_a_gang_that_never_preempts(self, world: World) -> None:
        """Nor for one that has not started, whose first members come before others."""
        world.nodes(1)
        high, _ = running(world, "high", 1, priority=10, never_preempts=True), running(world, "low", 7)
        grow(world, high, 4, priority=10, never_preempts=True)
        assert not evicted(world)

    def test_who_has_run_for_less_than_the_minimum_stays_until_then(self, world: World) -> None:
        """The members leave as soon as they have, though nothing else happens."""
        world.nodes(1)
        team = queue(world, "team", 8, preemption=PreemptionPolicy(min_runtime=300.0))
        high, low = running(world, "high", 1, priority=10, **team), running(world, "low", 7, **team)
        for index in range(7):
            low.see(index, started_at=world.clock.now().timestamp())
        grow(world, high, 2, priority=10, **team)
        world.later(250.0)
        world.judge()
        assert not world.effects().evictions
        assert evicted(world) == [{"low-5", "low-6"}]

    def test_evictions_that_are_not_needed_any_more_are_cancelled(self, world: World) -> None:
        """Room that appears during the notice is used, and whoever was told stays."""
        world.nodes(1)
        team = queue(world, "team", 16, preemption=PreemptionPolicy(grace=120.0))
        high, low = running(world, "high", 1, priority=10, **team), running(world, "low", 7, **team)
        grow(world, high, 2, priority=10, **team)
        assert high.reserved == {}
        world.nodes(1, prefix="new")
        world.judge()
        assert len(high.reserved) == 2
        assert not evicted(world)
        assert low.gang.census().bound == 7


class TestQuota:
    """Between queues of a tree."""

    def test_what_is_lent_comes_back(self, world: World) -> None:
        """Members beyond the minimum first; a gang without quota of its own leaves whole."""
        world.nodes(1)
        lender, borrower = queue(world, "lender", 8), queue(world, "borrower", 0)
        owner, _ = running(world, "owner", 1, **lender), running(world, "guest", 7, **borrower)
        grow(world, owner, 7, **lender)
        assert evicted(world) == [{f"guest-{index}" for index in range(7)}]
        assert len(owner.reserved) == 7

    def test_what_is_within_quota_stays(self, world: World) -> None:
        """Of two members that another queue has quota for none leaves."""
        world.nodes(1)
        lender, borrower = queue(world, "lender", 6), queue(world, "borrower", 2)
        owner, _ = running(world, "owner", 1, **lender), running(world, "guest", 7, **borrower)
        grow(world, owner, 7, **lender)
        assert set().union(*evicted(world)) == {f"guest-{index}" for index in range(2, 7)}
        assert len(owner.reserved) == 5

    def test_nobody_leaves_so_that_more_is_borrowed(self, world: World) -> None:
        """A policy that has others leave for gangs that borrow is for gangs that start."""
        world.nodes(1)
        policy = PreemptionPolicy(borrow_within_cohort=BorrowWithin.LOWER_PRIORITY, reclaim_within_cohort=Reclaim.ANY)
        first, second = queue(world, "first", 0, preemption=policy), queue(world, "second", 0)
        queue(world, "spare", 8)
        high, _ = running(world, "high", 1, priority=10, **first), running(world, "low", 7, **second)
        grow(world, high, 4, priority=10, **first)
        assert not evicted(world)

    def test_a_policy_may_forbid_it(self, world: World) -> None:
        """Neither within the queue nor beside it anybody leaves then."""
        world.nodes(1)
        policy = PreemptionPolicy(within_queue=WithinQueue.NEVER, reclaim_within_cohort=Reclaim.NEVER)
        lender, borrower = queue(world, "lender", 8, preemption=policy), queue(world, "borrower", 0)
        owner = running(world, "owner", 1, priority=10, **lender)
        running(world, "guest", 3, **borrower)
        running(world, "low", 4, **lender)
        grow(world, owner, 4, priority=10, **lender)
        assert not evicted(world)
