"""Synthetic traces: reproducible, at the load that was asked for, and heavy-tailed as published ones are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_lab.traces.synthetic import COMMUNICATION, LONGEST, SHORTEST, Recipe, generate
from muster_lab.traces.trace import Trace, TraceError, TraceJob, at_load


@pytest.mark.parametrize("load", [0.5, 0.9, 1.1])
def test_a_trace_has_the_load_that_was_asked_for(load: float) -> None:
    """From the first second on: what would be running already is submitted at once."""
    recipe = Recipe(gangs=2_000, nodes=64, load=load)
    trace = generate(recipe)
    assert len(trace.jobs) == recipe.gangs
    assert trace.load(recipe.capacity) == pytest.approx(load, rel=1e-3)
    at_first = sum(job.all_gpus for job in trace.jobs if job.submitted == 0)
    assert 0.6 * recipe.capacity * min(load, 1) < at_first <= recipe.capacity * min(load, 1)


def test_most_gangs_are_small_and_most_work_is_in_the_large_ones() -> None:
    """That is what published traces agree on: more than half with one GPU, most GPU time in a few per cent."""
    trace = generate(Recipe(gangs=4_000))
    single = [job for job in trace.jobs if job.all_gpus == 1]
    large = [job for job in trace.jobs if job.all_gpus >= 16]
    assert len(single) > 0.5 * len(trace.jobs)
    assert sum(job.gpu_seconds for job in single) < 0.1 * trace.gpu_seconds
    assert len(large) < 0.1 * len(trace.jobs)
    assert sum(job.gpu_seconds for job in large) > 0.5 * trace.gpu_seconds
    runtimes = sorted(job.runtime for job in trace.jobs)
    assert (runtimes[0] >= 1, runtimes[-1] <= LONGEST, runtimes[len(runtimes) // 20] <= 4 * SHORTEST) == (True,) * 3
    assert sum(runtimes) / len(runtimes) > 3 * runtimes[len(runtimes) // 2]


def test_equal_recipes_give_equal_traces() -> None:
    """A seed stands for a trace; another one for another."""
    assert generate(Recipe(gangs=200, nodes=16, seed=7)) == generate(Recipe(gangs=200, nodes=16, seed=7))
    assert generate(Recipe(gangs=200, nodes=16, seed=7)) != generate(Recipe(gangs=200, nodes=16, seed=8))


def test_owners_declare_at_least_what_they_need() -> None:
    """Exactly that with an overestimate of 1, up to so many times as much with more."""
    truthful, cautious = generate(Recipe(gangs=300, nodes=16)), generate(Recipe(gangs=300, nodes=16, overestimate=3))
    assert all(job.declared == job.runtime for job in truthful.jobs)
    assert all(job.declared is not None and job.declared >= job.runtime for job in cautious.jobs)
    assert any(job.declared is not None and job.declared > 2 * job.runtime for job in cautious.jobs)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (Recipe(gangs=0), "gangs is 0, but 1 is the least"),
        (Recipe(overestimate=0.5), "overestimate is 0.5, but 1 is the least"),
        (Recipe(load=0), "load is 0, but has to be above 0"),
        (Recipe(load=float("nan")), "load is nan"),
        (Recipe(gangs=4), "a load of 1 cannot be made on 4096 GPUs"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(recipe: Recipe, message: str) -> None:
    """The message names the field."""
    with pytest.raises(TraceError, match=message):
        generate(recipe)


def test_a_trace_can_be_stretched_to_a_load() -> None:
    """Only the times between submissions change, all in proportion."""
    trace = generate(Recipe(gangs=500, nodes=16))
    stretched = at_load(trace, 128, 0.7)
    assert stretched.load(128) == pytest.approx(0.7, rel=1e-3)
    assert stretched.span > trace.span
    assert [job.runtime for job in stretched.jobs] == [job.runtime for job in trace.jobs]


def test_a_trace_without_time_cannot_be_stretched() -> None:
    """Neither can any be stretched to no load."""
    with pytest.raises(TraceError, match="submitted at once"):
        at_load(Trace.of([TraceJob("a", 0, 1, 1, 1)]), 8, 1)
    with pytest.raises(TraceError, match="a load of -1 cannot be made"):
        at_load(Trace.of([TraceJob("a", 0, 1, 1, 1)]), 8, -1)
    with pytest.raises(
        TraceError, match=r"a load of 0\.9 cannot be made on 8 GPUs: all jobs together make 0\.50 of it"
    ):
        at_load(Trace.of([TraceJob("a", 0, 1, 1, 4), TraceJob("b", 1, 1, 1, 4)]), 8, 0.9)
    assert Trace.of([TraceJob("a", 0, 1, 1, 1)]).load(8) == 0


def test_gangs_that_train_communicate_and_have_small_pods() -> None:
    """As often as the mix says; single GPUs do not, and without the option nothing changes."""
    recipe = Recipe(gangs=2_000, nodes=64, training=True)
    trace = generate(recipe)
    talking = [job for job in trace.jobs if job.communication]
    assert all(bool(job.communication) == (job.all_gpus > 1) for job in trace.jobs)
    assert {job.communication for job in talking} == set(COMMUNICATION)
    assert {job.gpus for job in talking} == {1, 2, 4, 8}
    assert any(job.all_gpus % 8 == 4 for job in talking)
    assert all(job.communication == 0 for job in generate(replace(recipe, training=False)).jobs)
