"""The figures of a study: each worked out by hand once."""

from __future__ import annotations

import pytest

from extender.objects.reason import Reason
from muster_lab.study.figures import Figures, evaluate, jain
from muster_lab.study.fluid import Fluid, fluid
from muster_lab.study.history import StudyEviction, StudyHistory, StudyRun, UsageStep
from muster_lab.traces.trace import Trace, TraceJob

#: Two queues; the last submission, at 100 s, is when capacity stops counting.
TRACE = Trace.of(
    [
        TraceJob("a", 0, 50, 1, 8, queue="x"),
        TraceJob("b", 0, 100, 1, 4, queue="y"),
        TraceJob("c", 20, 30, 1, 4, queue="y"),
        TraceJob("z", 100, 10, 1, 1, queue="x"),
    ]
)


def history(
    *runs: StudyRun, evictions: tuple[StudyEviction, ...] = (), steps: tuple[UsageStep, ...] = ()
) -> StudyHistory:
    """Return what happened."""
    there = {run.job for run in runs}
    waiting = {index: Reason.INSUFFICIENT_CAPACITY for index in range(4) if index not in there}
    return StudyHistory(TRACE, runs, evictions, steps, waiting, 1, 0.0)


def figures(*runs: StudyRun, evictions: tuple[StudyEviction, ...] = (), steps: tuple[UsageStep, ...] = ()) -> Figures:
    """Return the figures on 8 GPUs."""
    return evaluate("p", history(*runs, evictions=evictions, steps=steps), fluid(TRACE, 8), 8)


def test_waits_count_all_the_time_before_a_job_runs() -> None:
    """An evicted job waits twice: before its first run and before its second."""
    result = figures(
        StudyRun(0, 0, 50, 50),
        StudyRun(1, 10, 40, 10),
        StudyRun(1, 60, 150, 90),
        StudyRun(3, 150, 160, 10),
        evictions=(StudyEviction(1, 30, "", ""),),
    )
    assert result.waits.jobs == 3
    assert result.waits.mean == pytest.approx((0 + 30 + 50) / 3)
    assert (result.waits.median, result.waits.longest) == (30, 50)
    assert (result.by_queue["x"].mean, result.by_queue["y"].mean) == (25, 30)
    assert result.slowdown == pytest.approx((1 + 1.3 + 6) / 3)
    assert result.evictions == 1
    assert result.wasted_gpu_hours == pytest.approx(20 * 4 / 3600)
    assert (result.ended, result.waiting, result.makespan) == (3, {"InsufficientCapacity": 1}, 160)


def test_capacity_counts_until_the_last_submission() -> None:
    """Of a run that goes on beyond it only the part before."""
    result = figures(StudyRun(0, 0, 50, 50), StudyRun(1, 50, 150, 100))
    assert result.utilisation == pytest.approx((8 * 50 + 4 * 50) / 800)
    assert result.bound == pytest.approx((8 * 50 + 4 * 100 + 4 * 30) / 800 if fluid(TRACE, 8).work > 800 else 1.0)
    assert result.of_bound == pytest.approx(600 / fluid(TRACE, 8).work)


def test_free_gpus_count_as_idle_while_somebody_waits() -> None:
    """Stranded ones are a part of those that are free."""
    steps = (UsageStep(0, 4, 1.0, 0), UsageStep(50, 2, 2.0, 8), UsageStep(75, 8, 0.0, 0), UsageStep(150, 0, 0.0, 0))
    result = figures(StudyRun(0, 0, 50, 50), steps=steps)
    assert result.idle_while_waiting == pytest.approx(2 * 25 / 800)
    assert result.fragmentation == pytest.approx((50 + 50) / (200 + 50 + 200))


def test_tenths_of_the_jobs_are_ordered_by_gpus_then_work() -> None:
    """With fewer than ten jobs each is a class of its own."""
    result = figures(
        StudyRun(0, 5, 55, 50), StudyRun(1, 0, 100, 100), StudyRun(2, 20, 50, 30), StudyRun(3, 100, 110, 10)
    )
    assert [(size.least, size.most, size.waits.mean) for size in result.by_size] == [
        (1, 1, 0),
        (4, 4, 0),
        (4, 4, 0),
        (8, 8, 5),
    ]


def test_jains_index_is_one_if_all_have_the_same_and_a_share_if_one_has_all() -> None:
    """With nothing to share nobody is treated unfairly."""
    assert jain([2, 2, 2]) == 1
    assert jain([1, 0, 0, 0]) == 0.25
    assert jain([]) == jain([0, 0]) == 1


def test_an_empty_history_has_figures_too() -> None:
    """Nothing ran, nothing waited for long enough to be known."""
    result = evaluate("p", history(), Fluid(0, {"x": 0}, ()), 8)
    assert (result.utilisation, result.of_bound, result.slowdown, result.makespan) == (0, 0, 0, 0)
    assert (result.waits.jobs, result.by_size, result.jain) == (0, (), 1)
