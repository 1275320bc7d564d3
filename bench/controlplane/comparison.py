"""Figures from runs of several contenders on one workload."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from bench.controlplane.contenders import Contender
from bench.controlplane.runs import Run
from bench.controlplane.stage import HARNESS
from bench.figures import Figure, of_repeats

#: What each contender did, in one repeat.
Repeat = Mapping[Contender, Run]


def ratios(name: str, repeats: Sequence[Repeat], bounds: Mapping[Contender, float | None]) -> Iterator[Figure]:
    """Yield Muster's time and processor time over each rival's in `bounds`.

    A ratio is taken within a repeat, then their median. `bounds` are those of time. Processor time is less disturbed by
    what else runs on the machine.
    """
    for rival, bound in bounds.items():
        found = [repeat[Contender.MUSTER].seconds / repeat[rival].seconds for repeat in repeats]
        yield of_repeats(f"{name}_vs_{rival}", "ratio", found, bound=bound)
        costs = [_cost(repeat[Contender.MUSTER]) / _cost(repeat[rival]) for repeat in repeats]
        yield of_repeats(f"{name}_cpu_vs_{rival}", "ratio", costs)


def times(name: str, repeats: Sequence[Repeat]) -> Iterator[Figure]:
    """Yield, for each contender, the seconds from the first creation until all are bound, and pods per second."""
    for contender, runs in _by_contender(repeats):
        yield of_repeats(f"{name}_{contender}_s", "s", [run.seconds for run in runs])
        yield of_repeats(f"{name}_{contender}_pods_per_s", "pods/s", [run.pods / run.seconds for run in runs])


def attempts(name: str, repeats: Sequence[Repeat]) -> Iterator[Figure]:
    """Yield, for each contender, how often kube-scheduler tried to place one pod."""
    for contender, runs in _by_contender(repeats):
        yield of_repeats(f"{name}_{contender}_attempts_per_pod", "per pod", [run.attempts / run.pods for run in runs])


def phases(name: str, repeats: Sequence[Repeat]) -> Iterator[Figure]:
    """Yield, for each contender, how long after the first creation it reached what."""
    for contender, runs in _by_contender(repeats):
        for phase in _in_order(runs):
            reached = [run.phases[phase] for run in runs if phase in run.phases]
            yield of_repeats(f"{name}_{contender}_{phase}_at_s", "s", reached)


def processor_time(name: str, repeats: Sequence[Repeat]) -> Iterator[Figure]:
    """Yield, for each contender, the processor seconds of the whole system without the harness, and of each process."""
    for contender, runs in _by_contender(repeats):
        yield of_repeats(f"{name}_{contender}_cpu_s", "CPU s", [_cost(run) for run in runs])
        for process in runs[0].cpu:
            yield of_repeats(f"{name}_{contender}_cpu_{process}_s", "CPU s", [run.cpu[process] for run in runs])


def work(name: str, repeats: Sequence[Repeat]) -> Iterator[Figure]:
    """Yield what Muster did: writes by pod, passes, and the mean time of a pass, a filter call and a bind call."""
    runs = [repeat[Contender.MUSTER] for repeat in repeats]
    yield of_repeats(f"{name}_nominations_per_pod", "per pod", [run.work.nominations / run.pods for run in runs])
    yield of_repeats(f"{name}_bindings_per_pod", "per pod", [run.work.bindings / run.pods for run in runs])
    yield of_repeats(f"{name}_renominations", "pods", [run.work.renominations for run in runs])
    yield of_repeats(f"{name}_passes", "passes", [run.work.passes for run in runs])
    yield of_repeats(f"{name}_pass_ms", "ms", [_mean_ms(run.work.pass_seconds, run.work.passes) for run in runs])
    filters = [_mean_ms(run.work.filter_seconds, run.work.filter_calls) for run in runs]
    yield of_repeats(f"{name}_filter_ms", "ms", filters)
    held = [_mean_ms(run.work.bind_seconds, run.work.bindings) for run in runs]
    yield of_repeats(f"{name}_bind_ms", "ms", held)


def filter_calls_per_pod(name: str, repeats: Sequence[Repeat], bound: float | None = None) -> Figure:
    """Return how often kube-scheduler asked Muster's filter for one bound pod."""
    runs = [repeat[Contender.MUSTER] for repeat in repeats]
    return of_repeats(name, "per pod", [run.work.filter_calls / run.pods for run in runs], bound=bound)


def _cost(run: Run) -> float:
    return sum(seconds for process, seconds in run.cpu.items() if process != HARNESS)


def _mean_ms(seconds: float, count: float) -> float:
    return 1000 * seconds / count if count else 0.0


def _by_contender(repeats: Sequence[Repeat]) -> Iterator[tuple[Contender, list[Run]]]:
    for contender in repeats[0]:
        yield contender, [repeat[contender] for repeat in repeats]


def _in_order(runs: Sequence[Run]) -> list[str]:
    """Return the names of all phases, the one that is reached first in front."""
    names = dict.fromkeys(chain.from_iterable(run.phases for run in runs))

    def usual(phase: str) -> float:
        return statistics.median(run.phases[phase] for run in runs if phase in run.phases)

    return sorted(names, key=usual)
