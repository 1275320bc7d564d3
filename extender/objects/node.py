"""A node as the scheduler sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import NamedTuple

from msgspec import Struct

from extender.objects.gpudescription import UNDESCRIBED, GpuDescription
from extender.objects.hami import shared_out
from extender.objects.keys import NODE_ANNOTATIONS
from extender.objects.meta import Decoder, ObjectMeta, ResourceList, read_timestamp
from extender.objects.podspec import Taint, TaintObject, announcement, read_soft_taints, read_taints
from extender.objects.reason import Problem
from extender.objects.requests import GPU_RESOURCES, ResourceListError, read_amounts

#: No usual board has more. A node that offers more has slices of GPUs or shares them; its object does not say which,
#: so they are counted like any other device.
_MOST_GPUS = 16


class NodeSpec(Struct, gc=False, frozen=True):
    """The part of a node's spec that closes it to pods."""

    taints: list[TaintObject] | None = None
    unschedulable: bool | None = None


class NodeCondition(Struct, gc=False, frozen=True, rename="camel"):
    """A node condition."""

    type: str | None = None
    status: str | None = None
    last_transition_time: str | None = None


class NodeStatus(Struct, gc=False, frozen=True):
    """The part of a node's status that says how much it can hold."""

    allocatable: ResourceList | None = None
    conditions: list[NodeCondition] | None = None


class NodeObject(Struct, gc=False, frozen=True):
    """A node."""

    metadata: ObjectMeta | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


decode_node = Decoder(NodeObject)

#: Written by GPU feature discovery, and by the compute-domain plugin of NVIDIA's DRA driver, once every GPU of the node
#: has joined the same clique. Source: k8s-device-plugin internal/lm/imex.go.
CLIQUE_LABEL = "nvidia.com/gpu.clique"

#: Some stacks report a fabric without a name on nodes that have none at all (torchcomms#1385): who believes it
#: takes unrelated nodes for one island.
_NO_CLUSTER = "00000000-0000-0000-0000-000000000000"


def clique_of(labels: Mapping[str, str]) -> str:
    """Return the clique of a node with `labels`, "" if it has none, or one that cannot be told from others.

    The agents write `<cluster UUID>.<clique ID>`; a label set by hand may say anything else.
    """
    clique = labels.get(CLIQUE_LABEL, "")
    return "" if clique.startswith(_NO_CLUSTER) else clique


#: Source: k8s.io/api/core/v1/well_known_taints.go.
UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
NOT_READY_TAINT = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
UNREACHABLE_TAINT = Taint("node.kubernetes.io/unreachable", "", "NoSchedule")

#: Keys of the taints of nodes that do not answer, and of all that are closed to pods without saying for which.
SILENT_TAINTS = frozenset({NOT_READY_TAINT.key, UNREACHABLE_TAINT.key})
CLOSED_TAINTS = SILENT_TAINTS | {UNSCHEDULABLE_TAINT.key}


#: The condition that the kubelet's heartbeats keep. Source: k8s.io/api/core/v1 NodeReady.
READY = "Ready"

#: How conditions end that are good when they are True, as Ready is, and EKS's AcceleratedHardwareReady. All others
#: say what is wrong, as those of node-problem-detector and NVSentinel do. Sources: aws/eks-node-monitoring-agent
#: README; kubernetes/node-problem-detector config/; NVIDIA/NVSentinel docs/INTEGRATIONS.md.
_GOOD_WHEN_TRUE = ("Ready", "Healthy")


class Ailment(NamedTuple):
    """A condition that says that something is wrong with a node, and since when (epoch seconds), as far as it says."""

    type: str
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the scheduler sees it.

    `taints` are the hard ones, with those that a cordon and a missing heartbeat amount to; with `soft_taints` a node is
    one of the last to be used. `allocatable` is in milli-CPU, bytes and counts; a resource that is not listed is not
    there; what HAMi shares out is among it. Of the annotations only those of `keys.NODE_ANNOTATIONS` are kept.
    `deleting` says that its object is being deleted. `described` is what drivers say of its GPUs in ResourceSlices.
    `ailments` are the conditions that say that something is wrong; those that say that all is well are not kept.
    """

    name: str
    uid: str = ""
    allocatable: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    problem: Problem | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    deleting: bool = False
    soft_taints: tuple[Taint, ...] = ()
    described: GpuDescription = UNDESCRIBED
    ailments: tuple[Ailment, ...] = ()

    @property
    def doomed(self) -> str:
        """Return why the node will be gone soon, "" for one that stays as far as is known.

        It takes no new pods of gangs, whatever they tolerate.
        """
        return "it is being deleted" if self.deleting else announcement(self.taints)

    @property
    def gpus(self) -> tuple[str, int]:
        """Return the GPU resource and how many whole GPUs there are; ("", 0) without any, or if it shares them."""
        for resource in GPU_RESOURCES:
            gpus = self.allocatable.get(resource, 0)
            if 0 < gpus <= _MOST_GPUS:
                return resource, gpus
        return "", 0


def read_node(node: NodeObject) -> Node:
    """Read a node; an unreadable allocatable leaves it empty, with a `problem`."""
    meta = node.metadata or ObjectMeta()
    spec = node.spec or NodeSpec()
    status = node.status or NodeStatus()
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
    annotations = {key: value for key, value in (meta.annotations or {}).items() if key in NODE_ANNOTATIONS}
    if annotations and problem is None:
        allocatable = shared_out(annotations) | allocatable
    return Node(
        name=meta.name or "",
        uid=meta.uid or "",
        allocatable=allocatable,
        labels=meta.labels or {},
        taints=taints,
        soft_taints=read_soft_taints(spec.taints),
        problem=problem,
        annotations=annotations,
        deleting=meta.deletion_timestamp is not None,
        ailments=tuple(map(_ailment, filter(_is_bad, status.conditions or ()))),
    )


def _is_bad(condition: NodeCondition) -> bool:
    """Tell whether a condition says that something is wrong. Of others than Ready, what is unknown is not said."""
    kind = condition.type or ""
    if kind == READY:
        return condition.status != "True"
    return condition.status == ("False" if kind.endswith(_GOOD_WHEN_TRUE) else "True")


def _ailment(condition: NodeCondition) -> Ailment:
    since = None if condition.last_transition_time is None else read_timestamp(condition.last_transition_time)
    return Ailment(intern(condition.type or ""), since)


def _unready_taint(status: NodeStatus) -> Taint | None:
    """Return the taint that the node lifecycle controller is about to add, or None for a node that is well."""
    for condition in status.conditions or ():
        if condition.type == READY and condition.status != "True":
            return UNREACHABLE_TAINT if condition.status == "Unknown" else NOT_READY_TAINT
    return None
