"""The measurements of backfill: they run, and measure what their names say."""

from __future__ import annotations

import pytest

from bench.backfill import measure
from bench.backfill.gains import draw
from bench.backfill.line import Backfilling
from bench.backfill.starts import SHORT_CASES, Site, start_figures
from bench.options import Options


def test_starts_are_timed_with_their_bound() -> None:
    """Each start is timed when it is found first and when it is kept, against the budget."""
    figures = measure(Options(repeats=1, cases=("start",), short=True), lambda _: None)
    assert [figure.name for figure in figures] == [
        "start_8x8_on_400",
        "start_kept_8x8_on_400",
        "profile_of_16_8x8_on_400",
    ]
    assert [figure.bound for figure in figures] == [20.0, 20.0, None]
    assert all(figure.value > 0 for figure in figures)


def test_gang_that_never_fits_is_not_timed() -> None:
    """A case in which there is no start is an error, not a fast figure."""
    case = SHORT_CASES[0]
    with pytest.raises(AssertionError, match="nothing to time"):
        list(start_figures(type(case)(case.nodes, case.running_pods, case.nodes + 1, case.gpus), 1))


def test_clusters_can_be_drawn_again() -> None:
    """Equal cases are equal clusters, on which everything ends at the same times."""
    first, second = Site(SHORT_CASES[0]), Site(SHORT_CASES[0])
    assert first.calendar.moments == second.calendar.moments
    assert not first.table.free()[first.table.resources.index("nvidia.com/gpu")].any()


def test_gains_show_that_waits_shrink() -> None:
    """With backfill gangs wait less and no less of the cluster is used; every figure is there."""
    figures = {f.name: f.value for f in measure(Options(cases=("gain",), short=True), lambda _: None)}
    kinds = [f"{backfilling}_{label}" for backfilling in Backfilling for label in ("true", "overstated")]
    assert figures.keys() == {
        f"{quantity}_{kind}" for quantity in ("utilisation", "wait_mean", "wait_mean_of_large") for kind in kinds
    }
    for kind in ("easy_true", "easy_overstated", "conservative_true", "conservative_overstated"):
        assert figures[f"wait_mean_{kind}"] < figures["wait_mean_none_true"]
        assert 1 >= figures[f"utilisation_{kind}"] >= figures["utilisation_none_true"]


def test_lines_can_be_drawn_again() -> None:
    """A seed stands for one line; overstating runtimes changes nothing but what is declared."""
    plain, again, overstated = draw(8, 20, 1, 1.0), draw(8, 20, 1, 1.0), draw(8, 20, 1, 3.0)
    assert plain == again
    assert [job.runtime for job in overstated] == [job.runtime for job in plain]
    assert all(job.declared == job.runtime for job in plain)
    assert any(job.declared > job.runtime for job in overstated if job.declared is not None)
