"""PodGroups of the coscheduling plugin, which Muster's own manifests install.

Source: kubernetes-sigs/scheduler-plugins apis/scheduling/v1alpha1.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from extender.objects.meta import ConditionObject, Decoder, Int32, ObjectMeta, ResourceList, share_labels
from extender.objects.peers import Reading
from extender.objects.podgroup import GroupRef, PodGroup, read_group_options
from extender.objects.reason import Problem
from extender.objects.requests import ResourceListError, read_amounts
from extender.objects.sources.source import Source, WorkloadKind, one

COSCHEDULING: Final = "scheduling.x-k8s.io"
COSCHEDULING_LABEL: Final = "scheduling.x-k8s.io/pod-group"

#: The type of the condition that Muster writes to the status of each PodGroup.
SCHEDULED: Final = "Scheduled"


class CoschedulingSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a `scheduling.x-k8s.io/v1alpha1` PodGroup."""

    min_member: Int32 | None = None
    min_resources: ResourceList | None = None
    schedule_timeout_seconds: Int32 | None = None


class CoschedulingStatus(Struct, gc=False, frozen=True, rename="camel"):
    """Status of a `scheduling.x-k8s.io/v1alpha1` PodGroup, with the `conditions` that our CRD adds."""

    phase: str | None = None
    scheduled: Int32 | None = None
    running: Int32 | None = None
    succeeded: Int32 | None = None
    failed: Int32 | None = None
    conditions: list[ConditionObject] | None = None


class CoschedulingPodGroup(Struct, gc=False, frozen=True):
    """A `scheduling.x-k8s.io/v1alpha1` PodGroup, the API of the coscheduling plugin."""

    metadata: ObjectMeta | None = None
    spec: CoschedulingSpec | None = None
    status: CoschedulingStatus | None = None


decode_coscheduling_pod_group = Decoder(CoschedulingPodGroup)


def read_coscheduling(group: CoschedulingPodGroup) -> PodGroup:
    """Read a `scheduling.x-k8s.io/v1alpha1` PodGroup; a bad field becomes the `problem`."""
    meta = group.metadata or ObjectMeta()
    spec = group.spec or CoschedulingSpec()
    problem: Problem | None = None
    min_resources: dict[str, int] = {}
    try:
        min_resources = read_amounts(spec.min_resources, "spec.minResources")
    except ResourceListError as error:
        problem = error.problem
    # The coscheduling API leaves out a zero minMember, which asks for no gang at all; negative ones are mistakes.
    min_member = spec.min_member or 1
    if min_member < 0:
        problem = Problem("spec.minMember", f"{min_member} is negative")
        min_member = 1
    timeout = spec.schedule_timeout_seconds
    if timeout is not None and timeout <= 0:
        problem = problem or Problem("spec.scheduleTimeoutSeconds", f"{timeout} is not positive")
        timeout = None
    return PodGroup(
        ref=GroupRef(COSCHEDULING, meta.namespace or "", meta.name or ""),
        uid=meta.uid or "",
        min_member=min_member,
        min_resources=min_resources,
        schedule_timeout=None if timeout is None else float(timeout),
        created=meta.creation_timestamp or "",
        generation=meta.generation or 0,
        labels=share_labels(meta.labels),
        options=read_group_options(meta, Reading()),
        problem=problem,
        told=_told(group.status or CoschedulingStatus()),
    )


def _told(status: CoschedulingStatus) -> str:
    """Return the phase in a status that Muster wrote; the coscheduling plugin has phases too, but no conditions."""
    ours = any(condition.type == SCHEDULED for condition in status.conditions or ())
    return (status.phase or "") if ours else ""


SOURCE = Source(
    api=COSCHEDULING,
    noun="PodGroup",
    label=COSCHEDULING_LABEL,
    explicit=True,
    kinds=(
        WorkloadKind(
            COSCHEDULING,
            "PodGroup",
            "podgroups",
            ("v1alpha1",),
            decode_coscheduling_pod_group,
            one(read_coscheduling),
            vital=True,
        ),
    ),
)

#: What the API calls the collection of its PodGroups in full.
COSCHEDULING_POD_GROUPS: Final = SOURCE.kinds[0].name
