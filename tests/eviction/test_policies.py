"""Who may be evicted for whom, by the policies of queues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.admission.events import HoldOff, PodSeen
from extender.cluster.gangs import split
from extender.objects import keys
from extender.objects.pod import Phase
from extender.objects.podgroup import GroupRef
from extender.objects.queue import BorrowWithin, PreemptionPolicy, Reclaim, WithinQueue
from extender.objects.reason import Reason, Wait
from extender.objects.sources.coscheduling import COSCHEDULING
from tests.eviction.test_preemptions import evicted, leave, running
from tests.queues.test_sharing import gang, queue, tell
from tests.worlds import World

NEVER = PreemptionPolicy(within_queue=WithinQueue.NEVER, reclaim_within_cohort=Reclaim.NEVER)


class TestWithinTheQueue:
    """withinQueue."""

    def test_newer_ones_of_equal_priority_leave_where_the_queue_says_so(self, world: World) -> None:
        """LowerOrNewerEqualPriority: age decides among equals, and the older is never evicted."""
        world.nodes(2)
        policy = PreemptionPolicy(within_queue=WithinQueue.LOWER_OR_NEWER)
        tell(world, queue("team", 16, preemption=policy))
        old = gang(world, "old", 1, "team", group={"created": "2025-01-01T00:00:00Z"})
        old.run()
        new = gang(world, "new", 1, "team", group={"created": "2025-03-01T00:00:00Z"})
        new.run()
        world.effects()
        gang(world, "middle", 1, "team", group={"created": "2025-02-01T00:00:00Z"})
        assert evicted(world) == {"Preempted": {"new-0"}}

    def test_with_never_nobody_leaves_for_a_priority(self, world: World) -> None:
        """The more important waits."""
        world.nodes(1)
        tell(world, queue("team", 8, preemption=NEVER))
        gang(world, "low", 1, "team", priority=1).run()
        world.effects()
        assert gang(world, "high", 1, "team", priority=5).reason is Reason.QUOTA_EXCEEDED
        assert not evicted(world)

    def test_a_member_that_waits_does_not_lower_what_the_others_are_worth(self, world: World) -> None:
        """A pod of low priority joins a gang that runs, by its label: others of equal priority still evict nobody."""
        world.nodes(2)
        world.gang("runs", 1, priority=5).run()
        world.gang("stays", 1, priority=1, options=keys.Options(preemptible=False)).run()
        late = world.pod("late", 8, group=GroupRef(COSCHEDULING, "default", "runs"), priority=0)
        world.tell(PodSeen(late))
        assert world.gang("equal", 1, priority=5).reason is Reason.INSUFFICIENT_CAPACITY
        assert not evicted(world)
        world.gang("higher", 1, priority=6)
        assert evicted(world) == {"Preempted": {"runs-0"}}

    def test_who_is_just_being_placed_is_looked_at_again(self, world: World) -> None:
        """What is promised cannot be evicted; once it is bound it can, and nobody has to ask for that."""
        world.nodes(1)
        low = world.gang("low", 1, priority=1)
        high = world.gang("high", 1, priority=5)
        assert high.reason is Reason.INSUFFICIENT_CAPACITY
        due = world.admission.next_tick()
        assert due is not None
        assert due <= world.clock.monotonic() + 1
        low.run()
        world.later(1)
        assert evicted(world) == {"Preempted": {"low-0"}}


class TestBetweenQueues:
    """reclaimWithinCohort and borrowWithinCohort."""

    def cohort(self, world: World, red: PreemptionPolicy, blue: PreemptionPolicy = NEVER) -> None:
        """Two queues of 8 GPUs each on two nodes."""
        world.nodes(2)
        tell(world, queue("all"))
        tell(world, queue("red", 8, parent="all", preemption=red), queue("blue", 8, parent="all", preemption=blue))

    @pytest.mark.parametrize(("reclaim", "leaves"), [(Reclaim.LOWER_PRIORITY, False), (Reclaim.ANY, True)])
    def test_reclaim_may_mind_priorities(self, world: World, reclaim: Reclaim, *, leaves: bool) -> None:
        """With LowerPriority a borrower of higher priority stays, with Any it leaves."""
        self.cohort(world, replace(NEVER, reclaim_within_cohort=reclaim))
        for index in range(2):
            gang(world, f"blue-{index}", 1, "blue", priority=9).run()
        world.effects()
        gang(world, "red", 1, "red", priority=5)
        assert bool(evicted(world)) is leaves

    @pytest.mark.parametrize(
        ("policy", "leaves"),
        [
            (NEVER, False),
            (replace(NEVER, borrow_within_cohort=BorrowWithin.LOWER_PRIORITY), True),
            (replace(NEVER, borrow_within_cohort=BorrowWithin.LOWER_PRIORITY, max_priority_threshold=1), True),
            (replace(NEVER, borrow_within_cohort=BorrowWithin.LOWER_PRIORITY, max_priority_threshold=0), False),
        ],
        ids=["never", "lower", "up to 1", "up to 0"],
    )
    def test_who_borrows_may_evict_other_borrowers(
        self, world: World, policy: PreemptionPolicy, *, leaves: bool
    ) -> None:
        """Of lower priority, and no more important than a threshold, if its queue says so; it reclaims nothing."""
        world.nodes(3)
        tell(world, queue("all"), queue("green", 24, parent="all"))
        tell(world, queue("red", 0, parent="all", preemption=policy), queue("blue", 0, parent="all"))
        for index in range(3):
            gang(world, f"blue-{index}", 1, "blue", priority=1).run()
        world.effects()
        gang(world, "red", 1, "red", priority=5)
        assert bool(evicted(world)) is leaves

    def test_a_gang_that_runs_does_not_leave_for_what_another_is_only_promised(self, world: World) -> None:
        """A queue whose gangs run within its nominal quota gives nothing back until the other has started, too."""
        world.nodes(3)
        reclaims = replace(NEVER, reclaim_within_cohort=Reclaim.ANY)
        tell(world, queue("all"), queue("red", 8, parent="all", preemption=reclaims), queue("blue", 16, parent="all"))
        core = gang(world, "core", 1, "blue", priority=5)
        low = gang(world, "low", 1, "blue", priority=1)
        core.run()
        low.run()
        world.effects()
        high = gang(world, "high", 2, "blue", priority=5)
        low.see(0, deleting=True)
        world.later(1)
        assert high.reason is Reason.PREEMPTING
        red = gang(world, "red", 1, "red", priority=5)
        world.later(1)
        assert not evicted(world)
        leave(world, low)
        world.later(1)
        high.run()
        world.later(1)
        assert set(evicted(world)) == {"Reclaimed"}
        assert red.reason is Reason.PREEMPTING

    def test_a_queue_of_its_own_is_nobodys(self, world: World) -> None:
        """Roots do not share: what runs in another tree stays."""
        world.nodes(1)
        tell(world, queue("red", 8, preemption=PreemptionPolicy()), queue("blue", 8))
        gang(world, "blue", 1, "blue").run()
        world.effects()
        assert gang(world, "red", 1, "red", priority=9).reason is Reason.INSUFFICIENT_CAPACITY
        assert not evicted(world)


class TestWho:
    """Gangs and pods that may not be evicted at all."""

    @pytest.mark.parametrize(
        "fields",
        [{"options": keys.Options(preemptible=False)}, {"scheduler_name": "default-scheduler"}, {"deleting": True}],
        ids=["not preemptible", "another scheduler's", "leaving"],
    )
    def test_such_pods_stay(self, world: World, fields: dict[str, Any]) -> None:
        """A pod without gang that says so, that is not Muster's, or that goes by itself."""
        world.nodes(1)
        pod = world.pod("single", 8, node_name="node-0", phase=Phase.RUNNING, priority=1, **fields)
        world.tell(PodSeen(pod))
        world.gang("high", 1, priority=5)
        assert not evicted(world)

    def test_a_gang_may_say_so_too(self, world: World) -> None:
        """With muster.dev/preemptible false."""
        world.nodes(1)
        running(world, "low", 1, priority=1, options=keys.Options(preemptible=False))
        world.effects()
        world.gang("high", 1, priority=5)
        assert not evicted(world)

    def test_a_pod_without_gang_leaves_like_a_gang(self, world: World) -> None:
        """By priority."""
        world.nodes(1)
        world.tell(PodSeen(world.pod("single", 8, node_name="node-0", phase=Phase.RUNNING, priority=1)))
        high = world.gang("high", 1, priority=5)
        assert evicted(world) == {"Preempted": {"single"}}
        assert high.reason is Reason.PREEMPTING


