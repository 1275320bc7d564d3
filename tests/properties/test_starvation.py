"""P3 and P4 beside gangs that kube-scheduler never lets pass: the others start, and nothing is held without end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from hypothesis import given, settings
from hypothesis import strategies as st

from extender.admission.events import Decide, Filter, Outcome, PodSeen, Tick
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef
from extender.objects.sources.coscheduling import COSCHEDULING
from tests.worlds import Job, World

NODES = 4
GPUS = 8 * NODES
#: In which a gang starts whose room no gang that can start uses (seconds): two passes after the last refusal.
PROMPT_SECONDS = 5
#: How long a reservation lasts by default (seconds).
RESERVATION_SECONDS = 60


class Flaw(Enum):
    """What kube-scheduler says of the members of a gang that it never lets pass."""

    CLAIM = '0/4 nodes are available: persistentvolumeclaim "data" not found. not found'
    PEER = "0/4 nodes are available: 4 node(s) didn't match pod affinity rules."
    MIXED = "0/4 nodes are available: 1 node(s) didn't match pod affinity rules, 3 Insufficient nvidia.com/gpu."
    FULL = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
    SILENT = ""  # nothing: another extender, or a volume that is never provisioned


@dataclass(frozen=True)
class Hopeless:
    """A gang that never starts: how many members of one GPU, what is wrong, and with how many of them."""

    members: int
    flaw: Flaw
    flawed: int


hopeless = st.builds(Hopeless, st.integers(1, GPUS), st.sampled_from(list(Flaw)), st.integers(1, GPUS)).map(
    lambda each: replace(each, flawed=min(each.flawed, each.members))
)


class Scheduler:
    """A kube-scheduler that tries each pod when it comes and when it is nominated, and some of them in vain."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.jobs: list[Job] = []
        self.flaws: dict[str, Flaw] = {}

    def come(self, name: str, namespace: str, members: int, flaw: Flaw | None = None, flawed: int = 0) -> Job:
        """Create a gang; kube-scheduler tries its members at once."""
        job = Job(self.world, GroupRef(COSCHEDULING, namespace, name))
        self.world.group(job.ref, members)
        for index in range(members):
            job.pods.append(self.world.pod(f"{name}-{index}", 1, group=job.ref, namespace=namespace))
            self.world.tell(PodSeen(job.pods[-1]))
            if flaw is not None and index < flawed:
                self.flaws[job.pods[-1].uid] = flaw
        self.jobs.append(job)
        self.world.tell(Decide())
        for index in range(members):
            self.attempt(job, index)
        return job

    def attempt(self, job: Job, index: int) -> None:
        """Try one pod: its own filters first, then Muster's, then bind."""
        pod = job.pods[index]
        flaw = self.flaws.get(pod.uid)
        if flaw is not None:
            if flaw is Flaw.FULL or (flaw is not Flaw.SILENT and pod.refusal != flaw.value):
                job.see(index, refusal=flaw.value, nominated_node="")
            return
        answer = self.world.tell(Filter(pod, [node.name for node in self.world.state.nodes()]))
        if answer.outcome is Outcome.PINNED:
            job.bind(index)

    def second(self) -> None:
        """Let a second pass: nominations are written, and what they wake is tried; what may start is bound."""
        self.world.clock.advance(1)
        self.world.tell(Tick())
        self.world.tell(Decide())
        found = self.world.effects()
        members = {pod.uid: (job, index) for job in self.jobs for index, pod in enumerate(job.pods)}
        for uid, wish in found.nominations.items():
            job, index = members[uid]
            if not job.pods[index].node_name:
                if wish.again:
                    job.see(index, nominated_node="")
                job.see(index, nominated_node=wish.node)
                # What its own filters refused for room it tries again when a nomination is taken off, as one is then.
                if wish.node and (wish.again or self.flaws.get(uid) is not Flaw.FULL):
                    self.attempt(job, index)
        for uid in (*found.released, *self.world.effects().released):
            job, index = members[uid]
            job.see(index, node_name=job.reserved[job.pods[index].name])
        self.world.tell(Decide())
        self.world.check_promises()

    def started(self, job: Job) -> bool:
        """Tell whether all members of a gang are bound."""
        return all(self.bound(pod) for pod in job.pods)

    @staticmethod
    def bound(pod: Pod) -> bool:
        """Tell whether a pod is bound."""
        return bool(pod.node_name)


def play(tenant: list[Hopeless], members: int, seconds: int) -> tuple[Scheduler, Job]:
    """Let the gangs of a tenant come, then one of another tenant, and time pass until it starts or for so long."""
    world = World()
    world.nodes(NODES)
    scheduler = Scheduler(world)
    for number, each in enumerate(tenant):
        scheduler.come(f"bad-{number}", "tenant", each.members, each.flaw, each.flawed)
    good = scheduler.come("good", "other", members)
    for _ in range(seconds):
        scheduler.second()
        if scheduler.started(good):
            break
    return scheduler, good


@settings(max_examples=15, deadline=None)
@given(st.lists(hopeless.filter(lambda each: each.flaw in {Flaw.CLAIM, Flaw.PEER}), min_size=1, max_size=8))
def test_gangs_whose_members_are_refused_keep_nobody_waiting(tenant: list[Hopeless]) -> None:
    """However many they are, and whatever they ask for, a gang of another tenant starts at once."""
    scheduler, good = play(tenant, 2, PROMPT_SECONDS)
    assert scheduler.started(good)


@settings(max_examples=15, deadline=None)
@given(st.lists(hopeless, min_size=1, max_size=6), st.integers(1, GPUS))
def test_no_gang_waits_for_longer_than_one_reservation_of_another_namespace(
    tenant: list[Hopeless], members: int
) -> None:
    """Even where kube-scheduler says nothing: the next one in turn is not of the same tenant again."""
    scheduler, good = play(tenant, members, RESERVATION_SECONDS + 2 * PROMPT_SECONDS)
    assert scheduler.started(good)
    for job in scheduler.jobs[:-1]:
        assert not any(map(scheduler.bound, job.pods))


@settings(max_examples=4, deadline=None)
@given(st.lists(hopeless, min_size=2, max_size=5))
def test_gangs_that_never_start_hold_ever_less(tenant: list[Hopeless]) -> None:
    """Over a long time each of them is tried again and again, and holds its room for a small part of it."""
    scheduler, _ = play(tenant, 1, 1)
    held = {job.ref: 0 for job in scheduler.jobs}
    for _ in range(400):
        scheduler.second()
        for job in scheduler.jobs[:-1]:
            held[job.ref] += bool(job.reserved)
    flaws = dict(zip((job.ref for job in scheduler.jobs), (each.flaw for each in tenant), strict=False))
    for ref, seconds in held.items():
        flaw = flaws.get(ref)
        if flaw is not None and flaw is not Flaw.SILENT:
            assert seconds <= 2 * PROMPT_SECONDS
        assert seconds <= 6 * RESERVATION_SECONDS
