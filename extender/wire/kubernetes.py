"""Slim structs of the Kubernetes objects that Muster reads.

Only the fields that a decision needs are declared; msgspec skips the rest without building it, which makes a 50,000-pod
list 120 times cheaper than the official models. Go writes nil slices and maps as `null`, so every collection here may
be None. `gc=False` keeps the structs out of the garbage collector's sight: none of them can be part of a cycle.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

Int32: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""The integers of the API; what does not fit is refused, as Go refuses it."""

ResourceList: TypeAlias = dict[str, str | int | float]
"""Resource name -> quantity as written by the API server (a string) or by people (a bare number)."""


class OwnerReference(Struct, gc=False, frozen=True):
    """The part of an owner reference that tells what kind of controller made a pod."""

    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class ObjectMeta(Struct, gc=False, frozen=True, rename="camel"):
    """Object metadata."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: Int64 | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class Resources(Struct, gc=False, frozen=True):
    """Resource requests and limits of a container or a pod."""

    requests: ResourceList | None = None
    limits: ResourceList | None = None


class Container(Struct, gc=False, frozen=True, rename="camel"):
    """A container or init container; `restart_policy` Always on an init container makes it a sidecar."""

    name: str | None = None
    resources: Resources | None = None
    restart_policy: str | None = None


class Toleration(Struct, gc=False, frozen=True):
    """A toleration as written in the pod."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Requirement(Struct, gc=False, frozen=True):
    """A node selector requirement (labels or fields)."""

    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class NodeSelectorTerm(Struct, gc=False, frozen=True, rename="camel"):
    """One term of a node selector; all its requirements must hold."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(Struct, gc=False, frozen=True, rename="camel"):
    """A node selector; one of its terms must hold."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class NodeAffinity(Struct, gc=False, frozen=True, rename="camel"):
    """The required half of node affinity; preferences stay kube-scheduler's."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(Struct, gc=False, frozen=True, rename="camel"):
    """The part of pod affinity that Muster models."""

    node_affinity: NodeAffinity | None = None


class SchedulingGate(Struct, gc=False, frozen=True):
    """A scheduling gate; any gate keeps the pod from being scheduled."""

    name: str | None = None


class SchedulingGroup(Struct, gc=False, frozen=True, rename="camel"):
    """The native reference from a pod to its PodGroup (Kubernetes 1.36 and later)."""

    pod_group_name: str | None = None


class PodSpec(Struct, gc=False, frozen=True, rename="camel"):
    """The part of a pod's spec that decides where it may run."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: ResourceList | None = None
    resources: Resources | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    scheduler_name: str | None = None
    priority: Int32 | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    active_deadline_seconds: Int64 | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    scheduling_group: SchedulingGroup | None = None


class PodCondition(Struct, gc=False, frozen=True):
    """A pod condition; PodScheduled carries kube-scheduler's own reason."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class ContainerStatus(Struct, gc=False, frozen=True, rename="camel"):
    """What the kubelet granted and configured, which can exceed the spec while a resize is under way."""

    name: str | None = None
    allocated_resources: ResourceList | None = None
    resources: Resources | None = None


class PodStatus(Struct, gc=False, frozen=True, rename="camel"):
    """The part of a pod's status that decides what it holds; `resources` are those of the pod as a whole."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    start_time: str | None = None
    nominated_node_name: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    allocated_resources: ResourceList | None = None
    resources: Resources | None = None


class Pod(Struct, gc=False, frozen=True):
    """A pod."""

    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None


class Taint(Struct, gc=False, frozen=True):
    """A node taint."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpec(Struct, gc=False, frozen=True):
    """The part of a node's spec that closes it to pods."""

    taints: list[Taint] | None = None
    unschedulable: bool | None = None


class NodeCondition(Struct, gc=False, frozen=True):
    """A node condition; only Ready matters here."""

    type: str | None = None
    status: str | None = None


class NodeStatus(Struct, gc=False, frozen=True):
    """The part of a node's status that says how much it can hold."""

    allocatable: ResourceList | None = None
    conditions: list[NodeCondition] | None = None


class Node(Struct, gc=False, frozen=True):
    """A node."""

    metadata: ObjectMeta | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class NamedValue(Struct, gc=False, frozen=True):
    """An attribute of a NodeResourceTopology or one of its zones."""

    name: str | None = None
    value: str | None = None


class ZoneCost(Struct, gc=False, frozen=True):
    """The distance of a zone from the one called `name`, as in the ACPI SLIT."""

    name: str | None = None
    value: Int64 | None = None


class ZoneResource(Struct, gc=False, frozen=True):
    """How much of one resource a zone has, offers to pods, and has left."""

    name: str | None = None
    capacity: str | int | float | None = None
    allocatable: str | int | float | None = None
    available: str | int | float | None = None


class TopologyZone(Struct, gc=False, frozen=True):
    """A part of a node; one of type `Node` is a NUMA node."""

    name: str | None = None
    type: str | None = None
    costs: list[ZoneCost] | None = None
    resources: list[ZoneResource] | None = None


class NodeResourceTopology(Struct, gc=False, frozen=True, rename="camel"):
    """A `topology.node.k8s.io/v1alpha2` NodeResourceTopology: its fields are top-level, without spec and status."""

    metadata: ObjectMeta | None = None
    topology_policies: list[str] | None = None
    attributes: list[NamedValue] | None = None
    zones: list[TopologyZone] | None = None


class PriorityClass(Struct, gc=False, frozen=True, rename="camel"):
    """A PriorityClass."""

    metadata: ObjectMeta | None = None
    value: Int32 | None = None
    global_default: bool | None = None


class Condition(Struct, gc=False, frozen=True, rename="camel"):
    """A metav1.Condition as it stands on a PodGroup."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None
    observed_generation: Int64 | None = None


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
    schedule_start_time: str | None = None
    conditions: list[Condition] | None = None


class CoschedulingPodGroup(Struct, gc=False, frozen=True):
    """A `scheduling.x-k8s.io/v1alpha1` PodGroup, the API of the coscheduling plugin."""

    metadata: ObjectMeta | None = None
    spec: CoschedulingSpec | None = None
    status: CoschedulingStatus | None = None


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


class NativePodGroupSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a `scheduling.k8s.io/v1beta1` PodGroup."""

    scheduling_policy: SchedulingPolicy | None = None
    scheduling_constraints: SchedulingConstraints | None = None
    priority: Int32 | None = None
    priority_class_name: str | None = None


class NativePodGroup(Struct, gc=False, frozen=True):
    """A `scheduling.k8s.io/v1beta1` PodGroup (feature gate GenericWorkload)."""

    metadata: ObjectMeta | None = None
    spec: NativePodGroupSpec | None = None


class LeaseSpec(Struct, gc=False, frozen=True, rename="camel"):
    """Spec of a `coordination.k8s.io/v1` Lease."""

    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    renew_time: str | None = None


class Lease(Struct, gc=False, frozen=True):
    """A `coordination.k8s.io/v1` Lease."""

    metadata: ObjectMeta | None = None
    spec: LeaseSpec | None = None