class TestForOne:
    """A pod that names no group has others evicted by the rules that all gangs have."""

    @staticmethod
    def urgent(world: World, **options: Any) -> str:
        """Ask filter about a pod of high priority; return why it waits."""
        pod = world.pod("urgent", 8, priority=9, options=keys.Options(**options))
        assert not world.ask(pod).accepted
        return str(world.state.waits()[f"pod:{pod.uid}"].reason)

    @staticmethod
    def single(world: World, **fields: Any) -> None:
        """Run a single pod that holds a node."""
        values: dict[str, Any] = {"priority": 1, "node_name": "node-0", "phase": Phase.RUNNING, "started_at": 0.0}
        world.tell(PodSeen(world.pod("single", 8, **(values | fields))))

    def test_a_pod_of_lower_priority_leaves(self, world: World) -> None:
        """Muster evicts it, and keeps its place for the pod; kube-scheduler's own preemption finds no candidate."""
        world.nodes(1)
        self.single(world)
        assert self.urgent(world) == Reason.PREEMPTING
        assert evicted(world) == {"Preempted": {"single"}}

    def test_a_pod_that_is_not_preemptible_stays(self, world: World) -> None:
        """Whatever the priority of the pod that waits."""
        world.nodes(1)
        self.single(world, options=keys.Options(preemptible=False))
        assert self.urgent(world) == Reason.INSUFFICIENT_CAPACITY
        assert not evicted(world)

    def test_its_queue_may_protect_it_for_a_while(self, world: World) -> None:
        """Until minRuntime is over, for which the pod waits."""
        world.nodes(1)
        tell(world, queue("team", 8, preemption=PreemptionPolicy(min_runtime=100.0)))
        options = keys.Options(queue="team")
        self.single(world, options=options, started_at=world.clock.now().timestamp())
        self.urgent(world, queue="team")
        assert not evicted(world)
        world.later(101)
        assert evicted(world) == {"Preempted": {"single"}}

    def test_its_queue_may_forbid_it(self, world: World) -> None:
        """With withinQueue Never nobody leaves for a priority."""
        world.nodes(1)
        tell(world, queue("team", 8, preemption=PreemptionPolicy(within_queue=WithinQueue.NEVER)))
        self.single(world, options=keys.Options(queue="team"))
        self.urgent(world, queue="team")
        assert not evicted(world)

    def test_what_is_within_its_queues_own_quota_stays(self, world: World) -> None:
        """A pod of another queue has no right to the nominal quota of the victim's."""
        world.nodes(1)
        tell(world, queue("owner", 8, parent="all"), queue("other", 0, parent="all"), queue("all"))
        self.single(world, options=keys.Options(queue="owner"))
        self.urgent(world, queue="other")
        assert not evicted(world)

    def test_a_member_of_a_gang_that_is_being_bound_stays(self, world: World) -> None:
        """Of two members one is bound: the gang starts whole."""
        world.nodes(2)
        job = world.gang("low", 2, priority=1)
        nodes = job.reserved
        for index in range(2):
            job.bind(index)
        job.see(0, node_name=nodes["low-0"])
        self.urgent(world)
        assert not evicted(world)

    def test_a_gang_leaves_whole(self, world: World) -> None:
        """A pod that needs one node takes no gang of two nodes apart."""
        world.nodes(2)
        running(world, "low", 2, priority=1)
        world.effects()
        assert self.urgent(world) == Reason.PREEMPTING
        assert evicted(world) == {"Preempted": {"low-0", "low-1"}}


