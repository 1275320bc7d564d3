"""Preemption and reclaim as gangs meet them: who leaves for whom, and that the place is kept until they are there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.admission.events import (
    BudgetSeen,
    EvictionDelayed,
    EvictionRefused,
    EvictionSent,
    GroupGone,
    PodGone,
    PodSeen,
)
from extender.explain.explanation import Inspection, explanation
from extender.ledger.effects import EvictionReason
from extender.objects import keys
from extender.objects.budget import DisruptionBudget
from extender.objects.meta import LabelSelector
from extender.objects.pod import Phase, Pod
from extender.objects.queue import PreemptionPolicy, Queue, Reclaim
from extender.objects.reason import Reason, Wait
from tests.queues.test_sharing import gang, queue, tell
from tests.worlds import GPU, Job, World

RECLAIM = PreemptionPolicy()


def running(world: World, name: str, members: int, gpus: int = 8, **fields: Any) -> Job:
    """Return a gang that runs."""
    job = world.gang(name, members, gpus, **fields)
    job.run()
    assert all(pod.bound for pod in job.pods), f"{name} does not run: {job.wait}"
    return job


def evicted(world: World) -> dict[str, set[str]]:
    """Return the pods whose eviction has been asked for since last time, by reason."""
    found: dict[str, set[str]] = {}
    for each in world.effects().evictions.values():
        found.setdefault(each.reason, set()).add(each.pod.name)
    return found


def leave(world: World, job: Job) -> None:
    """Let all pods of a gang be deleted, and be gone."""
    for pod in job.pods:
        world.tell(PodGone(pod.uid))
    job.pods.clear()
    world.judge()


def counting_on_each_other(world: World) -> tuple[Job, Job, Pod, Pod]:
    """Return two gangs that wait for a pod each, the second for that of the first as well, and these pods."""
    world.nodes(1)
    for number in range(8):
        running(world, f"low-{number}", 1, 1, priority=1)
    world.effects()
    first, second = (world.gang(name, 1, 1, priority=5) for name in ("first", "second"))
    world.judge()
    other, own = sorted(world.effects().evictions.values(), key=lambda evict: evict.by)
    assert (other.by, own.by) == ("default/first", "default/second")
    return first, second, other.pod, own.pod


def give_up(world: World, job: Job) -> None:
    """Let a gang of one pod be deleted."""
    world.tell(PodGone(job.pods[0].uid))
    world.tell(GroupGone(job.ref, job.gang.uid))
    world.judge()


class TestPriority:
    """Within one queue, and without any."""

    def test_the_lower_priority_leaves_whole(self, world: World) -> None:
        """A gang of higher priority has as few gangs of lower priority evicted as it needs, each whole."""
        world.nodes(4)
        running(world, "low-a", 2, priority=1)
        running(world, "low-b", 2, priority=1)
        world.effects()
        high = world.gang("high", 2, priority=5)
        assert high.reason is Reason.PREEMPTING
        assert high.wait is not None
        assert high.wait.message == "its place is being cleared; pods of others that are still there: 2"
        (names,) = evicted(world).values()
        assert names in ({"low-a-0", "low-a-1"}, {"low-b-0", "low-b-1"})

    def test_victims_are_told_for_whom_and_why(self, world: World) -> None:
        """The eviction of a pod names the gang it is for, and by what right."""
        world.nodes(1)
        running(world, "low", 1, priority=1)
        world.effects()
        world.gang("high", 1, priority=5)
        (evict,) = world.effects().evictions.values()
        assert evict.reason is EvictionReason.PREEMPTED
        assert evict.by == "default/high"
        assert evict.message == "evicted for default/high: priority 5 over 1"

    def test_the_place_is_for_the_gang_alone(self, world: World) -> None:
        """Nobody gets what is being cleared, not while pods leave, and not when they have left."""
        world.nodes(2)
        low = running(world, "low", 2, priority=1)
        high = world.gang("high", 2, priority=5)
        world.tell(PodGone(low.pods[0].uid))
        world.judge()
        thief, single = world.gang("thief", 1, priority=9, never_preempts=True), world.pod("single", 8, priority=9)
        world.tell(PodSeen(single))
        assert not thief.reserved
        assert not world.filter(single).accepted
        assert high.reason is Reason.PREEMPTING
        world.tell(PodGone(low.pods[1].uid))
        world.judge()
        assert len(high.reserved) == 2
        assert not thief.reserved

    def test_no_more_leave_for_several_gangs_than_these_need(self, world: World) -> None:
        """What leaves for one gang is not taken to be in the way of the next."""
        world.nodes(1)
        for number in range(8):
            running(world, f"low-{number}", 1, 1, priority=1)
        world.effects()
        for number in range(3):
            world.gang(f"high-{number}", 1, 1, priority=5)
        world.judge()
        assert len(world.effects().evictions) == 3

    def test_who_counted_on_a_pod_that_stays_after_all_looks_for_others(self, world: World) -> None:
        """A gang that waits for a pod that was to leave for another does not wait for it in vain."""
        first, second, _, _ = counting_on_each_other(world)
        give_up(world, first)
        (evict,) = world.effects().evictions.values()
        assert evict.by == "default/second"
        world.tell(PodGone(evict.pod.uid))
        world.judge()
        assert len(second.reserved) == 1

    def test_who_counted_on_a_pod_whose_eviction_is_on_its_way_goes_on(self, world: World) -> None:
        """It leaves although the gang that it was to leave for is gone: nobody else has to."""
        first, second, *others = counting_on_each_other(world)
        world.tell(EvictionSent(others[0].uid))
        give_up(world, first)
        assert second.reason is Reason.PREEMPTING
        assert not world.effects().evictions
        for pod in others:
            world.tell(PodGone(pod.uid))
        world.judge()
        assert len(second.reserved) == 1
        assert not world.effects().evictions

    @pytest.mark.parametrize("denied", [True, False])
    def test_an_eviction_on_its_way_that_never_was_made_is_not_counted_on(self, world: World, *, denied: bool) -> None:
        """The API server denies it, or nothing is seen of it for ten seconds."""
        first, second, other, own = counting_on_each_other(world)
        world.tell(EvictionSent(other.uid))
        give_up(world, first)
        world.effects()
        if denied:
            world.tell(EvictionDelayed(other.uid))
        else:
            world.clock.advance(10)
        world.judge()
        assert {evict.by for evict in world.effects().evictions.values()} == {"default/second"}
        world.tell(PodGone(own.uid))
        world.judge()
        assert len(second.reserved) == 1

    def test_equal_priority_never_leaves(self, world: World) -> None:
        """Gangs of one priority wait for each other."""
        world.nodes(1)
        running(world, "first", 1, priority=5)
        world.effects()
        assert world.gang("second", 1, priority=5).reason is Reason.INSUFFICIENT_CAPACITY
        assert not evicted(world)

    def test_nobody_leaves_for_nothing(self, world: World) -> None:
        """Nobody is evicted if the gang would not fit even then."""
        world.nodes(2)
        running(world, "low", 1, priority=1)
        running(world, "equal", 1, priority=5)
        world.effects()
        assert world.gang("high", 2, priority=5).reason is Reason.INSUFFICIENT_CAPACITY
        assert not evicted(world)

    def test_no_gang_leaves_if_min_resources_stay_unmet(self, world: World) -> None:
        """A gang whose PodGroup asks for more than the cluster has free even then has no gang evicted."""
        world.nodes(2)
        running(world, "low", 1, priority=1)
        running(world, "equal", 1, priority=5)
        world.effects()
        high = world.gang("high", 1, priority=5, group={"min_resources": {GPU: 16}})
        assert high.reason is Reason.MIN_RESOURCES_UNMET
        assert not evicted(world)

    def test_no_gang_leaves_if_borrowing_stays_barred(self) -> None:
        """A gang that may not borrow as another has waited for very long has no gang evicted: it could not start."""
        world = World(ageing_seconds=60)
        for name, gpus in (("all", 8), ("old", 8), ("new", 0)):
            tell(world, queue(name, gpus, parent="" if name == "all" else "all", preemption=PreemptionPolicy()))
        world.nodes(1)
        running(world, "runs", 1, options=keys.Options(queue="new"))
        created = world.clock.now().isoformat().replace("+00:00", "Z")
        world.gang("aged", 2, options=keys.Options(queue="old"), group={"created": created}, never_preempts=True)
        world.later(61)
        world.effects()
        high = world.gang("high", 1, 4, options=keys.Options(queue="new"), priority=5)
        assert high.reason is Reason.BEHIND_HEAD
        assert not evicted(world)

    def test_preemption_policy_never(self, world: World) -> None:
        """Gangs whose pods say preemptionPolicy Never have nobody evicted."""
        world.nodes(1)
        running(world, "low", 1, priority=1)
        world.effects()
        world.gang("high", 1, priority=5, never_preempts=True)
        assert not evicted(world)

    def test_what_is_not_preemptible_stays(self, world: World) -> None:
        """Gangs that say they are not preemptible stay, and others leave in their place."""
        world.nodes(2)
        running(world, "firm", 1, priority=1, options=keys.Options(preemptible=False))
        running(world, "loose", 1, priority=2)
        world.effects()
        world.gang("high", 1, priority=5)
        assert evicted(world) == {"Preempted": {"loose-0"}}

    def test_members_beyond_the_minimum_leave_first(self, world: World) -> None:
        """An elastic gang gives up what it can spare, and runs on with its minimum."""
        world.nodes(3)
        running(world, "elastic", 3, min_member=2, priority=1)
        world.effects()
        world.gang("high", 1, priority=5)
        assert evicted(world) == {"Preempted": {"elastic-2"}}

    def test_budgets_are_respected(self, world: World) -> None:
        """Whom a PodDisruptionBudget protects is not evicted."""
        world.nodes(2)
        guarded = running(world, "guarded", 1, priority=1, labels={"app": "guarded"})
        running(world, "other", 1, priority=2)
        selector = LabelSelector()
        world.tell(BudgetSeen(DisruptionBudget("default", "all", selector, 0)))
        world.effects()
        high = world.gang("high", 1, priority=5)
        assert not evicted(world)
        assert high.reason is Reason.INSUFFICIENT_CAPACITY
        world.tell(BudgetSeen(DisruptionBudget("default", "all", selector, 1)))
        world.later(60)
        assert evicted(world) == {"Preempted": {guarded.pods[0].name}}

    def test_a_refused_eviction_gives_the_place_up(self, world: World) -> None:
        """If the API server does not evict a pod, the others are spared; the gang waits as before, and is told why."""
        world.nodes(2)
        low = running(world, "low", 2, priority=1)
        high = world.gang("high", 2, priority=5)
        world.effects()
        world.tell(EvictionRefused(low.pods[0].uid, "a budget says no"))
        world.judge()
        effects = world.effects()
        assert effects.spared == {low.pods[0].uid, low.pods[1].uid}
        assert [(note.about, note.message) for note in effects.notes if note.reason == "EvictionRefused"] == [
            (high.ref, "its place is not cleared: default/low-0 cannot be evicted: a budget says no")
        ]
        assert high.reason is Reason.INSUFFICIENT_CAPACITY

    def test_a_refused_eviction_is_explained_until_there_is_another(self, world: World) -> None:
        """`muster explain` says what keeps the place from being cleared, and not any more when others do leave."""
        world.nodes(2)
        low = running(world, "low", 2, priority=1)
        high = world.gang("high", 2, priority=5)
        world.tell(EvictionRefused(low.pods[0].uid, "a budget says no"))
        world.judge()
        kept = "its place is not cleared: default/low-0 cannot be evicted: a budget says no"
        inspection = Inspection(world.admission, world.clock)
        assert kept in explanation(inspection.explain(high.ref)).remarks
        world.later(60)
        assert high.reason is Reason.PREEMPTING
        assert kept not in explanation(inspection.explain(high.ref)).remarks

    def test_a_gang_that_goes_spares_those_not_yet_evicted(self, world: World) -> None:
        """When the gang that others were to leave for is deleted, whoever is still there may stay."""
        world.nodes(1)
        low = running(world, "low", 1, priority=1)
        high = world.gang("high", 1, priority=5)
        world.effects()
        leave(world, high)
        world.tell(GroupGone(high.ref, "group-3"))
        world.judge()
        assert low.pods[0].uid in world.effects().spared or not world.state.preemptors()

    def test_the_evicted_wait_until_all_of_them_are_gone(self, world: World) -> None:
        """A gang that is being evicted is not placed anew in part, and then waits like any other."""
        world.nodes(3)
        low = running(world, "low", 3, priority=1)
        high = world.gang("high", 2, priority=5)
        assert high.reason is Reason.PREEMPTING
        world.tell(PodGone(low.pods[0].uid))
        replacement = world.pod("low-0b", 8, group=low.ref, priority=1)
        world.tell(PodSeen(replacement))
        world.judge()
        assert low.reason is Reason.BEING_EVICTED
        assert low.wait is not None
        assert low.wait.names == {"by": "default/high"}
        for pod in low.pods[1:]:
            world.tell(PodGone(pod.uid))
        world.judge()
        assert len(high.reserved) == 2
        assert low.wait == Wait(Reason.MEMBERS_MISSING, {"exist": 1, "minMember": 3})

    def test_a_gang_waits_from_the_moment_it_is_to_be_evicted(self, world: World) -> None:
        """It lacks a member already, and the node that would do for that is not for it any more."""
        world.nodes(3)
        low = running(world, "low", 3, priority=1)
        world.tell(PodGone(low.pods[0].uid))
        node = low.pods[0].node_name
        foreign = world.pod("foreign", 8, scheduler_name="default-scheduler", node_name=node, phase=Phase.RUNNING)
        world.tell(PodSeen(foreign))
        world.tell(PodSeen(world.pod("low-0b", 8, group=low.ref, priority=1)))
        world.judge()
        world.gang("high", 2, priority=5)
        world.judge()
        assert low.reason is Reason.BEING_EVICTED
        world.tell(PodGone(foreign.uid))
        world.judge()
        assert low.reserved == {}

    def test_a_thief_is_not_the_end(self, world: World) -> None:
        """If a foreign pod takes a cleared node, others are evicted for the gang, and no more than it needs."""
        world.nodes(2)
        first, second = running(world, "first", 1, priority=1), running(world, "second", 1, priority=1)
        high = world.gang("high", 1, priority=5)
        (victims,) = evicted(world).values()
        victim, other = (first, second) if "first-0" in victims else (second, first)
        node = victim.pods[0].node_name
        leave(world, victim)
        if high.reserved:  # it was faster
            high.reserved.clear()
        foreign = world.pod("foreign", 8, scheduler_name="default-scheduler", node_name=node, phase=Phase.RUNNING)
        world.tell(PodSeen(foreign))
        world.judge()
        world.later(2)
        assert evicted(world) == {"Preempted": {other.pods[0].name}}


class TestReclaim:
    """Between queues."""

    def shared(self, world: World, **fields: Any) -> None:
        """Two queues with 16 GPUs each in one tree."""
        tell(
            world,
            queue("all"),
            queue("red", 16, parent="all", preemption=RECLAIM, **fields),
            queue("blue", 16, parent="all", preemption=RECLAIM, **fields),
        )

    def test_what_was_lent_comes_back(self, world: World) -> None:
        """A gang within its queue's quota has gangs evicted that borrow it, whatever their priority, and only those."""
        world.nodes(4)
        self.shared(world)
        jobs = [gang(world, f"blue-{index}", 1, "blue", priority=9) for index in range(4)]
        for job in jobs:
            job.run()
        world.effects()
        red = gang(world, "red", 2, "red")
        assert red.reason is Reason.PREEMPTING
        found = evicted(world)
        assert set(found) == {"Reclaimed"}
        assert len(found["Reclaimed"]) == 2

    def test_no_more_is_reclaimed_than_was_borrowed(self, world: World) -> None:
        """A queue keeps its own nominal quota whoever asks."""
        world.nodes(4)
        self.shared(world)
        for index in range(3):
            gang(world, f"blue-{index}", 1, "blue").run()
        gang(world, "red-a", 1, "red").run()
        world.effects()
        red = gang(world, "red-b", 2, "red")
        assert red.reason is Reason.QUOTA_EXCEEDED
        assert not evicted(world)

    def test_a_queue_that_reclaims_nothing_waits(self, world: World) -> None:
        """With reclaimWithinCohort Never a gang waits until the borrower has finished."""
        world.nodes(4)
        tell(
            world,
            queue("all"),
            queue("red", 16, parent="all", preemption=PreemptionPolicy(reclaim_within_cohort=Reclaim.NEVER)),
            queue("blue", 16, parent="all"),
        )
        for index in range(4):
            gang(world, f"blue-{index}", 1, "blue").run()
        world.effects()
        assert gang(world, "red", 2, "red").reason is Reason.QUOTA_EXCEEDED
        assert not evicted(world)

    def test_who_has_just_begun_is_protected(self, world: World) -> None:
        """Gangs of a queue with minRuntime are not evicted before they ran that long; then they are, by themselves."""
        world.nodes(4)
        protected = replace(RECLAIM, min_runtime=600.0)
        tell(
            world,
            queue("all"),
            queue("red", 16, parent="all", preemption=RECLAIM),
            queue("blue", 16, parent="all", preemption=protected),
        )
        began = world.clock.now().timestamp()
        for index in range(4):
            job = gang(world, f"blue-{index}", 1, "blue")
            job.run()
            job.see(0, started_at=began)
        world.effects()
        red = gang(world, "red", 2, "red")
        assert not evicted(world)
        world.later(601)
        assert len(evicted(world)["Reclaimed"]) == 2
        assert red.reason is Reason.PREEMPTING

    def test_notice_is_given(self, world: World) -> None:
        """Gangs of a queue with grace are told first, evicted afterwards, and spared if nobody needs their place."""
        world.nodes(4)
        patient = replace(RECLAIM, grace=120.0)
        tell(
            world,
            queue("all"),
            queue("red", 16, parent="all", preemption=RECLAIM),
            queue("blue", 16, parent="all", preemption=patient),
        )
        jobs = [gang(world, f"blue-{index}", 1, "blue") for index in range(4)]
        for job in jobs:
            job.run()
        world.effects()
        gang(world, "red", 2, "red")
        effects = world.effects()
        assert not effects.evictions
        assert sum(note.reason == "EvictionNotice" for note in effects.notes) == 2
        world.later(121)
        assert len(evicted(world)["Reclaimed"]) == 2

    def test_quota_is_reclaimed_even_if_nodes_are_free(self, world: World) -> None:
        """Where nodes are free but the tree's quota is lent out, borrowers leave for the owner."""
        world.nodes(6)
        self.shared(world)
        for index in range(4):
            gang(world, f"blue-{index}", 1, "blue").run()
        world.effects()
        red = gang(world, "red", 1, "red")
        assert len(evicted(world)["Reclaimed"]) == 1
        assert red.reason is Reason.PREEMPTING

    def test_gangs_without_queue_are_nobodys_to_reclaim(self, world: World) -> None:
        """What runs in no queue is not evicted for a queue's quota."""
        world.nodes(2)
        running(world, "free", 2)
        tell(world, Queue("red", uid="red", flavors=queue("red", 16).flavors))
        world.effects()
        assert gang(world, "red", 1, "red").reason is Reason.INSUFFICIENT_CAPACITY
        assert not evicted(world)


