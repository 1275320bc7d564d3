"""PodGroups that say that they are disrupted whole, and whose priority is their own, whatever their pods say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.admission.events import PodSeen, Preempt
from extender.objects import keys
from extender.objects.pod import Phase
from extender.objects.queue import StopPolicy
from extender.objects.reason import Reason
from tests.eviction.test_preemptions import RECLAIM, evicted
from tests.queues.test_sharing import queue, tell
from tests.worlds import Job, World


def running(world: World, pods: int, minimum: int, group: dict[str, Any], **fields: Any) -> Job:
    """Return a gang of pods with 8 GPUs each that run on a node each."""
    job = world.gang("low", 0, min_member=minimum, group=group)
    for index in range(pods):
        pod = world.pod(f"low-{index}", 8, group=job.ref, **({"priority": 1} | fields))
        job.pods.append(replace(pod, node_name=f"node-{index}", phase=Phase.RUNNING))
        world.tell(PodSeen(job.pods[-1]))
    world.judge()
    world.effects()
    return job


WHOLE: dict[str, Any] = {"goes_whole": True}


class TestDisruption:
    """Whole or not at all."""

    @pytest.mark.parametrize(("group", "leaves"), [({}, {"low-2"}), (WHOLE, {"low-0", "low-1", "low-2"})])
    def test_members_beyond_the_minimum(self, world: World, group: dict[str, Any], leaves: set[str]) -> None:
        """They leave one by one, unless the PodGroup goes whole."""
        world.nodes(3)
        running(world, 3, 1, group)
        world.gang("high", 1, priority=5)
        assert evicted(world) == {"Preempted": leaves}

    @pytest.mark.parametrize(("group", "leaves"), [({}, {"low-1"}), (WHOLE, set())])
    def test_for_members_beyond_the_minimum(self, world: World, group: dict[str, Any], leaves: set[str]) -> None:
        """No gang of a queue leaves whole for those of another there."""
        world.nodes(2)
        running(world, 2, 1, group)
        world.nodes(1, prefix="new")
        high = world.gang("high", 2, priority=5, min_member=1)
        high.run()
        world.later(60)
        assert evicted(world) == ({"Preempted": leaves} if leaves else {})

    def test_what_is_lent_comes_back_with_all_of_it(self, world: World) -> None:
        """Though a member beyond the minimum were enough."""
        world.nodes(2)
        tell(world, queue("all"), queue("red", 8, parent="all", preemption=RECLAIM), queue("blue", 0, parent="all"))
        running(world, 2, 1, WHOLE, options=keys.Options(queue="blue"))
        world.gang("owner", 1, options=keys.Options(queue="red"))
        assert evicted(world) == {"Reclaimed": {"low-0", "low-1"}}

    def test_with_a_kept_pod_it_stays_whole(self, world: World) -> None:
        """Nobody of it leaves, if its queue is drained either, and no member of it borrows."""
        world.nodes(3)
        tell(world, queue("team", 24))
        job = running(world, 3, 1, WHOLE, options=keys.Options(queue="team"))
        job.see(0, options=keys.Options(queue="team", preemptible=False))
        world.gang("high", 1, priority=5, options=keys.Options(queue="team"))
        tell(world, queue("team", 24, stop_policy=StopPolicy.HOLD_AND_DRAIN))
        assert not evicted(world)

    def test_kube_scheduler_takes_no_member_of_it(self, world: World) -> None:
        """Neither for a pod of another scheduler."""
        world.nodes(2)
        job = running(world, 2, 1, WHOLE)
        foreign = world.pod("foreign", 8, scheduler_name="default-scheduler")
        assert world.tell(Preempt(foreign, {pod.node_name: [pod.uid] for pod in job.pods})) == []


class TestPriority:
    """Its own, not that of its pods."""

    @pytest.mark.parametrize(("own", "leaves"), [(0, True), (5, False), (9, False)])
    def test_it_decides_who_leaves(self, world: World, own: int, *, leaves: bool) -> None:
        """Whatever the priority of the pods, in a queue or without one."""
        world.nodes(1)
        running(world, 1, 1, {"priority": own}, priority=9 - own)
        high = world.gang("high", 1, priority=5)
        assert evicted(world) == ({"Preempted": {"low-0"}} if leaves else {})
        assert (high.reason is Reason.PREEMPTING) is leaves

    def test_one_that_is_told_later_counts(self, world: World) -> None:
        """As does a PodGroup that is seen after its pods."""
        world.nodes(1)
        job = running(world, 1, 1, {"priority": 9})
        world.gang("high", 1, priority=5)
        assert not evicted(world)
        world.group(job.ref, 1, uid=job.gang.uid, priority=0)
        world.later(60)
        assert evicted(world) == {"Preempted": {"low-0"}}

    def test_pods_may_differ(self, world: World) -> None:
        """They have one place in the queue all the same."""
        world.nodes(2)
        job = world.gang("job", 2, group={"priority": 3})
        job.see(0, priority=7)
        world.judge()
        assert len(job.reserved) == 2

    @pytest.mark.parametrize(("group", "pods", "leaves"), [(True, False, False), (False, True, True)])
    def test_its_preemption_policy_counts_first(self, world: World, *, group: bool, pods: bool, leaves: bool) -> None:
        """It never preempts, or does, whatever its pods say."""
        world.nodes(1)
        running(world, 1, 1, {})
        world.gang("high", 1, priority=5, never_preempts=pods, group={"never_preempts": group})
        assert bool(evicted(world)) is leaves
