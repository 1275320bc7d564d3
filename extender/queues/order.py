"""The order in which gangs are evaluated, and which of them wait."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from operator import attrgetter, itemgetter
from typing import Generic, NamedTuple, Protocol, TypeVar

from extender.cluster.gangs import Gang
from extender.objects.podgroup import GroupRef
from extender.queues.parked import ParkedLines


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

    Those of a kind are never urgent. The line of a kind may be parked with others that wait for the same: a walk may
    go by all of these at once. Whenever one of a kind comes or goes, its line is no longer parked.

    Attributes:
        changes: how often an entry has come or gone.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._entries: dict[GroupRef, _Entry] = {}
        self._lines: dict[str, dict[Hashable | None, list[_Entry]]] = {}
        self._parked: dict[str, list[ParkedLines[_Entry]]] = {}
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
        lot = self._where_parked(queue, kind)
        return self._lines.get(queue, {}).get(kind, ()) if lot is None else lot.line(kind)

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
        if not self._lines[entry.queue] and entry.queue not in self._parked:
            del self._lines[entry.queue]

    def park(self, entry: _Entry, terms: object, asks: Mapping[str, int]) -> None:
        """Let the line of an entry's kind be parked behind all that wait on the same `terms`.

        Each of the line `asks` for so much of each resource.
        """
        self.unpark_line(entry)
        lot = self.parked_on(entry.queue, terms)
        if lot is None:
            lot = ParkedLines[_Entry](terms)
            self._parked.setdefault(entry.queue, []).append(lot)
        lot.add(entry.kind, self._lines[entry.queue].pop(entry.kind), asks)

    def parked_on(self, queue: str, terms: object) -> ParkedLines[_Entry] | None:
        """Return the lines of a queue that wait on `terms`, None where there are none."""
        return next((each for each in self._parked.get(queue, ()) if each.terms == terms), None)

    def unpark_line(self, entry: _Entry) -> None:
        """Let a walk come by the line of an entry's kind again."""
        self._unpark_kind(entry.queue, entry.kind)

    def unpark(self, queue: str, lot: ParkedLines[_Entry], behind: Position | None = None) -> list[list[_Entry]]:
        """Let a walk come by each of some parked lines again, only by those `behind` a place if one is given.

        Return these lines. Complexity: O(parked lines).
        """
        kinds = [line[0].kind for line in lot.lines if behind is None or line[0].position > behind]
        return self._take_out(queue, lot, kinds)

    def _take_out(self, queue: str, lot: ParkedLines[_Entry], kinds: Collection[Hashable]) -> list[list[_Entry]]:
        lines = {kind: lot.take(kind) for kind in kinds}
        self._lines[queue].update(lines)
        if not len(lot):
            self._parked[queue].remove(lot)
        if not self._parked[queue]:
            del self._parked[queue]
        return list(lines.values())

    def _unpark_kind(self, queue: str, kind: Hashable) -> None:
        if (lot := self._where_parked(queue, kind)) is not None:
            self._take_out(queue, lot, (kind,))

    def _where_parked(self, queue: str, kind: Hashable) -> ParkedLines[_Entry] | None:
        """Return the parked lines that the line of a kind is among, None where it is not parked."""
        return next((lot for lot in self._parked.get(queue, ()) if kind in lot), None)

    def _own(self, queue: str, kind: Hashable) -> list[_Entry]:
        """Return a line to change: a copy of it if a walk may still go over it."""
        self._unpark_kind(queue, kind)
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
        self._parked.clear()

    def in_turn(self, turn: Callable[[str], tuple[object, ...]]) -> Walk[_Entry]:
        """Walk over the entries in the order in which they are to be evaluated, as they stand now.

        Those that are urgent come first. Then the first of each queue stand against each other: the queue whose `turn`
        comes first has the next, of queues that come at once the one whose entry does. In the same way those go after
        them who are deferred on the way. Complexity: O(kinds), and O(entries) that are like no other.
        """
        urgent, rest = self._fronts()
        for name, lots in self._parked.items():
            for lot in lots:
                self._lent.update((name, line[0].kind) for line in lot.lines if len(line) > 1)
                rest.setdefault(name, []).extend(_fronts_of(lot.lines))
        return Walk(urgent, rest, turn)

    def past_parked(self, turn: Callable[[str], tuple[object, ...]]) -> Walk[_Entry]:
        """Walk over the entries in turn; by those that are parked together it comes once, with the first of them.

        Complexity: O(kinds that are not parked), and O(entries that are like no other).
        """
        urgent, rest = self._fronts()
        for name, lots in self._parked.items():
            rest.setdefault(name, []).extend(_Front([lot.first], parked=lot) for lot in lots)
        return Walk(urgent, rest, turn)

    def _fronts(self) -> tuple[list[_Entry], dict[str, list[_Front[_Entry]]]]:
        """Return those that are urgent, and by queue the lines of the others that are not parked."""
        urgent: list[_Entry] = []
        rest: dict[str, list[_Front[_Entry]]] = {}
        for name, lines in self._lines.items():
            apart = lines.get(None, [])
            index = bisect_left(apart, _FIRST_PATIENT, key=_by_position) if apart else 0
            urgent += apart[:index] if index else ()
            alike = {kind: line for kind, line in lines.items() if kind is not None}
            self._lent.update((name, kind) for kind, line in alike.items() if len(line) > 1)
            if fronts := _fronts_of(alike.values(), apart[index:]):
                rest[name] = fronts
        return sorted(urgent, key=_by_position), rest


