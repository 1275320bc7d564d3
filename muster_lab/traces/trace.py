"""A trace: gangs in the order in which they were submitted, how long each runs, and how to give it another load."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Self, TypeAlias

#: Halvings of an interval of floats after which nothing changes any more.
_HALVINGS = 60


class TraceError(ValueError):
    """A trace that cannot be read or played; the message names file, line and column, or the job."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One gang of a trace: `pods` pods that are alike and start together.

    `submitted` counts seconds since the trace began, `runtime` is how long it runs (seconds) if nothing interrupts it.
    `gpus` (whole), `cpu` (milli-CPU) and `memory` (bytes) are what each pod asks for. `declared` is the runtime that
    its owner promises (seconds), None for no promise. `checkpoint` is how often progress is saved (seconds); None for
    never, so that an eviction loses all of it. `communication` is the share of a step that it communicates in the
    fastest place that there could be for it; where its collectives are slower it runs longer than `runtime`.
    """

    name: str
    submitted: float
    runtime: float
    pods: int
    gpus: int
    cpu: int = 0
    memory: int = 0
    queue: str = ""
    priority: int = 0
    declared: float | None = None
    checkpoint: float | None = None
    preemptible: bool = True
    communication: float = 0.0

    @property
    def all_gpus(self) -> int:
        """Return how many GPUs the whole gang holds while it runs."""
        return self.pods * self.gpus

    @property
    def gpu_seconds(self) -> float:
        """Return the work in it."""
        return self.all_gpus * self.runtime


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs in order of submission, equal times in order of their names."""

    jobs: tuple[TraceJob, ...]

    @classmethod
    def of(cls, jobs: Iterable[TraceJob]) -> Self:
        """Sort jobs into a trace."""
        ordered = sorted(jobs, key=lambda job: (job.submitted, job.name))
        return cls(tuple(ordered))

    @property
    def span(self) -> float:
        """Return the seconds from the beginning until the last submission."""
        return self.jobs[-1].submitted if self.jobs else 0.0

    @property
    def gpu_seconds(self) -> float:
        """Return the work in all jobs."""
        return sum(job.gpu_seconds for job in self.jobs)

    @property
    def queues(self) -> tuple[str, ...]:
        """Return the names of all queues, sorted; jobs without one are in the queue ""."""
        return tuple(sorted({job.queue for job in self.jobs}))

    def load(self, gpus: int) -> float:
        """Return the mean of how many GPUs would be in use until the last submission if no job waited, by `gpus`.

        It is what a cluster of unlimited size would be asked for, and so may be above 1.
        """
        asked = sum(job.all_gpus * min(job.runtime, self.span - job.submitted) for job in self.jobs)
        capacity = gpus * self.span
        return asked / capacity if capacity else 0.0


def span_for(jobs: Sequence[TraceJob], positions: Sequence[float], gpus: int, load: float) -> float:
    """Return over how many seconds these jobs have to arrive to make `load` on `gpus` GPUs, as `Trace.load` has it.

    Args:
        jobs: the jobs; when they were submitted does not count.
        positions: when each arrives instead, 0 for the beginning and 1 for the end.
        gpus: the GPUs of the cluster.
        load: above 0.

    Raises TraceError if these jobs are too few for that load, however close together they come.
    """
    most = sum(job.all_gpus * (1 - at) for job, at in zip(jobs, positions, strict=True)) / gpus
    if load >= most:
        raise TraceError(f"a load of {load:g} cannot be made on {gpus} GPUs: all jobs together make {most:.2f} of it")
    low, high = 0.0, sum(job.gpu_seconds for job in jobs) / (gpus * load)
    for _ in range(_HALVINGS):
        span = (low + high) / 2
        asked = sum(job.all_gpus * min(job.runtime, span * (1 - at)) for job, at in zip(jobs, positions, strict=True))
        low, high = (span, high) if asked > load * gpus * span else (low, span)
    return high


def at_load(trace: Trace, gpus: int, load: float) -> Trace:
    """Stretch or squeeze the times between submissions so that the trace makes `load` on `gpus` GPUs.

    Raises TraceError for a trace whose jobs all come at once, and for a load that is not above 0 or needs more jobs.
    """
    if not (load > 0 and math.isfinite(load)):
        raise TraceError(f"a load of {load:g} cannot be made: it has to be above 0; 1 is what the cluster can do")
    if not trace.span:
        raise TraceError("all jobs are submitted at once: there is no time between them that could be stretched")
    span = span_for(trace.jobs, [job.submitted / trace.span for job in trace.jobs], gpus, load)
    return Trace.of(replace(job, submitted=round(job.submitted / trace.span * span, 3)) for job in trace.jobs)


class Published(StrEnum):
    """A published trace, as the command line calls it."""

    ALIBABA_2020 = "alibaba-2020"
    ALIBABA_2023 = "alibaba-2023"
    PHILLY = "philly"


@dataclass(slots=True)
class Harvest:
    """Jobs as they are found, and how often something was left out or changed, by what it was."""

    jobs: list[TraceJob] = field(default_factory=list)
    remarks: Counter[str] = field(default_factory=Counter)

    def remark(self, text: str) -> None:
        """Count something that users should know of what became of their trace."""
        self.remarks[text] += 1

    def conversion(self, source: str) -> Conversion:
        """Let the trace begin with its first job; raise TraceError if none was found."""
        if not self.jobs:
            told = "; ".join(f"{count} x {text}" for text, count in self.remarks.most_common())
            raise TraceError(f"{source}: no job could be taken from it" + (f" ({told})" if told else ""))
        begin = min(job.submitted for job in self.jobs)
        jobs = (replace(job, submitted=round(job.submitted - begin, 6)) for job in self.jobs)
        return Conversion(Trace.of(jobs), dict(self.remarks))


@dataclass(frozen=True, slots=True)
class Conversion:
    """A trace made from a published one, and how many jobs were left out or changed, by why."""

    trace: Trace
    remarks: Mapping[str, int]


Converter: TypeAlias = Callable[[Sequence[Path]], Conversion]
"""Make a trace from the files of a published one; raises TraceError."""
