"""What the admission wants done, as values: somebody else does it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto

from extender.domain.membership import GroupRef
from extender.domain.objectref import ObjectRef
from extender.domain.pod import Pod, RejectionReason


@dataclass(frozen=True, slots=True)
class Nomination:
    """Set a pod's nominated node, or clear it with an empty `node`; `again` clears it first, to wake the pod."""

    pod: Pod
    node: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """Something to tell the people who own a gang, a pod or another object, as a Kubernetes Event."""

    about: GroupRef | Pod | ObjectRef
    warning: bool
    reason: str
    message: str


class Step(StrEnum):
    """What becomes of a gang's reservation; the value is the line in the log."""

    PLACED = "gang placed"
    STARTED = "gang started"
    RELEASED = "gang released"
    EXPIRED = "reservation expired"  # at its deadline


@dataclass(frozen=True, slots=True)
class Milestone:
    """A step of a gang's reservation: `what` happened, and `decision`, the name that it has in the log.

    `members` is how many pods it concerns. `waited` is, for a start, the seconds since the gang was first seen.
    """

    what: Step
    gang: GroupRef
    decision: str
    members: int
    why: str = ""
    waited: float = 0.0


class EvictionReason(StrEnum):
    """Why Muster evicts a pod; the value is the reason of the Event and the metric's label."""

    PREEMPTED = "Preempted"  # by a gang of higher priority
    RECLAIMED = "Reclaimed"  # by a gang to whose queue the quota belongs
    DEFRAGMENTED = "Defragmented"  # on somebody's request
    BELOW_MINIMUM = "BelowMinimum"  # what is left of the gang cannot run
    QUEUE_DRAINED = "QueueDrained"


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a pod through the Eviction API; `by` is for whom (namespace/name), "" for nobody."""

    pod: Pod
    by: str
    reason: EvictionReason
    message: str


@dataclass(frozen=True, slots=True)
class Ungate:
    """Take a scheduling gate off a pod."""

    pod: Pod
    gate: str


class Fact(Enum):
    """What of a pod's devices is predicted, and observed later."""

    GPUS = auto()
    ZONES = auto()


@dataclass(frozen=True, slots=True)
class Observation:
    """Whether a pod was given what had been predicted."""

    fact: Fact
    match: bool


@dataclass(slots=True)
class Effects:
    """What has accumulated since it was last taken.

    `nominations` holds the newest wish per pod UID. `released` are pods whose held bind calls may go on, `refused`
    those whose held bind calls fail, with the message. `changed` are the gangs whose status may read differently.
    `milestones` are for the log, `plan_seconds` is how long each plan took, `expired` counts
    reservations given up at their deadline. `rejections` are why kubelets turned pods away, one for each pod, and
    `observations` how predictions turned out. `evictions` and `ungates` hold one wish per pod UID; `spared` are those
    whose eviction is not wanted any more.
    """

    nominations: dict[str, Nomination] = field(default_factory=dict)
    released: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    changed: dict[GroupRef, None] = field(default_factory=dict)
    milestones: list[Milestone] = field(default_factory=list)
    plan_seconds: list[float] = field(default_factory=list)
    expired: int = 0
    rejections: list[RejectionReason] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    evictions: dict[str, Evict] = field(default_factory=dict)
    spared: set[str] = field(default_factory=set)
    ungates: dict[str, Ungate] = field(default_factory=dict)
