"""Jobs that Muster resumes when there is a place for their pods.

Sources: k8s.io/api/batch/v1 types.go; k8s.io/kubernetes pkg/controller/job/job_controller.go, indexed_job_utils.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from extender.objects.keys import PLACE
from extender.objects.meta import Decoder, ObjectMeta, ObjectRef
from extender.objects.pod import Pod, read_pod
from extender.objects.podgroup import MOST_PODS, GroupRef, bare_pod
from extender.objects.podspec import PodSpec, PodTemplate
from extender.objects.reason import Problem
from extender.objects.sources.controllers import Job, JobSpec, JobStatus
from extender.objects.sources.roster import RosterPart, first_negative, gang_of, role_of
from extender.objects.sources.table import JOB
from extender.objects.text import parse_integer
from extender.objects.workload import ExpectedPods, Suspendable

_FINISHED = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})
_INDEXED = "Indexed"

decode_job = Decoder(Job)


def read_job(job: Job) -> Suspendable:
    """Read a `batch/v1` Job; what cannot be used of it becomes the `problem` of its gang.

    The gang needs as many pods as the Job runs at a time, while it is suspended as many as are still to be made; those
    that have succeeded count besides. The annotation `muster.dev/min-member` says otherwise.
    """
    meta, spec, status = job.metadata or ObjectMeta(), job.spec or JobSpec(), job.status or JobStatus()
    template = spec.template or PodTemplate()
    suspended = bool(spec.suspend)
    about = ObjectRef.of("batch/v1", "Job", meta)
    problem = first_negative({"spec.parallelism": spec.parallelism, "spec.completions": spec.completions})
    numbers = () if problem else _numbers(spec, status)
    ref = GroupRef(JOB, about.namespace, about.name)
    at_once = 0 if problem else _at_a_time(spec)
    group = gang_of(ref, about, meta, [RosterPart.of(role_of(template, ""), at_once)])
    ended = meta.deletion_timestamp is not None or any(
        each.type in _FINISHED and each.status == "True" for each in status.conditions or ()
    )
    place = "" if suspended else (meta.annotations or {}).get(PLACE, "")
    pods: tuple[ExpectedPods, ...] = ()
    if template.spec is not None:
        pod, of_class = _expected(meta, template, template.spec)
        indexed = spec.completion_mode == _INDEXED
        # Of one that runs its pods say everything: there may be thousands, and each changes the Job's status.
        made = numbers if (suspended or place) and not ended else ()
        pods = (ExpectedPods(pod, made, of_class, indexed),)
        group = replace(group, options=group.options.with_problems(pod.options.problems))
    if suspended and not (ended or problem or pods):
        problem = Problem("spec.template.spec", "is missing")
    elif len(numbers) > MOST_PODS:
        problem = Problem("spec.parallelism", f"{len(numbers)} pods are more than {MOST_PODS}")
        pods = ()
    told = "Finished" if ended or (suspended and not numbers and not problem) else ""
    return Suspendable(
        about=about,
        resource="jobs",
        version=meta.resource_version or "",
        group=replace(group, problem=problem, told=told),
        pods=pods,
        left=len(numbers),
        suspended=suspended,
        ended=ended,
        place=place,
    )


def _at_a_time(spec: JobSpec) -> int:
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    return parallelism if spec.completions is None else min(parallelism, spec.completions)


def _numbers(spec: JobSpec, status: JobStatus) -> tuple[int, ...]:
    """Return the pods that the Job makes at once when it is resumed: their indices, or as many numbers."""
    count = _at_a_time(spec)
    if spec.completions is None:
        return tuple(range(min(count, MOST_PODS + 1)))
    left = min(count, max(spec.completions - (status.succeeded or 0), 0), MOST_PODS + 1)
    if spec.completion_mode != _INDEXED:
        return tuple(range(left))
    return tuple(islice(_open_indices(status.completed_indexes or "", spec.completions), left))


def _open_indices(completed: str, completions: int) -> Iterator[int]:
    """Yield the indices below `completions` that are not completed; `1,3-5` says that 1, 3, 4 and 5 are."""
    spans: list[tuple[int, int]] = []
    for part in completed.split(",") if completed else ():
        first, _, last = part.partition("-")
        low, high = parse_integer(first), parse_integer(last or first)
        if low is not None and high is not None:
            spans.append((low, high))
    index = 0
    for low, high in sorted(spans):
        yield from range(index, min(low, completions))
        index = max(index, high + 1)
    yield from range(index, completions)


def _expected(meta: ObjectMeta, template: PodTemplate, spec: PodSpec) -> tuple[Pod, str]:
    """Return a pod of a template as it is when it has just been created, and the PriorityClass that it names."""
    own = template.metadata or ObjectMeta()
    name = meta.name or ""
    made = bare_pod(meta.namespace or "", name, own.labels or {}, own.annotations or {}, spec)
    return read_pod(made), spec.priority_class_name or ""
