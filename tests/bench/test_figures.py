"""Figures: their bounds, their spread and their order."""

from __future__ import annotations

from bench.figures import Figure, of_repeats, ratio, ratios_first


def test_a_figure_holds_up_to_its_bound() -> None:
    """Without a bound there is nothing to hold; an exclusive bound must not even be reached."""
    assert Figure("f", "ms", 2.0, 0.5, 9.0, bound=2.0).holds is True
    assert Figure("f", "ms", 2.0, 0.5, 9.0, bound=2.0, exclusive=True).holds is False
    assert Figure("f", "ms", 1.9, 0.5, 9.0, bound=2.0, exclusive=True).holds is True
    assert Figure("f", "ms", 2.1, 0.5, 9.0, bound=2.0).holds is False
    assert Figure("f", "ms", 3.0, 0.5, 9.0).holds is None


def test_the_verdict_shows_the_bound_and_whether_it_is_exclusive() -> None:
    """People see what was promised beside what was measured."""
    assert Figure("f", "ms", 2.0, 2.0, 2.0, bound=2.0).verdict == "<= 2 ok"
    assert Figure("f", "ms", 2.0, 2.0, 2.0, bound=2.0, exclusive=True).verdict == "< 2 MISSED"
    assert Figure("f", "ms", 2.0, 2.0, 2.0).verdict == ""


def test_a_ratio_spreads_as_far_as_its_parts() -> None:
    """The smallest ratio is the least over the most, the largest the most over the least."""
    result = ratio("r", Figure("a", "ms", 4, 2, 8), Figure("b", "ms", 2, 1, 4))
    assert (result.value, result.low, result.high, result.unit) == (2, 0.5, 8, "ratio")


def test_repeats_give_their_median_and_how_far_they_spread() -> None:
    """One slow repeat does not move the value."""
    figure = of_repeats("f", "s", [3.0, 1.0, 90.0], bound=5.0)
    assert (figure.value, figure.low, figure.high, figure.holds) == (3.0, 1.0, 90.0, True)


def test_people_see_ratios_first_then_what_has_a_bound() -> None:
    """A ratio means the same on every machine; the order is kept otherwise."""
    time, bounded, other, relation = (
        of_repeats("time", "s", [1.0]),
        of_repeats("bounded", "s", [1.0], bound=2.0),
        of_repeats("other", "s", [1.0]),
        of_repeats("relation", "ratio", [1.0]),
    )
    assert ratios_first([time, bounded, other, relation]) == [relation, bounded, time, other]
