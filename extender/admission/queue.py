"""The order in which gangs are judged."""

from __future__ import annotations

from dataclasses import dataclass

from extender.cluster.gangs import Gang
from extender.domain.pod import Pod


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the queue: gangs that hold nodes already, then higher priority, then age, then UID."""

    not_partial: bool
    minus_priority: int
    created: str
    uid: str


#: Behind every RFC 3339 time: what has no creation time yet is younger than everything that has.
_NOT_CREATED_YET = "~"


def position(gang: Gang) -> Position:
    """Return a gang's place. A gang with some members bound goes first: every second it waits wastes what it holds."""
    census = gang.census()
    partial = 0 < census.secured < gang.min_member
    return Position(not partial, -gang.priority, gang.created or _NOT_CREATED_YET, gang.uid)


def single_position(pod: Pod) -> Position:
    """Return the place of a pod without gang among the gangs."""
    return Position(
        not_partial=True, minus_priority=-pod.priority, created=pod.created or _NOT_CREATED_YET, uid=pod.uid
    )
