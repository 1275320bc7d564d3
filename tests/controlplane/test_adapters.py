"""Workloads of other operators on the real control plane: their CRDs absent, appearing later, and present."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from localcluster.client import PODS, JsonObject
from localcluster.cluster import LocalCluster
from localcluster.manifests import apply_all
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.story import Pod
from tests.controlplane.conftest import StartMuster
from tests.controlplane.crds import foreign_definitions
from tests.controlplane.test_facts import remove, watching

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]

#: Seconds. Time enough for whatever should not happen to happen.
WATCHFUL = 1.0

GROUPS = frozenset({"jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "kubeflow.org", "ray.io", "scheduler.grove.io"})
LWS = "leaderworkerset.sigs.k8s.io"


def workload(api_version: str, kind: str, name: str, **spec: object) -> JsonObject:
    """Return an object from which an operator would make pods."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def kubeflow(kind: str, field: str, **replicas: int) -> JsonObject:
    """Return a Kubeflow job, called after its kind."""
    version = "v2beta1" if kind == "MPIJob" else "v1"
    specs = {name: {"replicas": count} for name, count in replicas.items()}
    return workload(f"kubeflow.org/{version}", kind, kind.lower(), **{field: specs})


JOBS = [{"name": "driver", "template": {"spec": {}}}, {"name": "worker", "template": {"spec": {"parallelism": 2}}}]
WAITING_LAUNCHER = kubeflow("MPIJob", "mpiReplicaSpecs", Launcher=1, Worker=2)
WAITING_LAUNCHER["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"
OBJECTS = [
    workload("jobset.x-k8s.io/v1alpha2", "JobSet", "set", replicatedJobs=JOBS),
    workload(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        "llm",
        replicas=1,
        startupPolicy="LeaderReady",
        leaderWorkerTemplate={"size": 3},
    ),
    kubeflow("PyTorchJob", "pytorchReplicaSpecs", Master=1, Worker=2),
    kubeflow("TFJob", "tfReplicaSpecs", PS=1, Worker=1),
    kubeflow("XGBoostJob", "xgbReplicaSpecs", Master=1),
    kubeflow("PaddleJob", "paddleReplicaSpecs", Worker=2),
    kubeflow("JAXJob", "jaxReplicaSpecs", Worker=2),
    WAITING_LAUNCHER,
    workload("ray.io/v1", "RayCluster", "ray", workerGroupSpecs=[{"groupName": "gpu", "replicas": 2}]),
    workload("scheduler.grove.io/v1alpha1", "PodGang", "llm-0", podgroups=[{"name": "decode", "minReplicas": 2}]),
]
#: API and name -> how many pods start together at first.
MINIMUMS = {
    ("jobset.x-k8s.io", "default/set"): 3,
    ("leaderworkerset.x-k8s.io", "default/llm-0"): 1,
    ("kubeflow.org", "default/pytorchjob"): 3,
    ("kubeflow.org", "default/tfjob"): 2,
    ("kubeflow.org", "default/xgboostjob"): 1,
    ("kubeflow.org", "default/paddlejob"): 2,
    ("kubeflow.org", "default/jaxjob"): 2,
    ("kubeflow.org", "default/mpijob"): 2,
    ("ray.io", "default/ray"): 3,
    ("scheduler.grove.io", "default/llm-0"): 2,
}


@dataclass(frozen=True, slots=True)
class Part:
    """Pods that an operator makes at once: labels by the pods' names, and what else they have in common."""

    labels: Mapping[str, Mapping[str, str]]
    annotations: Mapping[str, str]

    @classmethod
    def of(cls, names: list[str], common: Mapping[str, str], annotations: Mapping[str, str] | None = None) -> Part:
        """Return a part whose pods all have the same labels."""
        return cls(dict.fromkeys(names, common), annotations or {})

    def create(self, cluster: Sandbox, first: int, last: int | None = None, **options: object) -> list[Pod]:
        """Create the pods from `first` to `last`, each of which asks for a GPU."""
        chosen = list(self.labels.items())[first:last]
        return [
            cluster.pod(name, gpus=1, cpu="1", labels=labels, annotations=self.annotations, **options)  # type: ignore[arg-type] # fields of a PodTemplate
            for name, labels in chosen
        ]


def job_set_pods() -> Part:
    """Return the pods of the JobSet."""
    common = {"jobset.sigs.k8s.io/jobset-name": "set", "jobset.sigs.k8s.io/job-index": "0"}
    roles = {"set-driver-0-0": "driver", "set-worker-0-0": "worker", "set-worker-0-1": "worker"}
    return Part({name: common | {"jobset.sigs.k8s.io/replicatedjob-name": role} for name, role in roles.items()}, {})


def leader_and_workers() -> Part:
    """Return the pods of the LeaderWorkerSet's one group, the leader first."""
    common = {f"{LWS}/name": "llm", f"{LWS}/group-index": "0"}
    names = ("llm-0", "llm-0-1", "llm-0-2")
    labels = {name: common | {f"{LWS}/worker-index": str(index)} for index, name in enumerate(names)}
    return Part(labels, {f"{LWS}/size": "3"})


def replicas(job: str, **types: int) -> Part:
    """Return the pods of a Kubeflow job."""
    label = "training.kubeflow.org"
    return Part(
        {
            f"{job}-{kind}-{index}": {
                f"{label}/job-name": job,
                f"{label}/replica-type": kind,
                f"{label}/replica-index": str(index),
            }
            for kind, count in types.items()
            for index in range(count)
        },
        {},
    )


def ray_pods() -> Part:
    """Return the pods of the RayCluster, the head first."""
    head = {"ray.io/cluster": "ray", "ray.io/node-type": "head", "ray.io/group": "headgroup"}
    worker = head | {"ray.io/node-type": "worker", "ray.io/group": "gpu"}
    return Part({"ray-head": head, "ray-worker-a": worker, "ray-worker-b": worker}, {})


@pytest.fixture
def definitions(cluster: Sandbox) -> Iterator[list[JsonObject]]:
    """Return the operators' CRDs, which are not installed before the test nor after it."""
    definitions = [each for each in foreign_definitions() if each["spec"]["group"] in GROUPS]
    yield definitions
    remove(cluster.api, definitions)


def test_without_the_crds_pods_that_say_enough_are_gangs_and_others_wait(cluster: Sandbox, muster: Server) -> None:
    """Groups of Kueue and of LeaderWorkerSets start whole, once Kueue lets them; a missing JobSet is named."""
    cluster.nodes(1, gpus=4, labels={"pool": "a"})
    cluster.nodes(1, gpus=4, prefix="other")
    orphan, *_ = job_set_pods().create(cluster, 0, 1)
    group = Part.of(
        ["plain-0", "plain-1"],
        {"kueue.x-k8s.io/pod-group-name": "plain", "kueue.x-k8s.io/managed": "true"},
        {"kueue.x-k8s.io/pod-group-total-count": "2"},
    )
    gated = group.create(cluster, 0, gates=("kueue.x-k8s.io/admission",))
    first = leader_and_workers().create(cluster, 0, 2)
    orphan.wait_message("PodGroupMissing: JobSet default/set does not exist")
    gated[0].wait_message("MembersGated")
    assert cluster.stays_true(lambda: not any(pod.bound for pod in (*gated, *first, orphan)), WATCHFUL)
    for pod in gated:  # as Kueue does for a flavor whose nodes have such a label
        admitted = {"spec": {"schedulingGates": None, "nodeSelector": {"pool": "a"}}}
        cluster.api.patch(PODS, pod.name, admitted, namespace=pod.namespace)
    for pod in (*gated, *leader_and_workers().create(cluster, 2), *first):
        pod.wait_bound()
    assert {pod.node for pod in gated} == {"node-0"}
    assert not orphan.bound
    muster.check()


async def test_operators_may_be_installed_later(
    local_cluster: LocalCluster,
    cluster: Sandbox,
    definitions: list[JsonObject],
    start_muster: StartMuster,
    tmp_path: Path,
) -> None:
    """Each kind is read once its CRD is there, and its gangs start whole; it is forgotten when the CRD goes."""
    async with watching(local_cluster, tmp_path) as observer:
        await asyncio.to_thread(apply_all, cluster.api, definitions)
        await asyncio.to_thread(cluster.api.create_all, OBJECTS)
        await observer.until(lambda: len(observer.groups) >= len(OBJECTS))
        assert {(group.ref.api, str(group.ref)): group.min_member for group in observer.groups} == MINIMUMS
        await asyncio.to_thread(_gangs_start_whole, cluster, start_muster)
        await asyncio.to_thread(remove, cluster.api, definitions)
        gone = {(api, name) for api, name in MINIMUMS}
        await observer.until(lambda: gone == {words[1:3] for words in observer.told if words[0] == "group gone"})


def _gangs_start_whole(cluster: Sandbox, start_muster: StartMuster) -> None:
    """Make pods as the operators do; those of which one is missing wait, and start together with it."""
    server = start_muster()
    cluster.nodes(2, gpus=16)
    complete = (job_set_pods(), replicas("pytorchjob", master=1, worker=2), ray_pods())
    early = [pod for part in complete for pod in part.create(cluster, 0, -1)]
    (leader,) = leader_and_workers().create(cluster, 0, 1)
    workers = replicas("mpijob", worker=2).create(cluster, 0)
    for pod in (leader, *workers):  # what is made when these run is not waited for
        pod.wait_bound()
    steps = [
        *leader_and_workers().create(cluster, 1, 2),
        *early,
    ]
    assert cluster.stays_true(lambda: not any(pod.bound for pod in steps), WATCHFUL)
    late = [pod for part in complete for pod in part.create(cluster, -1)]
    late += leader_and_workers().create(cluster, 2)
    late += replicas("mpijob", launcher=1).create(cluster, 0)
    for pod in (*steps, *late):
        pod.wait_bound()
    server.check()
