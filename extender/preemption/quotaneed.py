"""Whom to evict so that a gang is within its quota, wherever they are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from extender.preemption.pruning import prune
from extender.preemption.trial import Trial
from extender.preemption.units import Units


def for_quota(
    trial: Trial, units: Units, usable: NDArray[np.bool_], start: NDArray[np.bool_]
) -> Iterator[NDArray[np.bool_]]:
    """Yield choices with which the gang is within its quota, each `start` and what else is needed; all are (units,).

    What a quota counts is not known here, so pieces are added one after the other until it says yes, the cheapest
    first, and once more those first whose pods are the cheapest; then what did not help is left out.
    """
    cores = np.flatnonzero(usable & ~start)
    seen: set[bytes] = set()
    for price in (units.weight[cores], units.weight[cores] / np.maximum(units.sizes[cores], 1)):
        order = cores[np.argsort(price, kind="stable")]
        last = _prefix(trial, units, start, order)
        if last is None:
            return
        chosen = prune(
            units,
            trial.free,
            _with(units, start, order[:last]),
            lambda clearing: trial.within_quota(units, clearing.chosen),
            keep=start,
        )
        if chosen.tobytes() not in seen:
            seen.add(chosen.tobytes())
            yield chosen


def _prefix(trial: Trial, units: Units, start: NDArray[np.bool_], order: NDArray[np.intp]) -> int | None:
    """Return how many of the pieces in `order` are needed at least; None if all of them do not do."""
    low, high = 0, 1
    while not trial.within_quota(units, _with(units, start, order[:high])):
        if high >= order.shape[0]:
            return None
        low, high = high, min(2 * high, order.shape[0])
    while high - low > 1:
        middle = (low + high) // 2
        if trial.within_quota(units, _with(units, start, order[:middle])):
            high = middle
        else:
            low = middle
    return high


def _with(units: Units, start: NDArray[np.bool_], pieces: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return a choice with pieces more, the extras of cores among them."""
    chosen = start.copy()
    for piece in pieces.tolist():
        chosen[[piece, *units.extras(piece)]] = True
    return chosen
