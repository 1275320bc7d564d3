"""The order in which gangs are judged, and those that stand in it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from operator import attrgetter
from typing import Generic, NamedTuple, Protocol, TypeVar

from extender.cluster.gangs import Gang
from extender.domain.membership import GroupRef
from extender.domain.pod import Pod


class Position(NamedTuple):
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
    partial = census.secured > 0 and not gang.has_minimum
    return Position(not partial, -gang.priority, gang.created or _NOT_CREATED_YET, gang.uid)


def single_position(pod: Pod) -> Position:
    """Return the place of a pod without gang among the gangs."""
    return Position(
        not_partial=True, minus_priority=-pod.priority, created=pod.created or _NOT_CREATED_YET, uid=pod.uid
    )


class Placed(Protocol):
    """Something with a place in the queue that stays as long as it stands there."""

    @property
    def position(self) -> Position:
        """Return the place."""
        ...


_Entry = TypeVar("_Entry", bound=Placed)
_by_position = attrgetter("position")


class Queue(Generic[_Entry]):
    """Keep one entry for each gang that wants nodes, sorted as they come and go."""

    def __init__(self) -> None:
        """Start empty."""
        self._entries: dict[GroupRef, _Entry] = {}
        self._sorted: list[_Entry] = []

    def __iter__(self) -> Iterator[_Entry]:
        """Iterate over the entries, first in the queue first."""
        return iter(self._sorted)

    def __len__(self) -> int:
        """Count the gangs that want nodes."""
        return len(self._sorted)

    def put(self, ref: GroupRef, entry: _Entry) -> None:
        """Let the gang called `ref` stand in the queue with `entry`, in place of a former one."""
        self.remove(ref)
        self._entries[ref] = entry
        insort(self._sorted, entry, key=_by_position)

    def remove(self, ref: GroupRef) -> None:
        """Take the gang called `ref` out, if it is there."""
        entry = self._entries.pop(ref, None)
        if entry is None:
            return
        index = bisect_left(self._sorted, entry.position, key=_by_position)
        while self._sorted[index] is not entry:  # beyond those with an equal position, if UIDs are not unique after all
            index += 1
        del self._sorted[index]

    def clear(self) -> None:
        """Take everybody out."""
        self._entries.clear()
        self._sorted.clear()
