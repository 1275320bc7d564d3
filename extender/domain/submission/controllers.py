"""The pods of Kubernetes' own controllers: Jobs, Deployments, StatefulSets, ReplicaSets.

Sources: k8s.io/kubernetes pkg/controller/job/indexed_job_utils.go, pkg/controller/statefulset/stateful_set_utils.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from extender.domain.submission.manifest import Manifest
from extender.domain.submission.podsets import PodSet, numbered
from extender.wire.templates import JobSpec, Replicated

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
_POD_INDEX = "apps.kubernetes.io/pod-index"
_INDEXED = "Indexed"


def job_pods(of: Manifest) -> Sequence[PodSet]:
    """Return the pods that a Job has at first, as if it were not suspended."""
    spec = of.spec(JobSpec)
    return [pods_of_job(spec, of, "spec", of.name)]


def pods_of_job(spec: JobSpec, of: Manifest, where: str, name: str, most: int | None = None) -> PodSet:
    """Return the pods that a Job called `name` has at first, at most `most` of them; `where` is the path of `spec`."""
    count = at_a_time(spec, of, where)
    names = numbered(name, count, of, f"{where}.parallelism")[:most]
    keys = (COMPLETION_INDEX,) if spec.completion_mode == _INDEXED else ()
    return PodSet(spec.template, f"{where}.template", names, numbered=keys)


def at_a_time(spec: JobSpec, of: Manifest, where: str) -> int:
    """Return how many pods a Job has at a time; raise SubmissionError for a negative number."""
    for field, count in (("parallelism", spec.parallelism), ("completions", spec.completions)):
        if count is not None and count < 0:
            raise of.refuse(f"{where}.{field}", f"{count} is negative")
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    return parallelism if spec.completions is None else min(parallelism, spec.completions)


def replicated_pods(of: Manifest) -> Sequence[PodSet]:
    """Return the pods of a Deployment, StatefulSet or ReplicaSet."""
    spec = of.spec(Replicated)
    count = 1 if spec.replicas is None else spec.replicas
    keys = (_POD_INDEX,) if of.kind == "StatefulSet" else ()
    return [PodSet(spec.template, "spec.template", numbered(of.name, count, of, "spec.replicas"), numbered=keys)]
