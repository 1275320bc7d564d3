"""A node as the scheduler sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from extender.domain.keys import NODE_ANNOTATIONS
from extender.domain.reason import Problem
from extender.domain.requests import ResourceListError, read_amounts
from extender.domain.taints import Taint, announcement, read_taints
from extender.wire import kubernetes as wire

#: Source: k8s.io/api/core/v1/well_known_taints.go.
UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
NOT_READY_TAINT = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
UNREACHABLE_TAINT = Taint("node.kubernetes.io/unreachable", "", "NoSchedule")


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the scheduler sees it.

    `taints` are the hard ones, with those that a cordon and a missing heartbeat amount to. `allocatable` is in
    milli-CPU, bytes and counts; a resource that is not listed is not there. Of the annotations only those of
    `keys.NODE_ANNOTATIONS` are kept. `deleting` says that its object is being deleted.
    """

    name: str
    uid: str = ""
    allocatable: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    problem: Problem | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    deleting: bool = False

    @property
    def doomed(self) -> str:
        """Return why the node will be gone soon, "" for one that stays as far as anybody has said.

        It takes no new pods of gangs, whatever they tolerate.
        """
        return "it is being deleted" if self.deleting else announcement(self.taints)


def read_node(node: wire.Node) -> Node:
    """Turn a wire node into a value; an unreadable allocatable leaves it empty, with a `problem`."""
    meta = node.metadata or wire.ObjectMeta()
    spec = node.spec or wire.NodeSpec()
    status = node.status or wire.NodeStatus()
    taints = read_taints(spec.taints)
    if spec.unschedulable and UNSCHEDULABLE_TAINT not in taints:
        taints = (*taints, UNSCHEDULABLE_TAINT)
    unready = _unready_taint(status)
    if unready is not None and not any(t.key == unready.key for t in taints):
        taints = (*taints, unready)
    problem = None
    try:
        allocatable = read_amounts(status.allocatable, "status.allocatable")
    except ResourceListError as error:
        allocatable, problem = {}, error.problem
    return Node(
        name=meta.name or "",
        uid=meta.uid or "",
        allocatable=allocatable,
        labels=meta.labels or {},
        taints=taints,
        problem=problem,
        annotations={key: value for key, value in (meta.annotations or {}).items() if key in NODE_ANNOTATIONS},
        deleting=meta.deletion_timestamp is not None,
    )


def _unready_taint(status: wire.NodeStatus) -> Taint | None:
    """Return the taint that the node lifecycle controller is about to add, or None for a node that is well."""
    for condition in status.conditions or ():
        if condition.type == "Ready" and condition.status != "True":
            return UNREACHABLE_TAINT if condition.status == "Unknown" else NOT_READY_TAINT
    return None
