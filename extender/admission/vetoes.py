"""Nodes that kube-scheduler refused although Muster thought they would do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cachetools import LRUCache

from extender.cluster.table import NodeTable
from extender.domain.pod import Shape
from extender.placement.ground import Eligible, without


@dataclass(frozen=True, slots=True)
class _Veto:
    """How often members of the gang had passed before the veto was learned, and when it ends (seconds, monotonic)."""

    learned: int
    until: float


class Vetoes:
    """Remember for a while which nodes a gang's pods of some shape should not be sent to.

    A shape leaves out what Muster does not model (pod affinity, spread, volumes), and just that is what kube-scheduler
    refused a node for: so a veto counts for the gang that met with it, and not for others of the same shape.

    What is refused may depend on where the gang's other members are, as topology spread does. A veto that was learned
    before another member passed kube-scheduler's filters is outdated: it holds until the gang finds no place with it.

    Advisory: a forgotten veto costs one more refusal, so of too many the oldest are dropped. A veto that has run out
    holds until `ended` reports it: a pass must know whose vetoes end, to judge them anew.
    """

    #: Vetoes remembered: 5,000 nodes refused to 20 gangs.
    CAPACITY = 100_000
    #: Gangs whose progress is remembered. One that falls out keeps outdated vetoes until they end.
    GANGS = 10_000

    def __init__(self, seconds: float, timer: Callable[[], float]) -> None:
        """Remember each veto for `seconds` by `timer` (seconds, monotonic)."""
        self._vetoes: dict[str, dict[tuple[Shape, str], _Veto]] = {}  # gang UID -> shape and node -> veto
        self._passed: LRUCache[str, int] = LRUCache(self.GANGS)  # gang UID -> how often members have passed
        self._ends: deque[tuple[str, tuple[Shape, str], _Veto]] = deque()  # those replaced since included
        self._dropped: list[str] = []  # gang UIDs of vetoes that ended before their time and were not reported yet
        self._seconds = seconds
        self._timer = timer

    def __len__(self) -> int:
        """Count the vetoes in force."""
        return sum(map(len, self._vetoes.values()))

    def add(self, gang_uid: str, shape: Shape, node: str) -> None:
        """Keep the gang's pods of `shape` away from `node` from now on."""
        veto = _Veto(self._passed.get(gang_uid, 0), self._timer() + self._seconds)
        self._vetoes.setdefault(gang_uid, {})[shape, node] = veto
        self._ends.append((gang_uid, (shape, node), veto))
        if len(self._ends) > self.CAPACITY:
            self._dropped.append(self._end_oldest())

    def passed(self, gang_uid: str) -> bool:
        """Take in that a member of the gang is passing kube-scheduler's filters: what was refused before may do now.

        Return whether that outdates anything.
        """
        if self._vetoes:
            self._passed[gang_uid] = self._passed.get(gang_uid, 0) + 1
        return gang_uid in self._vetoes

    def lift_outdated(self, gang_uid: str) -> bool:
        """Forget the gang's vetoes that were learned before a member passed; return whether there were any."""
        own = self._vetoes.get(gang_uid)
        if own is None:
            return False
        passed = self._passed.get(gang_uid, 0)
        outdated = [key for key, veto in own.items() if veto.learned < passed]
        for key in outdated:
            self._forget(gang_uid, key)
        return bool(outdated)

    def next_end(self) -> float | None:
        """Return when the next veto ends that `ended` has not reported yet, or None."""
        return self._ends[0][2].until if self._ends else None

    def ended(self, now: float) -> list[str]:
        """Let vetoes end whose time is over; return the UIDs of the gangs that had them."""
        ended, self._dropped = self._dropped, []
        while self._ends and self._ends[0][2].until <= now:
            ended.append(self._end_oldest())
        return ended

    def of_gang(self, gang_uid: str, table: NodeTable) -> Mapping[Shape, list[int]]:
        """Return the gang's vetoes as rows of `table`."""
        rows: dict[Shape, list[int]] = {}
        for shape, node in self._vetoes.get(gang_uid, ()):
            row = table.row(node)
            if row is not None:
                rows.setdefault(shape, []).append(row)
        return rows

    def _end_oldest(self) -> str:
        gang_uid, key, veto = self._ends.popleft()
        if self._vetoes.get(gang_uid, {}).get(key) is veto:  # not lifted or learned anew meanwhile
            self._forget(gang_uid, key)
        return gang_uid

    def _forget(self, gang_uid: str, key: tuple[Shape, str]) -> None:
        own = self._vetoes[gang_uid]
        del own[key]
        if not own:
            del self._vetoes[gang_uid]


def leave_out(admitted: Eligible, vetoed: Mapping[Shape, list[int]]) -> Eligible:
    """Return `admitted` without one gang's vetoed rows, or `admitted` itself if there are none."""
    if not vetoed:
        return admitted
    return without(admitted, lambda shape: vetoed.get(shape, ()))
