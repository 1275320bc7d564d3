"""A node as the scheduler sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from extender.domain.quantity import QuantityError
from extender.domain.reason import Problem
from extender.domain.requests import read_amounts
from extender.domain.taints import Taint, read_taints
from extender.wire import kubernetes as wire

#: Source: k8s.io/api/core/v1/well_known_taints.go.
UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
NOT_READY_TAINT = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the scheduler sees it.

    `taints` are the hard ones, with those that a cordon and a missing heartbeat amount to. `allocatable` is in
    milli-CPU, bytes and counts; a resource that is not listed is not there.
    """

    name: str
    uid: str = ""
    allocatable: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    problem: Problem | None = None


def read_node(node: wire.Node) -> Node:
    """Turn a wire node into a value; an unreadable allocatable leaves it empty, with a `problem`."""
    meta = node.metadata or wire.ObjectMeta()
    spec = node.spec or wire.NodeSpec()
    status = node.status or wire.NodeStatus()
    taints = read_taints(spec.taints)
    if spec.unschedulable and UNSCHEDULABLE_TAINT not in taints:
        taints = (*taints, UNSCHEDULABLE_TAINT)
    not_ready = any(c.type == "Ready" and c.status != "True" for c in status.conditions or ())
    if not_ready and not any(t.key == NOT_READY_TAINT.key for t in taints):
        taints = (*taints, NOT_READY_TAINT)
    problem = None
    try:
        allocatable = read_amounts(status.allocatable, "status.allocatable")
    except QuantityError as error:
        field_, _, message = str(error).partition(": ")
        allocatable, problem = {}, Problem(field_, message)
    return Node(
        name=meta.name or "",
        uid=meta.uid or "",
        allocatable=allocatable,
        labels=meta.labels or {},
        taints=taints,
        problem=problem,
    )
