"""Who lost the time: how long gangs waited, by the reason that held meanwhile, and which GPUs stood idle, reserved.

Everything is an integral of a step function over time: a value is charged for exactly as long as it held. The values
change where the controller carries out what the admission has decided, in the same turn of the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from extender.admission.admission import Admission
from extender.cluster.gangs import Gang
from extender.domain.membership import GroupRef
from extender.domain.reason import Reason
from extender.domain.requests import count_gpus


class Area:
    """The area under a step function of time."""

    __slots__ = ("_area", "_since", "value")

    def __init__(self, now: float) -> None:
        """Start with the value zero at `now` (seconds, monotonic)."""
        self.value = 0
        self._since = now
        self._area = 0.0

    def add(self, change: int, now: float) -> None:
        """Change the value by so much from `now` on; until then it was what it was."""
        self._area += self.value * (now - self._since)
        self._since = now
        self.value += change

    def take(self, now: float) -> float:
        """Return the area since this was last asked, up to `now`."""
        self.add(0, now)
        area, self._area = self._area, 0.0
        return area


@dataclass(frozen=True, slots=True)
class Lost:
    """What was lost in a stretch of time.

    `gang_seconds` and `gpu_seconds` are what gangs waited, by reason: each gang counts once in the first, and in the
    second with the GPUs that its members without a promised node ask for. `reserved_gpu_seconds` is what was promised
    to pods that were not bound yet.
    """

    gang_seconds: Mapping[Reason, float]
    gpu_seconds: Mapping[Reason, float]
    reserved_gpu_seconds: float


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A gang that waits: why, for how many GPUs, and since when without a break (seconds, monotonic)."""

    reason: Reason
    gpus: int
    since: float


class LostTime:
    """Charge the time that gangs wait to the reason that holds meanwhile, and reserved GPUs to the reservations.

    Times are in seconds of the monotonic clock, and never go back. Each change costs the same, however many gangs wait.
    """

    def __init__(self, now: float) -> None:
        """Start at `now`, with nobody waiting and nothing reserved."""
        self._waiting: dict[GroupRef, _Waiting] = {}  # who began to wait first is first
        self._gangs: dict[Reason, Area] = {}
        self._gpus: dict[Reason, Area] = {}
        self._reserved = Area(now)

    def wait(self, gang: GroupRef, reason: Reason | None, gpus: int, now: float) -> None:
        """Take in why a gang waits from `now` on, and for how many GPUs; None: it does not wait."""
        before = self._waiting.get(gang)
        if before is not None:
            if (before.reason, before.gpus) == (reason, gpus):
                return
            self._charge(before.reason, -1, -before.gpus, now)
        if reason is None:
            self._waiting.pop(gang, None)
            return
        self._waiting[gang] = _Waiting(reason, gpus, now if before is None else before.since)
        self._charge(reason, 1, gpus, now)

    def reserve(self, gpus: int, now: float) -> None:
        """Take in how many GPUs are reserved from `now` on, and not bound."""
        if gpus != self._reserved.value:
            self._reserved.add(gpus - self._reserved.value, now)

    def clear(self, now: float) -> None:
        """Take in that from `now` on nobody is known to wait, and nothing reserved: somebody else decides."""
        for gang in list(self._waiting):
            self.wait(gang, None, 0, now)
        self.reserve(0, now)

    def take(self, now: float) -> Lost:
        """Return what was lost since this was last asked, up to `now`. Complexity: O(reasons)."""
        return Lost(
            {reason: area.take(now) for reason, area in self._gangs.items()},
            {reason: area.take(now) for reason, area in self._gpus.items()},
            self._reserved.take(now),
        )

    def longest(self, now: float) -> dict[Reason, float]:
        """Return how long the gang has waited (seconds) that has waited longest, of those with each reason.

        That is its whole wait without a break, whatever the reasons before this one were. Complexity: O(waiting gangs),
        and mostly far less: they are kept in the order in which they began to wait.
        """
        reasons = sum(area.value > 0 for area in self._gangs.values())
        oldest: dict[Reason, float] = {}
        for waiting in self._waiting.values():
            if len(oldest) == reasons:
                break
            oldest.setdefault(waiting.reason, now - waiting.since)
        return oldest

    def _charge(self, reason: Reason, gangs: int, gpus: int, now: float) -> None:
        if reason not in self._gangs:
            self._gangs[reason], self._gpus[reason] = Area(now), Area(now)
        self._gangs[reason].add(gangs, now)
        self._gpus[reason].add(gpus, now)


def follow(lost: LostTime, admission: Admission, changed: Iterable[GroupRef], now: float) -> None:
    """Take in how the gangs stand that changed, and what is reserved, from `now` on (seconds, monotonic)."""
    waits = admission.reservations.waits
    for ref in changed:
        gang = admission.model.gangs.get(ref)
        wait = None if gang is None else waits.get(gang.uid)
        if gang is None or wait is None:
            lost.wait(ref, None, 0, now)
        else:
            lost.wait(ref, wait.reason, wanted_gpus(gang), now)
    lost.reserve(admission.reservations.ledger.gpus, now)


def wanted_gpus(gang: Gang) -> int:
    """Count the GPUs that the members ask for which have no node promised, gated ones included.

    Complexity: O(shapes), whatever the number of members: every event of every pod asks.
    """
    members = chain(gang.wanted.items(), gang.gated.items())
    return sum(count * count_gpus(shape.requests) for shape, count in members)
