"""PodGroups of Kubernetes itself (feature gate GenericWorkload).

Source: k8s.io/api/scheduling/v1beta1.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from extender.objects.meta import Decoder, Int32, ObjectMeta
from extender.objects.peers import Reading
from extender.objects.podgroup import GroupRef, PodGroup, read_group_options
from extender.objects.podspec import PodSpec
from extender.objects.reason import Problem
from extender.objects.sources.source import Keyed, PriorityValues, Source, WorkloadKind

NATIVE: Final = "scheduling.k8s.io"


class GangPolicy(Struct, gc=False, frozen=True, rename="camel"):
    """The gang variant of a native scheduling policy."""

    min_count: Int32 | None = None


class SchedulingPolicy(Struct, gc=False, frozen=True):
    """A native scheduling policy: `gang`, or `basic` (pods one by one)."""

    gang: GangPolicy | None = None
    basic: dict[str, Any] | None = None


class TopologyConstraint(Struct, gc=False, frozen=True):
    """A native topology constraint: all pods in one domain of the node label `key`."""

    key: str | None = None


class SchedulingConstraints(Struct, gc=False, frozen=True):
    """Native scheduling constraints (feature gate TopologyAwareWorkloadScheduling)."""

    topology: list[TopologyConstraint] | None = None


class DisruptionMode(Struct, gc=False, frozen=True):
    """A native disruption mode: members leave one by one (`single`), or `all` of them together."""

    single: dict[str, Any] | None = None
    all: dict[str, Any] | None = None


class NativePodGroupSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a `scheduling.k8s.io/v1beta1` PodGroup."""

    scheduling_policy: SchedulingPolicy | None = None
    scheduling_constraints: SchedulingConstraints | None = None
    priority: Int32 | None = None
    priority_class_name: str | None = None
    disruption_mode: DisruptionMode | None = None
    preemption_policy: str | None = None


class NativePodGroup(Struct, gc=False, frozen=True):
    """A `scheduling.k8s.io/v1beta1` PodGroup (feature gate GenericWorkload)."""

    metadata: ObjectMeta | None = None
    spec: NativePodGroupSpec | None = None


decode_native_pod_group = Decoder(NativePodGroup)


def read_native(group: NativePodGroup, class_priority: int | None = 0) -> PodGroup:
    """Read a `scheduling.k8s.io/v1beta1` PodGroup; the `basic` policy is a gang of one.

    Args:
        group: the object.
        class_priority: its priority where it names a PriorityClass and no priority; None where the members' own counts.
    """
    meta = group.metadata or ObjectMeta()
    spec = group.spec or NativePodGroupSpec()
    policy = spec.scheduling_policy or SchedulingPolicy()
    problem = None
    min_member = 1
    if policy.gang is not None:
        count = policy.gang.min_count
        if count is None or count < 1:
            problem = Problem("spec.schedulingPolicy.gang.minCount", f"{count} is not at least 1")
        else:
            min_member = count
    reading = Reading()
    mode, policy_name = spec.disruption_mode or DisruptionMode(), spec.preemption_policy
    constraints = (spec.scheduling_constraints and spec.scheduling_constraints.topology) or ()
    for index, constraint in enumerate(constraints):
        reading.level("required", constraint.key or "", f"spec.schedulingConstraints.topology[{index}].key")
    return PodGroup(
        ref=GroupRef(NATIVE, meta.namespace or "", meta.name or ""),
        uid=meta.uid or "",
        min_member=min_member,
        priority=class_priority if spec.priority is None else spec.priority,
        created=meta.creation_timestamp or "",
        generation=meta.generation or 0,
        options=read_group_options(meta, reading),
        problem=problem,
        goes_whole=mode.all is not None,
        never_preempts=None if policy_name is None else policy_name == "Never",
    )


def _read(group: NativePodGroup, priorities: PriorityValues) -> tuple[PodGroup]:
    """Read the gang with its priority, 0 where it has none.

    The API server writes the priority of a class. In a file it may be missing, and the class as well: then the pods'
    own counts. Source: k8s.io/kubernetes pkg/scheduler/util/utils.go, PodGroupPriority.
    """
    name = (group.spec.priority_class_name if group.spec else None) or ""
    return (read_native(group, priorities.get(name) if name else 0),)


def _gang(spec: PodSpec, _labels: Keyed, _annotations: Keyed) -> str:
    return (spec.scheduling_group.pod_group_name or "") if spec.scheduling_group is not None else ""


SOURCE = Source(
    api=NATIVE,
    noun="PodGroup",
    gang=_gang,
    gang_keys=(),
    explicit=True,
    kinds=(WorkloadKind(NATIVE, "PodGroup", "podgroups", ("v1beta1",), decode_native_pod_group, _read, vital=True),),
)

#: What the API calls the collection of its PodGroups in full.
NATIVE_POD_GROUPS: Final = SOURCE.kinds[0].name
