"""The pods that operators make: of JobSets, LeaderWorkerSets, Kubeflow's jobs and Ray clusters.

Of what is made in steps only the first step is there: what follows joins the gang when those run. Sources: those of
`extender.domain.workloads`, whose keys these are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from extender.domain.membership import (
    JOBSET_NAME,
    KUBEFLOW_JOB,
    LWS_GROUP,
    LWS_NAME,
    LWS_SIZE,
    RAY_CLUSTER,
    RAY_NODE_TYPE,
)
from extender.domain.roles import JOBSET_JOB
from extender.domain.submission.controllers import COMPLETION_INDEX, at_a_time, pods_of_job
from extender.domain.submission.manifest import Manifest
from extender.domain.submission.podsets import PodSet, numbered
from extender.domain.workloads import jobset, leaderworkerset
from extender.domain.workloads.kubeflow import KubeflowKind
from extender.wire.api import MetadataOnly
from extender.wire.kubernetes import ObjectMeta
from extender.wire.templates import (
    JobSetSpec,
    JobSpec,
    JobTemplate,
    KubeflowSpec,
    LeaderWorkerSetSpec,
    LeaderWorkerTemplate,
    RayClusterSpec,
    RayHeadGroup,
    RayWorkerGroup,
    Replicated,
    ReplicatedJob,
)

_REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
_LWS_WORKER: Final = "leaderworkerset.sigs.k8s.io/worker-index"
_KUBEFLOW_TYPE: Final = "training.kubeflow.org/replica-type"
_KUBEFLOW_INDEX: Final = "training.kubeflow.org/replica-index"
_RAY_GROUP: Final = "ray.io/group"
_LAUNCHER: Final = "launcher"

#: Where each kind of Kubeflow's jobs has its replicas.
REPLICAS_FIELDS: Final[Mapping[str, str]] = {
    KubeflowKind.PYTORCH: "pytorchReplicaSpecs",
    KubeflowKind.TF: "tfReplicaSpecs",
    KubeflowKind.MPI: "mpiReplicaSpecs",
    KubeflowKind.XGBOOST: "xgbReplicaSpecs",
    KubeflowKind.PADDLE: "paddleReplicaSpecs",
    KubeflowKind.JAX: "jaxReplicaSpecs",
}


def job_set_pods(of: Manifest) -> Sequence[PodSet]:
    """Return the pods that the Jobs of a JobSet have at first."""
    spec = of.spec(JobSetSpec)
    in_order = spec.startup_policy is not None and spec.startup_policy.startup_policy_order == "InOrder"
    sets: list[PodSet] = []
    for index, job in enumerate(spec.replicated_jobs or ()):
        where = f"spec.replicatedJobs[{index}]"
        template = (job.template or JobTemplate()).spec or JobSpec()
        replicas = 1 if job.replicas is None else job.replicas
        jobs = numbered(f"{of.name}-{job.name or index}", replicas, of, f"{where}.replicas")
        numbered(of.name, replicas * at_a_time(template, of, f"{where}.template.spec"), of, where)  # not too many
        if job.depends_on or (in_order and index > 0):
            continue
        first = 1 if _is_exclusive(of, job) else None
        for number, name in enumerate(jobs):
            pods = pods_of_job(template, of, f"{where}.template.spec", name, first)
            keys = {JOBSET_NAME: of.name, _REPLICATED_JOB: job.name or "", JOBSET_JOB: str(number)}
            sets.append(PodSet(pods.template, pods.where, pods.names, keys, numbered=(COMPLETION_INDEX,)))
    return sets


def _is_exclusive(of: Manifest, job: ReplicatedJob) -> bool:
    """Tell whether each Job gets a domain to itself by affinities, so that its first pod is made alone."""
    meta = of.whole(MetadataOnly).metadata or ObjectMeta()
    own = (job.template.metadata if job.template is not None else None) or ObjectMeta()
    annotations = {**(meta.annotations or {}), **(own.annotations or {})}
    return jobset.EXCLUSIVE_TOPOLOGY in annotations and jobset.NODE_SELECTOR_STRATEGY not in annotations


def leader_worker_set_pods(of: Manifest) -> Sequence[PodSet]:
    """Return the pods that the groups of a LeaderWorkerSet have at first."""
    spec = of.spec(LeaderWorkerSetSpec)
    template = spec.leader_worker_template or LeaderWorkerTemplate()
    where = "spec.leaderWorkerTemplate"
    size = 1 if template.size is None else template.size
    replicas = 1 if spec.replicas is None else spec.replicas
    groups = numbered(of.name, replicas, of, "spec.replicas")
    workers = numbered(of.name, max(size - 1, 0), of, f"{where}.size")
    numbered(of.name, replicas * max(size, 0), of, f"{where}.size")
    exclusive = leaderworkerset.EXCLUSIVE_TOPOLOGY in (
        (of.whole(MetadataOnly).metadata or ObjectMeta()).annotations or {}
    )
    leaders_first = exclusive or spec.startup_policy == "LeaderReady"
    annotations = {LWS_SIZE: str(size)}
    own = "leaderTemplate" if template.leader_template is not None else "workerTemplate"
    sets: list[PodSet] = []
    for number, name in enumerate(groups):
        keys = {LWS_NAME: of.name, LWS_GROUP: str(number)}
        leader = template.leader_template or template.worker_template
        sets.append(PodSet(leader, f"{where}.{own}", (name,), keys, annotations, (_LWS_WORKER,)))
        if not leaders_first:
            names = tuple(f"{name}-{index}" for index in range(1, len(workers) + 1))
            worker = template.worker_template
            sets.append(PodSet(worker, f"{where}.workerTemplate", names, keys, annotations, (_LWS_WORKER,), first=1))
    return sets


def kubeflow_pods(of: Manifest) -> Sequence[PodSet]:
    """Return the pods that a Kubeflow job has at first."""
    spec, field = of.spec(KubeflowSpec), REPLICAS_FIELDS[of.kind]
    waits = spec.launcher_creation_policy == "WaitForWorkersReady" or bool(spec.wait_for_workers)
    sets: list[PodSet] = []
    for name, replica in sorted(_replicas(spec, of.kind).items()):
        where, role = f"spec.{field}[{name}]", name.lower()
        if role == _LAUNCHER and waits:
            continue
        default = 0 if of.kind == KubeflowKind.MPI and role != _LAUNCHER else 1
        count = default if replica.replicas is None else replica.replicas
        names = numbered(f"{of.name}-{role}", count, of, f"{where}.replicas")
        keys = {KUBEFLOW_JOB: of.name, _KUBEFLOW_TYPE: role}
        sets.append(PodSet(replica.template, f"{where}.template", names, keys, numbered=(_KUBEFLOW_INDEX,)))
    return sets


def _replicas(spec: KubeflowSpec, kind: str) -> Mapping[str, Replicated]:
    """Return the replicas of a job by type."""
    by_kind = {
        KubeflowKind.PYTORCH: spec.pytorch_replica_specs,
        KubeflowKind.TF: spec.tf_replica_specs,
        KubeflowKind.MPI: spec.mpi_replica_specs,
        KubeflowKind.XGBOOST: spec.xgb_replica_specs,
        KubeflowKind.PADDLE: spec.paddle_replica_specs,
        KubeflowKind.JAX: spec.jax_replica_specs,
    }
    return by_kind[KubeflowKind(kind)] or {}


def ray_cluster_pods(of: Manifest) -> Sequence[PodSet]:
    """Return the pods that a RayCluster has before its autoscaler adds any."""
    spec = of.spec(RayClusterSpec)
    keys = {RAY_CLUSTER: of.name}
    head = spec.head_group_spec or RayHeadGroup()
    sets = [
        PodSet(
            head.template,
            "spec.headGroupSpec.template",
            (f"{of.name}-head",),
            keys | {RAY_NODE_TYPE: "head", _RAY_GROUP: "headgroup"},
        )
    ]
    for index, group in enumerate(spec.worker_group_specs or ()):
        where, name = f"spec.workerGroupSpecs[{index}]", group.group_name or "worker"
        names = numbered(f"{of.name}-{name}", _ray_workers(group, of, where), of, f"{where}.replicas")
        labels = keys | {RAY_NODE_TYPE: "worker", _RAY_GROUP: name}
        sets.append(PodSet(group.template, f"{where}.template", names, labels))
    return sets


def _ray_workers(group: RayWorkerGroup, of: Manifest, where: str) -> int:
    """Return how many pods a group of workers has at first."""
    for field, count in (("replicas", group.replicas), ("numOfHosts", group.num_of_hosts)):
        if count is not None and count < 0:
            raise of.refuse(f"{where}.{field}", f"{count} is negative")
    if group.suspend:
        return 0
    replicas = max(group.replicas or 0, group.min_replicas or 0)
    if group.max_replicas is not None:
        replicas = min(replicas, group.max_replicas)
    return replicas * (1 if group.num_of_hosts is None else group.num_of_hosts)