class TestManyAtOnce:
    """Searches take time."""

    def test_few_are_searched_for_in_one_pass_and_the_others_soon_after(self, world: World) -> None:
        """Of six gangs that want others evicted four have a search in the first pass, and all in the end."""
        world.nodes(6)
        for index in range(6):
            running(world, f"low-{index}", 1, priority=1)
        world.effects()
        world.tell(HoldOff(Wait(Reason.WRITES_BACKLOGGED)))
        jobs = [world.gang(f"high-{index}", 1, priority=5) for index in range(6)]
        world.tell(HoldOff(None))
        world.judge()
        assert sum(job.reason is Reason.PREEMPTING for job in jobs) == 4
        assert world.admission.next_tick() is not None
        world.judge()
        assert all(job.reason is Reason.PREEMPTING for job in jobs)
        assert {name for names in evicted(world).values() for name in names} == {f"low-{index}-0" for index in range(6)}

    def test_a_search_in_vain_is_not_made_again_at_once(self, world: World) -> None:
        """Whatever changes meanwhile, the next is after a pause, and comes by itself."""
        world.nodes(2)
        running(world, "low", 1, priority=1)
        equal = running(world, "equal", 1, priority=5)
        world.gang("high", 2, priority=5)
        equal.finish()
        world.judge()
        assert not evicted(world)
        world.later(2)
        assert evicted(world) == {"Preempted": {"low-0"}}


def test_the_last_members_beyond_the_minimum_go_first(world: World) -> None:
    """Roles keep theirs: of a role at its least nobody is spare."""
    world.nodes(4)
    group = {"role_minimums": (("driver", 1), ("worker", 1))}
    job = world.gang("job", 0, min_member=2, group=group)
    for index, role in enumerate(("worker", "worker", "worker", "driver")):
        pod = world.pod(f"job-{index}", 8, group=job.ref, role=role, node_name=f"node-{index}", phase=Phase.RUNNING)
        job.pods.append(pod)
        world.tell(PodSeen(pod))
    core, extras = split(job.gang, job.pods)
    assert [pod.name for pod in extras] == ["job-2", "job-1"]
    assert [pod.name for pod in core] == ["job-0", "job-3"]
