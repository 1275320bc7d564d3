"""Past usage and how it fades."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.queue import Queue
from extender.queues.charges import ShareHistory
from tests.builders import GPU

HOUR = 3600.0
START = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def uses(count: float) -> dict[str, dict[str, float]]:
    """Return that queue a uses so many GPUs."""
    return {"a": {GPU: count}}


def test_half_of_a_steady_usage_is_remembered_after_a_half_life() -> None:
    """And three quarters after two; when it ends, it fades by halves."""
    history = ShareHistory(HOUR)
    history.advance(START, uses(8))
    assert history.of("a") == {}
    history.advance(START + HOUR, uses(8))
    assert history.of("a") == {GPU: 4.0}
    history.advance(START + 2 * HOUR, {})
    assert history.of("a") == {GPU: 6.0}
    history.advance(START + 3 * HOUR, {})
    assert history.of("a") == {GPU: 3.0}
    history.advance(START + 100 * HOUR, {})
    assert history.of("a") == {}, "what is next to nothing goes away"


def test_what_is_told_holds_until_the_next_is_told() -> None:
    """A gang that starts now has not run before."""
    history = ShareHistory(HOUR)
    history.advance(START, uses(0))
    history.advance(START + HOUR, uses(8))
    assert history.of("a") == {}


@given(st.lists(st.floats(1, 1e5), min_size=1, max_size=8), st.floats(0, 100))
def test_how_often_usage_is_told_does_not_matter(pauses: list[float], count: float) -> None:
    """Telling the same usage again and again gives the mean that telling it once gives."""
    often, once = ShareHistory(HOUR), ShareHistory(HOUR)
    for history in (often, once):
        history.advance(START, uses(count))
    for pause in itertools.accumulate(pauses):
        often.advance(START + pause, uses(count))
    once.advance(START + sum(pauses), uses(count))
    assert often.of("a").get(GPU, 0.0) == pytest.approx(once.of("a").get(GPU, 0.0), abs=1e-2)
    assert 0 <= often.of("a").get(GPU, 0.0) <= count + 1e-9


def test_a_clock_that_goes_backwards_changes_nothing() -> None:
    """And what comes after counts from the latest time that was told."""
    history = ShareHistory(HOUR)
    history.advance(START, uses(8))
    history.advance(START + HOUR, uses(8))
    history.advance(START, uses(8))
    assert history.of("a") == {GPU: 4.0}
    history.advance(START + HOUR, uses(8))
    assert history.of("a") == {GPU: 4.0}


def test_the_past_is_taken_up_from_the_status() -> None:
    """What ran while nobody looked is taken to be what runs when somebody looks again."""
    history = ShareHistory(HOUR)
    history.load(Queue("a", history={GPU: 4.0}, history_at="2026-01-01T00:00:00Z"))
    assert (history.of("a"), history.as_of("a")) == ({GPU: 4.0}, START)
    history.advance(START + HOUR, uses(8))
    assert (history.of("a"), history.as_of("a")) == ({GPU: 6.0}, START + HOUR)


@pytest.mark.parametrize("at", ["", "yesterday", "2026-01-01T00:00:00", "2025-12-31T23:59:59Z"])
def test_only_a_more_recent_past_is_taken_up(at: str) -> None:
    """A status that is older than what is known, or does not say how old it is, says nothing new."""
    history = ShareHistory(HOUR)
    history.advance(START - HOUR, uses(8))
    history.advance(START, uses(8))
    history.load(Queue("a", history={GPU: 100.0}, history_at=at))
    assert history.of("a") == {GPU: 4.0}


def test_a_queue_that_is_gone_is_forgotten() -> None:
    """One that is created under its name starts without a past."""
    history = ShareHistory(HOUR)
    history.advance(START, uses(8))
    history.advance(START + HOUR, uses(8))
    history.forget("a")
    history.forget("nobody")
    assert (history.of("a"), history.as_of("a")) == ({}, None)


def test_means_that_were_handed_out_do_not_change() -> None:
    """Each change makes a new mapping, so that who has one can tell whether it is the latest."""
    history = ShareHistory(HOUR)
    history.advance(START, uses(8))
    before = history.means
    history.advance(START + HOUR, uses(8))
    assert before == {"a": {}}
    assert history.means is not before


@pytest.mark.parametrize("half_life", [0.0, -1.0, float("nan")])
def test_a_half_life_is_above_zero(half_life: float) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueError, match="must be above 0"):
        ShareHistory(half_life)
