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

#: The name of Muster among the processes of a team.
MUSTER_PROCESS = "muster"
_CPU_UNIT = "CPU ms per pod"


def ratios(name: str, repeats: Sequence[Repeat], bounds: Mapping[Contender, float]) -> Iterator[Figure]:
    """Yield Muster's time and processor time over each other contender's; nothing without Muster.

    A ratio is taken within a repeat, then their median. `bounds` are those of time. Processor time is less disturbed by
    what else runs on the machine.
    """
    for rival in repeats[0]:
        if rival is Contender.MUSTER or Contender.MUSTER not in repeats[0]:
            continue
        found = [repeat[Contender.MUSTER].seconds / repeat[rival].seconds for repeat in repeats]
        yield of_repeats(f"{name}_vs_{rival}", "ratio", found, bound=bounds.get(rival))
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
        yield of_repeats(
            f"{name}_{contender}_attempts_per_pod", "per pod", [run.spent.attempts / run.pods for run in runs]
        )


def phases(name: str, repeats: Sequence[Repeat]) -> Iterator[Figure]:
    """Yield, for each contender, how long after the first creation it reached what."""
    for contender, runs in _by_contender(repeats):
        for phase in _in_order(runs):
            reached = [run.phases[phase] for run in runs if phase in run.phases]
            yield of_repeats(f"{name}_{contender}_{phase}_at_s", "s", reached)


def processor_time(name: str, repeats: Sequence[Repeat], muster_bound: float | None = None) -> Iterator[Figure]:
    """Yield, for each contender, processor time by pod, of the whole without the harness and of each process.

    `muster_bound` is what Muster itself may need, in milliseconds for each pod.
    """
    for contender, runs in _by_contender(repeats):
        yield of_repeats(f"{name}_{contender}_cpu_ms", _CPU_UNIT, [1000 * _cost(run) / run.pods for run in runs])
        for process in runs[0].spent.cpu:
            used = [1000 * run.spent.cpu[process] / run.pods for run in runs]
            bound = muster_bound if process == MUSTER_PROCESS else None
            yield of_repeats(f"{name}_{contender}_cpu_{process}_ms", _CPU_UNIT, used, bound=bound)


def writes(name: str, repeats: Sequence[Repeat]) -> Iterator[Figure]:
    """Yield, for each contender, writes by pod as the API server counts them, and how many were answered 429."""
    for contender, runs in _by_contender(repeats):
        prefix = f"{name}_{contender}"
        every = [sum(run.spent.writes.values()) / run.pods for run in runs]
        yield of_repeats(f"{prefix}_writes", "per pod", every)
        for kind in dict.fromkeys(chain.from_iterable(run.spent.writes for run in runs)):
            known = kind.lower().replace(" ", "_").replace("/", "_")
            counted = [run.spent.writes.get(kind, 0.0) / run.pods for run in runs]
            yield of_repeats(f"{prefix}_writes_{known}", "per pod", counted)
        yield of_repeats(f"{prefix}_writes_refused", "writes", [run.spent.refused for run in runs])


def disturbance(name: str, repeats: Sequence[Repeat]) -> Iterator[Figure]:
    """Yield, for each contender, the load average when it began, and how many processors others kept busy meanwhile."""
    for contender, runs in _by_contender(repeats):
        yield of_repeats(f"{name}_{contender}_load", "processes", [run.load for run in runs])
        yield of_repeats(f"{name}_{contender}_elsewhere", "processors", [run.spent.elsewhere for run in runs])


def work(
    name: str, repeats: Sequence[Repeat], *, filter_bound: float | None = None, turns_bound: float | None = None
) -> Iterator[Figure]:
    """Yield what Muster did: calls and writes by pod, passes, and the mean time of a pass, a filter and a bind call.

    `filter_bound` is how often kube-scheduler may ask Muster's filter for one bound pod, `turns_bound` how many turns
    of its event loop may take more than 10 ms. Nothing without Muster.
    """
    runs = [repeat[Contender.MUSTER] for repeat in repeats if Contender.MUSTER in repeat]
    if not runs:
        return
    did = [(run.spent.work, run.pods) for run in runs]
    calls = [work.filter_calls / pods for work, pods in did]
    yield of_repeats(f"{name}_filter_calls_per_pod", "per pod", calls, bound=filter_bound)
    yield of_repeats(f"{name}_nominations_per_pod", "per pod", [work.nominations / pods for work, pods in did])
    yield of_repeats(f"{name}_bindings_per_pod", "per pod", [work.bindings / pods for work, pods in did])
    yield of_repeats(f"{name}_renominations", "pods", [work.renominations for work, _ in did])
    yield of_repeats(f"{name}_passes", "passes", [work.passes for work, _ in did])
    yield of_repeats(f"{name}_pass_ms", "ms", [_mean_ms(work.pass_seconds, work.passes) for work, _ in did])
    yield of_repeats(f"{name}_filter_ms", "ms", [_mean_ms(work.filter_seconds, work.filter_calls) for work, _ in did])
    yield of_repeats(f"{name}_bind_ms", "ms", [_mean_ms(work.bind_seconds, work.bindings) for work, _ in did])
    yield of_repeats(f"{name}_busy_turns", "turns", [work.busy_turns for work, _ in did], bound=turns_bound)


def _cost(run: Run) -> float:
    return sum(seconds for process, seconds in run.spent.cpu.items() if process != HARNESS)


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
