"""Kubernetes' own controllers: Jobs, Deployments, StatefulSets and ReplicaSets, which make pods but describe no gang.

Sources: k8s.io/kubernetes pkg/controller/job/indexed_job_utils.go, pkg/controller/statefulset/stateful_set_utils.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from extender.objects.manifest import Manifest
from extender.objects.meta import Decoder, Int32, ObjectMeta
from extender.objects.podgroup import SubmittedPodSet, numbered
from extender.objects.podspec import PodTemplate
from extender.objects.sources.source import WorkloadKind, no_gang

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
_INDEXED: Final = "Indexed"


class JobSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a `batch/v1` Job: how many pods it has at a time, and how many must succeed.

    `completion_mode` is Indexed or NonIndexed.
    """

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str | None = None
    template: PodTemplate | None = None
    suspend: bool | None = None


class JobCondition(Struct, gc=False, frozen=True):
    """A condition of a Job, or of an object that makes Jobs or pods."""

    type: str | None = None
    status: str | None = None


class Conditions(Struct, gc=False, frozen=True):
    """The part of the status of an operator's object that says whether it has ended."""

    conditions: list[JobCondition] | None = None


class JobStatus(Struct, gc=False, frozen=True, rename="camel"):
    """How far a Job has come; `completed_indexes` are such as `0-2,5`."""

    succeeded: Int32 | None = None
    completed_indexes: str | None = None
    conditions: list[JobCondition] | None = None


class Job(Struct, gc=False, frozen=True):
    """A `batch/v1` Job."""

    metadata: ObjectMeta | None = None
    spec: JobSpec | None = None
    status: JobStatus | None = None


class Replicated(Struct, gc=False, frozen=True):
    """So many pods of one template: the spec of a Deployment, or the pods of one type of a Kubeflow job."""

    replicas: Int32 | None = None
    template: PodTemplate | None = None


class Replicating(Struct, gc=False, frozen=True):
    """A Deployment, StatefulSet or ReplicaSet."""

    metadata: ObjectMeta | None = None
    spec: Replicated | None = None


def job_pods(of: Manifest) -> Sequence[SubmittedPodSet]:
    """Return the pods that a Job has at first, as if it were not suspended."""
    return [pods_of_job(of.whole(Job).spec or JobSpec(), of, "spec", of.name)]


def pods_of_job(spec: JobSpec, of: Manifest, where: str, name: str, most: int | None = None) -> SubmittedPodSet:
    """Return the pods that a Job called `name` has at first, at most `most` of them; `where` is the path of `spec`."""
    count = at_a_time(spec, of, where)
    names = numbered(name, count, of, f"{where}.parallelism")[:most]
    keys = (COMPLETION_INDEX,) if spec.completion_mode == _INDEXED else ()
    return SubmittedPodSet(spec.template, f"{where}.template", names, numbered=keys)


def at_a_time(spec: JobSpec, of: Manifest, where: str) -> int:
    """Return how many pods a Job has at a time; raise SubmissionError for a negative number."""
    for field, count in (("parallelism", spec.parallelism), ("completions", spec.completions)):
        if count is not None and count < 0:
            raise of.refuse(f"{where}.{field}", f"{count} is negative")
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    return parallelism if spec.completions is None else min(parallelism, spec.completions)


def replicated_pods(of: Manifest) -> Sequence[SubmittedPodSet]:
    """Return the pods of a Deployment, StatefulSet or ReplicaSet."""
    spec = of.whole(Replicating).spec or Replicated()
    count = 1 if spec.replicas is None else spec.replicas
    keys = (POD_INDEX,) if of.kind == "StatefulSet" else ()
    names = numbered(of.name, count, of, "spec.replicas")
    return [SubmittedPodSet(spec.template, "spec.template", names, numbered=keys)]


#: Kinds that make pods. They are not watched: what is in the cluster of them, the pods say.
CONTROLLERS: Final[tuple[WorkloadKind[Any], ...]] = (
    WorkloadKind("batch", "Job", "jobs", ("v1",), Decoder(Job), no_gang, job_pods),
    *(
        WorkloadKind("apps", kind, f"{kind.lower()}s", ("v1",), Decoder(Replicating), no_gang, replicated_pods)
        for kind in ("Deployment", "StatefulSet", "ReplicaSet")
    ),
)