def test_who_did_not_start_has_nobody_else_evicted_for_a_while(world: World) -> None:
    """A gang for which others were evicted, and that did not start in time, does not clear one node after the other."""
    world.nodes(2)
    victims = {job.pods[0].name: job for job in (running(world, f"low-{index}", 1, priority=1) for index in range(2))}
    high = world.gang("high", 1, priority=5)
    ((gone,),) = evicted(world).values()
    leave(world, victims.pop(gone))
    (other,) = victims.values()
    node = high.reserved["high-0"]
    world.later(61)  # kube-scheduler never brought it
    foreign = world.pod("foreign", 8, scheduler_name="default-scheduler", node_name=node, phase=Phase.RUNNING)
    world.tell(PodSeen(foreign))
    world.later(60)
    assert not high.reserved
    assert not evicted(world)
    world.later(600)
    assert evicted(world) == {"Preempted": {other.pods[0].name}}


@pytest.mark.parametrize("placed", [False, True], ids=["before the place is free", "once it is placed"])
def test_who_is_refused_has_nobody_evicted_again_for_a_while(world: World, *, placed: bool) -> None:
    """A gang that kube-scheduler refuses by itself, though others left for it, evicts nobody when it asks again."""
    world.nodes(1)
    low = running(world, "low", 1, priority=1)
    high = world.gang("high", 1, priority=5)
    assert evicted(world) == {"Preempted": {"low-0"}}
    if placed:
        leave(world, low)
        assert high.reserved
    high.see(0, refusal="0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.")
    world.judge()
    if not placed:
        leave(world, low)
    running(world, "other", 1, priority=1)
    assert high.reason is Reason.REFUSED_BY_SCHEDULER
    world.effects()
    world.filter(high.pods[0])
    world.judge()
    assert high.wait is not None
    assert high.wait.reason == Reason.INSUFFICIENT_CAPACITY
    assert not evicted(world)
    world.later(600)
    assert evicted(world) == {"Preempted": {"other-0"}}


