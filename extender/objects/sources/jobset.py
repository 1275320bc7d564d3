"""JobSets: all pods of all Jobs that exist at the same time are one gang.

Source: kubernetes-sigs/jobset api/jobset/v1alpha2/jobset_types.go and pkg/webhooks/pod_admission_webhook.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from msgspec import Struct

from extender.objects.manifest import Manifest
from extender.objects.meta import Decoder, Int32, ObjectMeta, ObjectRef
from extender.objects.peers import field_of
from extender.objects.podgroup import GroupRef, PodGroup, SubmittedPodSet, numbered
from extender.objects.reason import Problem
from extender.objects.sources.controllers import COMPLETION_INDEX, Conditions, JobSpec, at_a_time, pods_of_job
from extender.objects.sources.roster import RosterPart, first_negative, gang_of, role_of
from extender.objects.sources.source import Source, Suspending, WorkloadKind, one

JOBSET: Final = "jobset.x-k8s.io"
JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
JOBSET_ROLE: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOBSET_JOB: Final = "jobset.sigs.k8s.io/job-index"

#: Each Job gets a domain of this node label's to itself. JobSet sees to that by affinities of the Job's first pod, and
#: makes the others when that is bound; or, with the other annotation, by node selectors on all pods at once.
EXCLUSIVE_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR_STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"

_IN_ORDER = "InOrder"


class JobTemplate(Struct, gc=False, frozen=True):
    """A JobTemplateSpec; its metadata are those of the Jobs."""

    metadata: ObjectMeta | None = None
    spec: JobSpec | None = None


class DependsOn(Struct, gc=False, frozen=True):
    """Another replicated job that has to be Ready or Complete first."""

    name: str | None = None
    status: str | None = None


class ReplicatedJob(Struct, gc=False, frozen=True, rename="camel"):
    """So many Jobs of one template."""

    name: str | None = None
    replicas: Int32 | None = None
    template: JobTemplate | None = None
    depends_on: list[DependsOn] | None = None


class StartupPolicy(Struct, gc=False, frozen=True, rename="camel"):
    """The order in which replicated jobs are made: AnyOrder or InOrder."""

    startup_policy_order: str | None = None


class JobSetSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a JobSet."""

    replicated_jobs: list[ReplicatedJob] | None = None
    startup_policy: StartupPolicy | None = None
    suspend: bool | None = None


class JobSet(Struct, gc=False, frozen=True):
    """A `jobset.x-k8s.io/v1alpha2` JobSet."""

    metadata: ObjectMeta | None = None
    spec: JobSetSpec | None = None
    status: Conditions | None = None


decode_job_set = Decoder(JobSet)


def read_job_set(job_set: JobSet) -> PodGroup:
    """Read a `jobset.x-k8s.io/v1alpha2` JobSet; a bad count becomes the `problem`.

    A replicated job that waits for another, by `dependsOn` or in order, joins the gang when its first pod is there.
    """
    meta = job_set.metadata or ObjectMeta()
    spec = job_set.spec or JobSetSpec()
    counts: dict[str, int | None] = {}
    parts, exclusive = [], ""
    for index, job in enumerate(spec.replicated_jobs or ()):
        where = f"spec.replicatedJobs[{index}]"
        template = (job.template or JobTemplate()).spec or JobSpec()
        counts |= {
            f"{where}.replicas": job.replicas,
            f"{where}.template.spec.parallelism": template.parallelism,
            f"{where}.template.spec.completions": template.completions,
        }
        key = _exclusive_key(meta, job)
        parts.append(_part(job, template, waits=_waits(spec, index), exclusive=bool(key)))
        exclusive = exclusive or key
    problem = first_negative(counts)
    ref = GroupRef(JOBSET, meta.namespace or "", meta.name or "")
    about = ObjectRef.of(f"{JOBSET}/v1alpha2", "JobSet", meta)
    group = gang_of(ref, about, meta, () if problem else parts)
    if exclusive:
        group = replace(group, options=group.options.with_problems((_two_steps(exclusive),)))
    return replace(group, problem=problem)


def _waits(spec: JobSetSpec, index: int) -> bool:
    """Tell whether the replicated job number `index` is made only when others run."""
    in_order = spec.startup_policy is not None and spec.startup_policy.startup_policy_order == _IN_ORDER
    return bool((spec.replicated_jobs or [])[index].depends_on) or (in_order and index > 0)


def _part(job: ReplicatedJob, template: JobSpec, *, waits: bool, exclusive: bool) -> RosterPart:
    """Return the pods of a replicated job."""
    replicas = 1 if job.replicas is None else job.replicas
    parallelism = 1 if template.parallelism is None else template.parallelism
    each = parallelism if template.completions is None else min(parallelism, template.completions)
    first = 0 if waits else replicas * (min(each, 1) if exclusive else each)
    return RosterPart.of(role_of(template.template, job.name or ""), replicas * each, first=first)


def _exclusive_key(meta: ObjectMeta, job: ReplicatedJob) -> str:
    """Return the node label of whose domains each Job gets one to itself by affinities, "" if none."""
    own = (job.template.metadata if job.template is not None else None) or ObjectMeta()
    annotations: Mapping[str, str] = {**(meta.annotations or {}), **(own.annotations or {})}
    return "" if NODE_SELECTOR_STRATEGY in annotations else annotations.get(EXCLUSIVE_TOPOLOGY, "")


def _two_steps(key: str) -> Problem:
    return Problem(
        field_of(EXCLUSIVE_TOPOLOGY),
        "keeps the gang from starting at once: JobSet makes each Job's first pod, and the others when it is bound; "
        f"muster.dev/topology-slice: {key}=PODS on the pods has each Job's in one {key} without that",
    )


def job_set_pods(of: Manifest) -> Sequence[SubmittedPodSet]:
    """Return the pods that the Jobs of a JobSet have at first."""
    job_set = of.whole(JobSet)
    meta, spec = job_set.metadata or ObjectMeta(), job_set.spec or JobSetSpec()
    sets: list[SubmittedPodSet] = []
    for index, job in enumerate(spec.replicated_jobs or ()):
        where = f"spec.replicatedJobs[{index}]"
        template = (job.template or JobTemplate()).spec or JobSpec()
        replicas = 1 if job.replicas is None else job.replicas
        jobs = numbered(f"{of.name}-{job.name or index}", replicas, of, f"{where}.replicas")
        numbered(of.name, replicas * at_a_time(template, of, f"{where}.template.spec"), of, where)  # not too many
        if _waits(spec, index):
            continue
        first = 1 if _exclusive_key(meta, job) else None
        for number, name in enumerate(jobs):
            pods = pods_of_job(template, of, f"{where}.template.spec", name, first)
            keys = {JOBSET_NAME: of.name, JOBSET_ROLE: job.name or "", JOBSET_JOB: str(number)}
            sets.append(SubmittedPodSet(pods.template, pods.where, pods.names, keys, numbered=(COMPLETION_INDEX,)))
    return sets


SOURCE = Source(
    api=JOBSET,
    noun="JobSet",
    label=JOBSET_NAME,
    kinds=(
        WorkloadKind(
            *(JOBSET, "JobSet", "jobsets", ("v1alpha2",), decode_job_set, one(read_job_set), job_set_pods),
            suspending=Suspending(
                ("spec", "suspend"), lambda item: bool((item.spec or JobSetSpec()).suspend), by_jobs=True
            ),
        ),
    ),
    role=lambda labels, _annotations: labels.get(JOBSET_ROLE, ""),
    role_keys=(JOBSET_ROLE,),
    outer_index=JOBSET_JOB,
)
