"""All replicas of a Kubeflow job are one gang, unless it says that fewer do."""

from __future__ import annotations

import pytest

from extender.objects.podgroup import GroupProgress, GroupRef, PodGroup
from extender.objects.sources.kubeflow import KUBEFLOW, KubeflowKind, decode_kubeflow_job, read_kubeflow_job
from tests.builders import GPU, Json, metadata_json, written

FIELDS = {
    KubeflowKind.PYTORCH: "pytorchReplicaSpecs",
    KubeflowKind.TF: "tfReplicaSpecs",
    KubeflowKind.MPI: "mpiReplicaSpecs",
    KubeflowKind.XGBOOST: "xgbReplicaSpecs",
    KubeflowKind.PADDLE: "paddleReplicaSpecs",
    KubeflowKind.JAX: "jaxReplicaSpecs",
}


def read(
    kind: KubeflowKind, replicas: dict[str, int | None], policy: Json | None = None, version: str = "v1", **spec: object
) -> PodGroup:
    """Read a job called team/train; replicas are by type, None where the job does not say."""
    specs = {name: {} if count is None else {"replicas": count} for name, count in replicas.items()}
    document = {
        "apiVersion": f"kubeflow.org/{version}",
        "metadata": metadata_json("train", namespace="team"),
        "spec": {FIELDS[kind]: specs, "runPolicy": {"schedulingPolicy": policy}} | spec,
    }
    return read_kubeflow_job(kind, decode_kubeflow_job(written(document)), priority=7)


@pytest.mark.parametrize("kind", list(KubeflowKind))
def test_all_replicas_of_all_types_count(kind: KubeflowKind) -> None:
    """Each kind has its replicas under another name; a type that does not say how many has one."""
    group = read(kind, {"Master": None, "Worker": 4})
    assert (group.ref, group.min_member) == (GroupRef(KUBEFLOW, "team", "train"), 5)
    assert (str(group.about), group.kind, group.problem) == (f"{kind} team/train", kind, None)
    assert (group.priority, group.role_minimums, group.steps) == (7, (), ())


def test_a_scheduling_policy_counts() -> None:
    """Minimum, resources, queue and time-out are those that the operator would write into a PodGroup."""
    policy = {"minAvailable": 3, "minResources": {GPU: "24"}, "queue": "team-a", "scheduleTimeoutSeconds": 30}
    group = read(KubeflowKind.PYTORCH, {"Master": 1, "Worker": 4}, policy)
    assert (group.min_member, group.min_resources, group.schedule_timeout) == (3, {GPU: 24}, 30.0)
    assert group.options.peer_queue == "team-a"
    assert read(KubeflowKind.MPI, {"Worker": 4}, {"scheduleTimeoutSeconds": 0}).schedule_timeout is None


def test_an_elastic_job_needs_its_least_number_of_workers() -> None:
    """The others are extras, and no substitute for the master."""
    group = read(KubeflowKind.PYTORCH, {"Master": 1, "Worker": 8}, elasticPolicy={"minReplicas": 2, "maxReplicas": 16})
    assert (group.min_member, dict(group.role_minimums)) == (3, {"master": 1, "worker": 2})
    assert read(KubeflowKind.PADDLE, {"Worker": 2}, elasticPolicy={"minReplicas": 4}).min_member == 2


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_an_mpi_job_starts_with_its_launcher(version: str) -> None:
    """The launcher is one of the gang; without a number there are no workers."""
    group = read(KubeflowKind.MPI, {"Launcher": None, "Worker": 4}, version=version)
    assert (group.min_member, group.steps) == (5, ())
    assert group.about is not None
    assert group.about.api_version == f"kubeflow.org/{version}"
    assert read(KubeflowKind.MPI, {"Launcher": 1, "Worker": None}).min_member == 1


@pytest.mark.parametrize("waits", [{"launcherCreationPolicy": "WaitForWorkersReady"}, {"waitForWorkers": True}])
def test_a_launcher_that_waits_for_workers_is_a_step(waits: Json) -> None:
    """The operator makes it when the workers are ready: to wait for it would be to wait for ever."""
    group = read(KubeflowKind.MPI, {"Launcher": 1, "Worker": 4}, version="v2beta1", **waits)
    assert (group.min_member, group.role_minimums) == (4, (("worker", 4),))
    assert group.steps == (GroupProgress("launcher", after=0, least=1),)


@pytest.mark.parametrize(
    ("replicas", "policy", "spec", "problem"),
    [
        ({}, None, {}, "spec.tfReplicaSpecs: has no replicas"),
        ({"Worker": -1}, None, {}, "spec.tfReplicaSpecs[Worker].replicas: -1 is negative"),
        ({"PS": 1}, {"minAvailable": 0}, {}, "spec.runPolicy.schedulingPolicy.minAvailable: 0 is not at least 1"),
        (
            {"PS": 1},
            {"scheduleTimeoutSeconds": -5},
            {},
            "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds: -5 is negative",
        ),
        ({"PS": 1}, None, {"elasticPolicy": {"minReplicas": -1}}, "spec.elasticPolicy.minReplicas: -1 is negative"),
        (
            {"PS": 1},
            {"minResources": {"cpu": "many"}},
            {},
            "spec.runPolicy.schedulingPolicy.minResources.cpu: 'many' is not a quantity",
        ),
    ],
)
def test_a_bad_field_is_the_problem(replicas: dict[str, int | None], policy: Json, spec: Json, problem: str) -> None:
    """The field is named."""
    assert str(read(KubeflowKind.TF, replicas, policy, **spec).problem).startswith(problem)


def test_an_empty_object_has_a_problem() -> None:
    """A job without a spec has no pods, and says so."""
    group = read_kubeflow_job(KubeflowKind.JAX, decode_kubeflow_job(b"{}"))
    assert str(group.problem) == "spec.jaxReplicaSpecs: has no replicas"
    assert group.about is not None
    assert group.about.api_version == "kubeflow.org/v1"
