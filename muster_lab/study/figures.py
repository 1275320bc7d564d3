"""The figures of a study: what a history comes to, as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from muster_lab.simulation.accounting import SECONDS_PER_HOUR
from muster_lab.study.fluid import Fluid
from muster_lab.study.history import StudyHistory
from muster_lab.traces.trace import TraceJob

#: Jobs are told apart by size in so many classes of equally many jobs.
DECILES = 10
#: Bounded slowdown counts no runtime as shorter than this (seconds), or jobs of seconds would decide the mean.
#: Source: Feitelson, Metrics for Parallel Job Scheduling and their Convergence, JSSPP 2001, with 10 s.
_SHORTEST_RUNTIME = 10.0


@dataclass(frozen=True, slots=True)
class Waits:
    """How long some jobs waited in all (seconds), those evicted also for coming back."""

    jobs: int
    mean: float
    median: float
    p95: float
    longest: float


@dataclass(frozen=True, slots=True)
class SizeClass:
    """The waits of a tenth of the jobs: those with `least` to `most` GPUs; among equal ones those that do less work."""

    least: int
    most: int
    waits: Waits


@dataclass(frozen=True, slots=True)
class Figures:
    """How a policy fared.

    Everything about capacity counts until the last job was submitted; what happens while a cluster runs empty says
    nothing about a policy. `utilisation` is work that counted, as a share of all GPUs; `of_bound` as a share of what
    the fluid schedule, `bound`, has done by then. `idle_while_waiting` is the mean share of GPUs that were free while
    a job waited; `fragmentation` the mean share of free GPUs that the trace's mean pod could not use where they
    were. `jain` is the index of fairness over queues of what each got against its fair share of the fluid schedule: 1
    is fair. Wasted hours are those of GPUs held for work that was lost, slowed hours those that gangs do not work
    because their collectives are slower than they could be. `makespan` is when the last job ended (seconds).
    `interruptions` are nodes that failed under gangs that ran, `recovery` how long it took until these ran again
    (seconds). `effective` is the share of the time for which gangs held GPUs that was work which counted.
    """

    policy: str
    jobs: int
    ended: int
    waiting: Mapping[str, int]
    waits: Waits
    by_size: tuple[SizeClass, ...]
    by_queue: Mapping[str, Waits]
    slowdown: float
    slowdown_p95: float
    utilisation: float
    bound: float
    of_bound: float
    idle_while_waiting: float
    fragmentation: float
    jain: float
    evictions: int
    wasted_gpu_hours: float
    slowed_gpu_hours: float
    makespan: float
    interruptions: int
    recovery: Waits
    effective: float


def evaluate(policy: str, history: StudyHistory, ideal: Fluid, gpus: int) -> Figures:
    """Work out the figures of one policy on a cluster of so many GPUs."""
    trace, jobs = history.trace, history.trace.jobs
    waits = _waits(history)
    ended = sorted(waits)
    span = trace.span
    work = _work(history)
    lost = sum(((run.end - run.start) * run.pace - run.kept) * jobs[run.job].all_gpus for run in history.runs)
    held = sum((run.end - run.start) * jobs[run.job].all_gpus for run in history.runs)
    kept = sum(run.kept * jobs[run.job].all_gpus for run in history.runs)
    slowed = sum((run.end - run.start) * (1 - run.pace) * jobs[run.job].all_gpus for run in history.runs)
    free, stranded, idle = _integrals(history)
    slowdowns = [1 + waits[index] / max(jobs[index].runtime, _SHORTEST_RUNTIME) for index in ended]
    capacity = gpus * span
    return Figures(
        policy=policy,
        jobs=len(jobs),
        ended=len(ended),
        waiting=Counter("Unknown" if reason is None else reason.value for reason in history.waiting.values()),
        waits=_summary([waits[index] for index in ended]),
        by_size=_by_size(jobs, waits),
        by_queue={
            name: _summary([waits[index] for index in ended if jobs[index].queue == name]) for name in trace.queues
        },
        slowdown=float(np.mean(slowdowns)) if slowdowns else 0.0,
        slowdown_p95=_percentile(slowdowns),
        utilisation=_ratio(sum(work.values()), capacity),
        bound=_ratio(ideal.work, capacity),
        of_bound=_ratio(sum(work.values()), ideal.work),
        idle_while_waiting=_ratio(idle, capacity),
        fragmentation=_ratio(stranded, free),
        jain=jain([_ratio(work[name], fair) for name, fair in ideal.by_queue.items() if fair > 0]),
        evictions=len(history.evictions),
        wasted_gpu_hours=lost / SECONDS_PER_HOUR,
        slowed_gpu_hours=slowed / SECONDS_PER_HOUR,
        makespan=max((run.end for run in history.runs), default=0.0),
        interruptions=len(history.interruptions),
        recovery=_summary([each.resumed - each.at for each in history.interruptions if each.resumed is not None]),
        effective=_ratio(kept, held),
    )


def jain(got: Sequence[float]) -> float:
    """Return Jain's index of fairness, 1/n (one has everything) to 1 (all have the same).

    Source: Jain, Chiu, Hawe, A Quantitative Measure of Fairness and Discrimination, DEC TR-301, 1984.
    """
    squares = sum(value * value for value in got)
    return sum(got) ** 2 / (len(got) * squares) if squares else 1.0


def _waits(history: StudyHistory) -> dict[int, float]:
    """Return how long each job that ended was neither running nor leaving, from submission to its last run."""
    waits: dict[int, float] = {}
    runs: dict[int, list[tuple[float, float]]] = {}
    for run in history.runs:
        runs.setdefault(run.job, []).append((run.start, run.end))
    for index, spells in runs.items():
        if index not in history.waiting:
            last = max(end for _, end in spells)
            waits[index] = last - history.trace.jobs[index].submitted - sum(end - start for start, end in spells)
    return waits


def _work(history: StudyHistory) -> dict[str, float]:
    """Return the work that counted until the last submission (GPU-seconds) by queue, spread evenly over each run."""
    trace = history.trace
    work = dict.fromkeys(trace.queues, 0.0)
    for run in history.runs:
        job = trace.jobs[run.job]
        inside = max(min(run.end, trace.span) - run.start, 0.0)
        if run.end > run.start:
            work[job.queue] += run.kept * inside / (run.end - run.start) * job.all_gpus
    return work


def _integrals(history: StudyHistory) -> tuple[float, float, float]:
    """Return GPU-seconds until the last submission: free, stranded, and free while a job waited."""
    span = history.trace.span
    free = stranded = idle = 0.0
    for step, following in pairwise([*history.steps, history.steps[-1]._replace(at=span)] if history.steps else ()):
        seconds = max(min(following.at, span) - step.at, 0.0)
        free += step.free * seconds
        stranded += step.stranded * seconds
        idle += step.free * seconds if step.wanted else 0.0
    return free, stranded, idle


def _by_size(jobs: Sequence[TraceJob], waits: Mapping[int, float]) -> tuple[SizeClass, ...]:
    """Share the jobs that ended out to classes of equally many, the smallest first."""
    ordered = sorted(waits, key=lambda index: (jobs[index].all_gpus, jobs[index].gpu_seconds, index))
    classes = [part for part in np.array_split(np.array(ordered, dtype=int), DECILES) if part.size]
    return tuple(
        SizeClass(
            least=jobs[part[0]].all_gpus,
            most=jobs[part[-1]].all_gpus,
            waits=_summary([waits[index] for index in part.tolist()]),
        )
        for part in classes
    )


def _summary(waits: Sequence[float]) -> Waits:
    if not waits:
        return Waits(0, 0.0, 0.0, 0.0, 0.0)
    values: NDArray[np.float64] = np.array(waits)
    return Waits(
        len(waits), float(values.mean()), float(np.median(values)), _percentile(waits), float(values.max(initial=0.0))
    )


def _percentile(values: Sequence[float]) -> float:
    """Return the 95th percentile."""
    return float(np.percentile(values, 95)) if values else 0.0


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
