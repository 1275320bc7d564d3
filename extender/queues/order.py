"""The order in which gangs are evaluated, which of them wait, and which have waited for so long that they go first."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Generic, NamedTuple, Protocol, TypeVar

from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.objects.meta import read_timestamp
from extender.objects.podgroup import GroupRef


class Position(NamedTuple):
    """A place in the queue.

    Gangs that hold nodes or devices already go first, then those that have waited for very long, then higher priority,
    then age, then UID.
    """

    not_partial: bool
    not_aged: bool
    minus_priority: int
    created: str
    uid: str


#: Behind every RFC 3339 time: what has no creation time yet is younger than everything that has.
_NOT_CREATED_YET = "~"


def position(gang: Gang, *, aged: bool = False) -> Position:
    """Return a gang's place. A gang with some members bound goes first: every second it waits wastes what it holds.

    So does one to whose members devices are allocated: kube-scheduler takes them back only if another node would do.
    """
    census = gang.census()
    partial = (census.secured or census.keeping) > 0 and not gang.has_minimum
    return Position(not partial, not aged, -gang.priority, gang.created or _NOT_CREATED_YET, gang.uid)


class PlacedGang(Protocol):
    """Something with a place in the queue that stays as long as it stands there."""

    @property
    def position(self) -> Position:
        """Return the place."""

    @property
    def queue(self) -> str:
        """Return the name of the queue."""

    @property
    def kind(self) -> Hashable | None:
        """Return what is equal in entries of a queue of which one verdict is true; None where no other is alike."""


_Entry = TypeVar("_Entry", bound=PlacedGang)
_by_position = attrgetter("position")
#: Behind all positions that are urgent, before all others.
_FIRST_PATIENT = (True, True)


class Queues(Generic[_Entry]):
    """Keep one entry for each gang that wants nodes, sorted by kind in each queue as they come and go.

    Those of a kind are never urgent.

    Attributes:
        changes: how often an entry has come or gone.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._entries: dict[GroupRef, _Entry] = {}
        self._lines: dict[str, dict[Hashable | None, list[_Entry]]] = {}
        self._lent: set[tuple[str, Hashable]] = set()  # lines that a walk may still go over

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

    def line(self, queue: str, kind: Hashable) -> Sequence[_Entry]:
        """Return the entries of one kind in a queue, the first first."""
        return self._lines.get(queue, {}).get(kind, ())

    def put(self, ref: GroupRef, entry: _Entry) -> None:
        """Let the gang called `ref` stand in its queue with `entry`, in place of a former one."""
        self.remove(ref)
        self.changes += 1
        self._entries[ref] = entry
        insort(self._own(entry.queue, entry.kind), entry, key=_by_position)

    def remove(self, ref: GroupRef) -> None:
        """Take the gang called `ref` out, if it is there."""
        entry = self._entries.pop(ref, None)
        if entry is None:
            return
        self.changes += 1
        line = self._own(entry.queue, entry.kind)
        index = bisect_left(line, entry.position, key=_by_position)
        while line[index] is not entry:  # beyond those with an equal position, if UIDs are not unique after all
            index += 1
        del line[index]
        if not line:
            del self._lines[entry.queue][entry.kind]
        if not self._lines[entry.queue]:
            del self._lines[entry.queue]

    def _own(self, queue: str, kind: Hashable) -> list[_Entry]:
        """Return a line to change: a copy of it if a walk may still go over it."""
        lines = self._lines.setdefault(queue, {})
        line = lines.setdefault(kind, [])
        if (queue, kind) in self._lent:
            self._lent.remove((queue, kind))
            line = lines[kind] = line[:]
        return line

    def clear(self) -> None:
        """Take all entries out."""
        self.changes += 1
        self._lent.clear()
        self._entries.clear()
        self._lines.clear()

    def in_turn(self, turn: Callable[[str], tuple[object, ...]]) -> Walk[_Entry]:
        """Walk over the entries in the order in which they are to be evaluated, as they stand now.

        Those that are urgent come first. Then the first of each queue stand against each other: the queue whose `turn`
        comes first has the next, of queues that come at once the one whose entry does. In the same way those go after
        them who are deferred on the way. Complexity: O(kinds), and O(entries) that are like no other.
        """
        urgent: list[_Entry] = []
        rest: dict[str, list[_Front[_Entry]]] = {}
        for name, lines in self._lines.items():
            apart = lines.get(None, [])
            index = bisect_left(apart, _FIRST_PATIENT, key=_by_position) if apart else 0
            urgent += apart[:index] if index else ()
            alike = [kind for kind, line in lines.items() if kind is not None and len(line) > 1]
            self._lent.update((name, kind) for kind in alike)
            fronts = [_Front(lines[kind], alike=True) for kind in alike]
            single = [*apart[index:], *(line[0] for kind, line in lines.items() if len(line) == 1 and kind is not None)]
            if single:  # thousands may each be of a kind of its own
                single.sort(key=_by_position)
                fronts.append(_Front(single))
            if fronts:
                rest[name] = fronts
        return Walk(sorted(urgent, key=_by_position), rest, turn)


