"""What the control layer asks of the outside, and what the outside tells it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Protocol

from extender.domain.devices import DeviceReport
from extender.domain.hypernodes import HyperNode
from extender.domain.lease import Lease
from extender.domain.levelobjects import LevelList
from extender.domain.membership import GroupRef
from extender.domain.node import Node
from extender.domain.objectref import ObjectRef
from extender.domain.pod import Pod
from extender.domain.podgroup import PodGroup
from extender.numa.nodetopology import NodeTopology


class Kind(StrEnum):
    """The kinds of objects that are watched; the value is the metric label."""

    NODE = "nodes"
    POD = "pods"
    PRIORITY_CLASS = "priorityclasses"
    COSCHEDULING_POD_GROUP = "podgroups.scheduling.x-k8s.io"
    NATIVE_POD_GROUP = "podgroups.scheduling.k8s.io"
    VOLCANO_POD_GROUP = "podgroups.scheduling.volcano.sh"
    LEASE = "leases.coordination.k8s.io"
    NODE_TOPOLOGY = "noderesourcetopologies.topology.node.k8s.io"
    HYPER_NODE = "hypernodes.topology.volcano.sh"
    KUEUE_TOPOLOGY = "topologies.kueue.x-k8s.io"
    KAI_TOPOLOGY = "topologies.kai.scheduler"
    NETWORK_TOPOLOGY = "clusternetworktopologies.scheduling.koordinator.sh"
    DEVICE = "devices.scheduling.koordinator.sh"
    CALIBRATION = "configmaps"


@dataclass(frozen=True, slots=True)
class PodKey:
    """A pod to write to; the UID guards against a namesake."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        """Render as `namespace/name`."""
        return f"{self.namespace}/{self.name}"


#: How the API server says that an identity lacks a right.
#: Source: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters, forbiddenMessage.
_DENIED = 'forbidden: User "'


class ApiError(Exception):
    """The API server said no, or could not be reached.

    Attributes:
        status: the HTTP status; 0 when no answer came.
        reason: the machine-readable reason of a metav1.Status, such as `Conflict` or `NotFound`.
        retry_after: seconds that the server asked to wait, or None.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        """Keep what the server said."""
        super().__init__(f"{status} {reason}: {message}" if status else f"no answer: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def transient(self) -> bool:
        """Tell whether the same request may succeed later: no answer, 429, a 5xx, or a right that is missing.

        An API server that has just started denies what the roles grant until it has read them, as it does while
        somebody changes them. Other denials are final: of an admission plugin, in a terminating namespace, say.
        """
        denied = self.status == 403 and _DENIED in self.message  # noqa: PLR2004 - HTTP statuses read best as numbers
        return denied or self.status in {0, 401, 429} or self.status >= 500  # noqa: PLR2004 - the same for classes


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A Kubernetes Event; equal events are counted, not repeated."""

    about: ObjectRef
    warning: bool
    reason: str
    message: str
    action: str


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """What a coscheduling PodGroup's status shall say.

    The counters are pods. `condition_status` is the status of the `Scheduled` condition (`True` or `False`), `reason`
    and `message` its explanation.
    """

    phase: str
    scheduled: int
    running: int
    succeeded: int
    failed: int
    condition_status: str
    reason: str
    message: str
    observed_generation: int


#: What a Binding adds to a pod unless it is given something.
NO_ANNOTATIONS: Final[Mapping[str, str]] = MappingProxyType({})


class ClusterApi(Protocol):
    """The writes that Muster makes.

    Each raises ApiError when it fails; retrying is the caller's affair.
    """

    async def nominate(self, pod: PodKey, node: str) -> None:
        """Set the pod's `status.nominatedNodeName`, or clear it with an empty `node`.

        ApiError with status 404 or 409 means that the pod is gone or another one now.
        """
        ...

    async def bind(self, pod: PodKey, node: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> None:
        """Create the pod's Binding with its UID, and put `annotations` onto the pod in the same write.

        "Already bound to that node" is success, not an error; the pod then keeps the annotations that it has.
        """
        ...

    async def record_event(self, event: ClusterEvent) -> None:
        """Write an Event, or raise the count of the same one written before."""
        ...

    async def update_group_status(self, group: GroupRef, uid: str, status: GroupStatus) -> None:
        """Write a coscheduling PodGroup's status subresource.

        The condition's transition time changes only when its status does.
        """
        ...


class Observer(Protocol):
    """What the watches tell, in the order of the API server per kind. Calls are synchronous and must be quick."""

    def pod_seen(self, pod: Pod) -> None:
        """Take in a pod that was added or changed."""
        ...

    def pod_gone(self, uid: str) -> None:
        """Forget a pod that was deleted."""
        ...

    def node_seen(self, node: Node) -> None:
        """Take in a node that was added or changed."""
        ...

    def node_gone(self, name: str) -> None:
        """Forget a node that was deleted."""
        ...

    def node_topology_seen(self, topology: NodeTopology) -> None:
        """Take in a node's NUMA zones, added or changed."""
        ...

    def node_topology_gone(self, name: str) -> None:
        """Forget the NUMA zones of the node called `name`."""
        ...

    def hyper_node_seen(self, hyper_node: HyperNode) -> None:
        """Take in a HyperNode that was added or changed."""
        ...

    def hyper_node_gone(self, name: str) -> None:
        """Forget a HyperNode that was deleted."""
        ...

    def levels_seen(self, levels: LevelList) -> None:
        """Take in an object that lists network tiers, added or changed."""
        ...

    def levels_gone(self, group: str, name: str) -> None:
        """Forget the object of an API group that listed network tiers."""
        ...

    def device_seen(self, report: DeviceReport) -> None:
        """Take in what is said of a node's GPUs, added or changed."""
        ...

    def device_gone(self, name: str) -> None:
        """Forget what was said of the GPUs of the node called `name`."""
        ...

    def calibration_seen(self, about: ObjectRef, data: Mapping[str, str]) -> None:
        """Take in the data of the ConfigMap with measured bandwidths, added or changed."""
        ...

    def calibration_gone(self) -> None:
        """Forget the measured bandwidths."""
        ...

    def group_seen(self, group: PodGroup) -> None:
        """Take in a PodGroup that was added or changed."""
        ...

    def group_gone(self, ref: GroupRef, uid: str) -> None:
        """Forget a PodGroup that was deleted."""
        ...

    def default_priority(self) -> int:
        """Return the priority of pods that name none: the value of the global default PriorityClass, else 0."""
        ...

    def priority_class_seen(self, name: str, value: int, *, global_default: bool) -> None:
        """Take in a PriorityClass."""
        ...

    def priority_class_gone(self, name: str) -> None:
        """Forget a PriorityClass."""
        ...

    def lease_seen(self, lease: Lease) -> None:
        """Take in the scheduler's Lease, where it is watched."""
        ...

    def lease_gone(self) -> None:
        """Learn that there is no such Lease any more."""
        ...

    def synced(self, kind: Kind) -> None:
        """Learn that a complete list of `kind` has been delivered: the first, or a later one that was needed."""
        ...

    def heard(self, kind: Kind) -> None:
        """Learn that the watch of `kind` is alive: an event, a bookmark or a list arrived."""
        ...

    def skipped(self, kind: Kind) -> None:
        """Learn that an object or event of `kind` could not be decoded and was left out."""
        ...

    def watch_restarted(self, kind: Kind, cause: str) -> None:
        """Learn that the watch of `kind` had to start again; `cause` is a short fixed word for the metric."""
        ...


REQUIRED_KINDS: Collection[Kind] = tuple(kind for kind in Kind if kind is not Kind.LEASE)
"""What must be synced before the first decision; a kind whose API is not installed counts as synced and empty.

The Lease is watched only where there is leader election, and decides nothing about gangs."""

VITAL_KINDS: Collection[Kind] = (
    Kind.NODE,
    Kind.POD,
    Kind.COSCHEDULING_POD_GROUP,
    Kind.NATIVE_POD_GROUP,
    Kind.VOLCANO_POD_GROUP,
    Kind.LEASE,
)
"""What must be fresh to decide: whoever knows too little of these gives a node twice, or starts a gang in part.

The others only make placements better. They seldom change, and of what changed unheard of a kubelet, or the next list,
will tell: no watch of theirs that hangs may keep gangs waiting."""
