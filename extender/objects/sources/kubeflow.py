"""Jobs of Kubeflow's training operator and of its MPI operator: all replicas are one gang.

Sources: kubeflow/training-operator pkg/apis/kubeflow.org/v1; kubeflow/mpi-operator pkg/apis/kubeflow/v2beta1/types.go
and pkg/controller/podgroup.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Final

from msgspec import Struct

from extender.objects.manifest import Manifest
from extender.objects.meta import Decoder, Int32, ObjectMeta, ObjectRef, ResourceList
from extender.objects.podgroup import GroupRef, PodGroup, SubmittedPodSet, numbered
from extender.objects.reason import Problem
from extender.objects.requests import ResourceListError, read_amounts
from extender.objects.sources.controllers import Conditions, Replicated
from extender.objects.sources.roster import RosterPart, first_negative, gang_of, role_of
from extender.objects.sources.source import Keyed, PriorityValues, Source, Suspending, WorkloadKind

KUBEFLOW: Final = "kubeflow.org"
KUBEFLOW_JOB: Final = "training.kubeflow.org/job-name"
KUBEFLOW_TYPE: Final = "training.kubeflow.org/replica-type"
KUBEFLOW_INDEX: Final = "training.kubeflow.org/replica-index"
#: Earlier versions of the MPI operator write the second.
KUBEFLOW_ROLES: Final = (KUBEFLOW_TYPE, "training.kubeflow.org/job-role")

_POLICY = "spec.runPolicy.schedulingPolicy"
_LAUNCHER, _WORKER = "launcher", "worker"
_WAIT_FOR_WORKERS = "WaitForWorkersReady"


class KubeflowKind(StrEnum):
    """The kinds of jobs."""

    PYTORCH = "PyTorchJob"
    TF = "TFJob"
    MPI = "MPIJob"
    XGBOOST = "XGBoostJob"
    PADDLE = "PaddleJob"
    JAX = "JAXJob"


class KubeflowSchedulingPolicy(Struct, gc=False, frozen=True, rename="camel"):
    """How the operator would describe the job to a gang scheduler."""

    min_available: Int32 | None = None
    queue: str | None = None
    min_resources: ResourceList | None = None
    priority_class: str | None = None
    schedule_timeout_seconds: Int32 | None = None


class RunPolicy(Struct, gc=False, frozen=True, rename="camel"):
    """The part of a Kubeflow RunPolicy that is about scheduling."""

    scheduling_policy: KubeflowSchedulingPolicy | None = None
    suspend: bool | None = None


class ElasticPolicy(Struct, gc=False, frozen=True, rename="camel"):
    """With how few workers a job goes on."""

    min_replicas: Int32 | None = None


class KubeflowSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a Kubeflow job of any kind, each of which has its replicas, by type, under a name of its own.

    `launcher_creation_policy` is AtStartup or WaitForWorkersReady; earlier versions had `wait_for_workers`.
    """

    run_policy: RunPolicy | None = None
    elastic_policy: ElasticPolicy | None = None
    pytorch_replica_specs: dict[str, Replicated] | None = None
    tf_replica_specs: dict[str, Replicated] | None = None
    mpi_replica_specs: dict[str, Replicated] | None = None
    xgb_replica_specs: dict[str, Replicated] | None = None
    paddle_replica_specs: dict[str, Replicated] | None = None
    jax_replica_specs: dict[str, Replicated] | None = None
    launcher_creation_policy: str | None = None
    wait_for_workers: bool | None = None

    @property
    def policy(self) -> KubeflowSchedulingPolicy:
        """Return the scheduling policy, an empty one where there is none."""
        return (self.run_policy or RunPolicy()).scheduling_policy or KubeflowSchedulingPolicy()

    @property
    def launcher_waits(self) -> bool:
        """Tell whether the launcher is made only when the workers are ready."""
        return self.launcher_creation_policy == _WAIT_FOR_WORKERS or bool(self.wait_for_workers)


class KubeflowJob(Struct, gc=False, frozen=True, rename="camel"):
    """A `kubeflow.org` job: PyTorchJob, TFJob, MPIJob, XGBoostJob, PaddleJob or JAXJob."""

    api_version: str | None = None
    metadata: ObjectMeta | None = None
    spec: KubeflowSpec | None = None
    status: Conditions | None = None

    @property
    def is_suspended(self) -> bool:
        """Tell whether it makes no pods."""
        return bool(((self.spec or KubeflowSpec()).run_policy or RunPolicy()).suspend)


decode_kubeflow_job = Decoder(KubeflowJob)

_Replicas = Callable[[KubeflowSpec], dict[str, Replicated] | None]
#: Where each kind has its replicas: the path in the object, and the field of the struct.
_REPLICAS: Final[Mapping[KubeflowKind, tuple[str, _Replicas]]] = {
    KubeflowKind.PYTORCH: ("spec.pytorchReplicaSpecs", lambda spec: spec.pytorch_replica_specs),
    KubeflowKind.TF: ("spec.tfReplicaSpecs", lambda spec: spec.tf_replica_specs),
    KubeflowKind.MPI: ("spec.mpiReplicaSpecs", lambda spec: spec.mpi_replica_specs),
    KubeflowKind.XGBOOST: ("spec.xgbReplicaSpecs", lambda spec: spec.xgb_replica_specs),
    KubeflowKind.PADDLE: ("spec.paddleReplicaSpecs", lambda spec: spec.paddle_replica_specs),
    KubeflowKind.JAX: ("spec.jaxReplicaSpecs", lambda spec: spec.jax_replica_specs),
}


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
    policy = spec.policy
    where, replicas = _replicas(kind, spec)
    problem = _problem(spec, policy, replicas, where)
    parts = () if problem else [_part(kind, spec, name, replica) for name, replica in replicas.items()]
    ref = GroupRef(KUBEFLOW, meta.namespace or "", meta.name or "")
    about = ObjectRef.of(job.api_version or "kubeflow.org/v1", kind, meta)
    group = gang_of(ref, about, meta, parts, None if problem else policy.min_available)
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