@dataclass(slots=True, eq=False)
class _Front(Generic[_Entry]):
    """How far a walk has come in a line of entries that are `alike`, or of such that are not."""

    line: list[_Entry]
    at: int = 0
    alike: bool = False

    @property
    def is_left(self) -> bool:
        """Tell whether the walk has not come to its end."""
        return self.at < len(self.line)

    def take(self) -> _Front[_Entry]:
        """Return the rest of the line; the walk comes by it here no more."""
        rest, self.at = _Front(self.line, self.at, self.alike), len(self.line)
        return rest


class Walk(Generic[_Entry]):
    """Go through entries in turn, whose turns may change on the way.

    Going on to the next costs O(log kinds) as long as no turn changes.

    Attributes:
        is_last: whether those come now who were deferred.
    """

    def __init__(
        self, urgent: list[_Entry], rest: dict[str, list[_Front[_Entry]]], turn: Callable[[str], tuple[object, ...]]
    ) -> None:
        """Begin with `urgent`, then go through the lines of `rest`, which are sorted, by `turn`."""
        self.is_last = False
        self._urgent = self._now = _Front(urgent)  # `_now` is what the last entry was taken from
        self._rest = rest
        self._turn = turn
        self._turns: list[list[str]] | None = None  # queues, those together that come at once; None before the first
        self._heap: list[tuple[Position, int, _Front[_Entry]]] = []  # of the queues whose turn it is
        self._deferred: dict[str, list[_Front[_Entry]]] = {}
        self._alone: dict[str, list[_Entry]] = {}

    def join(self, entry: _Entry) -> None:
        """Let one more entry stand in its queue, before the walk has begun."""
        if entry.position >= _FIRST_PATIENT:
            self._rest.setdefault(entry.queue, []).append(_Front([entry]))
        else:
            insort(self._urgent.line, entry, key=_by_position)

    def __iter__(self) -> Iterator[_Entry]:
        """Return the walk, which comes by each entry once."""
        return self

    def __next__(self) -> _Entry:
        """Return the next entry."""
        if self._urgent.at < len(self._urgent.line):
            self._urgent.at += 1
            return self._urgent.line[self._urgent.at - 1]
        while True:  # asked for every gang that waits: no calls
            if not self._heap:
                if not self._next_turn():
                    raise StopIteration
                continue
            _, number, front = self._heap[0]
            at, left = front.at, len(front.line) - front.at
            if left > 1:
                heapq.heapreplace(self._heap, (front.line[at + 1].position, number, front))
            else:
                heapq.heappop(self._heap)
            if left:
                self._now, front.at = front, at + 1
                return front.line[at]

    def close(self) -> None:
        """Go by those behind the last entry that are of its kind."""
        if self._now.alike:
            self._now.at = len(self._now.line)

    def defer(self) -> None:
        """Let the last entry come after all that are not deferred, and with it those behind it in its queue."""
        self._now.at -= 1
        queue = self._now.line[self._now.at].queue
        self._deferred.setdefault(queue, []).extend(front.take() for front in self._rest.pop(queue) if front.is_left)

    def defer_alone(self) -> None:
        """Let the last entry come after all that are not deferred, and with it those behind it that are of its kind."""
        entry = self._now.line[self._now.at - 1]
        if self._now.alike:
            self._now.at -= 1
            self._deferred.setdefault(entry.queue, []).append(self._now.take())
            return
        if entry.queue not in self._alone:
            self._alone[entry.queue] = []
            self._deferred.setdefault(entry.queue, []).append(_Front(self._alone[entry.queue]))
        self._alone[entry.queue].append(entry)

    def turns_changed(self) -> None:
        """Take in that turns may have changed since the last entry. Complexity: O(kinds)."""
        before = self._turns
        if before is None:  # it is not yet the turn of any queue
            return
        self._rest = self._left()
        if len(self._rest) < 2:  # noqa: PLR2004 - two can change places
            return
        turns = self._grouped()
        if turns != [left for names in before if (left := [name for name in names if name in self._rest])]:
            self._begin(turns)

    def _next_turn(self) -> bool:
        """Go on to the queues whose turn is next, in the end to who was deferred; return whether there are any."""
        if self._turns is None:
            self._begin(self._grouped())
        else:
            self._begin(self._turns[1:])
        if not self._turns and self._deferred:
            self._rest, self._deferred, self.is_last = self._deferred, {}, True
            self._begin(self._grouped())
        return bool(self._turns)

    def _begin(self, turns: list[list[str]]) -> None:
        """Let it be the turn of the first of some queues."""
        self._turns = turns
        names = turns[0] if turns else ()
        fronts = [front for name in names for front in self._rest.get(name, ()) if front.at < len(front.line)]
        self._heap = [(front.line[front.at].position, number, front) for number, front in enumerate(fronts)]
        heapq.heapify(self._heap)

    def _left(self) -> dict[str, list[_Front[_Entry]]]:
        """Return the queues that are not gone by."""
        return {name: fronts for name, fronts in self._rest.items() if any(front.is_left for front in fronts)}

    def _grouped(self) -> list[list[str]]:
        """Return queues in turn, those together that come at once."""
        if len(self._rest) == 1:
            return [list(self._rest)]
        turns = sorted((self._turn(name), name) for name in self._rest)
        return [[name for _, name in group] for _, group in groupby(turns, key=itemgetter(0))]


