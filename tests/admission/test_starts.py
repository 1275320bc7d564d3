"""Suspended Jobs are gangs of expected pods: they wait, are placed and resumed, and their pods take their places."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.admission.events import (
    Decide,
    NamespaceSeen,
    NodeGone,
    PodGone,
    PodSeen,
    PriorityClassSeen,
    QueueSeen,
    Rebuild,
    WorkloadGone,
    WorkloadSeen,
)
from extender.ledger.effects import Suspension
from extender.objects.jobs import decode_job, read_job
from extender.objects.jobsigns import JobSigns, NoticePeriod
from extender.objects.keys import PLACE
from extender.objects.pod import Phase, Pod, read_pod
from extender.objects.podgroup import GroupRef
from extender.objects.podspec import decode_pod
from extender.objects.queue import Queue
from extender.objects.reason import Reason
from extender.objects.sources.table import JOB
from extender.objects.workload import MANAGE_JOBS
from tests.builders import written
from tests.worlds import Job, World

GPU = "nvidia.com/gpu"


class Submitted:
    """A `batch/v1` Job as the API server has it, and the Job controller that makes its pods."""

    def __init__(self, world: World, name: str, pods: int = 4, gpus: int = 8, **spec: Any) -> None:
        self.world, self.name, self.gpus = world, name, gpus
        self.spec: dict[str, Any] = {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            "suspend": True,
            "template": {"spec": {"schedulerName": "muster", "containers": [self._container()]}},
        } | spec
        self.annotations: dict[str, str] = {}
        self.status: dict[str, Any] = {}
        self.version = 0
        self.pods: dict[int, Pod] = {}
        self.seen()

    def _container(self) -> dict[str, Any]:
        return {"name": "worker", "resources": {"limits": {GPU: str(self.gpus)}}}

    @property
    def job(self) -> Job:
        """Return its gang."""
        return Job(self.world, GroupRef(JOB, "default", self.name), list(self.pods.values()))

    def seen(self, **spec: Any) -> None:
        """Change the Job, and let the engine see it."""
        self.spec |= spec
        self.version += 1
        meta = {
            "namespace": "default",
            "name": self.name,
            "uid": f"job-{self.name}",
            "resourceVersion": str(self.version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"muster.dev/queue": "team"},
            "annotations": self.annotations,
        }
        job = decode_job(written({"metadata": meta, "spec": self.spec, "status": self.status}))
        self.world.tell(WorkloadSeen(read_job(job)))

    def carry_out(self) -> Suspension | None:
        """Write what the engine wishes of the Job, as the API server would."""
        wish = self.world.effects().suspensions.get(f"job-{self.name}")
        if wish is not None:
            assert wish.suspend or wish.workload.version == str(self.version), "an outdated version is resumed"
            self.annotations = {} if wish.suspend else {PLACE: wish.place}
            self.seen(suspend=wish.suspend)
        return wish

    def create(self, *numbers: int, gpus: int | None = None, **added: Any) -> None:
        """Let the Job controller make pods, to whose spec others add something."""
        for number in numbers:
            template = self.spec["template"]["spec"]
            resources = {"limits": {GPU: str(self.gpus if gpus is None else gpus)}}
            resources["requests"] = resources["limits"]
            spec = template | {"containers": [{"name": "worker", "resources": resources}]}
            meta = {
                "namespace": "default",
                "name": f"{self.name}-{number}-x{self.version}",
                "uid": f"{self.name}-{number}-{self.version}",
                "creationTimestamp": "2026-01-01T00:00:09Z",
                "annotations": {"batch.kubernetes.io/job-completion-index": str(number)}
                if self.spec["completionMode"] == "Indexed"
                else {},
                "ownerReferences": [{"uid": f"job-{self.name}", "controller": True}],
            }
            pod = read_pod(decode_pod(written({"metadata": meta, "spec": spec | added})))
            self.pods[number] = pod
            self.world.tell(PodSeen(pod))

    def start(self) -> Job:
        """Resume it, make its pods, and let them run."""
        self.carry_out()
        self.create(*range(self.spec["parallelism"]))
        job = self.job
        job.run()
        self.pods = dict(zip(self.pods, job.pods, strict=True))
        return job

    def succeed(self, *numbers: int) -> None:
        """Let pods succeed, which the Job says when it is seen next."""
        for number in numbers:
            self.pods[number] = replace(self.pods[number], phase=Phase.SUCCEEDED)
            self.world.tell(PodSeen(self.pods[number]))
        self.status = {"succeeded": len(numbers), "completedIndexes": ",".join(map(str, numbers))}

    def delete(self, *numbers: int) -> None:
        """Let the Job controller delete pods."""
        for number in numbers:
            self.world.tell(PodSeen(replace(self.pods[number], deleting=True)))
        for number in numbers:
            self.world.tell(PodGone(self.pods.pop(number).uid))


@pytest.fixture
def world() -> World:
    """Return a world in which one queue has no quota, and the namespace has opted in."""
    return opted_in(World())


def opted_in(world: World) -> World:
    """Let a namespace opt in."""
    world.tell(QueueSeen(Queue("team", "team", default=True)))
    world.tell(NamespaceSeen("default", {MANAGE_JOBS: "true"}))
    return world


def half_done(world: World) -> Submitted:
    """Return a Job that is suspended when two of its four pods have succeeded, and that has places for the others."""
    world.nodes(4)
    job = Submitted(world, "train")
    world.judge()
    job.start()
    job.succeed(1, 3)
    job.annotations = {}
    job.seen(suspend=True)
    job.delete(0, 2)
    world.judge()
    return job


def waits(world: World, submitted: Submitted) -> Reason | None:
    """Return why a Job waits after a pass."""
    world.judge()
    return submitted.job.reason


class TestWaiting:
    """It stands in line like any gang, without a pod."""

    def test_one_that_fits_is_resumed_in_the_version_that_was_seen(self, world: World) -> None:
        """The wish names version and place, and no pod is nominated."""
        world.nodes(4)
        job = Submitted(world, "train")
        world.judge()
        assert len(job.job.reserved) == 4
        wish = job.carry_out()
        assert wish is not None
        assert (wish.suspend, wish.workload.version) == (False, "1")
        assert wish.place == "node-0*1,node-1*1,node-2*1,node-3*1"
        assert not world.effects().nominations

    def test_a_job_that_does_not_fit_waits_with_the_reason_of_any_gang(self, world: World) -> None:
        """It stays suspended."""
        world.nodes(3)
        job = Submitted(world, "train")
        assert waits(world, job) is Reason.EXCEEDS_CLUSTER
        assert job.carry_out() is None

    def test_it_waits_in_line_behind_a_gang_with_pods_and_is_resumed_when_that_ends(self, world: World) -> None:
        """Pods or not, there is one line."""
        world.nodes(4)
        first = world.gang("first", 4)
        job = Submitted(world, "train")
        assert waits(world, job) is Reason.INSUFFICIENT_CAPACITY
        first.run()
        first.finish()
        world.judge()
        assert job.carry_out() is not None

    @pytest.mark.parametrize("labels", [{}, {MANAGE_JOBS: "false"}])
    def test_a_namespace_that_has_not_opted_in_is_left_alone(self, labels: dict[str, str]) -> None:
        """Opting in later is in time."""
        world = opted_in(World())
        world.tell(NamespaceSeen("default", labels))
        world.nodes(4)
        job = Submitted(world, "train")
        world.judge()
        assert job.carry_out() is None
        assert world.state.gang(job.job.ref) is None
        world.tell(NamespaceSeen("default", {MANAGE_JOBS: "true"}))
        world.judge()
        assert job.carry_out() is not None

    def test_a_namespace_that_opts_out_gives_everything_back(self, world: World) -> None:
        """No gang and no pod is left of its Jobs."""
        world.nodes(4)
        job = Submitted(world, "train")
        world.judge()
        world.tell(NamespaceSeen("default", {}))
        world.judge()
        assert job.carry_out() is None
        assert world.state.gang(job.job.ref) is None
        assert not world.state.pods()

    def test_a_job_of_another_scheduler_says_so(self, world: World) -> None:
        """It would be resumed for pods that others place."""
        world.nodes(4)
        job = Submitted(world, "train", template={"spec": {"containers": [{"name": "x"}]}})
        assert waits(world, job) is Reason.INVALID_POD_GROUP
        assert job.carry_out() is None

    def test_a_job_that_is_deleted_leaves_nothing(self, world: World) -> None:
        """Its place is others'."""
        world.nodes(4)
        job = Submitted(world, "train")
        world.judge()
        world.tell(WorkloadGone("job-train"))
        world.judge()
        assert world.state.gang(job.job.ref) is None
        assert world.gang("other", 4).reserved

    def test_a_status_that_changes_has_the_new_version_resumed(self, world: World) -> None:
        """The wish for the version before comes too late."""
        world.nodes(4)
        job = Submitted(world, "train")
        world.judge()
        world.effects()  # it comes too late
        job.seen()
        world.judge()
        wish = job.carry_out()
        assert wish is not None
        assert wish.workload.version == "2"

    def test_a_place_that_is_lost_before_it_was_used_withdraws_the_wish(self, world: World) -> None:
        """A node goes."""
        world.nodes(4)
        job = Submitted(world, "train")
        world.judge()
        world.tell(NodeGone("node-0"))
        world.judge()
        assert job.carry_out() is None
        assert waits(world, job) is Reason.EXCEEDS_CLUSTER

    def test_a_large_job_is_taken_in_in_steps(self, world: World) -> None:
        """The event loop serves others in between."""
        world.nodes(100)
        job = Submitted(world, "train", pods=800, gpus=1)
        world.tell(Decide())
        assert len(world.state.pods()) == 250
        world.judge()
        for _ in range(8):
            world.judge()
        assert len(job.job.reserved) == 800
        assert job.carry_out() is not None


