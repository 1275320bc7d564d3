"""Objects of operators that Muster resumes when there is a place for their pods: read by the rows of their kinds.

What makes pods of an object, and how it says that it is suspended, the row says: there is one way for all kinds. Jobs
say besides which of their pods have succeeded (`extender.objects.jobs`). Conditions by which objects say that they have
ended: kubernetes-sigs/jobset api/jobset/v1alpha2, kubeflow/training-operator pkg/apis/kubeflow.org/v1/common_types.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from extender.objects.keys import PLACE
from extender.objects.manifest import Manifest, SubmissionError
from extender.objects.meta import ObjectMeta
from extender.objects.pod import read_pod
from extender.objects.podgroup import MOST_PODS, PodGroup, SubmittedPodSet
from extender.objects.podspec import PodSpec, PodTemplate
from extender.objects.reason import Problem
from extender.objects.sources.controllers import Conditions
from extender.objects.sources.source import WorkloadKind
from extender.objects.workload import ExpectedPods, Suspendable

_ENDED = frozenset({"Completed", "Succeeded", "Failed"})


def read_suspendable(kind: WorkloadKind[Any], item: Any, group: PodGroup) -> Suspendable | None:  # noqa: ANN401 - `kind`
    """Read an object of a kind that describes `group`; None for one whose kind has no way to suspend it.

    Its pods are those that its controller makes at once; of one that has started its pods say everything.
    """
    about = group.about
    if kind.suspending is None or kind.expand is None or about is None:
        return None
    meta, suspended = item.metadata or ObjectMeta(), kind.suspending.is_set(item)
    told = (item.status or Conditions()).conditions or ()
    ended = meta.deletion_timestamp is not None or any(each.type in _ENDED and each.status == "True" for each in told)
    place = "" if suspended else (meta.annotations or {}).get(PLACE, "")
    pods: Sequence[ExpectedPods] = ()
    if (suspended or place) and not ended and group.problem is None:
        of = Manifest(kind.group, kind.kind, group.ref.namespace, group.ref.name, msgspec.to_builtins(item))
        try:
            pods = [_expected(of, each) for each in kind.expand(of) if each.names]
            _check(group, pods)
        except SubmissionError as error:
            group, pods = replace(group, problem=Problem("spec", str(error))), ()
    return Suspendable(
        about=about,
        resource=kind.resource,
        version=meta.resource_version or "",
        group=group,
        pods=tuple(pods),
        left=group.min_member if kind.suspending.by_part else sum(len(each.numbers) for each in pods),
        suspended=suspended,
        ended=ended,
        place=place,
        field=kind.suspending.field,
        described=not kind.suspending.by_part,
        named=kind.suspending.by_jobs,
    )


def _expected(of: Manifest, made: SubmittedPodSet) -> ExpectedPods:
    """Return pods of one template, as they are when they have just been created."""
    name = made.names[0].removesuffix(f"-{made.first}")
    (pod,) = replace(made, names=(name,), numbered=()).pods(of)
    spec = (made.template or PodTemplate()).spec or PodSpec()
    numbers = tuple(range(made.first, made.first + len(made.names)))
    return ExpectedPods(read_pod(pod), numbers, spec.priority_class_name or "", bool(made.numbered))


def _check(group: PodGroup, pods: Sequence[ExpectedPods]) -> None:
    """Raise SubmissionError for pods of another gang, and for more than any gang has."""
    for each in pods:
        named = each.template.group
        if not named.is_pod and named != group.ref:
            raise SubmissionError(f"the pods of {group.about} name another gang, {named}: take that off their template")
    count = sum(len(each.numbers) for each in pods)
    if count > MOST_PODS:
        raise SubmissionError(f"{group.about} has {count} pods, more than {MOST_PODS}")