class Ageing:
    """Say which gangs are older than they should get, and when the next one will be.

    These go before all others: nothing waits without end behind gangs that are more important, or whose queue has less
    of its share. No gang is evicted for that.

    Most gangs are gone long before they are old, and stand in the heap until then: a day by default. So there are two
    heaps, and whenever a gang goes while most entries are of such, a few pass from one to the other, or are dropped.
    """

    #: Entries of gangs that are gone which are let be, beside as many as there are of gangs that are there.
    SPARE = 64
    #: Entries that are looked at for each gang that goes: more than come for one.
    _LOOKS = 3

    def __init__(self, seconds: float, clock: Clock) -> None:
        """Let gangs age in `seconds` from their creation; infinity for never."""
        self._seconds = seconds
        self._clock = clock
        self._until: dict[str, float] = {}
        self._order: list[tuple[float, str]] = []
        self._kept: list[tuple[float, str]] = []

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

    def __len__(self) -> int:
        """Count the entries, those of gangs that are gone included."""
        return len(self._order) + len(self._kept)

    def forget(self, uid: str) -> None:
        """Forget a gang that is gone."""
        self._until.pop(uid, None)
        if len(self) > 2 * len(self._until) + self.SPARE:
            self._drop_some()

    def _drop_some(self) -> None:
        """Look at some entries: a heap without its last ones is a heap."""
        if not self._order:
            self._order, self._kept = self._kept, self._order
        for _ in range(min(self._LOOKS, len(self._order))):
            entry = self._order.pop()
            if entry[1] in self._until:
                heapq.heappush(self._kept, entry)

    def ended(self, now: float) -> list[str]:
        """Return the UIDs of gangs that have become old by `now` (seconds, monotonic), each once."""
        aged = []
        for heap in (self._order, self._kept):
            while heap and heap[0][0] <= now:
                _, uid = heapq.heappop(heap)
                if self._until.pop(uid, None) is not None:
                    aged.append(uid)
        return aged

    def next_end(self) -> float | None:
        """Return when the next gang becomes old (seconds, monotonic), or None."""
        return min((heap[0][0] for heap in (self._order, self._kept) if heap), default=None)