class TestStarting:
    """Pods come, and take the places that were kept for them."""

    def test_pods_that_come_take_the_places_of_their_indices_and_start_together(self, world: World) -> None:
        """Each is nominated where its index was planned."""
        world.nodes(4)
        job = Submitted(world, "train")
        world.judge()
        planned = {slot.pod.rank: node for node, slot in self._slots(job).items()}
        job.carry_out()
        job.create(2, 0)
        assert not [pod for pod in job.job.gang.members.values() if pod.is_expected and pod.rank == job.pods[2].rank]
        job.create(3, 1)
        assert {slot.pod.rank: node for node, slot in self._slots(job).items()} == planned
        nominated = world.effects().nominations
        assert {uid: each.node for uid, each in nominated.items()} == {
            pod.uid: planned[pod.rank] for pod in job.pods.values()
        }
        gang = job.job
        gang.run()
        assert gang.gang.has_minimum
        assert gang.wait is None
        assert len(gang.gang.members) == 4
        world.check_promises()

    @staticmethod
    def _slots(job: Submitted) -> dict[str, Any]:
        reservation = job.world.state.reservation(job.job.gang.uid)
        assert reservation is not None
        return {slot.node: slot for slot in reservation.slots.values()}

    def test_no_pod_is_bound_before_all_have_come(self, world: World) -> None:
        """The barrier counts pods that exist alone."""
        world.nodes(4)
        job = Submitted(world, "train")
        world.judge()
        job.carry_out()
        job.create(0, 1, 2)
        gang = job.job
        for index in range(3):
            gang.bind(index)
        assert not world.effects().released
        job.create(3)
        job.job.bind(3)
        assert len(world.effects().released) == 4

    def test_pods_may_come_before_the_news_that_the_job_was_resumed(self, world: World) -> None:
        """Jobs and pods are told of by two watches."""
        world.nodes(4)
        job = Submitted(world, "train", completionMode="NonIndexed")
        world.judge()
        wish = world.effects().suspensions["job-train"]
        assert wish is not None
        job.create(0, 1, 2, 3)
        job.annotations = {PLACE: wish.place}
        job.seen(suspend=False)
        world.judge()
        job.job.run()
        assert job.job.gang.has_minimum

    def test_what_the_api_server_adds_to_pods_costs_no_place(self, world: World) -> None:
        """Tolerations of its own on every pod: each takes the place that was kept, though others wait for it."""
        world.nodes(4)
        job, other = Submitted(world, "first"), Submitted(world, "other")
        world.judge()
        job.carry_out()
        planned = sorted(job.job.reserved.values())
        for number in range(4):
            job.create(number, tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}])
            world.judge()
        assert len(planned) == 4
        assert sorted(job.job.reserved.values()) == planned
        job.job.run()
        assert job.job.gang.has_minimum
        assert other.job.reason is Reason.INSUFFICIENT_CAPACITY

    @pytest.mark.parametrize(("cpu", "kept"), [("50m", True), ("1k", False)])
    def test_what_an_operator_adds_is_taken_from_what_is_left(self, world: World, cpu: str, kept: bool) -> None:
        """A container that waits for the master, say: the place stays if its node has that much."""
        world.nodes(4)
        job = Submitted(world, "first")
        world.judge()
        job.carry_out()
        added = [{"name": "wait", "resources": {"requests": {"cpu": cpu}}}]
        job.create(0, initContainers=added)
        assert (job.pods[0].uid in {slot.pod.uid for slot in self._slots(job).values()}) == kept
        world.check_promises()

    def test_a_pod_that_is_not_admitted_any_more_is_placed_elsewhere(self, world: World) -> None:
        """A webhook has given it a node selector that its node does not have."""
        world.nodes(2)
        world.nodes(2, prefix="other", labels={"pool": "b"})
        job = Submitted(world, "train", pods=2)
        world.judge()
        job.carry_out()
        job.create(0, 1, nodeSelector={"pool": "b"})
        world.judge()
        assert set(job.job.reserved.values()) == {"other-0", "other-1"}
        world.check_promises()

    def test_a_pod_that_asks_for_more_than_its_template_is_placed_by_itself(self, world: World) -> None:
        """A webhook has changed it: no node is promised twice."""
        world.nodes(2)
        job = Submitted(world, "train", pods=2, gpus=4)
        world.judge()
        job.carry_out()
        job.create(0, 1, gpus=8)
        world.judge()
        assert set(job.job.reserved.values()) == {"node-0", "node-1"}
        world.check_promises()

    def test_a_job_whose_pods_do_not_come_in_time_is_suspended_again_with_a_warning(self, world: World) -> None:
        """A ResourceQuota forbids some; later it does not."""
        world.nodes(4)
        job = Submitted(world, "train")
        world.judge()
        job.carry_out()
        job.create(0, 1)  # a ResourceQuota allows for no more
        world.later(70)
        effects = world.effects()
        (note,) = [note for note in effects.notes if note.reason == "ReservationExpired"]
        assert note.warning
        assert "Job default/train is suspended again, as not all of its pods were created" in note.message
        wish = effects.suspensions["job-train"]
        assert wish is not None
        assert wish.suspend
        job.annotations = {}
        job.seen(suspend=True)
        job.delete(0, 1)
        assert waits(world, job) is Reason.BACKING_OFF
        world.later(600)
        assert job.carry_out() is not None
        job.create(*range(4))
        job.job.run()
        assert job.job.gang.has_minimum

    def test_pods_that_do_not_reach_bind_in_time_do_not_stay(self, world: World) -> None:
        """Its place goes to others, and its pods would only wait."""
        world.nodes(4)
        job = Submitted(world, "train")
        world.judge()
        job.carry_out()
        job.create(*range(4))
        world.later(70)
        wish = job.carry_out()
        assert wish is not None
        assert wish.suspend

    def test_a_job_that_its_owner_resumes_is_a_gang_of_its_pods(self, world: World) -> None:
        """Nothing is expected that was not planned."""
        world.nodes(3)
        job = Submitted(world, "train")
        world.judge()
        job.seen(suspend=False)
        assert waits(world, job) is Reason.MEMBERS_MISSING
        job.create(*range(4))
        assert waits(world, job) is Reason.EXCEEDS_CLUSTER

    def test_a_job_that_was_never_suspended_is_a_gang_without_a_podgroup(self, world: World) -> None:
        """It needs as many pods as it has at a time."""
        world.nodes(4)
        job = Submitted(world, "train", suspend=False)
        job.create(0, 1, 2)
        assert waits(world, job) is Reason.MEMBERS_MISSING
        job.create(3)
        world.judge()
        assert len(job.job.reserved) == 4

    def test_pods_that_were_seen_before_their_job_join_it(self, world: World) -> None:
        """Watches start in any order."""
        world.nodes(4)
        job = Submitted(world, "train", suspend=False)
        world.tell(WorkloadGone("job-train"))
        job.create(0, 1, 2, 3)
        job.seen()
        world.judge()
        assert len(job.job.gang.members) == 4

    def test_pods_that_succeeded_and_are_gone_are_not_waited_for(self, world: World) -> None:
        """Their nodes may be removed while the others run: one that is lost later comes back without them."""
        world.nodes(4)
        job = Submitted(world, "train")
        world.judge()
        job.start()
        job.succeed(1, 3)
        job.seen()
        for number in (1, 3):
            world.tell(PodGone(job.pods.pop(number).uid))
        job.delete(0)
        job.create(0)
        world.judge()
        assert set(job.job.reserved) == {job.pods[0].name}
        assert job.job.gang.min_member == 2

    def test_what_has_succeeded_is_not_made_again(self, world: World) -> None:
        """Of four indices two are left."""
        job = half_done(world)
        assert sorted(job.job.reserved) == ["train-0", "train-2"]
        assert job.carry_out() is not None
        job.create(0, 2)
        job.job.run()
        assert job.job.gang.has_minimum

    def test_what_has_succeeded_and_goes_while_the_others_start_is_not_waited_for(self, world: World) -> None:
        """Its node is removed when the Job has been resumed and has not made its pods yet."""
        job = half_done(world)
        assert job.carry_out() is not None
        for number in (1, 3):
            world.tell(PodGone(job.pods.pop(number).uid))
        world.judge()
        job.create(0, 2)
        world.judge()
        assert set(job.job.reserved) == {job.pods[0].name, job.pods[2].name}
        assert job.job.gang.min_member == 2

    def test_a_job_that_is_complete_waits_for_nothing(self, world: World) -> None:
        """Its pods have been cleaned up."""
        world.nodes(4)
        job = Submitted(world, "train")
        world.judge()
        job.start()
        job.status = {"succeeded": 4, "conditions": [{"type": "Complete", "status": "True"}]}
        job.seen()
        job.delete(0, 1, 2, 3)
        assert waits(world, job) is None


