"""Pods that say that they are not to be evicted stay, whatever for, and their gangs keep their minimum with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, combinations
from random import Random
from typing import Any

import pytest

from extender.admission.events import Defragment, PodGone, PodSeen, Preempt
from extender.cluster.gangs import split
from extender.objects import keys
from extender.objects.pod import Phase, Pod
from extender.objects.queue import NonPreemptible, PreemptionPolicy, StopPolicy
from extender.objects.reason import Reason
from tests.eviction.test_preemptions import RECLAIM, evicted
from tests.queues.test_sharing import queue, tell
from tests.worlds import GPU, Job, World

KEPT = keys.Options(preemptible=False)


def running(world: World, words: Sequence[bool | None], minimum: int, to: str = "", **fields: Any) -> Job:
    """Return a gang of pods with 8 GPUs each, one for each word of `preemptible`, that run on a node each."""
    job = world.gang("low", 0, min_member=minimum, group=fields.pop("group", None))
    for index, word in enumerate(words):
        options = keys.Options(queue=to, preemptible=word)
        pod = world.pod(f"low-{index}", 8, group=job.ref, options=options, **({"priority": 1} | fields))
        job.pods.append(replace(pod, node_name=f"node-{index}", phase=Phase.RUNNING))
        world.tell(PodSeen(job.pods[-1]))
    world.judge()
    world.effects()
    return job


@pytest.mark.parametrize(
    ("words", "minimum", "wanted", "leaves"),
    [
        ((False, None), 2, 1, set()),
        ((None, False), 2, 2, set()),
        ((False, None, None), 1, 1, {"low-2"}),
        ((False, None, None), 1, 2, {"low-1", "low-2"}),
        ((False, None, None), 1, 3, set()),
        ((None, None, False), 1, 1, {"low-1"}),
        ((None, None, False), 2, 1, {"low-1"}),
        ((None, False, False), 1, 2, set()),
        ((None, True), 2, 1, {"low-0", "low-1"}),
    ],
)
def test_a_gang_keeps_such_pods_and_its_minimum(
    world: World, words: Sequence[bool | None], minimum: int, wanted: int, leaves: set[str]
) -> None:
    """Whom it can spare beside them goes alone; it never goes whole, for nothing would be left of it but those."""
    world.nodes(len(words))
    running(world, words, minimum)
    world.gang("high", wanted, priority=5)
    assert evicted(world) == ({"Preempted": leaves} if leaves else {})


def test_the_pod_group_speaks_for_all(world: World) -> None:
    """What its PodGroup says counts before what its pods say, either way."""
    world.nodes(2)
    job = running(world, (None, True), 1, group={"options": KEPT})
    high = world.gang("high", 1, priority=5)
    assert not evicted(world)
    world.group(job.ref, 1, options=keys.Options(preemptible=True), uid=job.gang.uid)
    job.see(0, options=KEPT)
    world.later(60)
    assert high.reason is Reason.PREEMPTING
    assert evicted(world) == {"Preempted": {"low-1"}}


def test_one_that_waits_keeps_its_gang(world: World) -> None:
    """It is to find the others there when it comes; what they can spare may leave."""
    world.nodes(3)
    job = running(world, (None, None, None), 2)
    world.tell(PodSeen(world.pod("low-3", 8, group=job.ref, priority=1, options=KEPT)))
    world.gang("high", 1, priority=5)
    assert evicted(world) == {"Preempted": {"low-2"}}
    world.gang("higher", 3, priority=6)
    assert not evicted(world)


def test_what_has_ended_keeps_nobody(world: World) -> None:
    """A launcher that succeeded has nothing left to be kept."""
    world.nodes(2)
    job = running(world, (False, None), 2)
    job.see(0, phase=Phase.SUCCEEDED)
    world.gang("high", 2, priority=5)
    assert evicted(world) == {"Preempted": {"low-1"}}


def test_a_word_that_comes_during_the_notice_counts(world: World) -> None:
    """Whoever was told, and says so then, stays; the others stay with it, and the place is given up."""
    world.nodes(2)
    policy = replace(RECLAIM, grace=120.0)
    tell(world, queue("team", 16, preemption=policy))
    job = running(world, (None, None), 2, "team")
    high = world.gang("high", 2, priority=5, options=keys.Options(queue="team"))
    assert high.reason is Reason.PREEMPTING
    job.see(1, options=keys.Options(queue="team", preemptible=False))
    world.later(121)
    assert not evicted(world)
    assert high.reason is not Reason.PREEMPTING


def test_reclaim_takes_what_is_beside_them(world: World) -> None:
    """Nominal quota comes back as far as pods may be evicted."""
    world.nodes(3)
    tell(world, queue("all"), queue("red", 16, parent="all", preemption=RECLAIM), queue("blue", 8, parent="all"))
    running(world, (None, False, None), 1, "blue")
    world.gang("owner", 2, options=keys.Options(queue="red"))
    assert evicted(world) == {"Reclaimed": {"low-0", "low-2"}}


@pytest.mark.parametrize(("minimum", "leaves"), [(3, set()), (1, {"low-1", "low-2"})])
def test_a_drained_queue_leaves_them_running(world: World, minimum: int, leaves: set[str]) -> None:
    """With what their gang needs beside them; its other pods go."""
    world.nodes(3)
    tell(world, queue("team", 24))
    job = running(world, (False, None, None), minimum, "team")
    tell(world, queue("team", 24, stop_policy=StopPolicy.HOLD_AND_DRAIN))
    world.judge()
    assert evicted(world) == ({"QueueDrained": leaves} if leaves else {})
    for pod in [pod for pod in job.pods if pod.name in leaves]:
        world.tell(PodGone(pod.uid))
    world.later(60)
    assert not evicted(world)


def test_what_is_left_of_a_gang_below_its_minimum_stays(world: World) -> None:
    """It waits for its repair, as with muster.dev/below-minimum repair."""
    world.nodes(3)
    job = running(world, (False, None, None), 3)
    world.tell(PodGone(job.pods.pop().uid))
    world.judge()
    world.later(1000)
    assert not evicted(world)


def test_nothing_of_such_a_gang_is_moved_but_what_it_can_spare(world: World) -> None:
    """To defragment, a pod beside them that the gang can spare moves; else nobody does."""
    world.nodes(2)
    job = Job(world, world.group(world.gang("low", 0, min_member=1).ref, 1).ref)
    for index, word in enumerate((False, None)):
        pod = world.pod(f"low-{index}", 4, group=job.ref, options=keys.Options(preemptible=word))
        job.pods.append(replace(pod, node_name=f"node-{index}", phase=Phase.RUNNING))
        world.tell(PodSeen(job.pods[-1]))
    waiting = world.gang("waiting", 1)
    found = world.tell(Defragment(waiting.ref, apply=False))
    assert [(move.origins, move.targets) for move in found.moves] == [(("node-1",), ("node-0",))]
    job.see(1, options=KEPT)
    assert not world.tell(Defragment(waiting.ref, apply=False)).fits


def test_kube_scheduler_may_not_evict_them_for_its_own_pods(world: World) -> None:
    """Of the candidates of a foreign pod those are struck out; a pod that names no group counts too."""
    world.nodes(4)
    job = running(world, (None, False, None), 1)
    single = world.pod("single", 8, options=KEPT, node_name="node-3", phase=Phase.RUNNING)
    world.tell(PodSeen(single))
    victims = {pod.node_name: [pod.uid] for pod in (*job.pods, single)}
    foreign = world.pod("foreign", 8, scheduler_name="default-scheduler")
    assert world.tell(Preempt(foreign, {name: victims[name] for name in ("node-1", "node-2", "node-3")})) == ["node-2"]


class TestQuota:
    """What cannot be evicted stays within nominal quota, pod by pod."""

    @staticmethod
    def borrowing(world: World, own: int, lent: int, **fields: Any) -> None:
        """Create a Queue with so many GPUs of its own beside one that lends so many."""
        tell(world, queue("all"), queue("red", own, parent="all", **fields), queue("blue", lent, parent="all"))

    def grown(self, world: World, words: Sequence[bool | None], minimum: int) -> Job:
        """Create a gang in the Queue, with members of 8 GPUs."""
        job = world.gang("job", 0, min_member=minimum)
        for index, word in enumerate(words):
            options = keys.Options(queue="red", preemptible=word)
            job.pods.append(world.pod(f"job-{index}", 8, group=job.ref, options=options))
            world.tell(PodSeen(job.pods[-1]))
        world.judge()
        return job

    def test_members_that_can_leave_borrow(self, world: World) -> None:
        """Beyond the minimum; what the gang needs beside the kept pod is within nominal quota."""
        world.nodes(4)
        self.borrowing(world, 16, 16)
        assert len(self.grown(world, (False, None, None, None), 2).reserved) == 4

    def test_what_a_gang_needs_beside_such_a_pod_does_not_borrow(self, world: World) -> None:
        """Its core would not come back either; the wait says so."""
        world.nodes(4)
        self.borrowing(world, 16, 16)
        job = self.grown(world, (None, None, False), 3)
        assert job.wait is not None
        assert "for pods that cannot be evicted, which may not borrow" in job.wait.message

    def test_a_kept_member_beyond_the_minimum_does_not_borrow(self, world: World) -> None:
        """The others do."""
        world.nodes(4)
        self.borrowing(world, 8, 24)
        assert set(self.grown(world, (None, False, False, None), 1).reserved) == {"job-0", "job-3"}

    def test_what_can_leave_counts_for_nobody_else(self, world: World) -> None:
        """Another gang that cannot be evicted has all nominal quota that such pods do not hold, and no more."""
        world.nodes(4)
        self.borrowing(world, 24, 8)
        self.grown(world, (False, None), 1).run()
        other = world.gang("other", 2, options=keys.Options(queue="red", preemptible=False))
        assert len(other.reserved) == 2
        third = world.gang("third", 1, options=keys.Options(queue="red", preemptible=False))
        assert third.wait is not None
        assert third.wait.reason is Reason.QUOTA_EXCEEDED

    @pytest.mark.parametrize(("word", "left"), [(None, 16), (False, 8)])
    def test_so_does_what_a_place_is_being_cleared_for(self, world: World, word: bool | None, left: int) -> None:
        """A member beyond the minimum that can leave again counts for nobody, before it is there as well."""
        world.nodes(2)
        tell(world, queue("all"), queue("blue", 0, parent="all"))
        tell(world, queue("red", 24, parent="all", preemption=RECLAIM))
        blue = world.gang("blue", 1, options=keys.Options(queue="blue"))
        blue.run()
        job = self.grown(world, (False, word), 1)
        job.run()
        world.later(60)
        assert evicted(world) == {"Reclaimed": {"blue-0"}}
        sharing = world.admission.sharing
        short = sharing.charges.nonpreemptible.shortage(sharing.tree, "red", "all", {GPU: 1000})
        assert short is not None
        assert short.available == left

    def test_a_word_that_changes_is_followed(self, world: World) -> None:
        """A member that says so later is counted from then on, with what its gang needs beside it."""
        world.nodes(4)
        self.borrowing(world, 16, 16)
        job = self.grown(world, (None, None), 2)
        job.run()
        job.see(1, options=keys.Options(queue="red", preemptible=False))
        other = world.gang("other", 1, options=keys.Options(queue="red", preemptible=False))
        assert other.wait is not None
        assert other.wait.reason is Reason.QUOTA_EXCEEDED
        job.see(1, options=keys.Options(queue="red"))
        world.judge()
        assert other.reserved

    def test_a_queue_may_allow_it(self, world: World) -> None:
        """With nonPreemptible Anywhere they borrow as well."""
        world.nodes(4)
        self.borrowing(world, 8, 24, preemption=PreemptionPolicy(non_preemptible=NonPreemptible.ANYWHERE))
        assert len(self.grown(world, (False, None, False), 2).reserved) == 3


@pytest.mark.parametrize("seed", range(40))
def test_as_many_can_leave_as_any_choice_would_have(world: World, seed: int) -> None:
    """Of all sets without kept pods after which a gang has its minimum in each role none is larger than the extras."""
    random = Random(seed)
    roles = {"worker": random.randint(0, 2), "driver": random.randint(0, 1)}
    minimum = random.randint(1, 4)
    job = world.gang("job", 0, min_member=minimum, group={"role_minimums": tuple(roles.items())})
    for index in range(random.randint(1, 6)):
        options = keys.Options(preemptible=random.choice((None, None, False)))
        fields: dict[str, Any] = {"role": random.choice(tuple(roles)), "options": options}
        pod = world.pod(f"job-{index}", 1, group=job.ref, node_name=f"node-{index}", phase=Phase.RUNNING, **fields)
        job.pods.append(pod)
        world.tell(PodSeen(pod))

    def stands(left: Sequence[Pod]) -> bool:
        held = [pod.role for pod in left]
        most = max(minimum, sum(roles.values()))
        return len(held) >= most and all(held.count(role) >= least for role, least in roles.items())

    free = [pod for pod in job.pods if pod.options.preemptible is None]
    sets = chain.from_iterable(combinations(free, size) for size in range(1, len(free) + 1))
    most = max((len(some) for some in sets if stands([pod for pod in job.pods if pod not in some])), default=0)
    core, extras = split(job.gang, job.pods)
    assert len(extras) == most
    assert {pod.uid for pod in (*core, *extras)} == {pod.uid for pod in job.pods}
    assert all(pod.options.preemptible is None for pod in extras)
