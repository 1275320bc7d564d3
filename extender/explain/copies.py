"""Copies of what all questions rest on, the nodes and the line of gangs that wait, which they share until it moves."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from extender.admission.admission import Admission
from extender.admission.cycle import Entry, line_up
from extender.cluster.tree import Tree
from extender.cluster.whatif import Replica
from extender.placement.capacityview import CapacityViews, RowsOf
from extender.queues.order import Queues, Walk


@dataclass(frozen=True, slots=True)
class NodeCopy:
    """The nodes as they were, and what is free on them, for one thread at a time.

    `generation` is that of the live table then, `tree` the domains that the nodes are in.
    """

    table: Replica
    views: CapacityViews
    generation: int
    tree: Tree


class WaitingLine:
    """Who wants nodes or quota, in the order of the queue; lined up when first asked, in whatever thread."""

    def __init__(self, walk: Walk[Entry]) -> None:
        """Line up those whom `walk` comes by, once it is asked for."""
        self._walk = walk

    @cached_property
    def entries(self) -> list[Entry]:
        """Return who stands in line, the first first. Complexity: O(gangs that wait)."""
        return line_up(self._walk)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {each.gang.uid: place for place, each in reversed([*enumerate(self.entries)])}

    @cached_property
    def _queues(self) -> Mapping[str, list[int]]:
        found: defaultdict[str, list[int]] = defaultdict(list)
        for place, each in enumerate(self.entries):
            found[each.queue].append(place)
        return found

    def stand(self, uid: str, queue: str, gone: Collection[str], most: int) -> LinePlace:
        """Return where a gang stands among those that wait, in all queues and in its own; with the last `most` ahead.

        `gone` are the UIDs of gangs that have their nodes promised: they wait for none. Complexity: O(gone log gone).
        """
        places, own = self._places, self._queues.get(queue, ())
        left = sorted(places[each] for each in gone if each in places)
        left_of_own = [each for each in left if self.entries[each].queue == queue]
        of, place = len(self.entries) - len(left), None if uid in gone else places.get(uid)
        of_own = len(own) - len(left_of_own)
        if place is None:
            return LinePlace(None, of, None, of_own, [])
        before, ahead, away = place, list[Entry](), set(left)
        while before and len(ahead) < most:
            before -= 1
            if before not in away:
                ahead.append(self.entries[before])
        in_own = bisect_left(own, place) + 1 - bisect_left(left_of_own, place)
        return LinePlace(place + 1 - bisect_left(left, place), of, in_own, of_own, ahead[::-1])


@dataclass(frozen=True, slots=True)
class LinePlace:
    """The place of a gang, from 1 on, None for one that does not stand in line; of how many; who is just ahead.

    `in_own` and `of_own` are those in the line of its own queue.
    """

    place: int | None
    of: int
    in_own: int | None
    of_own: int
    ahead: list[Entry]


class Copies:
    """Make copies, each once for as long as what is copied stays as it is.

    Those who share them read them in one thread, and try nothing on them that is not taken back.
    """

    def __init__(self) -> None:
        self._outdated: list[object] = []
        self._nodes: NodeCopy | None = None
        self._line: tuple[tuple[Queues[Entry], int, int, Mapping[str, tuple[object, ...]]], WaitingLine] | None = None

    def nodes(self, admission: Admission) -> NodeCopy:
        """Return a copy of the nodes as they are. Complexity: O(nodes + claims) copied in bulk, if any has moved."""
        model, known = admission.model, self._nodes
        if known is None or known.generation != model.table.generation or known.tree is not model.tree:
            self._outdated.append(known)
            table = Replica(model.table)
            known = NodeCopy(table, _views(admission, table, None), model.table.generation, model.tree)
            self._nodes = known
        return known

    def line(self, admission: Admission) -> WaitingLine:
        """Return who waits, as things stand. Complexity: O(queues), and O(gangs) copied in bulk if any came or went."""
        queues, turn = admission.tenure.decider.queues, admission.sharing.turn
        turns = {name: turn(name) for name in queues.names} if len(queues.names) > 1 else {}
        key = queues, queues.changes, admission.passes, turns
        if self._line is not None and self._line[0] == key and not admission.deciding:
            return self._line[1]
        self._outdated.append(self._line)
        line = WaitingLine(queues.in_turn(turns.__getitem__))
        # A pass that is under way may change who borrows, and who is deferred.
        self._line = None if admission.deciding else (key, line)
        return line

    def outdated(self) -> list[object]:
        """Return the copies that have been replaced, and let go of them: to free them takes half a millisecond."""
        outdated, self._outdated = self._outdated, []
        return outdated


def views_of(admission: Admission, nodes: NodeCopy, rejected: RowsOf | None) -> CapacityViews:
    """Return what is free on copied nodes, of which kubelets rejected pods of some shapes lately."""
    return nodes.views if rejected is None else _views(admission, nodes.table, rejected)


def _views(admission: Admission, table: Replica, rejected: RowsOf | None) -> CapacityViews:
    return CapacityViews(table, admission.model.tree, admission.eligibility.on(table), rejected)
