"""Past usage, remembered with a half-life: who has used much lately stands behind who has not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from extender.domain.queue import Queue
from extender.domain.timestamp import read_timestamp

_NOTHING: Mapping[str, float] = MappingProxyType({})

#: A mean below this (milli-CPU, bytes, counts) is forgotten, so that a resource that is used no more goes away.
_NEGLIGIBLE = 1e-3


@dataclass(frozen=True, slots=True)
class _Past:
    """The mean usage as of `at` (epoch seconds), and what has been used since, None where nobody knows."""

    at: float
    mean: Mapping[str, float]
    used: Mapping[str, float] | None


class History:
    """Exponentially decayed mean usage of each queue.

    Of a usage that stays the same, half is in the mean after one half-life, three quarters after two. What is told at
    one moment holds until the next is told, so it does not matter how often that is.

    Attributes:
        means: by queue and resource; a new mapping after each change.
    """

    def __init__(self, half_life: float) -> None:
        """Start without a past; `half_life` is in seconds, above 0."""
        if not half_life > 0:
            msg = f"half-life of {half_life} s: must be above 0"
            raise ValueError(msg)
        self._half_life = half_life
        self._pasts: dict[str, _Past] = {}
        self.means: Mapping[str, Mapping[str, float]] = _NO_MEANS

    def advance(self, now: float, usage: Mapping[str, Mapping[str, float]]) -> None:
        """Bring the means to `now` (epoch seconds), from which on each queue uses `usage`.

        A queue that is not in `usage` uses nothing. A clock that goes backwards changes nothing of the means.
        """
        for name in self._pasts.keys() | usage.keys():
            used = dict(usage.get(name, _NOTHING))
            past = self._pasts.get(name) or _Past(now, {}, used)
            at = max(now, past.at)
            # What ran while nobody looked, as during a restart, is taken to be what runs now.
            mean = self._decay(past.mean, used if past.used is None else past.used, at - past.at)
            self._pasts[name] = _Past(at, mean, used)
        self._publish()

    def of(self, queue: str) -> Mapping[str, float]:
        """Return the mean usage of a queue by resource, as of `as_of`."""
        return self.means.get(queue, _NOTHING)

    def as_of(self, queue: str) -> float | None:
        """Return the moment that the mean usage of a queue is of (epoch seconds), None if nothing is known of it."""
        past = self._pasts.get(queue)
        return None if past is None else past.at

    def load(self, queue: Queue) -> None:
        """Take up what a Queue's status remembers, unless more recent news is known of that queue."""
        at = read_timestamp(queue.history_at)
        known = self._pasts.get(queue.name)
        if at is None or (known is not None and known.at >= at):
            return
        self._pasts[queue.name] = _Past(at, dict(queue.history), None)
        self._publish()

    def forget(self, queue: str) -> None:
        """Forget a queue that is gone."""
        if self._pasts.pop(queue, None) is not None:
            self._publish()

    def _decay(self, mean: Mapping[str, float], used: Mapping[str, float], seconds: float) -> dict[str, float]:
        kept = 0.5 ** (seconds / self._half_life)
        new: dict[str, float] = {}
        for resource in mean.keys() | used.keys():
            now = used.get(resource, 0.0)
            value = now + (mean.get(resource, 0.0) - now) * kept
            if value > _NEGLIGIBLE:
                new[resource] = value
        return new

    def _publish(self) -> None:
        self.means = {name: past.mean for name, past in self._pasts.items()}


_NO_MEANS: Mapping[str, Mapping[str, float]] = MappingProxyType({})
