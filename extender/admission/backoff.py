"""Pauses that grow, so that gangs which keep each other out fall out of step."""

from __future__ import annotations

import hashlib
import heapq
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pause:
    """How often a gang's reservation has failed, and until when it waits (seconds, monotonic)."""

    attempts: int
    until: float


class Backoff:
    """Remember the pause of each gang by the UID of its present life."""

    def __init__(self, initial: float, maximum: float) -> None:
        """Pause for `initial` seconds at first, twice as long every time, up to `maximum`."""
        self._initial = initial
        self._maximum = maximum
        self._pauses: dict[str, Pause] = {}
        self._ends: list[tuple[float, str]] = []

    def fail(self, gang_uid: str, now: float) -> Pause:
        """Lengthen a gang's pause: half of it fixed, half jitter.

        The jitter comes from a hash of gang and attempt: different for every gang, the same in every replay.
        """
        attempts = self.attempts(gang_uid) + 1
        ceiling = min(self._maximum, self._initial * 2.0 ** (attempts - 1))
        digest = hashlib.blake2b(f"{gang_uid}/{attempts}".encode(), digest_size=8).digest()
        jitter = int.from_bytes(digest, "big") / 2**64
        pause = self._pauses[gang_uid] = Pause(attempts, now + ceiling * (1 + jitter) / 2)
        heapq.heappush(self._ends, (pause.until, gang_uid))
        return pause

    def pause(self, gang_uid: str, now: float) -> Pause | None:
        """Return the pause that a gang is in, or None."""
        pause = self._pauses.get(gang_uid)
        return pause if pause is not None and now < pause.until else None

    def attempts(self, gang_uid: str) -> int:
        """Return how often a gang's reservation has failed."""
        pause = self._pauses.get(gang_uid)
        return 0 if pause is None else pause.attempts

    def forget(self, gang_uid: str) -> bool:
        """Start from nothing: the gang started, or this life of it ended; return whether there was anything."""
        return self._pauses.pop(gang_uid, None) is not None

    def next_end(self) -> float | None:
        """Return when the next pause ends that `ended` has not reported yet, or None."""
        return self._ends[0][0] if self._ends else None

    def ended(self, now: float) -> list[str]:
        """Return the UIDs of gangs that a pause of has ended since last asked, even if they are in another now."""
        ended = []
        while self._ends and self._ends[0][0] <= now:
            ended.append(heapq.heappop(self._ends)[1])
        return ended
