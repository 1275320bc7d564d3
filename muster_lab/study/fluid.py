"""What an ideal schedule could do: work as a fluid, which any GPU can do any part of at any time.

A job cannot do more by some time than it would have done if it had started when it was submitted, and the cluster
cannot do more than its GPUs allow. So by any time T no schedule has done more than the least, over all s <= T, of the
work that unlimited GPUs had done by s plus all that the cluster can do from s to T. The fluid schedule here does just
that: it takes in work at the rate at which unlimited GPUs would do it, and works whenever there is something left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from muster_lab.traces.trace import Trace, TraceJob

#: GPU-seconds that are left over by rounding alone.
_NOTHING = 1e-6


@dataclass(frozen=True, slots=True)
class Fluid:
    """What the fluid schedule has done when the last job is submitted: GPU-seconds in all, and by queue.

    `rates` are (from when, GPUs in use) for plots.
    """

    work: float
    by_queue: Mapping[str, float]
    rates: tuple[tuple[float, float], ...]


def fluid(trace: Trace, gpus: int) -> Fluid:
    """Share `gpus` GPUs out equally to the queues at every moment; what one does not need the others get.

    Complexity: O(jobs x queues).
    """
    queues = {name: index for index, name in enumerate(trace.queues)}
    demand, left, done = [0] * len(queues), [0.0] * len(queues), [0.0] * len(queues)
    changes = _changes(trace.jobs)
    rates = []
    moments = [*sorted(changes), trace.span] if trace.span else [0.0]
    for begin, then in pairwise(sorted({min(moment, trace.span) for moment in moments})):
        for queue, more in changes.get(begin, ()):
            demand[queues[queue]] += more
        now = begin
        while then - now > 0:
            # Who has work left over takes any number of GPUs; the others only what their jobs can use.
            wishes = [gpus if rest > _NOTHING else asked for rest, asked in zip(left, demand, strict=True)]
            given = _share(gpus, wishes)
            step = min([then - now, *_until_done(left, demand, given)])
            rates.append((now, sum(given)))
            for index, rate in enumerate(given):
                done[index] += rate * step
                left[index] = max(left[index] + (demand[index] - rate) * step, 0.0)
            now += step
    return Fluid(sum(done), dict(zip(queues, done, strict=True)), tuple(rates))


def _changes(jobs: Sequence[TraceJob]) -> dict[float, list[tuple[str, int]]]:
    """Return by how many GPUs each queue's demand changes when, if every job starts when it is submitted."""
    changes: dict[float, list[tuple[str, int]]] = {}
    for job in jobs:
        changes.setdefault(job.submitted, []).append((job.queue, job.all_gpus))
        changes.setdefault(job.submitted + job.runtime, []).append((job.queue, -job.all_gpus))
    return changes


def _until_done(left: Sequence[float], demand: Sequence[int], given: Sequence[float]) -> list[float]:
    """Return when each queue that catches up has nothing left over (seconds from now)."""
    return [
        rest / (rate - asked)
        for rest, asked, rate in zip(left, demand, given, strict=True)
        if rest > _NOTHING and rate - asked > _NOTHING
    ]


def _share(gpus: int, wishes: Sequence[int]) -> list[float]:
    """Share GPUs out so that the least that any job gets of what it wishes is as large as can be (max-min fairness)."""
    given = [0.0] * len(wishes)
    rest = float(gpus)
    waiting = sorted(range(len(wishes)), key=lambda index: wishes[index])
    while waiting:
        share = rest / len(waiting)
        index = waiting.pop(0)
        given[index] = min(float(wishes[index]), share)
        rest -= given[index]
    return given
