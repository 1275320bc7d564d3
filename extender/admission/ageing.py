"""Gangs that have waited for so long that they go before others."""

from __future__ import annotations

import heapq

from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.domain.timestamp import read_timestamp


class Ageing:
    """Say which gangs are older than they should get, and when the next one will be.

    Whoever is goes before all that are not: nothing waits for ever behind what is more important, or has less of its
    share. It has nobody evicted for that.
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
