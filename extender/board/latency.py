"""How long answers take, lately: quantiles from the buckets of a histogram, over a window that moves."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from prometheus_client import Histogram

from extender.clock import Clock

Buckets: TypeAlias = Mapping[float, float]
"""Upper bound of a bucket (seconds) -> how many observations are at most that, as Prometheus counts."""

#: How far back the window reaches (seconds), and how often its beginning moves.
WINDOW_SECONDS = 60.0
_STEP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Latency:
    """Calls within a window and their quantiles (seconds), None without any call."""

    calls: int
    p50: float | None
    p99: float | None


class LatencyWindow:
    """Remember what a histogram said some time ago, so that its difference from now says what has been lately."""

    def __init__(self, histogram: Histogram, label: str, clock: Clock) -> None:
        """Look at `histogram`, and tell by the values of `label`; with "" all observations are one."""
        self._histogram = histogram
        self._label = label
        self._clock = clock
        self._past: deque[tuple[float, dict[str, dict[float, float]]]] = deque([(clock.monotonic(), {})])

    def look(self) -> dict[str, Latency]:
        """Return the latencies within the last minute; in the minute after the first question, of all time."""
        now, counts = self._clock.monotonic(), self._counts()
        if now - self._past[-1][0] >= _STEP_SECONDS:
            self._past.append((now, counts))
        while len(self._past) > 1 and now - self._past[1][0] >= WINDOW_SECONDS:
            self._past.popleft()
        then = self._past[0][1]
        return {name: _latency(buckets, then.get(name, {})) for name, buckets in sorted(counts.items())}

    def _counts(self) -> dict[str, dict[float, float]]:
        counts: dict[str, dict[float, float]] = {}
        for metric in self._histogram.collect():
            for sample in metric.samples:
                if sample.name.endswith("_bucket"):
                    name, bound = sample.labels.get(self._label, ""), float(sample.labels["le"])
                    buckets = counts.setdefault(name, {})
                    buckets[bound] = buckets.get(bound, 0.0) + sample.value
        return counts


def _latency(now: Buckets, then: Buckets) -> Latency:
    lately = {bound: count - then.get(bound, 0.0) for bound, count in sorted(now.items())}
    calls = int(max(lately.values(), default=0.0))
    return Latency(calls, *(quantile(lately, share) for share in (0.5, 0.99)))


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
