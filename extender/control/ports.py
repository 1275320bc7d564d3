"""What the control layer asks of the outside: which kinds are watched, and the writes. `observer` is the other way."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Protocol

from extender.domain.membership import GroupRef
from extender.domain.objectref import ObjectRef


class Kind(StrEnum):
    """The kinds of objects that are watched; the value is the metric label."""

    NODE = "nodes"
    POD = "pods"
    PRIORITY_CLASS = "priorityclasses"
    COSCHEDULING_POD_GROUP = "podgroups.scheduling.x-k8s.io"
    NATIVE_POD_GROUP = "podgroups.scheduling.k8s.io"
    VOLCANO_POD_GROUP = "podgroups.scheduling.volcano.sh"
    JOB_SET = "jobsets.jobset.x-k8s.io"
    LEADER_WORKER_SET = "leaderworkersets.leaderworkerset.x-k8s.io"
    PYTORCH_JOB = "pytorchjobs.kubeflow.org"
    TF_JOB = "tfjobs.kubeflow.org"
    MPI_JOB = "mpijobs.kubeflow.org"
    XGBOOST_JOB = "xgboostjobs.kubeflow.org"
    PADDLE_JOB = "paddlejobs.kubeflow.org"
    JAX_JOB = "jaxjobs.kubeflow.org"
    RAY_CLUSTER = "rayclusters.ray.io"
    LEASE = "leases.coordination.k8s.io"
    NODE_TOPOLOGY = "noderesourcetopologies.topology.node.k8s.io"
    HYPER_NODE = "hypernodes.topology.volcano.sh"
    KUEUE_TOPOLOGY = "topologies.kueue.x-k8s.io"
    KAI_TOPOLOGY = "topologies.kai.scheduler"
    NETWORK_TOPOLOGY = "clusternetworktopologies.scheduling.koordinator.sh"
    DEVICE = "devices.scheduling.koordinator.sh"
    CALIBRATION = "configmaps"
    QUEUE = "queues.muster.dev"
    NAMESPACE = "namespaces"
    DISRUPTION_BUDGET = "poddisruptionbudgets.policy"


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


class BudgetError(ApiError):
    """The API server evicts nobody here now because a PodDisruptionBudget says no; its status is 429.

    It is no sign of congestion: the API server has time, the budget has not.
    """


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
    and `message` its explanation. `preempted` says for whom and why the gang was evicted, where that explains why it
    does not run; empty, a `Preempted` condition that stands stays until the gang is scheduled again.
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
    preempted: str = ""


@dataclass(frozen=True, slots=True)
class QueueUsage:
    """What of one resource in one flavor a Queue's gangs have, in milli-CPU, bytes or counts.

    `borrowed` is what of `used` is others' quota, `lent` what of `nominal` others use.
    """

    flavor: str
    resource: str
    used: int
    borrowed: int
    lent: int
    nominal: int


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """What a Queue's status shall say.

    `share` is what fair sharing goes by. `history` is the decayed mean usage of each resource, as of `history_at`
    (RFC 3339; empty where no history is kept). `active` is the status of the `Active` condition, `reason` and
    `message` its explanation.
    """

    usage: tuple[QueueUsage, ...]
    share: float
    pending_gangs: int
    admitted_gangs: int
    active: bool
    reason: str
    message: str
    observed_generation: int
    history: tuple[tuple[str, float], ...] = ()
    history_at: str = ""


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

    async def evict(self, pod: PodKey, *, dry_run: bool = False) -> None:
        """Ask that the pod be evicted, or only whether it could be; that it is gone already is success.

        The pod is marked as a DisruptionTarget and deleted with its grace period. Raises BudgetError where a
        PodDisruptionBudget does not allow it now, or where there are two for the pod, which the API server refuses.
        """
        ...

    async def ungate(self, pod: PodKey, gate: str) -> None:
        """Take one scheduling gate off the pod; that it is not there is success.

        ApiError with status 404 or 409 means that the pod is gone or another one now.
        """
        ...

    async def update_queue_status(self, name: str, uid: str, status: QueueStatus) -> None:
        """Write a Queue's status subresource.

        The condition's transition time changes only when its status does. ApiError with status 404 or 409 means that
        the Queue is gone or another one now.
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

The others make placements better, or are rules that people seldom change. Of what changed unheard of a kubelet, the API
server (of budgets), or the next list will tell: no watch of theirs that hangs may keep gangs waiting."""
