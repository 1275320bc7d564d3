"""The fluid schedule: what no schedule can surpass."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_lab.study.fluid import fluid
from muster_lab.traces.trace import Trace, TraceJob


def job(name: str, submitted: float, runtime: float, gpus: int, queue: str = "") -> TraceJob:
    """Return a job of one pod."""
    return TraceJob(name, submitted, runtime, 1, gpus, queue=queue)


def test_what_fits_runs_at_once() -> None:
    """With GPUs for everybody the fluid does what unlimited ones would."""
    ideal = fluid(Trace.of([job("a", 0, 10, 4), job("b", 5, 10, 4), job("last", 20, 1, 1)]), 8)
    assert ideal.work == 80
    assert ideal.rates == ((0, 4), (5, 8), (10, 4), (15, 0))


def test_what_does_not_fit_is_made_up_for_later() -> None:
    """A backlog keeps all GPUs busy until it is gone; no job limits how fast it is worked off."""
    ideal = fluid(Trace.of([job("a", 0, 10, 12), job("last", 100, 1, 1)]), 8)
    assert ideal.work == 120
    assert ideal.rates == ((0, 8), (10, 8), (15, 0))


def test_only_what_is_done_when_the_last_job_comes_counts() -> None:
    """Work that no schedule could have done by then is not asked of any."""
    assert fluid(Trace.of([job("a", 0, 1000, 4), job("last", 10, 1, 1)]), 8).work == 40
    assert fluid(Trace.of([job("a", 0, 1000, 4)]), 8).work == 0


def test_queues_share_equally_and_leave_what_they_do_not_need() -> None:
    """The small queue gets all it asks for, the two large ones half of the rest each."""
    jobs = [job("a", 0, 100, 2, "a"), job("b", 0, 100, 20, "b"), job("c", 0, 100, 8, "c"), job("last", 100, 1, 1, "a")]
    assert fluid(Trace.of(jobs), 12).by_queue == pytest.approx({"a": 200, "b": 500, "c": 500})


_JOBS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 40), st.integers(1, 10), st.sampled_from("ab")), min_size=2, max_size=8
)


@settings(max_examples=60)
@given(_JOBS, st.integers(1, 12))
def test_the_fluid_is_the_least_bound_of_its_kind(drawn: list[tuple[int, int, int, str]], gpus: int) -> None:
    """By the end it has done the least, over all moments, of unlimited GPUs' work until then and full GPUs' after."""
    trace = Trace.of(job(str(index), *each) for index, each in enumerate(drawn))
    unlimited = [
        sum(each.all_gpus * min(max(at - each.submitted, 0), each.runtime) for each in trace.jobs)
        + gpus * (trace.span - at)
        for at in range(int(trace.span) + 1)
    ]
    ideal = fluid(trace, gpus)
    assert ideal.work == pytest.approx(min(unlimited), abs=1e-3)
    assert sum(ideal.by_queue.values()) == pytest.approx(ideal.work, abs=1e-3)
