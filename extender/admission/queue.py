"""The order in which gangs are judged, and those that stand in it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from heapq import merge
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Generic, NamedTuple, Protocol, TypeVar

from extender.cluster.gangs import Gang
from extender.domain.membership import GroupRef
from extender.domain.pod import Pod


class Position(NamedTuple):
    """A place in the queue.

    Gangs that hold nodes already go first, then those that have waited for very long, then higher priority, then age,
    then UID.
    """

    not_partial: bool
    not_aged: bool
    minus_priority: int
    created: str
    uid: str


#: Behind every RFC 3339 time: what has no creation time yet is younger than everything that has.
_NOT_CREATED_YET = "~"


def position(gang: Gang, *, aged: bool = False) -> Position:
    """Return a gang's place. A gang with some members bound goes first: every second it waits wastes what it holds."""
    census = gang.census()
    partial = census.secured > 0 and not gang.has_minimum
    return Position(not partial, not aged, -gang.priority, gang.created or _NOT_CREATED_YET, gang.uid)


def single_position(pod: Pod) -> Position:
    """Return the place of a pod without gang among the gangs."""
    return Position(
        not_partial=True,
        not_aged=True,
        minus_priority=-pod.priority,
        created=pod.created or _NOT_CREATED_YET,
        uid=pod.uid,
    )


class Placed(Protocol):
    """Something with a place in the queue that stays as long as it stands there."""

    @property
    def position(self) -> Position:
        """Return the place."""
        ...

    @property
    def queue(self) -> str:
        """Return the name of the queue."""
        ...


_Entry = TypeVar("_Entry", bound=Placed)
_by_position = attrgetter("position")
#: Behind all positions that are urgent, before all others.
_FIRST_PATIENT = (True, True)


class Queues(Generic[_Entry]):
    """Keep one entry for each gang that wants nodes, sorted in each queue as they come and go."""

    def __init__(self) -> None:
        """Start empty."""
        self._entries: dict[GroupRef, _Entry] = {}
        self._lines: dict[str, list[_Entry]] = {}

    def __len__(self) -> int:
        """Count the gangs that want nodes."""
        return len(self._entries)

    def waiting(self, queue: str) -> int:
        """Count the gangs of one queue that want nodes."""
        return len(self._lines.get(queue, ()))

    def get(self, ref: GroupRef) -> _Entry | None:
        """Return the entry of the gang called `ref`, None if it wants no nodes."""
        return self._entries.get(ref)

    def put(self, ref: GroupRef, entry: _Entry) -> None:
        """Let the gang called `ref` stand in its queue with `entry`, in place of a former one."""
        self.remove(ref)
        self._entries[ref] = entry
        insort(self._lines.setdefault(entry.queue, []), entry, key=_by_position)

    def remove(self, ref: GroupRef) -> None:
        """Take the gang called `ref` out, if it is there."""
        entry = self._entries.pop(ref, None)
        if entry is None:
            return
        line = self._lines[entry.queue]
        index = bisect_left(line, entry.position, key=_by_position)
        while line[index] is not entry:  # beyond those with an equal position, if UIDs are not unique after all
            index += 1
        del line[index]
        if not line:
            del self._lines[entry.queue]

    def clear(self) -> None:
        """Take everybody out."""
        self._entries.clear()
        self._lines.clear()

    def in_turn(self, turn: Callable[[str], tuple[object, ...]]) -> Walk[_Entry]:
        """Walk over the entries in the order in which they are to be judged; nobody may come or go meanwhile.

        Those that are urgent come first. Then the first of each queue stand against each other: the queue whose `turn`
        comes first has the next, of queues that come at once the one whose entry does. In the same way those go after
        them who are deferred on the way.
        """
        urgent: list[_Entry] = []
        rest: dict[str, list[_Entry]] = {}
        for name, line in self._lines.items():
            index = bisect_left(line, _FIRST_PATIENT, key=_by_position)
            urgent += line[:index]
            if index < len(line):
                rest[name] = line[index:]
        return Walk(sorted(urgent, key=_by_position), rest, turn)


class Walk(Generic[_Entry]):
    """Go through entries in turn, whose turns may change on the way.

    Going on costs no more than going through a list as long as no turn changes.

    Attributes:
        is_last: whether those come now who were deferred.
    """

    def __init__(
        self, urgent: list[_Entry], lines: dict[str, list[_Entry]], turn: Callable[[str], tuple[object, ...]]
    ) -> None:
        """Begin with `urgent`, then go through `lines`, which are sorted, by `turn`."""
        self._ahead = urgent
        self._lines = lines
        self._turn = turn
        self._deferred: dict[str, list[_Entry]] = {}
        self.is_last = False
        self._groups: list[list[str]] = []

    def stretch(self) -> list[_Entry]:
        """Return the entries that come next if no turn changes, none at the end."""
        stretch, self._ahead = self._ahead, []
        if stretch:
            return stretch
        if not self._lines:
            self._lines, self._deferred = self._deferred, {}
            self.is_last = True
            if not self._lines:
                return []
        self._groups = self._grouped()
        lines, self._lines = self._lines, {}
        for names in self._groups:
            stretch += lines[names[0]] if len(names) == 1 else merge(*map(lines.__getitem__, names), key=_by_position)
        return stretch

    def defers(self, queue: str) -> bool:
        """Tell whether an entry of a queue has been deferred: those behind it are to be, too."""
        return queue in self._deferred

    def defer(self, entry: _Entry) -> None:
        """Let an entry come after all that are not deferred."""
        self._deferred.setdefault(entry.queue, []).append(entry)

    def turns_changed(self, rest: list[_Entry]) -> bool:
        """Take in that turns may have changed before `rest`, the end of the last stretch; tell whether it is outdated.

        If it is, the next stretch has these entries in their new order.
        """
        lines: dict[str, list[_Entry]] = {}
        for entry in rest:
            lines.setdefault(entry.queue, []).append(entry)
        if len(lines) < 2 or self._lines:  # noqa: PLR2004 - two can change places
            return False
        self._lines = lines
        before = [[name for name in names if name in lines] for names in self._groups]
        if self._grouped() == [names for names in before if names]:
            self._lines = {}
            return False
        return True

    def _grouped(self) -> list[list[str]]:
        """Return the queues in turn, those together that come at once."""
        turns = sorted((self._turn(name), name) for name in self._lines)
        return [[name for _, name in group] for _, group in groupby(turns, key=itemgetter(0))]
