"""Evictions that were allowed and may not have been seen yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from extender.clock import Clock

#: How long an eviction may take to be heard of (seconds). News is late by milliseconds, by seconds where the API server
#: is busy; a victim that was spared after all keeps its gang from giving up another member for so long.
_EXPECTED_SECONDS: Final = 10.0


class AllowedEvictions:
    """Remember for a while who may have been evicted.

    kube-scheduler hears of a deletion in its own time. If it is ahead of Muster, it finds that its pod is refused the
    room that it has just made, and comes with other victims: each alone could be spared, all of them could not.
    """

    def __init__(self, clock: Clock) -> None:
        """Remember nobody yet."""
        self._clock = clock
        self._until: dict[str, float] = {}

    def allow(self, uids: Iterable[str]) -> None:
        """Take in that these pods may be evicted from now on."""
        self._until |= dict.fromkeys(uids, self._clock.monotonic() + _EXPECTED_SECONDS)

    def expected(self) -> Collection[str]:
        """Return the UIDs of those who may have been evicted lately."""
        now = self._clock.monotonic()
        self._until = {uid: until for uid, until in self._until.items() if now < until}
        return self._until.keys()
