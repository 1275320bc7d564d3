"""PodGroups of Kubernetes itself (feature gate GenericWorkload), and groups of them (CompositePodGroup).

Source: k8s.io/api/scheduling/v1beta1 and v1alpha3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from msgspec import Struct

from extender.objects.meta import Decoder, Int32, ObjectMeta, ObjectRef, share_labels
from extender.objects.peers import Reading
from extender.objects.podgroup import GroupRef, PodGroup, read_group_options
from extender.objects.podspec import PodSpec
from extender.objects.reason import Problem
from extender.objects.sources.source import Keyed, PriorityValues, Source, WorkloadKind

NATIVE: Final = "scheduling.k8s.io"
#: `GroupRef.api` of gangs that consist of PodGroups: one may be called as one of these is.
COMPOSITE: Final = "compositepodgroups.scheduling.k8s.io"


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

    parent_composite_pod_group_name: str | None = None
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


class CompositeGangPolicy(Struct, gc=False, frozen=True, rename="camel"):
    """The gang variant of the policy of a group of groups."""

    min_group_count: Int32 | None = None


class CompositePolicy(Struct, gc=False, frozen=True):
    """The scheduling policy of a group of groups: `gang`, or `basic` (one after the other)."""

    gang: CompositeGangPolicy | None = None
    basic: dict[str, Any] | None = None


class CompositePodGroupSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a `scheduling.k8s.io/v1alpha3` CompositePodGroup."""

    parent_composite_pod_group_name: str | None = None
    scheduling_policy: CompositePolicy | None = None
    scheduling_constraints: SchedulingConstraints | None = None
    priority: Int32 | None = None
    priority_class_name: str | None = None
    disruption_mode: DisruptionMode | None = None
    preemption_policy: str | None = None


class CompositePodGroup(Struct, gc=False, frozen=True):
    """A `scheduling.k8s.io/v1alpha3` CompositePodGroup (feature gate CompositePodGroup)."""

    metadata: ObjectMeta | None = None
    spec: CompositePodGroupSpec | None = None


decode_native_pod_group = Decoder(NativePodGroup)
decode_composite_pod_group = Decoder(CompositePodGroup)


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
    group_of = _common(GroupRef(NATIVE, meta.namespace or "", meta.name or ""), meta, spec, class_priority)
    return replace(group_of, min_member=min_member, problem=problem)


def read_composite(group: CompositePodGroup, class_priority: int | None = 0) -> PodGroup:
    """Read a `scheduling.k8s.io/v1alpha3` CompositePodGroup; with the `basic` policy any one of its groups does.

    Source: k8s.io/kubernetes pkg/scheduler/framework/plugins/gangscheduling/gangscheduling.go, isCPGTreeReady.
    """
    meta = group.metadata or ObjectMeta()
    spec = group.spec or CompositePodGroupSpec()
    gang = (spec.scheduling_policy or CompositePolicy()).gang
    count = 1 if gang is None else gang.min_group_count
    problem = None
    if count is None or count < 1:
        problem = Problem("spec.schedulingPolicy.gang.minGroupCount", f"{count} is not at least 1")
    composite = _common(GroupRef(COMPOSITE, meta.namespace or "", meta.name or ""), meta, spec, class_priority)
    about = ObjectRef.of(f"{NATIVE}/v1alpha3", "CompositePodGroup", meta)
    return replace(composite, parts_needed=max(count or 1, 1), problem=problem, about=about)


def _common(
    ref: GroupRef, meta: ObjectMeta, spec: NativePodGroupSpec | CompositePodGroupSpec, class_priority: int | None
) -> PodGroup:
    """Return what PodGroups and CompositePodGroups say alike."""
    reading = Reading()
    mode, policy_name = spec.disruption_mode or DisruptionMode(), spec.preemption_policy
    constraints = (spec.scheduling_constraints and spec.scheduling_constraints.topology) or ()
    for index, constraint in enumerate(constraints):
        reading.level("required", constraint.key or "", f"spec.schedulingConstraints.topology[{index}].key")
    parent = spec.parent_composite_pod_group_name
    return PodGroup(
        ref=ref,
        uid=meta.uid or "",
        priority=class_priority if spec.priority is None else spec.priority,
        created=meta.creation_timestamp or "",
        generation=meta.generation or 0,
        labels=share_labels(meta.labels),
        options=read_group_options(meta, reading),
        goes_whole=mode.all is not None,
        never_preempts=None if policy_name is None else policy_name == "Never",
        parent=GroupRef(COMPOSITE, ref.namespace, parent) if parent else None,
    )


def _read(group: NativePodGroup, priorities: PriorityValues) -> tuple[PodGroup]:
    """Read the gang with its priority, 0 where it has none.

    The API server writes the priority of a class. In a file it may be missing, and the class as well: then the pods'
    own counts. Source: k8s.io/kubernetes pkg/scheduler/util/utils.go, PodGroupPriority.
    """
    name = (group.spec.priority_class_name if group.spec else None) or ""
    return (read_native(group, priorities.get(name) if name else 0),)


def _read_composite(group: CompositePodGroup, priorities: PriorityValues) -> tuple[PodGroup]:
    name = (group.spec.priority_class_name if group.spec else None) or ""
    return (read_composite(group, priorities.get(name) if name else 0),)


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

#: Pods name the PodGroup that they are of, and not what that is a part of.
COMPOSITE_SOURCE = Source(
    api=COMPOSITE,
    noun="CompositePodGroup",
    kinds=(
        WorkloadKind(
            NATIVE,
            "CompositePodGroup",
            "compositepodgroups",
            ("v1alpha3",),
            decode_composite_pod_group,
            _read_composite,
        ),
    ),
)

#: What the API calls the collection of its PodGroups in full.
NATIVE_POD_GROUPS: Final = SOURCE.kinds[0].name
