"""Promises about queues, kept through random histories: quota, recovery of what is lent, and no eviction in vain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extender.admission.events import PodGone, PodSeen, QueueSeen
from extender.objects import keys
from extender.objects.queue import Flavor, PreemptionPolicy, Queue, Quota
from extender.objects.reason import Reason
from tests.worlds import GPU, Job, World

#: Nodes of eight GPUs, and what of them belongs to which queue: all of it to somebody.
NODES = 8
NOMINAL = {"red": 24, "green": 24, "blue": 16}

Step = tuple[str, Any, Any, Any]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.sampled_from(sorted(NOMINAL)), st.integers(1, 4), st.integers(0, 2)),
        st.tuples(st.just("finish"), st.integers(0, 9), st.none(), st.none()),
        st.tuples(st.just("later"), st.sampled_from([1, 40, 400]), st.none(), st.none()),
    ),
    max_size=30,
)


class Cluster:
    """A world whose pods do what they are told at once: who is placed runs, who is evicted is gone and comes again."""

    def __init__(self) -> None:
        self.world = World()
        self.world.nodes(NODES)
        self.world.tell(QueueSeen(Queue("all", uid="all")))
        for name, gpus in NOMINAL.items():
            flavors = (Flavor("any", {GPU: Quota(gpus)}),)
            self.world.tell(
                QueueSeen(Queue(name, uid=name, parent="all", flavors=flavors, preemption=PreemptionPolicy()))
            )
        self.jobs: list[Job] = []
        self.homes: dict[str, str] = {}
        self._serial = 0

    def take(self, step: Step) -> None:
        """Do one thing, and let everybody follow."""
        kind, first, second, third = step
        if kind == "create":
            self._serial += 1
            name = f"{first}-{self._serial}"
            options = keys.Options(queue=first)
            self.jobs.append(self.world.gang(name, second, options=options, priority=third, min_member=second))
            self.homes[name] = first
        elif kind == "finish":
            running = [job for job in self.jobs if all(pod.bound for pod in job.pods)]
            if running:
                job = running[first % len(running)]
                job.finish()
                self.jobs.remove(job)
        else:
            self.world.clock.advance(first)
        quiet = 0
        for _ in range(20):
            self.world.later(31)  # whoever found nobody to evict looks again by then
            quiet = 0 if self._follow() else quiet + 1
            if quiet > 1:
                return
        msg = "evictions go on for ever"
        raise AssertionError(msg)

    def _follow(self) -> bool:
        """Run who is placed, and let go who is evicted; return whether anybody was."""
        preemptors = self.world.state.preemptors()
        evicted = {each.pod.uid for each in self.world.effects().evictions.values()}
        victims = [job for job in self.jobs if any(pod.uid in evicted for pod in job.pods)]
        for job in victims:
            assert all(pod.uid in evicted for pod in job.pods), f"{job.ref} was evicted in part"
            for index, pod in enumerate(job.pods):
                self.world.tell(PodGone(pod.uid))
                job.pods[index] = self.world.pod(pod.name, 8, group=job.ref, priority=pod.priority, options=pod.options)
        self.world.judge()
        for job in self.jobs:
            if job.ref in preemptors:
                assert job.reserved, f"{job.ref} had others evicted and is not placed: {job.wait}"
        for job in victims:
            for pod in job.pods:
                self.world.tell(PodSeen(pod))
        self.world.judge()
        for job in self.jobs:
            if job.reserved:
                job.run()
        return bool(victims)

    def waiting(self) -> Iterator[Job]:
        """Iterate over the gangs that hold nothing."""
        return (job for job in self.jobs if not job.reserved and not any(pod.bound for pod in job.pods))

    def check(self) -> None:
        """Assert what holds at every moment."""
        self.world.check_promises()
        used = {name: self.world.state.used(name, "any", GPU) for name in NOMINAL}
        assert sum(used.values()) <= sum(NOMINAL.values())
        for name in NOMINAL:
            held = sum(8 for job in self.jobs if self.homes[job.ref.name] == name for pod in job.pods if pod.bound)
            assert used[name] == held
        for job in self.waiting():
            name, asked = self.homes[job.ref.name], 8 * len(job.pods)
            entitled = used[name] + asked <= NOMINAL[name]
            assert not entitled, f"{job.ref} is within the quota of {name} and waits: {job.wait}"
            assert job.reason is not Reason.PREEMPTING


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_quota_is_kept_and_comes_back(steps: list[Step]) -> None:
    """Through random arrivals, ends and evictions quota holds, what was lent comes back, and nobody leaves in vain.

    All quota together is all that there is, gangs take whole nodes, and those that are evicted come back.
    """
    cluster = Cluster()
    for step in steps:
        cluster.take(step)
        cluster.check()
