"""Jobs of Kubeflow's training operator and of its MPI operator: all replicas are one gang.

Sources: kubeflow/training-operator pkg/apis/kubeflow.org/v1; kubeflow/mpi-operator pkg/apis/kubeflow/v2beta1/types.go
and pkg/controller/podgroup.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum

from extender.domain.membership import GroupApi, GroupRef
from extender.domain.podgroup import PodGroup
from extender.domain.reason import Problem
from extender.domain.requests import ResourceListError, read_amounts
from extender.domain.workloads.roster import Part, first_negative, gang_of, object_ref, role_of
from extender.wire.kubernetes import ObjectMeta
from extender.wire.workloads import (
    ElasticPolicy,
    KubeflowJob,
    KubeflowSchedulingPolicy,
    KubeflowSpec,
    ReplicaSpec,
    RunPolicy,
)


class KubeflowKind(StrEnum):
    """The kinds of jobs."""

    PYTORCH = "PyTorchJob"
    TF = "TFJob"
    MPI = "MPIJob"
    XGBOOST = "XGBoostJob"
    PADDLE = "PaddleJob"
    JAX = "JAXJob"


_REPLICAS_FIELDS = {
    KubeflowKind.PYTORCH: "pytorchReplicaSpecs",
    KubeflowKind.TF: "tfReplicaSpecs",
    KubeflowKind.MPI: "mpiReplicaSpecs",
    KubeflowKind.XGBOOST: "xgbReplicaSpecs",
    KubeflowKind.PADDLE: "paddleReplicaSpecs",
    KubeflowKind.JAX: "jaxReplicaSpecs",
}
_POLICY = "spec.runPolicy.schedulingPolicy"
_LAUNCHER, _WORKER = "launcher", "worker"
_WAIT_FOR_WORKERS = "WaitForWorkersReady"


def read_kubeflow_job(kind: KubeflowKind, job: KubeflowJob, priority: int | None = None) -> PodGroup:
    """Read a job; a bad field becomes the `problem`.

    Args:
        kind: what it is.
        job: the object.
        priority: the value of the PriorityClass that its scheduling policy names; None where the pods' own counts.

    The gang's minimum is what its scheduling policy says is available at least; else all replicas, of which an elastic
    job needs only its least number of workers. A launcher that is made when the workers are ready joins them then.
    """
    meta = job.metadata or ObjectMeta()
    spec = job.spec or KubeflowSpec()
    policy = (spec.run_policy or RunPolicy()).scheduling_policy or KubeflowSchedulingPolicy()
    where = f"spec.{_REPLICAS_FIELDS[kind]}"
    replicas = _replicas(kind, spec)
    problem = _problem(spec, policy, replicas, where)
    parts = () if problem else [_part(kind, spec, name, replica) for name, replica in sorted(replicas.items())]
    api_version = job.api_version or "kubeflow.org/v1"
    ref = GroupRef(GroupApi.KUBEFLOW, meta.namespace or "", meta.name or "")
    group = gang_of(ref, object_ref(api_version, kind, meta), meta, parts, None if problem else policy.min_available)
    min_resources: dict[str, int] = {}
    try:
        min_resources = read_amounts(policy.min_resources, f"{_POLICY}.minResources")
    except ResourceListError as error:
        problem = problem or error.problem
    timeout = policy.schedule_timeout_seconds or 0
    return replace(
        group,
        min_resources=min_resources,
        schedule_timeout=float(timeout) if timeout > 0 else None,
        priority=priority,
        options=group.options.with_peer_queue(policy.queue or ""),
        problem=problem,
    )


def _replicas(kind: KubeflowKind, spec: KubeflowSpec) -> Mapping[str, ReplicaSpec]:
    """Return the replicas of a job by type."""
    by_kind = {
        KubeflowKind.PYTORCH: spec.pytorch_replica_specs,
        KubeflowKind.TF: spec.tf_replica_specs,
        KubeflowKind.MPI: spec.mpi_replica_specs,
        KubeflowKind.XGBOOST: spec.xgb_replica_specs,
        KubeflowKind.PADDLE: spec.paddle_replica_specs,
        KubeflowKind.JAX: spec.jax_replica_specs,
    }
    return by_kind[kind] or {}


def _problem(
    spec: KubeflowSpec, policy: KubeflowSchedulingPolicy, replicas: Mapping[str, ReplicaSpec], where: str
) -> Problem | None:
    """Return what is wrong with the counts of a job, None if nothing is."""
    if not replicas:
        return Problem(where, "has no replicas")
    if policy.min_available is not None and policy.min_available < 1:
        return Problem(f"{_POLICY}.minAvailable", f"{policy.min_available} is not at least 1")
    counts = {f"{where}[{name}].replicas": replica.replicas for name, replica in sorted(replicas.items())}
    counts["spec.elasticPolicy.minReplicas"] = (spec.elastic_policy or ElasticPolicy()).min_replicas
    counts[f"{_POLICY}.scheduleTimeoutSeconds"] = policy.schedule_timeout_seconds
    return first_negative(counts)


def _part(kind: KubeflowKind, spec: KubeflowSpec, name: str, replica: ReplicaSpec) -> Part:
    """Return the pods of one type, the names of which both operators put onto pods in small letters."""
    replica_type = name.lower()
    role = role_of(replica.template, replica_type)
    default = 0 if kind is KubeflowKind.MPI and replica_type == _WORKER else 1
    pods = default if replica.replicas is None else replica.replicas
    least = (spec.elastic_policy or ElasticPolicy()).min_replicas if replica_type == _WORKER else None
    waits = spec.launcher_creation_policy == _WAIT_FOR_WORKERS or bool(spec.wait_for_workers)
    first = 0 if replica_type == _LAUNCHER and waits else pods
    return Part.of(role, pods, None if least is None else min(least, pods), first=first)
