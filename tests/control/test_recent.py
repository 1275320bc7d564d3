"""Calls of the last minute alone are told of, whoever looked before, and their quantiles are estimated."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.control.recent import RecentTimes, quantile

_INFINITY = float("inf")


def test_within_a_bucket_observations_lie_evenly() -> None:
    """Half of the observations of one bucket lie below its middle, as histogram_quantile has it."""
    assert quantile({0.1: 0.0, 0.2: 10.0, _INFINITY: 10.0}, 0.5) == pytest.approx(0.15)


def test_no_observation_has_no_quantile() -> None:
    """Without observations there is no quantile, and neither without buckets."""
    assert quantile({0.1: 0.0, _INFINITY: 0.0}, 0.5) is None
    assert quantile({}, 0.99) is None


def test_beyond_the_last_bound_it_is_that_bound() -> None:
    """What is longer than all finite bounds counts as the last of them."""
    assert quantile({0.1: 0.0, 1.0: 0.0, _INFINITY: 3.0}, 0.99) == pytest.approx(1.0)


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


@given(
    st.lists(st.tuples(st.floats(0, 150), st.floats(0, 2)), max_size=30),
    st.lists(st.floats(0, 150), max_size=5),
)
def test_only_the_last_minute_counts(calls: list[tuple[float, float]], looks: list[float]) -> None:
    """Of calls at random times just those of the last minute are counted, to a second, however often one looks."""
    recent, seen = RecentTimes((0.1, 0.2, 1.0)), RecentTimes((0.1, 0.2, 1.0))
    for at, took in sorted([*calls, *((at, None) for at in looks)], key=lambda each: each[0]):
        if took is None:
            seen.look(at)
        else:
            recent.observe("filter", took, at)
            seen.observe("filter", took, at)
    now = 150.0
    found = recent.look(now).get("filter", {_INFINITY: 0})
    assert seen.look(now).get("filter", {_INFINITY: 0}) == found
    assert found[_INFINITY] == sum(int(at) >= now - 60 for at, _ in calls)
    for bound in found:
        assert found[bound] == sum(int(at) >= now - 60 and took <= bound for at, took in calls)


def test_memory_is_bounded() -> None:
    """Whatever is called, no more than a minute and a second of it is kept."""
    recent = RecentTimes((0.1,))
    for tenth in range(10_000):
        recent.observe("filter", 0.05, tenth / 10)
    assert recent.look(999.9)["filter"] == {0.1: 600, _INFINITY: 600}
    assert len(recent) <= 61


def test_names_are_told_apart() -> None:
    """Each verb has its own times; one that was called before says that it was not called lately."""
    recent = RecentTimes((0.1,))
    recent.observe("bind", 0.05, 1.0)
    recent.observe("filter", 0.5, 100.0)
    assert recent.look(100.0) == {"bind": {0.1: 0, _INFINITY: 0}, "filter": {0.1: 0, _INFINITY: 1}}