@dataclass(slots=True, eq=False)
class _Front(Generic[_Entry]):
    """How far a walk has come in a line of entries that are `alike`, or of such that are not.

    Of lines that are `parked` together the first entry stands for all.
    """

    line: list[_Entry]
    at: int = 0
    alike: bool = False
    parked: ParkedLines[_Entry] | None = None

    @property
    def is_left(self) -> bool:
        """Tell whether the walk has not come to its end."""
        return self.at < len(self.line)

    def take(self) -> _Front[_Entry]:
        """Return the rest of the line; the walk comes by it here no more."""
        rest, self.at = _Front(self.line, self.at, self.alike, self.parked), len(self.line)
        return rest


def _fronts_of(lines: Iterable[list[_Entry]], apart: Iterable[_Entry] = ()) -> list[_Front[_Entry]]:
    """Return lines of one kind each, and entries `apart` that are like no other, as a walk goes through them."""
    single, fronts = list(apart), []
    for line in lines:
        if len(line) > 1:
            fronts.append(_Front(line, alike=True))
        else:
            single.append(line[0])
    if single:  # thousands may each be of a kind of its own
        single.sort(key=_by_position)
        fronts.append(_Front(single))
    return fronts


class Walk(Generic[_Entry]):
    """Go through entries in turn, whose turns may change on the way.

    Going on to the next costs O(log kinds) as long as no turn changes.

    Attributes:
        is_last: whether those come now who were deferred.
        turns: how many turns have begun; those of a turn are of queues that come at once.
    """

    def __init__(
        self, urgent: list[_Entry], rest: dict[str, list[_Front[_Entry]]], turn: Callable[[str], tuple[object, ...]]
    ) -> None:
        """Begin with `urgent`, then go through the lines of `rest`, which are sorted, by `turn`."""
        self.is_last = False
        self.turns = 0
        self._urgent = self._now = _Front(urgent)  # `_now` is what the last entry was taken from
        self._rest = rest
        self._turn = turn
        self._turns: list[list[str]] | None = None  # queues, those together that come at once; None before the first
        self._heap: list[tuple[Position, int, _Front[_Entry]]] = []  # of the queues whose turn it is
        self._deferred: dict[str, list[_Front[_Entry]]] = {}
        self._alone: dict[str, list[_Entry]] = {}
        self._numbers = count()  # of fronts, whose entries may have equal positions

    @property
    def parked(self) -> ParkedLines[_Entry] | None:
        """Return the lines for which the last entry stands, None if it stands for itself."""
        return self._now.parked

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

    def join_lines(self, queue: str, lines: Iterable[list[_Entry]]) -> None:
        """Come by lines of a queue that are parked no longer: at once where it was the turn of those before them."""
        fronts = _fronts_of(lines)
        if queue in self._deferred and queue not in self._rest:
            self._deferred[queue] += fronts
            return
        self._rest.setdefault(queue, []).extend(fronts)
        if self._turns is None:  # it is not yet the turn of any queue
            return
        self._turns = self._turns or [[]]
        if not any(queue in names for names in self._turns):
            self._turns[0].append(queue)
        if queue in self._turns[0]:
            self._push(fronts)

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
        self.turns += 1
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
        self._heap = []
        self._push(fronts)

    def _push(self, fronts: Iterable[_Front[_Entry]]) -> None:
        """Let more lines of the queues whose turn it is stand against each other."""
        self._heap += [(front.line[front.at].position, next(self._numbers), front) for front in fronts]
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
