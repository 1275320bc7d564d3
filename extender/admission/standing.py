"""Whose verdict stands in the walk of a pass, which goes by them: one by one, by kinds, or by many kinds at once."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

from extender.admission.cycle import Cycle, Entry
from extender.admission.headearmarks import HeadEarmarks
from extender.admission.verdicts import ENDED_BY_ROOM, FreedRoom, VerdictKey
from extender.cluster.table import NodeTable
from extender.eviction.spares import Spares
from extender.ledger.reservations import Reservations
from extender.placement.capacityview import PodSet
from extender.queues.order import Position, Queues, Walk
from extender.queues.parked import ParkedLines
from extender.queues.sharing import NAMELESS, Sharing

#: A gang that comes again in a pass: at which generation of the node table it was judged last, and what its verdict
#: would have rested on in its turn.
Later: TypeAlias = tuple[int, Entry, VerdictKey]


@dataclass(slots=True)
class _GoneBy:
    """Parked lines of a queue that a walk went by, with the key that it had then, and in which of its turns."""

    queue: str
    lot: ParkedLines[Entry]
    key: VerdictKey
    turn: int


class StandingVerdicts:
    """Go by gangs whose verdict stands, and by those whose verdict can only have become worse, who come again later.

    Thousands of gangs may each be of a kind of its own. Lines whose verdict stands are parked once they have been told.
    In the next walk they are compared together with what has changed, and the walk comes by each only if that may help
    any of them, or if their verdicts rest on something else now. So what starts beside them does not wait for them.

    Lines that are parked rest on either of two terms. Those that would not fit if all nodes were empty wait for a
    change of a node: an integer, the generation of the last one. Those that wait for room on some node do so as long
    as what their verdicts rest on is the same, but for the generation.

    Attributes:
        passed_by: one of each kind all of which the walk went by, where there is something to tell.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what a verdict may rest on
        self,
        table: NodeTable,
        queues: Queues[Entry],
        sharing: Sharing,
        reservations: Reservations,
        heads: HeadEarmarks,
        spares: Spares,
        is_apart: Callable[[str], bool],
    ) -> None:
        """Go by gangs in `queues`; `is_apart` tells whether one, by its UID, is like no other."""
        self._table = table
        self._queues = queues
        self._sharing = sharing
        self._reservations = reservations
        self._heads = heads
        self._spares = spares
        self._is_apart = is_apart
        self.freed = FreedRoom(table)
        self.passed_by: list[Entry] = []
        self._told: list[Entry] = []  # as those of `passed_by`, but there was nothing to tell
        self._later: list[Later] = []
        self._gone_by: list[_GoneBy] = []
        self._walk: Walk[Entry] = queues.past_parked(sharing.turn)

    def begin(self) -> Walk[Entry]:
        """Begin a walk over all that are not parked."""
        self.passed_by, self._told, self._later, self._gone_by = [], [], [], []
        self._walk = self._queues.past_parked(self._sharing.turn)
        return self._walk

    def goes_by(self, entry: Entry, key: VerdictKey) -> bool:
        """Tell whether the walk goes by an entry with all of its kind, or by lines that are parked.

        An entry that stands for parked lines is gone by in any case: where any of the lines is to be looked at, the
        walk comes by each of them after that.
        """
        lot, queue = self._walk.parked, entry.queue
        if lot is None:
            return entry.head is None and self.stands_for_all(entry, key)
        if self._still_holds(lot, key) and not self._may_be_better(lot, queue):
            self._gone_by.append(_GoneBy(queue, lot, key, self._walk.turns))
        else:
            self._walk.join_lines(queue, self._queues.unpark(queue, lot))
        return True

    def keys_changed(self, cycle: Cycle, place: Position) -> None:
        """Let the walk come by parked lines behind a place whose verdicts rest on something else from there on."""
        for each in self._gone_by:
            if each.turn != self._walk.turns or self._still_holds(each.lot, cycle.verdict_key(each.queue)):
                continue
            each.turn = 0  # those before the place have had it
            self._walk.join_lines(each.queue, self._queues.unpark(each.queue, each.lot, place))

    def stands(self, entry: Entry, core: PodSet, key: VerdictKey) -> bool:
        """Tell whether a gang is passed over in its turn: its own verdict stands, or it comes again later."""
        before = entry.judged_on
        if before == key and entry.head is None and not entry.blocks:
            return True
        if before is None or before == key or not self._cannot_be_better(entry, core, before, key):
            return False
        self._later.append((before.generation, entry, key))
        self.stands_for_all(entry, before)  # for now
        return True

    def stands_for_all(self, entry: Entry, key: VerdictKey) -> bool:
        """Tell whether there is a verdict on all that are of a gang's kind; then the walk goes by those behind it."""
        shared = entry.shared
        if shared.hopeless_since == self._table.last_node_change and key.obstacle is None:
            shared.verdict_on = key
        if shared.verdict_on != key:
            return False
        if entry.kind is not None:
            to_tell = shared.untold or shared.told is not shared.wait
            (self.passed_by if to_tell else self._told).append(entry)
            self._walk.close()
        return True

    def room_may_help(self, entry: Entry, core: PodSet, since: int) -> bool:
        """Tell whether members of a gang might fit where they did not at a generation of the node table.

        Where it may start with others of its members, that is any of them.
        """
        shapes = entry.gang.wanted if core.has_others else (shape for shape, _ in core.demand.shapes)
        asks = [shape.requests for shape in shapes]
        return self.freed.may_help(asks, since, anybody=entry.queue != NAMELESS)

    def to_judge_again(self) -> Iterator[Later]:
        """Yield the gangs that were passed over without a verdict on what their turn came in, the oldest verdict first.

        Each of the parked lines is to be taken out before it is evaluated again.
        """
        gone_by = [each for each in self._gone_by if not isinstance(each.lot.terms, int)]
        parked = (self._again_of(each.lot, each.key) for each in gone_by)
        return heapq.merge(sorted(self._later, key=itemgetter(0)), *parked, key=itemgetter(0))

    @staticmethod
    def _again_of(lot: ParkedLines[Entry], key: VerdictKey) -> Iterator[Later]:
        for line in lot.lines:
            judged_at = _judged_at(line[0])
            if judged_at >= key.generation:  # as all that were parked after it
                return
            yield judged_at, line[0], key

    def park(self) -> Iterator[None]:
        """Park lines whose verdict stands, where all have been told; yield after each that was looked at."""
        for entry in (*self.passed_by, *self._told):
            if self._is_settled(entry):
                self._park(entry)
            yield

    def _is_settled(self, entry: Entry) -> bool:
        """Tell whether an entry is the first of its line, all of whom know the verdict on their kind."""
        shared = entry.shared
        if entry.kind is None or entry.blocks or shared.untold or shared.told is not shared.wait:
            return False
        return next(iter(self._queues.line(entry.queue, entry.kind)), None) is entry

    def _park(self, entry: Entry) -> None:
        """Park the line of an entry if it waits for what parked lines may wait for."""
        shared, key, core = entry.shared, entry.shared.verdict_on, entry.core
        if key is None or key.obstacle is not None or core is None:
            return
        terms: object = self._table.last_node_change
        if shared.hopeless_since != terms:
            terms = key[1:]
            lot = self._queues.parked_on(entry.queue, terms)
            # Those behind the first of a lot were judged later than that: it is what they are compared with.
            is_newest = lot is None or _judged_at(lot.newest) <= key.generation
            if entry.judged_on != key or not is_newest or not self._waits_for_room(entry):
                return
        (shape, _), *_ = core.demand.shapes
        self._queues.park(entry, terms, dict(shape.requests))

    def _still_holds(self, lot: ParkedLines[Entry], key: VerdictKey) -> bool:
        """Tell whether verdicts of parked lines rest on what they would rest on now, but for the generation."""
        if key.obstacle is not None:
            return False
        return lot.terms == (self._table.last_node_change if isinstance(lot.terms, int) else key[1:])

    def _may_be_better(self, lot: ParkedLines[Entry], queue: str) -> bool:
        """Tell whether any of some parked lines might have a place now."""
        if isinstance(lot.terms, int):
            return False
        since = _judged_at(lot.oldest)
        return self._has_spares or self.freed.may_help([lot.least.items()], since, anybody=queue != NAMELESS)

    @property
    def _has_spares(self) -> bool:
        return bool(self._sharing.sparing or self._spares.counts)

    def _waits_for_room(self, entry: Entry) -> bool:
        """Tell whether nothing but more room helps a gang, which has no node and blocks no other."""
        gang = entry.gang
        if entry.is_urgent or entry.blocks or entry.shared.borrows:
            return False
        if gang.unplaced_count < len(gang.members) or self._is_apart(gang.uid):
            return False
        wait = self._reservations.waits.get(gang.uid)
        return wait is not None and wait.reason in ENDED_BY_ROOM

    def _cannot_be_better(self, entry: Entry, core: PodSet, before: VerdictKey, key: VerdictKey) -> bool:
        """Tell whether a gang has no place for certain, as it had none `before` and nothing could help it since."""
        if entry.head is not None and not self._heads.stands(entry.head):
            return False
        if key.obstacle is not None or before[1:] != key[1:] or self._has_spares or not self._waits_for_room(entry):
            return False
        return not self.room_may_help(entry, core, before.generation)


def _judged_at(entry: Entry) -> int:
    """Return at which generation of the node table the verdict on an entry's kind was given."""
    key = entry.shared.verdict_on
    return -1 if key is None else key.generation
