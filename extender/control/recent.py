"""How long calls took within the last minute, however often that is asked: times in buckets, second by second."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final, TypeAlias

#: How far back people are told of calls (seconds).
WINDOW_SECONDS: Final = 60

Buckets: TypeAlias = Mapping[float, float]
"""Upper bound of a bucket (seconds) -> how many observations are at most that, as Prometheus counts."""


class RecentTimes:
    """Count what took how long in each of the last sixty seconds: one entry a second, whatever is called."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """Sort times into buckets with these upper `bounds` (seconds, ascending)."""
        self._bounds = (*bounds, float("inf"))
        self._seconds: deque[tuple[int, dict[str, list[int]]]] = deque()
        self._names: dict[str, None] = {}

    def __len__(self) -> int:
        """Count the seconds of which anything is kept."""
        return len(self._seconds)

    def observe(self, name: str, seconds: float, now: float) -> None:
        """Count one call of `name` that took `seconds` and ended at `now` (monotonic)."""
        second = int(now)
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append((second, {}))
            while self._seconds[0][0] < second - WINDOW_SECONDS:
                self._seconds.popleft()
        self._names.setdefault(name)
        counts = self._seconds[-1][1].setdefault(name, [0] * len(self._bounds))
        counts[bisect_left(self._bounds, seconds)] += 1

    def look(self, now: float) -> dict[str, Buckets]:
        """Return, by name, the calls that ended within the minute before `now` (monotonic), to a second."""
        told = [found for second, found in self._seconds if second >= now - WINDOW_SECONDS]
        return {
            name: dict(zip(self._bounds, accumulate(map(sum, self._columns(name, told))), strict=True))
            for name in sorted(self._names)
        }

    def _columns(self, name: str, told: Sequence[Mapping[str, Sequence[int]]]) -> list[tuple[int, ...]]:
        none = (0,) * len(self._bounds)
        return list(zip(none, *(found.get(name, none) for found in told), strict=True))


def quantile(buckets: Buckets, share: float) -> float | None:
    """Return a quantile (0 to 1) in seconds, as PromQL's histogram_quantile estimates it; None without observations.

    Within a bucket observations are taken to lie evenly. Beyond the last finite bound that bound is the answer.
    Source: prometheus/promql/quantile.go bucketQuantile.
    """
    bounds = sorted(buckets)
    total = buckets[bounds[-1]] if bounds else 0.0
    if total <= 0:
        return None
    wanted = share * total
    edges = [(0.0, 0.0), *((bound, buckets[bound]) for bound in bounds)]
    for (lower, before), (upper, count) in pairwise(edges):
        if count >= wanted and count > before:
            return lower if upper == float("inf") else lower + (upper - lower) * (wanted - before) / (count - before)
    return None
