"""Quantiles of what has been lately."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram

from extender.clock import ManualClock
from extender.service.board.board import LatencyWindow, quantile
from extender.service.board.documents import CallLatency


@pytest.fixture
def histogram() -> Histogram:
    """Return a histogram of three buckets."""
    return Histogram("seconds", "Test.", ("verb",), buckets=(0.1, 0.2, 1.0), registry=CollectorRegistry())


def test_within_a_bucket_observations_lie_evenly() -> None:
    """Half of the observations of one bucket lie below its middle, as histogram_quantile has it."""
    assert quantile({0.1: 0.0, 0.2: 10.0, float("inf"): 10.0}, 0.5) == pytest.approx(0.15)


def test_no_observation_has_no_quantile() -> None:
    """Without observations there is no quantile, and neither without buckets."""
    assert quantile({0.1: 0.0, float("inf"): 0.0}, 0.5) is None
    assert quantile({}, 0.99) is None


def test_beyond_the_last_bound_it_is_that_bound() -> None:
    """What is longer than all finite bounds counts as the last of them."""
    assert quantile({0.1: 0.0, 1.0: 0.0, float("inf"): 3.0}, 0.99) == pytest.approx(1.0)


@given(st.lists(st.integers(0, 50), min_size=3, max_size=3), st.floats(0.01, 1.0))
def test_quantile_lies_in_the_bucket_that_holds_it(counts: list[int], share: float) -> None:
    """The answer lies between the bounds of the bucket in which the cumulated counts reach the share."""
    bounds = (0.1, 0.2, 1.0)
    cumulated = list(accumulate(counts))
    found = quantile(dict(zip(bounds, map(float, cumulated), strict=True)), share)
    if not cumulated[-1]:
        assert found is None
        return
    index = next(i for i, count in enumerate(cumulated) if count >= share * cumulated[-1] and counts[i])
    assert found is not None
    assert (0.0, *bounds)[index] <= found <= bounds[index] + 1e-9


def test_window_moves_on(histogram: Histogram) -> None:
    """What lies back more than a minute does not count any more."""
    clock = ManualClock()
    window = LatencyWindow(histogram, "verb", clock)
    histogram.labels("filter").observe(0.05)
    assert window.look()["filter"].calls == 1
    for _ in range(13):
        clock.advance(5)
        window.look()
    assert window.look()["filter"] == CallLatency(0, None, None)
    histogram.labels("filter").observe(0.15)
    seen = window.look()["filter"]
    assert seen.calls == 1
    assert seen.p50 == pytest.approx(150)
    assert seen.p99 == pytest.approx(199)


def test_outcomes_of_a_verb_are_one(histogram: Histogram) -> None:
    """Series that share the label's value are added up."""
    both = Histogram("both", "Test.", ("verb", "outcome"), buckets=(0.1, 0.2), registry=CollectorRegistry())
    window = LatencyWindow(both, "verb", ManualClock())
    both.labels("bind", "bound").observe(0.05)
    both.labels("bind", "refused").observe(0.05)
    seen = window.look()
    assert list(seen) == ["bind"]
    assert seen["bind"].calls == 2
    assert seen["bind"].p99 == pytest.approx(99)
    assert LatencyWindow(histogram, "verb", ManualClock()).look() == {}
