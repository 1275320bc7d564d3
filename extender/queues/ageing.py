"""Which gangs have waited for so long that they go first."""

from __future__ import annotations

import heapq

from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.objects.meta import read_timestamp


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