def _replicas(kind: KubeflowKind, spec: KubeflowSpec) -> tuple[str, Mapping[str, Replicated]]:
    """Return where a job has its replicas, and these by type in order of the type."""
    where, replicas_of = _REPLICAS[kind]
    return where, dict(sorted((replicas_of(spec) or {}).items()))


def _problem(
    spec: KubeflowSpec, policy: KubeflowSchedulingPolicy, replicas: Mapping[str, Replicated], where: str
) -> Problem | None:
    """Return what is wrong with the counts of a job, None if nothing is."""
    if not replicas:
        return Problem(where, "has no replicas")
    if policy.min_available is not None and policy.min_available < 1:
        return Problem(f"{_POLICY}.minAvailable", f"{policy.min_available} is not at least 1")
    counts = {f"{where}[{name}].replicas": replica.replicas for name, replica in replicas.items()}
    counts["spec.elasticPolicy.minReplicas"] = (spec.elastic_policy or ElasticPolicy()).min_replicas
    counts[f"{_POLICY}.scheduleTimeoutSeconds"] = policy.schedule_timeout_seconds
    return first_negative(counts)


def _part(kind: KubeflowKind, spec: KubeflowSpec, name: str, replica: Replicated) -> RosterPart:
    """Return the pods of one type, the names of which both operators put onto pods in small letters."""
    replica_type = name.lower()
    role = role_of(replica.template, replica_type)
    pods = _pods(kind, replica_type, replica)
    least = (spec.elastic_policy or ElasticPolicy()).min_replicas if replica_type == _WORKER else None
    first = 0 if replica_type == _LAUNCHER and spec.launcher_waits else pods
    return RosterPart.of(role, pods, None if least is None else min(least, pods), first=first)


def _pods(kind: KubeflowKind, replica_type: str, replica: Replicated) -> int:
    """Return how many pods of a type there are: one unless it is said, but no workers of an MPIJob."""
    default = 0 if kind is KubeflowKind.MPI and replica_type == _WORKER else 1
    return default if replica.replicas is None else replica.replicas


def kubeflow_pods(kind: KubeflowKind, of: Manifest) -> Sequence[SubmittedPodSet]:
    """Return the pods that a Kubeflow job has at first."""
    spec = of.whole(KubeflowJob).spec or KubeflowSpec()
    field, replicas = _replicas(kind, spec)
    sets: list[SubmittedPodSet] = []
    for name, replica in replicas.items():
        where, replica_type = f"{field}[{name}]", name.lower()
        if replica_type == _LAUNCHER and spec.launcher_waits:
            continue
        count = _pods(kind, replica_type, replica)
        names = numbered(f"{of.name}-{replica_type}", count, of, f"{where}.replicas")
        keys = {KUBEFLOW_JOB: of.name, KUBEFLOW_TYPE: replica_type}
        sets.append(SubmittedPodSet(replica.template, f"{where}.template", names, keys, numbered=(KUBEFLOW_INDEX,)))
    return sets


def _read(kind: KubeflowKind, job: KubeflowJob, priorities: PriorityValues) -> tuple[PodGroup]:
    name = (job.spec or KubeflowSpec()).policy.priority_class
    return (read_kubeflow_job(kind, job, priorities.get(name or "")),)


def _role(labels: Keyed, _annotations: Keyed) -> str:
    # The operator's own webhooks and early versions write `Worker`.
    return next((role.lower() for label in KUBEFLOW_ROLES if (role := labels.get(label))), "")


def _kind(kind: KubeflowKind) -> WorkloadKind[KubeflowJob]:
    # The MPI operator serves later versions than the training operator does; one of them at most is installed.
    versions = ("v2beta1", "v1") if kind is KubeflowKind.MPI else ("v1",)
    resource = f"{kind.lower()}s"
    read, expand = partial(_read, kind), partial(kubeflow_pods, kind)
    # The MPI operator has the launcher made by a Job of its own.
    suspending: Suspending[KubeflowJob] = Suspending(
        ("spec", "runPolicy", "suspend"), lambda job: job.is_suspended, by_jobs=kind is KubeflowKind.MPI
    )
    decode = decode_kubeflow_job
    return WorkloadKind(KUBEFLOW, kind, resource, versions, decode, read, expand, suspending=suspending)


SOURCE = Source(
    api=KUBEFLOW,
    noun="Kubeflow job",
    label=KUBEFLOW_JOB,
    kinds=tuple(_kind(kind) for kind in KubeflowKind),
    role=_role,
    role_keys=KUBEFLOW_ROLES,
    index_keys=(KUBEFLOW_INDEX,),
)
