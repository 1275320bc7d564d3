"""Evictions that were ordered: which may have been made, and which cannot be taken back any more."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from extender.clock import Clock
from extender.objects.pod import Pod

#: How long an eviction may take to be seen (seconds). Events are late by milliseconds, by seconds where the API server
#: is busy; a victim that was spared after all keeps its gang from giving up another member for so long.
_EXPECTED_SECONDS: Final = 10.0


class AllowedEvictions:
    """Remember for a while which pods may have been evicted.

    kube-scheduler sees a deletion in its own time. If it is ahead of Muster, it finds that its pod is refused the
    room that it has just made, and comes with other victims: each alone could be spared, all of them could not.
    """

    def __init__(self, clock: Clock) -> None:
        """Start without evictions."""
        self._clock = clock
        self._until: dict[str, float] = {}

    def allow(self, uids: Iterable[str]) -> None:
        """Take in that these pods may be evicted from now on."""
        self._until |= dict.fromkeys(uids, self._clock.monotonic() + _EXPECTED_SECONDS)

    def expected(self) -> Collection[str]:
        """Return the UIDs of pods that may have been evicted lately."""
        now = self._clock.monotonic()
        self._until = {uid: until for uid, until in self._until.items() if now < until}
        return self._until.keys()


class SentEvictions:
    """Know which evictions are on their way to the API server: such a pod leaves, although it is spared meanwhile.

    Gangs that count on its leaving go on doing so, until it is certain that it stays.

    Attributes:
        spared: spared pods that leave nevertheless, by UID, and until when that is believed (seconds, monotonic).
    """

    def __init__(self, clock: Clock) -> None:
        """Start without evictions."""
        self._clock = clock
        self._sent: dict[str, float] = {}
        self.spared: dict[str, tuple[Pod, float]] = {}

    def send(self, uid: str) -> None:
        """Take in that the eviction of a pod is being written."""
        now = self._clock.monotonic()
        self._sent = {each: until for each, until in self._sent.items() if now < until}
        self._sent[uid] = now + _EXPECTED_SECONDS

    def turn_back(self, uid: str) -> None:
        """Take in that the API server has not evicted a pod: a spared one stays."""
        self._sent.pop(uid, None)
        if (spared := self.spared.get(uid)) is not None:
            self.spared[uid] = spared[0], -math.inf

    def spare(self, pods: Iterable[Pod]) -> set[str]:
        """Take in that pods may stay; return the UIDs of those that do, as their eviction is not on its way."""
        now, staying = self._clock.monotonic(), set()
        for pod in pods:
            if (until := self._sent.get(pod.uid, now)) > now:
                self.spared[pod.uid] = pod, until
            else:
                staying.add(pod.uid)
        return staying

    def leaving(self) -> Iterator[Pod]:
        """Iterate over the spared pods that leave nevertheless."""
        return (pod for pod, _ in self.spared.values())

    def settle(self, is_gone: Callable[[Pod], bool]) -> set[str]:
        """Return the UIDs of spared pods that stay, as time has shown; forget those and such as are gone."""
        now, staying = self._clock.monotonic(), set()
        for uid, (pod, until) in list(self.spared.items()):
            gone = is_gone(pod)
            if gone or until <= now:
                del self.spared[uid]
            if until <= now and not gone:
                staying.add(uid)
        return staying

    def next_turn(self) -> float:
        """Return when it is certain of the next spared pod that it stays (seconds, monotonic), inf for never."""
        return min((until for _, until in self.spared.values()), default=math.inf)

    def clear(self) -> None:
        """Leave what is on its way to the next leader."""
        self._sent.clear()
        self.spared.clear()
