"""What happens in the cluster, and which refused pods it wakes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum

from extender.objects.node import UNSCHEDULABLE_TAINT, Node
from extender.objects.pod import Pod
from extender.objects.podspec import first_untolerated
from extender.objects.requests import PODS


class SchedulerPlugin(StrEnum):
    """Who can refuse a node: the filters that are modelled, in the order in which they run, and the extender."""

    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    TAINT_TOLERATION = "TaintToleration"
    NODE_AFFINITY = "NodeAffinity"
    NODE_RESOURCES_FIT = "NodeResourcesFit"
    INTER_POD_AFFINITY = "InterPodAffinity"
    DYNAMIC_RESOURCES = "DynamicResources"
    EXTENDER = "Extender"


class EventKind(StrEnum):
    """What happened. Source: k8s.io/kube-scheduler/framework, EventResource and ActionType."""

    NODE_ADDED = "NodeAdded"
    NODE_ALLOCATABLE_CHANGED = "NodeAllocatableChanged"
    NODE_LABELS_CHANGED = "NodeLabelsChanged"
    NODE_TAINTS_CHANGED = "NodeTaintsChanged"
    NODE_DELETED = "NodeDeleted"
    ASSIGNED_POD_ADDED = "AssignedPodAdded"
    ASSIGNED_POD_UPDATED = "AssignedPodUpdated"
    ASSIGNED_POD_DELETED = "AssignedPodDeleted"
    TARGET_POD_UPDATED = "TargetPodUpdated"
    TARGET_POD_TOLERATIONS_CHANGED = "TargetPodTolerationsChanged"
    CLAIM_CHANGED = "ClaimChanged"
    DEVICES_FREED = "DevicesFreed"
    DEVICES_CHANGED = "DevicesChanged"


@dataclass(frozen=True, slots=True)
class SchedulerEvent:
    """Something that happened: to a node (`before`, `after`), to a pod, whose last version is `pod`, or to a claim.

    `claim` is its namespace/name.
    """

    kind: EventKind
    before: Node | None = None
    after: Node | None = None
    pod: Pod | None = None
    claim: str = ""


def wakes(event: SchedulerEvent, pod: Pod, rejectors: Collection[SchedulerPlugin]) -> bool:
    """Tell whether a pod that `rejectors` refused is worth another attempt after `event`.

    One that failed with an error has no rejectors and always is. What an extender refused is woken by anything at all.
    Source: isPodWorthRequeuing, and the plugins' EventsToRegister with their hints.
    """
    return not rejectors or any(_HINTS[plugin](event, pod) for plugin in rejectors)


def node_events(before: Node, after: Node) -> list[SchedulerEvent]:
    """Return what an update of a node amounts to; heartbeats amount to nothing."""
    changes = (
        (EventKind.NODE_ALLOCATABLE_CHANGED, before.allocatable != after.allocatable),
        (EventKind.NODE_LABELS_CHANGED, before.labels != after.labels),
        (EventKind.NODE_TAINTS_CHANGED, before.taints != after.taints),
    )
    return [SchedulerEvent(kind, before, after) for kind, changed in changes if changed]


def _fit_hint(event: SchedulerEvent, pod: Pod) -> bool:
    if event.kind is EventKind.ASSIGNED_POD_DELETED:
        return event.pod is not None and bool(event.pod.node_name or event.pod.nominated_node)
    if event.after is None or event.kind not in {EventKind.NODE_ADDED, EventKind.NODE_ALLOCATABLE_CHANGED}:
        return False
    now = event.after.allocatable
    if any(now.get(resource, 0) < amount for resource, amount in pod.shape.requests):
        return False
    return event.before is None or any(
        now.get(resource, 0) > event.before.allocatable.get(resource, 0)
        for resource, _ in (*pod.shape.requests, (PODS, 1))
    )


def _taint_hint(event: SchedulerEvent, pod: Pod) -> bool:
    if event.kind is EventKind.TARGET_POD_TOLERATIONS_CHANGED:
        return event.pod is not None and event.pod.uid == pod.uid
    if event.after is None or event.kind not in {EventKind.NODE_ADDED, EventKind.NODE_TAINTS_CHANGED}:
        return False
    taints = (taint for taint in event.after.taints if taint != UNSCHEDULABLE_TAINT)
    return first_untolerated(taints, pod.shape.tolerations) is None


def _unschedulable_hint(event: SchedulerEvent, pod: Pod) -> bool:
    if event.kind is EventKind.TARGET_POD_TOLERATIONS_CHANGED:
        return event.pod is not None and event.pod.uid == pod.uid
    if event.after is None or event.kind not in {EventKind.NODE_ADDED, EventKind.NODE_TAINTS_CHANGED}:
        return False
    return UNSCHEDULABLE_TAINT not in event.after.taints


def _affinity_hint(event: SchedulerEvent, pod: Pod) -> bool:
    if event.after is None or event.kind not in {EventKind.NODE_ADDED, EventKind.NODE_LABELS_CHANGED}:
        return False
    return pod.shape.selector.matches(event.after.name, event.after.labels)


def _pod_affinity_hint(event: SchedulerEvent, _pod: Pod) -> bool:
    """Wake on pods that come to nodes or leave them, and on nodes; whose rule it is, is not modelled."""
    return event.kind in {
        EventKind.ASSIGNED_POD_ADDED,
        EventKind.ASSIGNED_POD_DELETED,
        EventKind.NODE_ADDED,
        EventKind.NODE_LABELS_CHANGED,
    }


def _claims_hint(event: SchedulerEvent, pod: Pod) -> bool:
    """Wake on nodes, devices, and claims that were the pod's, or whose devices it could have."""
    if event.kind is EventKind.CLAIM_CHANGED:
        return event.claim in {f"{pod.namespace}/{name}" for name in pod.claims.names}
    return event.kind in {
        EventKind.DEVICES_FREED,
        EventKind.DEVICES_CHANGED,
        EventKind.NODE_ADDED,
        EventKind.NODE_LABELS_CHANGED,
        EventKind.NODE_ALLOCATABLE_CHANGED,
    }


def _any_event(event: SchedulerEvent, pod: Pod) -> bool:
    """Wake on everything, but on updates of unscheduled pods only if it is the pod itself."""
    of_target = event.kind in {EventKind.TARGET_POD_UPDATED, EventKind.TARGET_POD_TOLERATIONS_CHANGED}
    return not of_target or (event.pod is not None and event.pod.uid == pod.uid)


_HINTS: dict[SchedulerPlugin, Callable[[SchedulerEvent, Pod], bool]] = {
    SchedulerPlugin.NODE_UNSCHEDULABLE: _unschedulable_hint,
    SchedulerPlugin.TAINT_TOLERATION: _taint_hint,
    SchedulerPlugin.NODE_AFFINITY: _affinity_hint,
    SchedulerPlugin.NODE_RESOURCES_FIT: _fit_hint,
    SchedulerPlugin.INTER_POD_AFFINITY: _pod_affinity_hint,
    SchedulerPlugin.DYNAMIC_RESOURCES: _claims_hint,
    SchedulerPlugin.EXTENDER: _any_event,
}
