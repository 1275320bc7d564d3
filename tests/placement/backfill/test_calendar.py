"""Specification of the calendar: when what runs is expected to end."""

from __future__ import annotations

from math import inf

import pytest

from extender.placement.backfill.outlook import OVERRUNS, STARTING_SECONDS, Calendar, Release, expected_release


def test_runtime_counts_from_the_start() -> None:
    """Work that started at 1,000 and runs for 600 s ends at 1,600, whenever one asks."""
    assert expected_release("job", ["a", "b"], 1000, 600, now=1500) == Release(1600, ("a", "b"), "job")


def test_what_has_not_started_starts_right_away() -> None:
    """Of work without a start it is expected that its pods run in a moment."""
    release = expected_release("job", ["a"], None, 600, now=1500)
    assert release == Release(1500 + STARTING_SECONDS + 600, ("a",), "job")


def test_moments_are_in_the_order_of_time() -> None:
    """Releases are sorted by time; those of one time are one moment, in the order of names."""
    late, early, same = Release(300, ("a",), "z"), Release(200, ("b",), "b"), Release(200, ("c",), "a")
    calendar = Calendar([late, early, same], now=100)
    assert [(moment.at, moment.releases) for moment in calendar.moments] == [(200, (same, early)), (300, (late,))]
    assert [calendar.count(at) for at in (100, 199, 200, 300, inf)] == [0, 0, 1, 2, 2]
    assert calendar.overdue == ()


@pytest.mark.parametrize(
    ("over", "extension"),
    [(0, 60), (59, 60), (60, 300), (299, 300), (300, 900), (3600, 7200), (99 * 3600, 100 * 3600)],
)
def test_overdue_work_is_expected_to_run_for_about_as_long_again(over: float, extension: float) -> None:
    """The end of overdue work moves in growing steps, so that starts that wait for it do not move all the time."""
    calendar = Calendar([Release(1000, ("a",), "job")], now=1000 + over)
    assert calendar.overdue == (Release(1000 + extension, ("a",), "job", overdue=True),)
    assert calendar.moments[0].at == 1000 + extension


def test_runtime_of_work_that_is_overdue_by_days_means_nothing() -> None:
    """Beyond the last step nobody expects work to end."""
    calendar = Calendar([Release(1000, ("a",), "job")], now=1000 + OVERRUNS[-1])
    assert calendar.moments == []
    assert calendar.overdue == ()