class TestLeaving:
    """A gang that leaves whole is suspended again."""

    def test_a_job_that_is_preempted_is_suspended_and_not_evicted(self, world: World) -> None:
        """It waits without pods then, and comes back."""
        world.nodes(4)
        job = Submitted(world, "train")
        world.judge()
        job.start()
        urgent = world.gang("urgent", 4, priority=100)
        effects = world.effects()
        wish = effects.suspensions["job-train"]
        assert wish is not None
        assert (wish.suspend, wish.reason, len(wish.pods)) == (True, "Preempted", 4)
        assert not effects.evictions
        job.annotations = {}
        job.seen(suspend=True)
        job.delete(0, 1, 2, 3)
        world.judge()
        assert len(urgent.reserved) == 4
        urgent.run()
        assert waits(world, job) is Reason.INSUFFICIENT_CAPACITY
        assert len(job.job.gang.members) == 4
        urgent.finish()
        world.judge()
        assert job.carry_out() is not None

    def test_a_job_with_notice_is_suspended_when_it_is_ready(self, world: World) -> None:
        """Not before; and that it was told is forgotten with its pods, so that it is told anew the next time."""
        world.nodes(4)
        job = Submitted(world, "train")
        world.judge()
        train = job.start()
        train.see(0, options=replace(train.pods[0].options, eviction_notice=120.0))
        world.effects()
        urgent = world.gang("urgent", 4, priority=100)
        effects = world.effects()
        assert effects.notices.keys() == {pod.uid for pod in train.pods}
        assert not effects.suspensions
        assert urgent.reason is Reason.PREEMPTING
        train.see(3, signs=JobSigns(acknowledged=NoticePeriod(world.now, world.now + 120)))
        world.judge()
        effects = world.effects()
        wish = effects.suspensions["job-train"]
        assert wish is not None
        assert (wish.suspend, len(wish.pods), effects.evictions) == (True, 4, {})
        assert effects.notices_ended == ["acknowledged"]
        job.annotations = {}
        job.seen(suspend=True)
        job.delete(0, 1, 2, 3)
        world.judge()
        assert not world.effects().notices
        assert len(urgent.reserved) == 4

    def test_a_suspended_job_has_others_evicted(self, world: World) -> None:
        """By the priority of its template."""
        world.nodes(4)
        first = world.gang("first", 4)
        first.run()
        world.effects()
        spec = {"schedulerName": "muster", "priorityClassName": "high"}
        template = {"spec": spec | {"containers": [{"name": "w", "resources": {"limits": {GPU: "8"}}}]}}
        job = Submitted(world, "urgent", template=template)
        world.tell(PriorityClassSeen("high", 100, global_default=False))
        world.judge()
        assert len(world.effects().evictions) == 4
        for pod in first.pods:
            world.tell(PodGone(pod.uid))
        world.judge()
        assert job.carry_out() is not None


