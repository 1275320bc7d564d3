"""Prometheus histograms, as cumulative counts by upper bound."""

from __future__ import annotations

import math
from collections.abc import Mapping


def added(before: Mapping[float, float], after: Mapping[float, float]) -> dict[float, float]:
    """Return what was counted between two readings, by ascending upper bound."""
    return {bound: after[bound] - before.get(bound, 0.0) for bound in sorted(after)}


def quantile(counts: Mapping[float, float], share: float) -> float:
    """Return a quantile, given cumulative counts by ascending upper bound; 0 of an empty histogram.

    Interpolated within its bucket, as Prometheus' histogram_quantile does.
    """
    lower, upper = quantile_bucket(counts, share)
    if math.isinf(upper) or lower == upper:
        return lower
    below, within = counts.get(lower, 0.0), counts[upper]
    return lower + (upper - lower) * (max(counts.values()) * share - below) / (within - below)


def quantile_bucket(counts: Mapping[float, float], share: float) -> tuple[float, float]:
    """Return the bounds of the bucket that a quantile falls into; zeros of an empty histogram."""
    wanted, lower = max(counts.values(), default=0.0) * share, 0.0
    for upper, count in counts.items():
        if count >= wanted > 0:
            return lower, upper
        lower = upper
    return 0.0, 0.0
