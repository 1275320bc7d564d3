"""JobSets: all pods of all Jobs that exist at the same time are one gang.

Source: kubernetes-sigs/jobset api/jobset/v1alpha2/jobset_types.go and pkg/webhooks/pod_admission_webhook.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from extender.domain.membership import GroupApi, GroupRef
from extender.domain.peers import field_of
from extender.domain.podgroup import PodGroup
from extender.domain.reason import Problem
from extender.domain.workloads.roster import Part, first_negative, gang_of, object_ref, role_of
from extender.wire.kubernetes import ObjectMeta
from extender.wire.workloads import JobSet, JobSetSpec, JobTemplate, JobTemplateSpec, ReplicatedJob

API_VERSION = "jobset.x-k8s.io/v1alpha2"

#: Each Job gets a domain of this node label's to itself. JobSet sees to that by affinities of the Job's first pod, and
#: makes the others when that is bound; or, with the other annotation, by node selectors on all pods at once.
EXCLUSIVE_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR_STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"

_IN_ORDER = "InOrder"


def read_job_set(job_set: JobSet) -> PodGroup:
    """Read a `jobset.x-k8s.io/v1alpha2` JobSet; a bad count becomes the `problem`.

    A replicated job that waits for another, by `dependsOn` or in order, joins the gang when its first pod is there.
    """
    meta = job_set.metadata or ObjectMeta()
    spec = job_set.spec or JobSetSpec()
    jobs = spec.replicated_jobs or []
    in_order = spec.startup_policy is not None and spec.startup_policy.startup_policy_order == _IN_ORDER
    counts: dict[str, int | None] = {}
    parts, exclusive = [], ""
    for index, job in enumerate(jobs):
        where = f"spec.replicatedJobs[{index}]"
        template = (job.template or JobTemplate()).spec or JobTemplateSpec()
        counts |= {
            f"{where}.replicas": job.replicas,
            f"{where}.template.spec.parallelism": template.parallelism,
            f"{where}.template.spec.completions": template.completions,
        }
        waits = bool(job.depends_on) or (in_order and index > 0)
        key = _exclusive_key(meta, job)
        parts.append(_part(job, template, waits=waits, exclusive=bool(key)))
        exclusive = exclusive or key
    problem = first_negative(counts)
    ref = GroupRef(GroupApi.JOBSET, meta.namespace or "", meta.name or "")
    group = gang_of(ref, object_ref(API_VERSION, "JobSet", meta), meta, () if problem else parts)
    if exclusive:
        group = replace(group, options=group.options.with_problems((_two_steps(exclusive),)))
    return replace(group, problem=problem)


def _part(job: ReplicatedJob, template: JobTemplateSpec, *, waits: bool, exclusive: bool) -> Part:
    """Return the pods of a replicated job."""
    replicas = 1 if job.replicas is None else job.replicas
    parallelism = 1 if template.parallelism is None else template.parallelism
    each = parallelism if template.completions is None else min(parallelism, template.completions)
    first = 0 if waits else replicas * (min(each, 1) if exclusive else each)
    return Part.of(role_of(template.template, job.name or ""), replicas * each, first=first)


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
