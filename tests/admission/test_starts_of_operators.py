"""Suspended objects of operators are gangs of expected pods, as Jobs are: the pods are made as the operators do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from extender.admission.events import NamespaceSeen, PodGone, PodSeen, QueueSeen, Rebuild
from extender.cluster.gangs import Gang
from extender.control.watched import WATCHED, Known
from extender.ledger.effects import Suspension
from extender.objects.keys import PLACE
from extender.objects.meta import Identity
from extender.objects.pod import Phase, Pod, read_pod
from extender.objects.podgroup import GroupRef
from extender.objects.podspec import decode_pod
from extender.objects.queue import Queue
from extender.objects.reason import Reason
from extender.objects.workload import MANAGE_JOBS
from tests.builders import Json, written
from tests.controlplane.operators import children
from tests.worlds import World

GPU = "nvidia.com/gpu"


def template(gpus: int = 8) -> Json:
    """Return a pod template for Muster."""
    resources = {"limits": {GPU: str(gpus)}, "requests": {GPU: str(gpus)}}
    spec = {"schedulerName": "muster", "containers": [{"name": "main", "resources": resources}]}
    return {"metadata": {"labels": {}}, "spec": spec}


def templates(value: object) -> Iterator[Json]:
    """Yield the pod templates that are somewhere in an object."""
    if isinstance(value, dict) and "schedulerName" in (value.get("spec") or {}):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from templates(each)


def job_set() -> Json:
    """Return a JobSet of a driver and two Jobs with two workers each."""
    jobs = [
        {"name": "driver", "template": {"spec": {"template": template(1)}}},
        {
            "name": "workers",
            "replicas": 2,
            "template": {"spec": {"parallelism": 2, "completions": 2, "template": template()}},
        },
    ]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "spec": {"suspend": True, "replicatedJobs": jobs},
    }


def pytorch_job() -> Json:
    """Return a PyTorchJob of a master and four workers."""
    specs = {
        "Master": {"replicas": 1, "restartPolicy": "Never", "template": template(1)},
        "Worker": {"replicas": 4, "restartPolicy": "Never", "template": template()},
    }
    spec = {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": specs}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": spec}


def mpi_job() -> Json:
    """Return an MPIJob of the MPI operator: a launcher, which a Job of its own makes, and four workers."""
    specs = {
        "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": template(1)},
        "Worker": {"replicas": 4, "restartPolicy": "Never", "template": template()},
    }
    spec = {"runPolicy": {"suspend": True}, "mpiReplicaSpecs": specs}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": spec}


def ray_cluster() -> Json:
    """Return a RayCluster of a head and two groups of two workers each."""
    groups = [{"groupName": name, "replicas": 2, "template": template()} for name in ("a", "b")]
    spec = {"suspend": True, "headGroupSpec": {"template": template(1)}, "workerGroupSpecs": groups}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": spec}


def ray_job() -> Json:
    """Return a RayJob of such a RayCluster."""
    cluster = ray_cluster()["spec"]
    del cluster["suspend"]
    spec = {"suspend": True, "shutdownAfterJobFinishes": True, "rayClusterSpec": cluster}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "spec": spec}


KINDS: dict[str, Callable[[], Json]] = {
    "JobSet": job_set,
    "PyTorchJob": pytorch_job,
    "MPIJob": mpi_job,
    "RayCluster": ray_cluster,
    "RayJob": ray_job,
}
#: A RayCluster says to the engine what its gang is, and that it is part of a RayJob.
PART = ["PartSeen", "GroupSeen"]


@dataclass
class Submitted:
    """An object as the API server has it, and the operator that makes its pods: one of one GPU, four of eight."""

    world: World
    make: Callable[[], Json]
    name: str = "train"
    labels: dict[str, str] = field(default_factory=lambda: {"muster.dev/queue": "team"})
    owners: list[Json] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    status: Json = field(default_factory=dict)
    suspend: bool = True
    version: int = 0
    pods: dict[str, Pod] = field(default_factory=dict)
    part: Json = field(default_factory=dict)
    known: Known = field(default_factory=Known)
    change: Callable[[Json], None] = lambda _item: None

    def item(self) -> Json:
        """Return the object."""
        item = self.make()
        (item["spec"].get("runPolicy") or item["spec"])["suspend"] = self.suspend
        item["metadata"] = {
            "namespace": "default",
            "name": self.name,
            "uid": f"uid-{self.name}",
            "resourceVersion": str(self.version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": self.labels,
            "annotations": self.annotations,
            "ownerReferences": self.owners,
        }
        item["status"] = self.status
        self.change(item)
        return item

    def seen(self, *, suspend: bool | None = None) -> list[str]:
        """Let the engine see the object as it is now; return which news that is."""
        self.suspend = self.suspend if suspend is None else suspend
        self.version += 1
        item = self.item()
        row = next(row for row in WATCHED if row.kind == item["kind"])
        news: list[Any] = list(row.seen(row.decode(written(item)), self.known))
        for each in news:
            self.world.tell(each)
        return [type(each).__name__ for each in news]

    def part_seen(self) -> None:
        """Let the engine see the RayCluster that a RayJob has made."""
        row = next(row for row in WATCHED if row.kind == "RayCluster")
        news: list[Any] = list(row.seen(row.decode(written(self.part)), self.known))
        assert [type(each).__name__ for each in news] == PART
        for each in news:
            self.world.tell(each)

    def gone(self, kind: str = "", uid: str = "") -> None:
        """Delete it, or what it has made."""
        row = next(row for row in WATCHED if row.kind == (kind or self.item()["kind"]))
        news: list[Any] = list(row.gone(Identity("default", self.name, uid or f"uid-{self.name}"), self.known))
        for each in news:
            self.world.tell(each)

    def wish(self) -> Suspension | None:
        """Return what the engine wants of it."""
        return self.world.effects().suspensions.get(f"uid-{self.name}")

    def carry_out(self) -> Suspension | None:
        """Write what the engine wants, as the API server would."""
        wish = self.wish()
        if wish is not None:
            assert wish.suspend or wish.workload.version == str(self.version), "an outdated version is resumed"
            self.annotations = {} if wish.suspend else {PLACE: wish.place}
            self.seen(suspend=wish.suspend)
        return wish

    def create(self, most: int = 99, *, seen: bool = True) -> None:
        """Let the operator make its pods; Jobs that it makes are watched only if they name a queue.

        A RayCluster that it makes is `seen` before its pods.
        """
        found: list[Json] = []
        pending = [self.item()]
        while pending:
            for child in children(pending.pop(0), []):
                if child["kind"] == "RayCluster":
                    child["metadata"]["uid"] = f"cluster-{self.version}"
                    self.part = child
                    if seen:
                        self.part_seen()
                (found if child["kind"] == "Pod" else pending).append(child)
        for item in found[:most]:
            item["metadata"] |= {"uid": f"{item['metadata']['name']}-{self.version}"}
            pod = read_pod(decode_pod(written(item)))
            self.pods[pod.uid] = pod
            self.world.tell(PodSeen(pod))

    def run(self) -> None:
        """Bind the pods where they are planned, and let them run."""
        reservation = self.world.state.reservation(self.gang.uid)
        assert reservation is not None
        nodes = {slot.pod.uid: slot.node for slot in reservation.slots.values()}
        for uid, pod in self.pods.items():
            self.pods[uid] = replace(pod, node_name=nodes[uid], phase=Phase.RUNNING)
            self.world.tell(PodSeen(self.pods[uid]))

    def end(self, phase: Phase | None = None) -> None:
        """Let all of its pods end in a phase, or be deleted after what it has made."""
        if phase is None and self.part:
            self.gone("RayCluster", self.part["metadata"]["uid"])
        for uid, pod in list(self.pods.items()):
            if phase is None:
                self.world.tell(PodGone(self.pods.pop(uid).uid))
            else:
                self.pods[uid] = replace(pod, phase=phase)
                self.world.tell(PodSeen(self.pods[uid]))

    @property
    def gang(self) -> Gang:
        """Return its gang."""
        item = self.make()
        api = "rayjobs.ray.io" if item["kind"] == "RayJob" else item["apiVersion"].partition("/")[0]
        gang = self.world.state.gang(GroupRef(api, "default", self.name))
        assert gang is not None
        return gang

    @property
    def problem(self) -> str:
        """Return what is wrong with its gang."""
        group = self.gang.group
        return "" if group is None else str(group.problem)

    @property
    def reserved(self) -> dict[str, str]:
        """Return pod name -> the node that is kept for it."""
        reservation = self.world.state.reservation(self.gang.uid)
        return {} if reservation is None else {slot.pod.name: slot.node for slot in reservation.slots.values()}


def world_of(nodes: int = 5) -> World:
    """Return a world with so many nodes of eight GPUs, whose namespace has opted in."""
    world = World()
    world.tell(QueueSeen(Queue("team", "team", default=True)))
    world.tell(NamespaceSeen("default", {MANAGE_JOBS: "true"}))
    world.nodes(nodes)
    return world


@pytest.fixture(params=KINDS)
def submitted(request: pytest.FixtureRequest) -> Submitted:
    """Return a suspended object of each kind, in a cluster with room for it."""
    found = Submitted(world_of(), KINDS[request.param])
    found.seen()
    found.world.judge()
    return found


@pytest.fixture
def ray() -> Submitted:
    """Return a suspended RayJob, in a cluster with room for it."""
    found = Submitted(world_of(), ray_job)
    found.seen()
    found.world.judge()
    return found


def test_one_that_fits_is_resumed_and_its_pods_take_the_places_that_were_kept(submitted: Submitted) -> None:
    """By one write, at the field of its kind, for the version that was planned."""
    planned = submitted.reserved
    assert len(planned) == 5
    wish = submitted.carry_out()
    assert wish is not None
    policy = ("spec", "runPolicy", "suspend")
    assert wish.workload.field == (policy if submitted.item()["apiVersion"].startswith("kube") else ("spec", "suspend"))
    submitted.create(3)
    submitted.world.judge()
    assert sorted(submitted.reserved.values()) == sorted(planned.values())
    submitted.create()
    assert len(submitted.gang.members) == 5
    assert not any(pod.is_expected for pod in submitted.gang.members.values())
    assert sorted(submitted.reserved.values()) == sorted(planned.values())
    submitted.run()
    submitted.world.judge()
    assert submitted.gang.has_minimum
    assert submitted.wish() is None
    submitted.world.check_promises()


def test_one_that_does_not_fit_waits_suspended(submitted: Submitted) -> None:
    """It says why, as any gang."""
    other = Submitted(submitted.world, submitted.make, "other")
    other.seen()
    submitted.world.judge()
    wait = submitted.world.state.wait(other.gang.uid)
    assert wait is not None
    assert wait.reason is Reason.INSUFFICIENT_CAPACITY
    assert other.wish() is None


def test_after_a_restart_it_goes_on_starting_where_it_was(submitted: Submitted) -> None:
    """The place stands in the cluster: nothing is planned anew."""
    planned = submitted.reserved
    submitted.carry_out()
    again = replace(submitted, world=world_of(), known=Known(), pods={})
    again.seen()
    again.create(2)
    again.world.tell(Rebuild())
    again.world.judge()
    assert sorted(again.reserved.values()) == sorted(planned.values())
    assert again.wish() is None
    again.create()
    again.run()
    assert again.gang.has_minimum


def test_one_that_is_preempted_is_suspended_and_comes_back(submitted: Submitted) -> None:
    """No pod is evicted by itself."""
    submitted.carry_out()
    submitted.create()
    submitted.run()
    urgent = submitted.world.gang("urgent", 4, priority=100)
    submitted.world.judge()
    effects = submitted.world.effects()
    wish = effects.suspensions["uid-train"]
    assert wish is not None
    assert (wish.suspend, wish.reason, len(wish.pods)) == (True, "Preempted", 5)
    assert not effects.evictions
    submitted.annotations = {}
    submitted.seen(suspend=True)
    submitted.end()
    submitted.world.judge()
    urgent.run()
    assert submitted.wish() is None
    urgent.finish()
    submitted.world.judge()
    assert submitted.carry_out() is not None
    submitted.create()
    submitted.run()
    assert submitted.gang.has_minimum


def test_one_whose_pods_do_not_come_in_time_is_suspended_again(submitted: Submitted) -> None:
    """Its place goes to others."""
    submitted.carry_out()
    submitted.create(2)
    submitted.world.later(70)
    effects = submitted.world.effects()
    (note,) = [note for note in effects.notes if note.reason == "ReservationExpired"]
    assert "default/train is suspended again, as not all of its pods were created" in note.message
    wish = effects.suspensions["uid-train"]
    assert wish is not None
    assert wish.suspend


def test_what_a_ray_job_makes_is_no_gang_of_its_own(ray: Submitted) -> None:
    """Whichever is seen first: the RayCluster, its pods, or the RayJob; each time it has another name."""
    planned = ray.reserved
    ray.carry_out()
    ray.create(2, seen=False)
    ray.world.judge()
    assert len([pod for pod in ray.gang.members.values() if pod.is_expected]) == 5
    ray.part_seen()
    assert len([pod for pod in ray.gang.members.values() if pod.is_expected]) == 3
    ray.create(seen=False)
    assert sorted(ray.reserved.values()) == sorted(planned.values())
    ray.run()
    name = GroupRef("ray.io", "default", ray.part["metadata"]["name"])
    assert ray.world.state.gang(name) is None
    again = replace(ray, world=world_of(), known=Known())
    again.part_seen()
    assert again.world.state.gang(name) is not None, "it may be a gang of its own yet"
    for pod in ray.pods.values():
        again.world.tell(PodSeen(pod))
    again.seen()
    again.world.tell(Rebuild())
    again.world.judge()
    assert again.gang.has_minimum
    assert again.world.state.gang(name) is None
    again.end()
    assert not again.world.state.pods()


def test_a_ray_job_elsewhere_is_left_to_its_cluster(ray: Submitted) -> None:
    """In a namespace that has not opted in the RayCluster is the gang, as if the RayJob named no queue."""
    ray.world.tell(NamespaceSeen("default", {}))
    ray.suspend = False
    ray.seen()
    ray.create()
    ray.world.judge()
    cluster = ray.world.state.gang(GroupRef("ray.io", "default", ray.part["metadata"]["name"]))
    assert cluster is not None
    assert len(cluster.members) == 5
    reservation = ray.world.state.reservation(cluster.uid)
    assert reservation is not None
    assert len(reservation.slots) == 5


def test_a_ray_job_without_a_cluster_is_a_problem(ray: Submitted) -> None:
    """It cannot be said which pods there would be."""
    ray.change = lambda item: item["spec"].pop("rayClusterSpec")
    ray.seen()
    ray.world.judge()
    assert "spec.rayClusterSpec: is missing" in ray.problem
    assert ray.wish() is None


def test_a_ray_job_that_cannot_be_suspended_again(ray: Submitted) -> None:
    """It is not resumed; one that runs already is left to its cluster, whose pods can be evicted."""
    ray.change = lambda item: item["spec"].pop("shutdownAfterJobFinishes")
    assert ray.seen() == ["WorkloadSeen"]
    ray.world.judge()
    assert ray.problem == "spec.shutdownAfterJobFinishes: is not true: KubeRay suspends no such RayJob"
    assert ray.wish() is None
    assert ray.seen(suspend=False) == ["WorkloadGone"]
    ray.create()
    assert ray.world.state.gang(GroupRef("ray.io", "default", ray.part["metadata"]["name"])) is not None


@pytest.mark.parametrize("kind", ["Completed", "Succeeded", "Failed"])
def test_one_that_has_ended_is_not_resumed(submitted: Submitted, kind: str) -> None:
    """Whatever it is told to do."""
    submitted.status = {"conditions": [{"type": kind, "status": "True"}]}
    if submitted.make is ray_job:
        submitted.status = {"jobDeploymentStatus": {"Completed": "Complete"}.get(kind, "Failed")}
    submitted.seen()
    submitted.world.judge()
    assert submitted.wish() is None
    assert not submitted.gang.members


@pytest.mark.parametrize("submitted", [kind for kind in KINDS if kind != "RayJob"], indirect=True)
def test_what_has_succeeded_is_not_expected_again(submitted: Submitted) -> None:
    """Where the operator leaves its pods; the others are made again."""
    submitted.carry_out()
    submitted.create()
    submitted.run()
    first = next(iter(submitted.pods))
    submitted.pods[first] = replace(submitted.pods[first], phase=Phase.SUCCEEDED)
    submitted.world.tell(PodSeen(submitted.pods[first]))
    submitted.annotations = {}
    submitted.seen(suspend=True)
    for uid in list(submitted.pods)[1:]:
        submitted.world.tell(PodGone(submitted.pods.pop(uid).uid))
    submitted.world.judge()
    assert len(submitted.reserved) == 4
    assert submitted.wish() is not None


def test_one_that_is_deleted_leaves_nothing(submitted: Submitted) -> None:
    """Its place is others'."""
    submitted.gone()
    submitted.world.judge()
    assert submitted.wish() is None
    assert not submitted.world.state.pods()