class TestRestarts:
    """Whatever the moment at which a process ends, the next one resumes nothing twice and loses nothing."""

    def _restarted(self, world: World, *jobs: Submitted) -> World:
        after = opted_in(world.restart())
        after.nodes(5)
        for job in jobs:
            job.world = after
            job.version -= 1
            job.seen()
            for pod in job.pods.values():
                after.tell(PodSeen(pod))
        after.tell(Rebuild())
        return after

    @pytest.fixture(params=[0, 2, 4])
    def came(self, request: pytest.FixtureRequest) -> int:
        """Return how many pods had come."""
        count: int = request.param
        return count

    def test_before_it_is_resumed(self, world: World) -> None:
        """It is planned again."""
        world.nodes(5)
        job = Submitted(world, "train")
        world.judge()
        after = self._restarted(world, job)
        after.judge()
        assert job.carry_out() is not None

    @pytest.mark.parametrize("mode", ["Indexed", "NonIndexed"])
    def test_after_it_was_resumed(self, world: World, came: int, mode: str) -> None:
        """The pods that have not come keep the places that the Job names."""
        world.nodes(5)
        job = Submitted(world, "train", completionMode=mode)
        world.judge()
        job.carry_out()
        places = sorted(job.job.reserved.values())
        job.create(*range(came))
        for uid, nomination in world.effects().nominations.items():
            number = next(n for n, pod in job.pods.items() if pod.uid == uid)
            job.pods[number] = job.pods[number].nominated_to(nomination.node)
        after = self._restarted(world, job)
        after.judge()
        assert job.carry_out() is None, "it has been resumed before"
        assert sorted(job.job.reserved.values()) == places
        job.create(*range(came, 4))
        job.job.run()
        assert job.job.gang.has_minimum
        after.check_promises()

    def test_one_that_runs_expects_nothing(self, world: World) -> None:
        """What it lost is made again by its controller."""
        world.nodes(5)
        job = Submitted(world, "train")
        world.judge()
        job.start()
        job.delete(3)  # its node failed
        after = self._restarted(world, job)
        after.judge()
        assert len(job.job.gang.members) == 3
        assert job.carry_out() is None
