"""Playing a trace: the real admission decides, and the player does no more than carry it out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.objects.queue import Queue, StopPolicy
from extender.objects.reason import Reason
from muster_lab.study.fleet import Fleet, Rooms, shape_of
from muster_lab.study.fluid import fluid
from muster_lab.study.history import StudyHistory
from muster_lab.study.player import TERMINATION_SECONDS, StudyPlayer
from muster_lab.study.policy import POLICIES, StudyPolicy
from muster_lab.traces.trace import Trace, TraceError, TraceJob

TWO_NODES = Fleet(2, 8)


def play(policy: str | StudyPolicy, *jobs: TraceJob, fleet: Fleet = TWO_NODES) -> StudyHistory:
    """Play jobs under a policy."""
    return StudyPlayer(Trace.of(jobs), fleet, POLICIES[policy] if isinstance(policy, str) else policy).play()


def starts(history: StudyHistory) -> dict[str, float]:
    """Return when each job started for the first time."""
    first: dict[str, float] = {}
    for run in sorted(history.runs, key=lambda run: run.start):
        first.setdefault(history.trace.jobs[run.job].name, run.start)
    return first


def whole(name: str, submitted: float, runtime: float, nodes: int = 1, **fields: object) -> TraceJob:
    """Return a job that takes whole nodes, and declares how long it runs."""
    return replace(TraceJob(name, submitted, runtime, nodes, 8, declared=runtime), **fields)  # type: ignore[arg-type]  # keywords of Job


def test_a_job_runs_at_once_if_there_is_room_and_else_when_there_is() -> None:
    """It holds its GPUs for its runtime, and no longer."""
    history = play("earmark", whole("a", 0, 100, 2), whole("b", 10, 50, 2))
    assert [(run.job, run.start, run.end, run.kept) for run in history.runs] == [(0, 0, 100, 100), (1, 100, 150, 50)]
    assert [(step.at, step.free, step.wanted) for step in history.steps] == [
        (0, 0, 0),
        (10, 0, 16),
        (100, 0, 0),
        (150, 16, 0),
    ]
    assert (history.waiting, history.evictions) == ({}, ())


def test_easy_lets_pass_who_ends_in_time_and_fifo_nobody() -> None:
    """The gang that waits for both nodes starts no later for it."""
    jobs = (
        whole("runs", 0, 1000),
        whole("waits", 1, 100, 2),
        whole("short", 2, 500),
        whole("long", 3, 2000),
    )
    assert starts(play("fifo", *jobs)) == {"runs": 0, "waits": 1000, "short": 1100, "long": 1100}
    assert starts(play("easy", *jobs)) == {"runs": 0, "short": 2, "waits": 1000, "long": 1100}


def test_undeclared_runtimes_are_not_known_to_muster() -> None:
    """The player knows how long everybody runs; the admission only what owners declare."""
    jobs = [replace(job, declared=None) for job in (whole("a", 0, 1000), whole("b", 1, 100, 2), whole("c", 2, 5))]
    assert starts(play("easy", *jobs)) == {"a": 0, "b": 1000, "c": 1100}


def test_priorities_count_only_where_the_policy_says_so() -> None:
    """The urgent job passes the older one, but nobody is evicted for it."""
    jobs = (whole("runs", 0, 100, 2), whole("old", 1, 10, 2), whole("urgent", 2, 10, 2, priority=100))
    assert starts(play("priority", *jobs)) == {"runs": 0, "urgent": 100, "old": 110}
    assert starts(play("earmark", *jobs)) == {"runs": 0, "old": 100, "urgent": 110}


@pytest.mark.parametrize(("checkpoint", "kept"), [(None, 0.0), (300.0, 900.0)])
def test_an_evicted_gang_starts_over_from_its_last_checkpoint(checkpoint: float | None, kept: float) -> None:
    """Its nodes are free after the termination period; what it had not saved is done again."""
    low = whole("low", 0, 2000, 2, checkpoint=checkpoint)
    history = play("preemptive", low, whole("high", 1000, 100, 2, priority=100))
    (eviction,) = history.evictions
    assert (eviction.job, eviction.at, eviction.reason) == (0, 1000, "Preempted")
    freed = 1000 + TERMINATION_SECONDS
    assert [(run.job, run.start, run.end, run.kept) for run in history.runs] == [
        (0, 0, freed, kept),
        (1, freed, freed + 100, 100),
        (0, freed + 100, freed + 100 + 2000 - kept, 2000 - kept),
    ]


def test_a_job_that_must_not_be_preempted_is_not() -> None:
    """The more urgent one waits."""
    history = play("preemptive", whole("low", 0, 2000, 2, preemptible=False), whole("high", 9, 1, 2, priority=100))
    assert (history.evictions, starts(history)) == ((), {"low": 0, "high": 2000})


def test_shares_give_a_queue_back_what_others_have_borrowed() -> None:
    """Each of two queues has a node; who is on both gives one back."""
    jobs = (
        whole("mine-0", 0, 5000, queue="mine"),
        whole("mine-1", 1, 5000, queue="mine"),
        whole("yours", 100, 50, queue="Yours!"),
    )
    history = play("shares", *jobs)
    (eviction,) = history.evictions
    assert (history.trace.jobs[eviction.job].name, eviction.reason) == ("mine-1", "Reclaimed")
    assert starts(history)["yours"] == 100 + TERMINATION_SECONDS


def test_who_never_starts_is_told_with_the_reason() -> None:
    """A study ends even if somebody waits for ever."""
    stopped = StudyPolicy("stopped", "", queue=Queue("q", stop_policy=StopPolicy.HOLD))
    history = play(stopped, whole("a", 0, 1))
    assert (history.runs, history.waiting) == ((), {0: Reason.QUEUE_STOPPED})


def test_a_job_that_could_never_run_is_refused() -> None:
    """The message names the job, what it asks for and what there is."""
    with pytest.raises(TraceError, match="job big never fits: it asks for 3 x 8 GPUs"):
        play("earmark", whole("big", 0, 1, 3))
    with pytest.raises(TraceError, match=r"job hungry never fits: .* 129000 milli-CPU"):
        play("earmark", replace(whole("hungry", 0, 1), cpu=129_000))


def test_progress_is_told() -> None:
    """How many have ended, when it is, and how many are there."""
    told = []
    player = StudyPlayer(Trace.of([whole("a", 0, 5), whole("b", 1, 5)]), TWO_NODES, POLICIES["earmark"])
    player.play(lambda *numbers: told.append(numbers))
    assert told == [(0, 0, 1), (0, 1, 2), (1, 5, 1), (2, 6, 0)]


def test_rooms_count_what_is_of_no_use_where_it_is() -> None:
    """Three free GPUs on a node are of no use to the half of the pods that want four."""
    trace = Trace.of([TraceJob("two", 0, 1, 2, 2), TraceJob("four", 0, 1, 2, 4), TraceJob("none", 0, 1, 9, 0)])
    rooms = Rooms(Fleet(1, 8), trace)
    assert (rooms.free, rooms.stranded) == (8, 0)
    shape = shape_of(TraceJob("five", 0, 1, 1, 5))
    rooms.take("node-0", shape)
    assert (rooms.free, rooms.stranded) == (3, 1.5)
    assert rooms.hold([("node-0", shape_of(TraceJob("x", 0, 1, 1, 3)))])
    assert not rooms.hold([("node-0", shape_of(TraceJob("x", 0, 1, 1, 2)))] * 2)
    rooms.give_back("node-0", shape)
    assert (rooms.free, rooms.stranded) == (8, 0)


_DRAWN = st.lists(
    st.tuples(
        st.integers(0, 300),
        st.integers(1, 400),
        st.sampled_from([(1, 1), (1, 3), (1, 8), (2, 8), (3, 8), (4, 2)]),
        st.sampled_from([-1, 0, 1]),
        st.sampled_from("ab"),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(drawn=_DRAWN, policy=st.sampled_from(sorted(POLICIES)))
def test_every_policy_keeps_the_promises(drawn: list[tuple[int, int, tuple[int, int], int, str]], policy: str) -> None:
    """Everybody runs to its end, nothing is promised twice, and nobody surpasses the fluid schedule."""
    jobs = [
        TraceJob(f"j{index:02d}", at, runtime, *size, queue=queue, priority=priority, declared=runtime)
        for index, (at, runtime, size, priority, queue) in enumerate(drawn)
    ]
    fleet = Fleet(3 + (policy == "spares"), 8)
    history = play(policy, *jobs, fleet=fleet)
    trace = history.trace
    assert not history.waiting
    for index, job in enumerate(trace.jobs):
        runs = [run for run in history.runs if run.job == index]
        assert sum(run.kept for run in runs) == pytest.approx(job.runtime)
        assert all(run.start >= job.submitted for run in runs)
    changes = [(run.start, trace.jobs[run.job].all_gpus) for run in history.runs]
    changes += [(run.end, -trace.jobs[run.job].all_gpus) for run in history.runs]
    held = 0
    for _, change in sorted(changes):  # who leaves at a moment leaves before others come
        held += change
        assert held <= fleet.all_gpus
    work = sum(min(run.kept, max(trace.span - run.start, 0)) * trace.jobs[run.job].all_gpus for run in history.runs)
    assert work <= fluid(trace, fleet.all_gpus).work + 1e-3


def test_a_gang_runs_longer_where_its_collectives_are_slower() -> None:
    """Half of a step is communication: at half the bandwidth it takes half as long again; one without takes as long."""
    fleet = Fleet(2, 8, product="NVIDIA-H100-80GB-HBM3")
    holds = [TraceJob(f"holds-{number}", 0, 1000, 1, 5) for number in range(2)]
    talks = TraceJob("talks", 10, 100, 16, 1, communication=0.5)
    alone = play("easy", talks, fleet=fleet)
    (run,) = alone.runs
    assert run.pace == 1.0
    assert run.kept == run.end - run.start == pytest.approx(100)
    halves = play("easy", *holds, replace(talks, pods=6), fleet=fleet)
    shared = next(run for run in halves.runs if halves.trace.jobs[run.job].name == "talks")
    assert shared.pace < 1
    assert (shared.end - shared.start) * shared.pace == pytest.approx(100)
    silent = play("easy", replace(talks, communication=0.0), fleet=fleet)
    assert [run.pace for run in silent.runs] == [1.0]


def test_tiers_of_the_network_slow_down_what_lies_in_several() -> None:
    """Eight nodes of one rack are faster than eight of two."""
    talks = TraceJob("talks", 0, 100, 8, 8, communication=0.4)
    paces = []
    for rack in (8, 4):
        (run,) = play("easy", talks, fleet=Fleet(8, 8, product="NVIDIA-H100-80GB-HBM3", rack=rack)).runs
        paces.append(run.pace)
    assert paces == [1.0, pytest.approx(1 / (1 + 0.4 * (1 / 0.95 - 1)))]


@pytest.mark.parametrize(("policy", "evicted"), [("preemptive", "b"), ("told", "a")])
def test_who_has_just_saved_is_evicted_where_muster_is_told(policy: str, evicted: str) -> None:
    """Without that the gang that started last counts as losing least, however long ago it saved."""
    a = TraceJob("a", 0, 10_000, 1, 8, checkpoint=1_000)
    b = TraceJob("b", 500, 10_000, 1, 8, checkpoint=5_000)
    urgent = TraceJob("urgent", 2_100, 100, 1, 8, priority=9)
    history = play(policy, a, b, urgent, fleet=Fleet(2, 8))
    (eviction,) = history.evictions
    assert history.trace.jobs[eviction.job].name == evicted
    lost = {"a": 2_100 - 2_000, "b": 2_100 - 500}[evicted]
    spent = sum(run.end - run.start - run.kept for run in history.runs)
    assert spent == pytest.approx(lost + 30)
