"""How the control layer and the outside meet: which kinds are watched, what is told of them, and the writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    # Types only: the command line asks the API server by what is here, and decides nothing.
    from extender.admission.events import Event
    from extender.explain.views import GroupStatus, QueueReport
    from extender.ledger.effects import NodeAsk
    from extender.objects.lease import Lease
    from extender.objects.meta import ObjectRef
    from extender.objects.noderequest import NodeRequest
    from extender.objects.podgroup import GroupRef
    from extender.objects.workload import Suspendable


class WatchedKind(StrEnum):
    """Watched kinds that are asked for by name; the value is the name of the collection, and the metric label."""

    NODE = "nodes"
    POD = "pods"
    PRIORITY_CLASS = "priorityclasses"
    LEASE = "leases.coordination.k8s.io"
    NODE_TOPOLOGY = "noderesourcetopologies.topology.node.k8s.io"
    HYPER_NODE = "hypernodes.topology.volcano.sh"
    KUEUE_TOPOLOGY = "topologies.kueue.x-k8s.io"
    KAI_TOPOLOGY = "topologies.kai.scheduler"
    NETWORK_TOPOLOGY = "clusternetworktopologies.scheduling.koordinator.sh"
    DEVICE = "devices.scheduling.koordinator.sh"
    DEVICE_CLASS = "deviceclasses.resource.k8s.io"
    RESOURCE_SLICE = "resourceslices.resource.k8s.io"
    DEVICE_TAINT_RULE = "devicetaintrules.resource.k8s.io"
    RESOURCE_CLAIM = "resourceclaims.resource.k8s.io"
    RESOURCE_CLAIM_TEMPLATE = "resourceclaimtemplates.resource.k8s.io"
    COMPUTE_DOMAIN = "computedomains.resource.nvidia.com"
    CALIBRATION = "configmaps"
    QUEUE = "queues.muster.dev"
    NAMESPACE = "namespaces"
    DISRUPTION_BUDGET = "poddisruptionbudgets.policy"
    JOB = "jobs.batch"
    PROVISIONING_REQUEST = "provisioningrequests.autoscaling.x-k8s.io"


@dataclass(frozen=True, slots=True)
class LeaseSeen:
    """The scheduler's Lease was added or changed, where it is watched."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class LeaseGone:
    """There is no such Lease any more."""


#: What a watch tells: what happened to the cluster, or to the Lease that says which replica decides.
News: TypeAlias = "Event[None] | LeaseSeen | LeaseGone"


class EventSink(Protocol):
    """Who hears the watches, in the order of the API server per kind. Calls are synchronous and must be quick."""

    def tell(self, event: News) -> None:
        """Take in what happened."""

    def synced(self, kind: str) -> None:
        """Learn that a complete list of `kind` has been delivered: the first, or a later one that was needed."""

    def heard(self, kind: str) -> None:
        """Learn that the watch of `kind` is alive: an event, a bookmark or a list arrived."""

    def skipped(self, kind: str) -> None:
        """Learn that an object or event of `kind` could not be decoded and was left out."""

    def watch_restarted(self, kind: str, cause: str, detail: str = "") -> None:
        """Learn that the watch of `kind` had to start again.

        `cause` is a short fixed word for the metric; `detail` says to people what failed, "" where nothing did.
        """


#: Why a watch had to start again: the API server went back to an older state, as after its etcd was restored.
REWOUND = "rewound"


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


#: How it says that an admission webhook does. Source: ToStatusErr in k8s.io/apiserver
#: pkg/admission/plugin/webhook/errors/statuserror.go.
_WEBHOOK_DENIED = "denied the request"
#: How it says that an admission webhook did not answer. Source: k8s.io/apiserver pkg/util/webhook, ErrCallingWebhook.
_WEBHOOK_FAILED = "failed calling webhook"


