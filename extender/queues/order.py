"""The order in which gangs are evaluated, which of them wait, and which have waited for so long that they go first."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection
from heapq import merge
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from typing import Generic, NamedTuple, Protocol, TypeVar

from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.objects.meta import read_timestamp
from extender.objects.podgroup import GroupRef


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


class PlacedGang(Protocol):
    """Something with a place in the queue that stays as long as it stands there."""

    @property
    def position(self) -> Position:
        """Return the place."""

    @property
    def queue(self) -> str:
        """Return the name of the queue."""


_Entry = TypeVar("_Entry", bound=PlacedGang)
_by_position = attrgetter("position")
_by_queue = attrgetter("queue")
#: Behind all positions that are urgent, before all others.
_FIRST_PATIENT = (True, True)


class Queues(Generic[_Entry]):
    """Keep one entry for each gang that wants nodes, sorted in each queue as they come and go.

    Attributes:
        changes: how often an entry has come or gone.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._entries: dict[GroupRef, _Entry] = {}
        self._lines: dict[str, list[_Entry]] = {}

    def __len__(self) -> int:
        """Count the gangs that want nodes."""
        return len(self._entries)

    @property
    def entries(self) -> list[_Entry]:
        """Return the entries of all queues, in no order."""
        return list(self._entries.values())

    @property
    def names(self) -> Collection[str]:
        """Return the queues in which any gang wants nodes."""
        return self._lines.keys()

    def get(self, ref: GroupRef) -> _Entry | None:
        """Return the entry of the gang called `ref`, None if it wants no nodes."""
        return self._entries.get(ref)

    def put(self, ref: GroupRef, entry: _Entry) -> None:
        """Let the gang called `ref` stand in its queue with `entry`, in place of a former one."""
        self.remove(ref)
        self.changes += 1
        self._entries[ref] = entry
        insort(self._lines.setdefault(entry.queue, []), entry, key=_by_position)

    def remove(self, ref: GroupRef) -> None:
        """Take the gang called `ref` out, if it is there."""
        entry = self._entries.pop(ref, None)
        if entry is None:
            return
        self.changes += 1
        line = self._lines[entry.queue]
        index = bisect_left(line, entry.position, key=_by_position)
        while line[index] is not entry:  # beyond those with an equal position, if UIDs are not unique after all
            index += 1
        del line[index]
        if not line:
            del self._lines[entry.queue]

    def clear(self) -> None:
        """Take all entries out."""
        self.changes += 1
        self._entries.clear()
        self._lines.clear()

    def in_turn(self, turn: Callable[[str], tuple[object, ...]]) -> Walk[_Entry]:
        """Walk over the entries in the order in which they are to be evaluated; none may come or go meanwhile.

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
        self._held: set[str] = set()  # queues of which all others are deferred too
        self.is_last = False
        self._groups: list[list[str]] = []
        self._stretch: list[_Entry] = []
        self._done = 0
        self._left: Counter[str] | None = None  # entries of the stretch that are still to go, by queue

    def join(self, entry: _Entry) -> None:
        """Let one more entry stand in its queue, before the walk has begun."""
        is_patient = entry.position >= _FIRST_PATIENT
        insort(self._lines.setdefault(entry.queue, []) if is_patient else self._ahead, entry, key=_by_position)

    def stretch(self) -> list[_Entry]:
        """Return the entries that come next if no turn changes, none at the end."""
        stretch, self._ahead = self._ahead, []
        if stretch:
            return self._begin(stretch)
        if not self._lines:
            self._lines, self._deferred = self._deferred, {}
            self.is_last = True
            if not self._lines:
                return []
        self._groups = self._grouped(self._lines)
        lines, self._lines = self._lines, {}
        for names in self._groups:
            stretch += lines[names[0]] if len(names) == 1 else merge(*map(lines.__getitem__, names), key=_by_position)
        return self._begin(stretch)

    def defers(self, queue: str) -> bool:
        """Tell whether an entry of a queue has been deferred: those behind it are to be, too."""
        return queue in self._held

    def defer(self, entry: _Entry, *, alone: bool = False) -> None:
        """Let an entry come after all that are not deferred; unless it does so `alone`, so do those behind it."""
        if not alone:
            self._held.add(entry.queue)
        self._deferred.setdefault(entry.queue, []).append(entry)

    def turns_changed(self, done: int) -> bool:
        """Take in that turns may have changed once `done` entries of the last stretch have gone.

        Return whether its rest is outdated; the next stretch has that in its new order. The last call must not have
        been with more. Complexity: O(queues) beside those that have gone since, as long as no turn changes.
        """
        if self._left is None:  # most stretches go without any placement
            self._left = Counter(map(_by_queue, self._stretch))
        left = self._left
        for queue, gone in Counter(map(_by_queue, islice(self._stretch, self._done, done))).items():
            left[queue] -= gone
            if not left[queue]:
                del left[queue]
        self._done = done
        if len(left) < 2 or self._lines:  # noqa: PLR2004 - two can change places
            return False
        before = [[name for name in names if name in left] for names in self._groups]
        if self._grouped(left) == [names for names in before if names]:
            return False
        for entry in self._stretch[done:]:
            self._lines.setdefault(entry.queue, []).append(entry)
        return True

    def _begin(self, stretch: list[_Entry]) -> list[_Entry]:
        self._stretch, self._done = stretch, 0
        self._left = None
        return stretch

    def _grouped(self, names: Collection[str]) -> list[list[str]]:
        """Return queues in turn, those together that come at once."""
        if len(names) == 1:
            return [list(names)]
        turns = sorted((self._turn(name), name) for name in names)
        return [[name for _, name in group] for _, group in groupby(turns, key=itemgetter(0))]


class Ageing:
    """Say which gangs are older than they should get, and when the next one will be.

    These go before all others: nothing waits without end behind gangs that are more important, or whose queue has less
    of its share. No gang is evicted for that.
    """

    def __init__(self, seconds: float, clock: Clock) -> None:
        """Let gangs age in `seconds` from their creation; infinity for never."""
        self._seconds = seconds
        self._clock = clock
        self._until: dict[str, float] = {}
        self._order: list[tuple[float, str]] = []

    def is_aged(self, gang: Gang) -> bool:
        """Tell whether a gang that waits has done so for very long; otherwise remember when it will have."""
        created = read_timestamp(gang.created)
        if created is None or self._seconds == float("inf"):
            return False
        left = created + self._seconds - self._clock.now().timestamp()
        if left <= 0:
            return True
        until = self._clock.monotonic() + left
        if gang.uid not in self._until:
            self._until[gang.uid] = until
            heapq.heappush(self._order, (until, gang.uid))
        return False

    def forget(self, uid: str) -> None:
        """Forget a gang that is gone."""
        self._until.pop(uid, None)

    def ended(self, now: float) -> list[str]:
        """Return the UIDs of gangs that have become old by `now` (seconds, monotonic), each once."""
        aged = []
        while self._order and self._order[0][0] <= now:
            _, uid = heapq.heappop(self._order)
            if self._until.pop(uid, None) is not None:
                aged.append(uid)
        return aged

    def next_end(self) -> float | None:
        """Return when the next gang becomes old (seconds, monotonic), or None."""
        return self._order[0][0] if self._order else None
