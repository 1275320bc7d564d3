"""A study: one trace under several policies, compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from muster_lab.study.failures import NO_FAILURES, FailureModel
from muster_lab.study.figures import Figures, Waits, evaluate
from muster_lab.study.fleet import Fleet
from muster_lab.study.fluid import Fluid, fluid
from muster_lab.study.history import StudyHistory
from muster_lab.study.player import Progress, StudyPlayer
from muster_lab.study.policy import StudyPolicy
from muster_lab.traces.trace import Trace

_DECIMALS = 6
#: Points of each curve over time; more are not seen.
_POINTS = 240

Reporting: TypeAlias = Callable[[StudyPolicy], Progress]
"""Makes what is told of the progress of one policy."""


@dataclass(frozen=True, slots=True)
class Played:
    """One policy's history and figures."""

    policy: StudyPolicy
    history: StudyHistory
    figures: Figures


@dataclass(frozen=True, slots=True)
class Study:
    """A trace on a fleet, as each policy played it, and what an ideal schedule would have done."""

    trace: Trace
    fleet: Fleet
    ideal: Fluid
    played: tuple[Played, ...]


def study(
    trace: Trace,
    fleet: Fleet,
    policies: Sequence[StudyPolicy],
    reporting: Reporting | None = None,
    failures: FailureModel = NO_FAILURES,
) -> Study:
    """Play a trace under each policy, with the same failures. Raises TraceError for a job that can never run."""
    fleet.check(trace)
    ideal = fluid(trace, fleet.all_gpus)
    played = []
    for policy in policies:
        history = StudyPlayer(trace, fleet, policy, failures).play(None if reporting is None else reporting(policy))
        played.append(Played(policy, history, evaluate(policy.name, history, ideal, fleet.all_gpus)))
    return Study(trace, fleet, ideal, tuple(played))


def study_json(result: Study) -> dict[str, Any]:
    """Return a study as JSON; equal studies give equal documents, whatever the machine."""
    trace, fleet = result.trace, result.fleet
    return {
        "trace": {
            "jobs": len(trace.jobs),
            "span": _rounded(trace.span),
            "gpuHours": _rounded(trace.gpu_seconds / 3600),
            "load": _rounded(trace.load(fleet.all_gpus)),
            "queues": len(trace.queues),
        },
        "cluster": {"nodes": fleet.nodes, "gpusPerNode": fleet.gpus},
        "ideal": {"utilisation": _rounded(result.ideal.work / (fleet.all_gpus * trace.span) if trace.span else 0.0)},
        "policies": [_policy_json(played) | {"timeline": _timeline(played.history)} for played in result.played],
    }


def _policy_json(played: Played) -> dict[str, Any]:
    figures = played.figures
    return {
        "name": figures.policy,
        "says": played.policy.says,
        "jobs": figures.jobs,
        "ended": figures.ended,
        "waiting": dict(figures.waiting),
        "wait": _waits_json(figures.waits),
        "waitBySize": [{"gpus": [size.least, size.most]} | _waits_json(size.waits) for size in figures.by_size],
        "waitByQueue": {name: _waits_json(waits) for name, waits in figures.by_queue.items()},
        "slowdown": {"mean": _rounded(figures.slowdown), "p95": _rounded(figures.slowdown_p95)},
        "utilisation": _rounded(figures.utilisation),
        "utilisationOfBound": _rounded(figures.of_bound),
        "idleWhileWaiting": _rounded(figures.idle_while_waiting),
        "fragmentation": _rounded(figures.fragmentation),
        "jain": _rounded(figures.jain),
        "evictions": figures.evictions,
        "wastedGpuHours": _rounded(figures.wasted_gpu_hours),
        "slowedGpuHours": _rounded(figures.slowed_gpu_hours),
        "makespan": _rounded(figures.makespan),
        "interruptions": figures.interruptions,
        "recovery": _waits_json(figures.recovery),
        "effective": _rounded(figures.effective),
        "passes": played.history.passes,
    }


def _waits_json(waits: Waits) -> dict[str, int | float]:
    return {name: _rounded(value) if isinstance(value, float) else value for name, value in asdict(waits).items()}


def _timeline(history: StudyHistory) -> list[dict[str, float]]:
    """Return how things stood at evenly spread moments, mean values of the time between two of them."""
    if not history.steps:
        return []
    end = history.steps[-1].at
    width = end / _POINTS or 1.0
    bins = [[0.0, 0.0, 0.0] for _ in range(_POINTS)]
    for step, following in zip(history.steps, history.steps[1:], strict=False):
        at = step.at
        while at < following.at:
            place = min(int(at / width), _POINTS - 1)
            until = following.at if place == _POINTS - 1 else min(following.at, (place + 1) * width)
            if until <= at:  # rounding has put `at` into the bin before
                place, until = place + 1, following.at
                place = min(place, _POINTS - 1)
            for column, value in enumerate((step.free, step.stranded, step.wanted)):
                bins[place][column] += value * (until - at)
            at = until
    return [
        {
            "at": _rounded(place * width),
            "free": _rounded(free / width),
            "stranded": _rounded(stranded / width),
            "wanted": _rounded(wanted / width),
        }
        for place, (free, stranded, wanted) in enumerate(bins)
    ]


def _rounded(value: float) -> float:
    return round(value, _DECIMALS)
