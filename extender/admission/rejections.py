"""Nodes whose kubelet turned away a pod that Muster, or another scheduler, had sent there."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from extender.cluster.table import NodeTable
from extender.domain.pod import Shape
from extender.domain.selectors import Selector
from extender.placement.ground import Eligible, without

#: Longest time for which a node is left out at a stretch (seconds): a pod that nothing else can take is tried there
#: again every five minutes at most.
LONGEST_SECONDS = 300.0
#: How long repetitions are remembered after a node was last left out (seconds).
MEMORY_SECONDS = 600.0
#: Enough to reach the longest time from any first one that makes sense.
_MOST_DOUBLINGS = 32


@dataclass(slots=True)
class _Rejection:
    """How often in a row pods were turned away, when last, and until when none is sent (seconds, monotonic).

    `over` says that the time has passed and was reported: what is left is the memory of how often.
    """

    times: int
    last: float
    until: float
    over: bool = False


class Rejections:
    """Remember for a while on which nodes a kubelet refused to run pods that ask for the same.

    A pod that its kubelet turns away has failed, and its controller makes a new one. Whoever sends that to the same
    node again has made a loop that runs as fast as the controller does. Unlike what kube-scheduler refuses, this does
    not depend on whose pod it is, nor on where its gang is: a rejection counts for all pods that ask for the same.

    - After the first rejection the node is left out for `seconds`, and twice as long after each further one, up to
      LONGEST_SECONDS. Pods that were on their way when the first was turned away count as one with it.
    - When something on the node ends or changes, the kubelet may think otherwise: the node is tried again, but not
      before `seconds` have passed since it last refused, so that pods which come and go there make no loop either.
    - How often it was is forgotten MEMORY_SECONDS after the node was last left out, and with the node.

    Advisory: a forgotten rejection costs one failed pod more, so of too many the oldest are dropped. One that has run
    out holds until `ended` reports it: a pass must know what it has to judge anew.
    """

    #: Rejections remembered.
    CAPACITY = 10_000

    def __init__(self, seconds: float, timer: Callable[[], float]) -> None:
        """Leave a node out for `seconds` at first, by `timer` (seconds, monotonic)."""
        self._rejections: dict[str, dict[Shape, _Rejection]] = {}  # node -> what is asked for -> rejection
        self._order: dict[tuple[str, Shape], None] = {}  # in the order in which they began to be left out
        self._ends: list[tuple[float, int, str, Shape]] = []  # a heap; outdated entries included
        self._serial = 0
        self._seconds = seconds
        self._timer = timer

    def __len__(self) -> int:
        """Count the pairs of a node and what is asked for that are in force."""
        return sum(not rejection.over for own in self._rejections.values() for rejection in own.values())

    def add(self, shape: Shape, node: str) -> float | None:
        """Take in that the kubelet of `node` turned away a pod of `shape`.

        Return for how many seconds the node is left out now, None if it was left out already.
        """
        asked, now = _asked(shape), self._timer()
        self._forget_old(now)
        rejection = self._rejections.get(node, {}).get(asked)
        if rejection is not None and not rejection.over:
            rejection.last = now
            self._end_at(max(rejection.until, now + self._seconds), node, asked)
            return None
        times = 0
        if rejection is not None:
            times = rejection.times if now < rejection.until + MEMORY_SECONDS else 0
            self._drop(node, asked)
        while len(self._order) >= self.CAPACITY:
            self._drop(*next(iter(self._order)))
        self._order[node, asked] = None
        rejection = self._rejections.setdefault(node, {})[asked] = _Rejection(times + 1, now, -math.inf)
        doublings = min(rejection.times - 1, _MOST_DOUBLINGS)
        pause = min(math.ldexp(self._seconds, doublings), LONGEST_SECONDS)
        self._end_at(now + pause, node, asked)
        return pause

    def eased(self, node: str) -> None:
        """Take in that something on `node` has ended or changed: it is tried again soon."""
        for asked, rejection in self._rejections.get(node, {}).items():
            sooner = max(rejection.last + self._seconds, self._timer())
            if not rejection.over:
                self._end_at(min(sooner, rejection.until), node, asked)

    def forget_node(self, node: str) -> None:
        """Take in that `node` is gone; one of its name is another."""
        for asked in self._rejections.pop(node, {}):
            del self._order[node, asked]

    def next_end(self) -> float | None:
        """Return when the next rejection ends that `ended` has not reported yet, or None."""
        while self._ends and self._current(self._ends[0]) is None:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def ended(self, now: float) -> list[str]:
        """Let rejections end whose time is over; return their nodes."""
        nodes = []
        while (end := self.next_end()) is not None and end <= now:
            entry = heapq.heappop(self._ends)
            rejection = self._current(entry)
            if rejection is not None:
                rejection.over = True
                nodes.append(entry[2])
        return nodes

    def nodes(self, shape: Shape) -> list[str]:
        """Return the nodes to which no pod of `shape` is to be sent now."""
        if not self._rejections:
            return []
        asked = _asked(shape)
        return [node for node, own in self._rejections.items() if asked in own and not own[asked].over]

    def rows(self, shape: Shape, table: NodeTable) -> list[int]:
        """Return the rows of `nodes`, as far as these are there."""
        return [row for node in self.nodes(shape) if (row := table.row(node)) is not None]

    def leave_out(self, admitted: Eligible, table: NodeTable) -> Eligible:
        """Return `admitted` without the nodes to which no pod of a shape is to be sent; itself if there are none."""
        if not len(self):
            return admitted
        return without(admitted, lambda shape: self.rows(shape, table))

    def _end_at(self, until: float, node: str, asked: Shape) -> None:
        rejection = self._rejections[node][asked]
        if until != rejection.until:
            rejection.until = until
            self._serial += 1
            heapq.heappush(self._ends, (until, self._serial, node, asked))

    def _current(self, entry: tuple[float, int, str, Shape]) -> _Rejection | None:
        """Return the rejection that an entry of the heap is about, None if it has another end by now."""
        until, _, node, asked = entry
        rejection = self._rejections.get(node, {}).get(asked)
        return rejection if rejection is not None and not rejection.over and rejection.until == until else None

    def _forget_old(self, now: float) -> None:
        """Forget the oldest, as far as nobody has been turned away there for long."""
        while self._order:
            node, asked = next(iter(self._order))
            rejection = self._rejections[node][asked]
            if not rejection.over or now < rejection.until + MEMORY_SECONDS:
                return
            self._drop(node, asked)

    def _drop(self, node: str, asked: Shape) -> None:
        del self._order[node, asked]
        own = self._rejections[node]
        del own[asked]
        if not own:
            del self._rejections[node]


def _asked(shape: Shape) -> Shape:
    """Return what of a shape is the kubelet's affair: selectors and tolerations are not."""
    return replace(shape, selector=Selector(), tolerations=())