class TestBesideWhatIsKept:
    """Others wait for room that is kept for them."""

    def test_nobody_leaves_for_what_is_kept(self, world: World) -> None:
        """What is free now and kept for a gang ahead stays kept; what it cannot have now does not stand in the way."""
        world.nodes(1)
        for name in ("a", "b", "c"):
            running(world, name, 1, 2, priority=0)
        running(world, "lasting", 1, 1, options=keys.Options(preemptible=False))
        head = world.gang("head", 1, priority=4)
        world.effects()
        urgent = world.gang("urgent", 1, 2, priority=3)
        (names,) = evicted(world).values()
        assert len(names) == 1
        assert head.reason is Reason.INSUFFICIENT_CAPACITY
        (gone,) = names
        world.tell(PodGone(next(pod.uid for pod in world.state.pods() if pod.name == gone)))
        world.judge()
        assert urgent.reserved

    def test_a_cleared_place_is_its_gangs_while_others_are_cleared_on_the_same_node(self, world: World) -> None:
        """What has not left yet is not kept of what has: the gang starts, and has no other gang evicted instead."""
        world.nodes(1)
        for name in ("a", "b", "c", "d"):
            running(world, name, 1, 2, priority=0)
        world.effects()
        waiting = {f"default/{name}": world.gang(name, 1, 2, priority=5) for name in ("first", "second", "third")}
        effects = world.effects()
        assert {evict.by for evict in effects.evictions.values()} == waiting.keys()
        for going in list(effects.evictions.values()):
            world.tell(PodGone(going.pod.uid))
            world.judge()
            assert waiting.pop(going.by).reserved
            assert not any(job.reserved for job in waiting.values())
        assert not evicted(world)
