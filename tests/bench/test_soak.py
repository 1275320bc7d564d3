"""The soak's judgement: slopes, quantiles, bounds, and the reading of a metrics page."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from bench.soak import trend
from bench.soak.__main__ import main
from bench.soak.sampling import Page
from bench.soak.trend import Bounds, Sample, judged, lag_quantile, report, slope_per_hour

_MIB = 1 << 20


def sample(at: float, *, resident: float = 100 * _MIB, **values: float) -> Sample:
    """Return a sample of a Muster at rest, with what the test is about."""
    rest = dict.fromkeys(
        (
            "recording",
            "longest_lag",
            "stalls_busy",
            "stalls_starved",
            "watch_age",
            "write_queue",
            "binds_held",
            "pods_bound",
            "writes_failed",
            "bindings_failed",
        ),
        0.0,
    )
    return Sample(at=at, resident=resident, lag={0.01: at * 100, math.inf: at * 100}, **rest | values)


def steady(seconds: float, **values: float) -> list[Sample]:
    """Return a run of samples that are all alike, one in ten seconds."""
    return [sample(at, **values) for at in range(0, int(seconds) + 1, 10)]


def verdicts(samples: list[Sample]) -> dict[str, bool | None]:
    """Return which lines of the report hold."""
    return {line.name: line.holds for line in report(samples, Bounds())}


class TestSlope:
    """Memory over time."""

    def test_a_straight_line_has_its_own_slope(self) -> None:
        """One byte a second is 3,600 an hour."""
        samples = [sample(at, resident=at) for at in (0.0, 7.0, 30.0)]
        assert slope_per_hour(samples, lambda one: one.resident) == pytest.approx(3600)

    def test_one_moment_has_none(self) -> None:
        """A slope needs two moments."""
        assert slope_per_hour([sample(5.0), sample(5.0)], lambda one: one.resident) == 0

    def test_the_warm_up_is_left_out(self) -> None:
        """A fifth of the run may do what it likes, and memory with a bound two fifths to fill."""
        samples = [sample(at, resident=0 if at < 400 else 100 * _MIB) for at in range(0, 1001, 10)]
        assert judged(samples)[0].at == 200
        assert verdicts(samples)["memory slope without the recording"] is True

    def test_growth_is_told(self) -> None:
        """20 MiB an hour is more than the bound."""
        samples = [sample(at, resident=20 * _MIB * at / 3600) for at in range(0, 1001, 10)]
        assert verdicts(samples)["memory slope without the recording"] is False

    def test_the_recording_is_no_growth(self) -> None:
        """What the recording takes has a limit of its own, and is not part of the slope."""
        samples = [sample(at, resident=9e7 + 1e4 * at, recording=1e4 * at) for at in range(0, 1801, 30)]
        assert verdicts(samples)["memory slope without the recording"] is True

    def test_a_short_run_is_not_judged_by_it(self) -> None:
        """Within a minute one step of the allocator is any slope at all."""
        samples = [sample(at, resident=at * _MIB) for at in range(60)]
        assert verdicts(samples)["memory slope without the recording"] is None


class TestLag:
    """Quantiles of a histogram between two samples."""

    @staticmethod
    def _between(**counts: float) -> float:
        bounds = {"ten": 0.01, "twenty": 0.02, "more": math.inf}
        first = replace(sample(0.0), lag=dict.fromkeys(bounds.values(), 0.0))
        last = replace(first, lag={bounds[name]: count for name, count in counts.items()})
        return lag_quantile(first, last, 0.5)

    def test_it_lies_within_its_bucket(self) -> None:
        """Interpolated, as Prometheus does."""
        assert self._between(ten=0, twenty=100, more=100) == pytest.approx(0.015)
        assert self._between(ten=50, twenty=100, more=100) == pytest.approx(0.01)

    def test_beyond_the_last_bound_it_is_that_bound(self) -> None:
        """More cannot be known."""
        assert self._between(ten=0, twenty=10, more=100) == pytest.approx(0.02)

    def test_without_looks_there_is_none(self) -> None:
        """No division by nothing."""
        assert self._between(ten=0, twenty=0, more=0) == 0


class TestReport:
    """What fails a soak."""

    def test_a_steady_run_holds_every_bound(self) -> None:
        """Nothing grew, nothing stalled."""
        assert False not in verdicts(steady(1000, pods_bound=5)).values()

    @pytest.mark.parametrize(
        ("field", "line"),
        [("stalls_busy", "stalls > 10 ms, busy"), ("writes_failed", "writes given up")],
    )
    def test_what_happened_after_the_warm_up_fails_it(self, field: str, line: str) -> None:
        """Counters count from the end of the warm-up."""
        before, after = steady(1000, **{field: 3.0}), [*steady(1000), sample(1010.0, **{field: 1.0})]
        assert verdicts(before)[line] is True
        assert verdicts(after)[line] is False

    def test_a_silent_watch_fails_it(self) -> None:
        """Older than what readiness allows."""
        assert verdicts(steady(1000, watch_age=61.0))["oldest watch"] is False

    def test_stalls_of_the_machine_are_told_and_not_judged(self) -> None:
        """A machine that others use, too, stalls whatever runs on it."""
        samples = [*steady(1000), sample(1010.0, stalls_starved=7.0)]
        (line,) = (line for line in report(samples, Bounds()) if line.name == "stalls > 10 ms, starved of CPU")
        assert (line.value, line.holds) == ("7", None)

    def test_no_samples_fail_it(self) -> None:
        """Nothing was looked at."""
        assert verdicts([]) == {"samples": False}
        assert verdicts([sample(5.0)])["pods bound"] is None


def test_a_metrics_page_is_read_by_name_and_labels() -> None:
    """Sums over labels, and the buckets of a histogram."""
    page = Page.parse(
        "# TYPE gangs gauge\n"
        'gangs{phase="Running"} 2\ngangs{phase="Pending"} 3\n'
        "# TYPE lag histogram\n"
        'lag_bucket{le="0.01"} 4\nlag_bucket{le="+Inf"} 5\nlag_count 5\nlag_sum 1\n'
    )
    assert (page.sum("gangs"), page.sum("gangs", phase="Running"), page.sum("nothing")) == (5, 2, 0)
    assert page.buckets("lag") == {0.01: 4, math.inf: 5}


@pytest.mark.parametrize("arguments", [["--minutes", "0"], ["--pods-per-minute", "-1"], ["--nodes", "0"]])
def test_a_soak_without_load_is_refused(arguments: list[str]) -> None:
    """Exit code 2 and the options' names."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2


def test_the_bounds_are_those_that_are_documented() -> None:
    """A slope is judged from ten minutes on."""
    assert trend.SHORTEST_TREND_SECONDS == 600
    assert Bounds() == Bounds(memory_slope=10.0, busy_stalls=0, watch_age=60.0, writes_failed=0)