class ApiError(Exception):
    """The API server said no, or could not be reached.

    Attributes:
        status: the HTTP status; 0 when no answer came.
        reason: the machine-readable reason of a metav1.Status, such as `Conflict` or `NotFound`.
        retry_after: seconds that the server asked to wait, or None.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}" if status else f"no answer: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def transient(self) -> bool:
        """Tell whether the same request may succeed later: no answer, 429, a 5xx, or a right that is missing.

        An API server that has just started denies what the roles grant until it has read them, as it does while
        they change. Other denials are final: of an admission plugin, in a terminating namespace, say.
        """
        denied = self.status == 403 and _DENIED in self.message  # noqa: PLR2004 - HTTP statuses read best as numbers
        return denied or self.status in {0, 401, 429} or self.status >= 500  # noqa: PLR2004 - the same for classes

    @property
    def outdated(self) -> bool:
        """Tell whether the object is gone, or another one by now: the wish has no object left, which is no failure.

        A webhook that denies may choose such a status, too.
        """
        return self.status in {404, 409, 410} and _WEBHOOK_DENIED not in self.message

    @property
    def at_webhook(self) -> bool:
        """Tell whether an admission webhook failed, without whose answer the API server writes nothing."""
        return self.status >= 500 and _WEBHOOK_FAILED in self.message  # noqa: PLR2004 - as above


class BudgetError(ApiError):
    """The API server evicts no pod here now because a PodDisruptionBudget says no; its status is 429.

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

    async def bind(self, pod: PodKey, node: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> None:
        """Create the pod's Binding with its UID, and put `annotations` onto the pod in the same write.

        "Already bound to that node" is success, not an error; the pod then keeps the annotations that it has.
        """

    async def evict(self, pod: PodKey, *, dry_run: bool = False) -> None:
        """Ask that the pod be evicted, or only whether it could be; that it is gone already is success.

        The pod is marked as a DisruptionTarget and deleted with its grace period. Raises BudgetError where a
        PodDisruptionBudget does not allow it now, or where there are two for the pod, which the API server refuses.
        """

    async def ungate(self, pod: PodKey, gate: str) -> None:
        """Take one scheduling gate off the pod; that it is not there is success.

        ApiError with status 404 or 409 means that the pod is gone or another one now.
        """

    async def notify(self, pod: PodKey, planned: str, reason: str, message: str) -> None:
        """Write on the pod when it is planned to be evicted, as an annotation and a condition; "" takes that back.

        ApiError with status 404 or 409 means that the pod is gone or another one now.
        """

    async def suspend(self, workload: Suspendable, place: str | None = None) -> None:
        """Suspend an object, or resume it where its pods have a `place`, which is written onto it.

        It is resumed in the version alone that was decided on. ApiError with status 404 or 409 means that the object
        is gone, or another one or another version now.
        """

    async def request_nodes(self, ask: NodeAsk, owner: ObjectRef) -> None:
        """Create a ProvisioningRequest and its PodTemplates, which go with their `owner`; that it is there is success.

        ApiError with status 404 means that a pod or Job is gone whose spec is asked for, or that there is no such API.
        """

    async def withdraw_nodes(self, request: NodeRequest) -> None:
        """Delete a ProvisioningRequest and its PodTemplates; that they are gone already is success."""

    async def annotate(self, pod: PodKey, annotations: Mapping[str, str]) -> None:
        """Put annotations onto a pod. ApiError with status 404 or 409 means that it is gone or another one now."""

    async def update_queue_status(self, name: str, uid: str, report: QueueReport) -> None:
        """Write a Queue's status subresource.

        The condition's transition time changes only when its status does. ApiError with status 404 or 409 means that
        the Queue is gone or another one now.
        """

    async def record_event(self, event: ClusterEvent) -> None:
        """Write an Event, or raise the count of the same one written before."""

    async def update_group_status(self, group: GroupRef, uid: str, status: GroupStatus) -> None:
        """Write a coscheduling PodGroup's status subresource.

        The condition's transition time changes only when its status does.
        """