def test_a_namespace_that_has_not_opted_in_is_left_alone(submitted: Submitted) -> None:
    """What is expected is given back when it opts out."""
    submitted.world.tell(NamespaceSeen("default", {}))
    submitted.world.judge()
    assert submitted.wish() is None
    assert not submitted.world.state.pods()
    submitted.world.tell(NamespaceSeen("default", {MANAGE_JOBS: "true"}))
    submitted.world.judge()
    assert submitted.wish() is not None


def test_one_without_a_queue_is_held(submitted: Submitted) -> None:
    """Taking the label off is how people hold it."""
    submitted.labels = {}
    described = [] if submitted.make is ray_job else ["GroupSeen"]
    assert submitted.seen() == [*described, "WorkloadGone"]
    submitted.world.judge()
    assert submitted.wish() is None
    assert submitted.seen() == described


def test_one_that_another_object_suspends_is_left_to_it(submitted: Submitted) -> None:
    """A TrainJob decides on its JobSet, a RayJob on its RayCluster."""
    submitted.owners = [{"apiVersion": "x/v1", "kind": "TrainJob", "name": "owner", "uid": "owner", "controller": True}]
    assert submitted.seen()[-1] == "WorkloadGone"


def test_pods_of_another_scheduler_are_a_problem(submitted: Submitted) -> None:
    """It would be resumed for pods that others place."""

    def elsewhere(item: Json) -> None:
        for each in templates(item):
            each["spec"]["schedulerName"] = "other"

    submitted.change = elsewhere
    submitted.seen()
    submitted.world.judge()
    assert "other is none of Muster's schedulers" in submitted.problem
    assert submitted.wish() is None


def test_pods_that_name_another_gang_are_a_problem(submitted: Submitted) -> None:
    """They would not be told to be its own."""

    def grouped(item: Json) -> None:
        for each in templates(item):
            each["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "mine"

    submitted.change = grouped
    submitted.seen()
    submitted.world.judge()
    assert "name another gang, default/mine" in submitted.problem
    assert submitted.wish() is None
