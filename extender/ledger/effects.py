"""What an event calls for, as values: the answer, what is to be written, and what people are told."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct, field

from extender.objects.meta import ObjectRef
from extender.objects.noderequest import NodeRequest
from extender.objects.pod import Pod, RejectionReason
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Wait
from extender.objects.workload import Suspendable

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Nomination:
    """Set a pod's nominated node, or clear it with an empty `node`; `again` clears it first, to wake the pod.

    One that is `overdue` is for a pod that should have come to filter by itself and did not.
    """

    pod: Pod
    node: str
    again: bool = False
    overdue: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """Something to tell the owner of a gang, a pod or another object, as a Kubernetes Event."""

    about: GroupRef | Pod | ObjectRef
    warning: bool
    reason: str
    message: str


class GangStep(StrEnum):
    """What becomes of a gang's reservation; the value is the line in the log."""

    PLACED = "gang placed"
    STARTED = "gang started"
    RELEASED = "gang released"
    EXPIRED = "reservation expired"  # at its deadline


@dataclass(frozen=True, slots=True)
class Milestone:
    """A step of a gang's reservation: `what` happened, and `decision`, the name that it has in the log.

    `members` is how many pods it concerns. `waited` is, for a start, the seconds since the gang was first seen.
    What is `routine` is of no interest by itself: a pod that names no group is placed, or starts.
    """

    what: GangStep
    gang: GroupRef
    decision: str
    members: int
    why: str = ""
    waited: float = 0.0
    routine: bool = False


class EvictionReason(StrEnum):
    """Why Muster evicts a pod; the value is the reason of the Event and the metric's label."""

    PREEMPTED = "Preempted"  # by a gang of higher priority
    RECLAIMED = "Reclaimed"  # by a gang to whose queue the quota belongs
    FAIR_SHARING = "FairSharing"  # by a gang whose queue has less of its weighted share
    DEFRAGMENTED = "Defragmented"  # on request
    CONSOLIDATED = "Consolidated"  # to another place, so that a gang fits
    BELOW_MINIMUM = "BelowMinimum"  # what is left of the gang cannot run
    QUEUE_DRAINED = "QueueDrained"
    NODE_DRAINED = "NodeDrained"  # its node is drained, or that of another member with which it has to be together
    MAX_RUNTIME = "MaxRuntimeExceeded"  # it has run for as long as it may
    NODE_LOST = "NodeLost"  # its node is lost, or that of another member with which it has to be together


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a pod through the Eviction API; `by` is the gang that gets its room (namespace/name), "" for none."""

    pod: Pod
    by: str
    reason: EvictionReason
    message: str


@dataclass(frozen=True, slots=True)
class PodNotice:
    """Say on a pod when it is `planned` to be evicted, or with "" that it is not any more, and the `reason`."""

    pod: Pod
    planned: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Ungate:
    """Take a scheduling gate off a pod."""

    pod: Pod
    gate: str


@dataclass(frozen=True, slots=True)
class Suspension:
    """Suspend an object whose pods are to leave, or resume one for whose pods there is a `place`.

    One that is suspended for a `reason` is so in place of evicting its `pods`, by UID.
    """

    workload: Suspendable
    suspend: bool
    place: str = ""
    reason: EvictionReason | None = None
    pods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodSetAsk:
    """So many pods of one kind; the spec of one stands in `source`: a pod, or an object with a template."""

    source: ObjectRef
    count: int


@dataclass(frozen=True, slots=True)
class NodeAsk:
    """Ask an autoscaler for the nodes that a gang lacks, by a request called `name` in its namespace.

    The nodes are to have the labels of `selector` besides what the pods themselves ask for.
    """

    ref: GroupRef
    name: str
    provisioning_class: str
    parameters: Mapping[str, str]
    attempt: int
    pod_sets: tuple[PodSetAsk, ...]
    selector: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PodAnnotations:
    """Annotations that a pod is to have."""

    pod: Pod
    annotations: Mapping[str, str]


class Fact(Enum):
    """What of a pod's devices is predicted, and observed later."""

    GPUS = auto()
    ZONES = auto()


@dataclass(frozen=True, slots=True)
class Observation:
    """Whether a pod was given what had been predicted."""

    fact: Fact
    match: bool


class CollectedEffects(Struct):
    """What has been called for since the last event; the fields are those of `Effects`."""

    nominations: dict[str, Nomination] = field(default_factory=dict)
    released: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    changed: dict[GroupRef, Wait | None] = field(default_factory=dict)
    milestones: list[Milestone] = field(default_factory=list)
    plan_seconds: list[float] = field(default_factory=list)
    repair_seconds: list[float] = field(default_factory=list)
    expired: int = 0
    rejections: list[RejectionReason] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    evictions: dict[str, Evict] = field(default_factory=dict)
    spared: set[str] = field(default_factory=set)
    ungates: dict[str, Ungate] = field(default_factory=dict)
    notices: dict[str, PodNotice] = field(default_factory=dict)
    notices_ended: list[str] = field(default_factory=list)
    suspensions: dict[str, Suspension | None] = field(default_factory=dict)
    node_requests: dict[str, NodeAsk | NodeRequest] = field(default_factory=dict)
    annotations: dict[str, PodAnnotations] = field(default_factory=dict)


_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


class Effects(Struct, Generic[A], frozen=True):
    """What one event calls for. Most call for next to nothing, and the journal keeps hundreds.

    `answer` is the answer where something is asked, else None; `empty` tells that there is nothing but that.
    `nominations` holds the newest wish per pod UID. `released` are pods whose held bind calls may go on, `refused`
    those whose held bind calls fail, with the message. `changed` are the gangs whose status may read differently, with
    why each of them waits now (None: it does not wait, or is gone). `milestones` are for the log, `plan_seconds` is how
    long each plan took, `repair_seconds` how long after the loss of a node each was bound that
    replaces a member there, `expired` counts reservations given up at their deadline. `rejections` are why kubelets
    rejected pods, one for each pod, and `observations` how predictions turned out. `evictions`, `ungates` and `notices`
    hold one wish per pod UID; `spared` are those whose eviction is not wanted any more. `notices_ended` are outcomes of
    notices of eviction, one for each gang. `suspensions` holds the newest wish per UID of an object, None where it is
    to stay as it is. `node_requests` are those to make, and those that are there to withdraw, by `namespace/name`;
    `annotations` holds the newest wish per pod UID.
    """

    answer: A
    empty: bool = True
    nominations: Mapping[str, Nomination] = _NONE
    released: Sequence[str] = ()
    refused: Mapping[str, str] = _NONE
    notes: Sequence[Note] = ()
    changed: Mapping[GroupRef, Wait | None] = _NONE
    milestones: Sequence[Milestone] = ()
    plan_seconds: Sequence[float] = ()
    repair_seconds: Sequence[float] = ()
    expired: int = 0
    rejections: Sequence[RejectionReason] = ()
    observations: Sequence[Observation] = ()
    evictions: Mapping[str, Evict] = _NONE
    spared: Collection[str] = ()
    ungates: Mapping[str, Ungate] = _NONE
    notices: Mapping[str, PodNotice] = _NONE
    notices_ended: Sequence[str] = ()
    suspensions: Mapping[str, Suspension | None] = _NONE
    node_requests: Mapping[str, NodeAsk | NodeRequest] = _NONE
    annotations: Mapping[str, PodAnnotations] = _NONE
