"""What the admission wants done, as values: somebody else does it."""

from __future__ import annotations

from dataclasses import dataclass, field

from extender.domain.membership import GroupRef
from extender.domain.pod import Pod


@dataclass(frozen=True, slots=True)
class Nomination:
    """Set a pod's nominated node, or clear it with an empty `node`; `again` clears it first, to wake the pod."""

    pod: Pod
    node: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """Something to tell the people who own a gang or a pod, as a Kubernetes Event."""

    about: GroupRef | Pod
    warning: bool
    reason: str
    message: str


@dataclass(slots=True)
class Effects:
    """What has accumulated since it was last taken.

    `nominations` holds the newest wish per pod UID. `released` are pods whose held bind calls may go on, `refused`
    those whose held bind calls fail, with the message. `changed` are the gangs whose status may read differently.
    `plan_seconds` is how long each plan took, `expired` counts
    reservations given up at their deadline.
    """

    nominations: dict[str, Nomination] = field(default_factory=dict)
    released: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    changed: dict[GroupRef, None] = field(default_factory=dict)
    plan_seconds: list[float] = field(default_factory=list)
    expired: int = 0
