"""The watched kinds from which other operators make the pods of a gang: none need be installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extender.control.observer import Observer
from extender.control.ports import Kind
from extender.domain.membership import GroupApi, GroupRef
from extender.domain.podgroup import PodGroup
from extender.domain.workloads import jobset, leaderworkerset, ray
from extender.domain.workloads.jobset import read_job_set
from extender.domain.workloads.kubeflow import KubeflowKind, read_kubeflow_job
from extender.domain.workloads.leaderworkerset import read_leader_worker_set
from extender.domain.workloads.ray import read_ray_cluster
from extender.kube.watch import Feed, Identity
from extender.wire import codec
from extender.wire import workloads as wire

_KUBEFLOW = {
    Kind.PYTORCH_JOB: KubeflowKind.PYTORCH,
    Kind.TF_JOB: KubeflowKind.TF,
    Kind.MPI_JOB: KubeflowKind.MPI,
    Kind.XGBOOST_JOB: KubeflowKind.XGBOOST,
    Kind.PADDLE_JOB: KubeflowKind.PADDLE,
    Kind.JAX_JOB: KubeflowKind.JAX,
}


def workload_feeds(observer: Observer, priorities: Mapping[str, int]) -> tuple[Feed[Any], ...]:
    """Return what to watch of other operators, told to `observer`; `priorities` are by the name of the class."""
    namesakes = Namesakes(observer)
    return (
        Feed(
            kind=Kind.JOB_SET,
            path=f"/apis/{jobset.API_VERSION}/jobsets",
            decode=codec.decode_job_set,
            seen=lambda item: observer.group_seen(read_job_set(item)),
            gone=lambda who: observer.group_gone(GroupRef(GroupApi.JOBSET, who.namespace, who.name), who.uid),
            optional=True,
        ),
        _leader_worker_sets(observer),
        *(_kubeflow(kind, namesakes, priorities) for kind in _KUBEFLOW),
        Feed(
            kind=Kind.RAY_CLUSTER,
            path=f"/apis/{ray.API_VERSION}/rayclusters",
            decode=codec.decode_ray_cluster,
            seen=lambda item: observer.group_seen(read_ray_cluster(item)),
            gone=lambda who: observer.group_gone(GroupRef(GroupApi.RAY, who.namespace, who.name), who.uid),
            optional=True,
        ),
    )


class Namesakes:
    """Tell of Kubeflow's jobs, of those that have one name the newest.

    Their pods do not say of which kind their job is. Two that run at a time would make pods of the same names, which
    the API server refuses; but a job that has ended may stand beside another one.
    """

    def __init__(self, observer: Observer) -> None:
        """Know of no job."""
        self._observer = observer
        self._jobs: dict[GroupRef, dict[str, PodGroup]] = {}

    def seen(self, job: PodGroup) -> None:
        """Take in a job that was added or changed."""
        jobs = self._jobs.setdefault(job.ref, {})
        jobs[job.uid] = job
        if _newest(jobs) is job:
            self._observer.group_seen(job)

    def gone(self, ref: GroupRef, uid: str) -> None:
        """Forget a job that was deleted; the newest of the others counts now."""
        jobs = self._jobs.get(ref, {})
        told = jobs and _newest(jobs).uid == uid
        jobs.pop(uid, None)
        if told:
            self._observer.group_gone(ref, uid)
        if not jobs:
            self._jobs.pop(ref, None)
        elif told:
            self._observer.group_seen(_newest(jobs))


def _newest(jobs: Mapping[str, PodGroup]) -> PodGroup:
    return max(jobs.values(), key=lambda job: (job.created, job.uid))


def _kubeflow(kind: Kind, namesakes: Namesakes, priorities: Mapping[str, int]) -> Feed[wire.KubeflowJob]:
    resource = kind.value.partition(".")[0]

    def seen(item: wire.KubeflowJob) -> None:
        namesakes.seen(read_kubeflow_job(_KUBEFLOW[kind], item, priorities.get(_priority_class(item))))

    # The MPI operator serves later versions than the training operator does; one of them at most is installed.
    paths = [f"/apis/kubeflow.org/{version}/{resource}" for version in _versions(kind)]
    return Feed(
        kind=kind,
        path=paths[0],
        decode=codec.decode_kubeflow_job,
        seen=seen,
        gone=lambda who: namesakes.gone(GroupRef(GroupApi.KUBEFLOW, who.namespace, who.name), who.uid),
        optional=True,
        older=tuple(paths[1:]),
    )


def _versions(kind: Kind) -> tuple[str, ...]:
    return ("v2beta1", "v1") if kind is Kind.MPI_JOB else ("v1",)


def _priority_class(job: wire.KubeflowJob) -> str:
    policy = job.spec.run_policy.scheduling_policy if job.spec is not None and job.spec.run_policy is not None else None
    return (policy.priority_class if policy is not None else None) or ""


def _leader_worker_sets(observer: Observer) -> Feed[wire.LeaderWorkerSet]:
    """Tell of the groups of a set one by one, and take back those that it has no more."""
    told: dict[str, dict[GroupRef, str]] = {}

    def tell(uid: str, groups: tuple[PodGroup, ...]) -> None:
        left = {group.ref for group in groups}
        for ref, group_uid in told.pop(uid, {}).items():
            if ref not in left:
                observer.group_gone(ref, group_uid)
        for group in groups:
            observer.group_seen(group)
        if groups:
            told[uid] = {group.ref: group.uid for group in groups}

    def seen(item: wire.LeaderWorkerSet) -> None:
        tell((item.metadata.uid if item.metadata is not None else None) or "", read_leader_worker_set(item))

    def gone(who: Identity) -> None:
        tell(who.uid, ())

    return Feed(
        kind=Kind.LEADER_WORKER_SET,
        path=f"/apis/{leaderworkerset.API_VERSION}/leaderworkersets",
        decode=codec.decode_leader_worker_set,
        seen=seen,
        gone=gone,
        optional=True,
    )
