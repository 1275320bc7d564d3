"""From samples to a verdict: slopes, quantiles and bounds. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.histogram import added, quantile

#: The part of a run that is not judged: caches fill, the allocator grows, the first lists are decoded.
WARM_UP_SHARE = 0.2
#: The part before the slope of memory: what is remembered up to a bound (the last 2,000 decisions, some 4,000 Events,
#: as many statuses of PodGroups as have 2 MB) fills for eleven minutes at 2,000 pods a minute. Seen by tracemalloc.
FILLING_SHARE = 0.4
#: Seconds of judged samples below which a slope says nothing: one step of the allocator would be GB per hour.
SHORTEST_TREND_SECONDS = 600.0

_MEBIBYTE = float(1 << 20)
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What was read of Muster at one moment.

    `at` in seconds since the churn began; `resident` and `recording` in bytes; lags and ages in seconds; counters since
    Muster's start. `lag` maps the upper bound of each bucket to the looks at the event loop that were at most so late.
    """

    at: float
    resident: float
    recording: float
    lag: Mapping[float, float]
    longest_lag: float
    stalls_busy: float
    stalls_starved: float
    watch_age: float
    write_queue: float
    binds_held: float
    pods_bound: float
    writes_failed: float
    bindings_failed: float


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a soak must keep. `None` where nothing is asked."""

    memory_slope: float = 10.0  # MiB per hour
    busy_stalls: int = 0
    watch_age: float = 60.0  # seconds: stale_after_seconds
    writes_failed: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the report; `holds` is None where there is no bound, or too little to judge by."""

    name: str
    value: str
    bound: str = ""
    holds: bool | None = None


def judged(samples: Sequence[Sample], share: float = WARM_UP_SHARE) -> list[Sample]:
    """Return the samples after the first `share` of the time: the warm-up."""
    if not samples:
        return []
    begin = samples[-1].at * share
    return [sample for sample in samples if sample.at >= begin]


def slope_per_hour(samples: Sequence[Sample], value: Callable[[Sample], float]) -> float:
    """Return the least-squares slope of a value, per hour; 0 for fewer than two moments."""
    if len({sample.at for sample in samples}) < 2:  # noqa: PLR2004 - a line needs two points
        return 0.0
    times = [sample.at for sample in samples]
    return statistics.linear_regression(times, [value(sample) for sample in samples]).slope * _HOUR


def lag_quantile(first: Sample, last: Sample, share: float) -> float:
    """Return the lag (seconds) that `share` of the looks between two samples did not exceed; 0 if there was no look."""
    return quantile(added(first.lag, last.lag), share)


def report(samples: Sequence[Sample], bounds: Bounds) -> list[Line]:
    """Judge a run by its samples after the warm-up."""
    kept = judged(samples)
    if not kept:
        return [Line("samples", "none", "at least one", holds=False)]
    first, last = kept[0], kept[-1]
    seconds = last.at - first.at
    # The recording grows to its limit, for half an hour at 2,000 pods a minute, and then ends.
    filled = judged(samples, FILLING_SHARE)
    slope = slope_per_hour(filled, lambda sample: sample.resident - sample.recording) / _MEBIBYTE
    enough = last.at - filled[0].at >= SHORTEST_TREND_SECONDS
    busy = last.stalls_busy - first.stalls_busy
    oldest = max(sample.watch_age for sample in kept)
    failed = last.writes_failed - first.writes_failed
    bound = last.pods_bound - first.pods_bound
    return [
        Line("judged", f"{seconds / 60:.1f} min, {len(kept)} samples"),
        Line("pods bound", f"{bound:.0f}, {60 * bound / seconds:.0f} a minute" if seconds else f"{bound:.0f}"),
        Line("resident memory", f"{_mebibytes(first)} -> {_mebibytes(last)} MiB, at most {_mebibytes(_largest(kept))}"),
        Line("of it the recording", f"{first.recording / _MEBIBYTE:.1f} -> {last.recording / _MEBIBYTE:.1f} MiB"),
        Line(
            "memory slope without the recording",
            f"{slope:+.2f} MiB/h" if enough else f"{slope:+.0f} MiB/h, too short a run to judge by",
            f"<= {bounds.memory_slope:g} MiB/h",
            holds=slope <= bounds.memory_slope if enough else None,
        ),
        Line("event loop lag, p99", f"{1000 * lag_quantile(first, last, 0.99):.1f} ms"),
        Line("event loop lag, longest", f"{1000 * max(sample.longest_lag for sample in kept):.1f} ms"),
        Line("stalls > 10 ms, busy", f"{busy:.0f}", f"<= {bounds.busy_stalls}", holds=busy <= bounds.busy_stalls),
        Line("stalls > 10 ms, starved of CPU", f"{last.stalls_starved - first.stalls_starved:.0f}"),
        Line("oldest watch", f"{oldest:.1f} s", f"<= {bounds.watch_age:g} s", holds=oldest <= bounds.watch_age),
        Line("write queue", _spread([sample.write_queue for sample in kept])),
        Line("binds held", _spread([sample.binds_held for sample in kept])),
        Line("writes given up", f"{failed:.0f}", f"<= {bounds.writes_failed}", holds=failed <= bounds.writes_failed),
        # Not judged: the churn deletes pods while they are being bound.
        Line("bindings that failed", f"{last.bindings_failed - first.bindings_failed:.0f}"),
    ]


def _largest(samples: Sequence[Sample]) -> Sample:
    return max(samples, key=lambda sample: sample.resident)


def _mebibytes(sample: Sample) -> str:
    return f"{sample.resident / _MEBIBYTE:.1f}"


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values):.1f} in the mean, {max(values):.0f} at most"
