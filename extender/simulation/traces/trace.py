"""A trace: gangs in the order in which they were submitted, and how long each runs once it has started."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


class TraceError(ValueError):
    """A trace that cannot be read or played; the message names file, line and column, or the job."""


@dataclass(frozen=True, slots=True)
class Job:
    """One gang of a trace: `pods` pods that are alike and start together.

    `submitted` counts seconds since the trace began, `runtime` is how long it runs (seconds) if nothing interrupts it.
    `gpus` (whole), `cpu` (milli-CPU) and `memory` (bytes) are what each pod asks for. `declared` is the runtime that
    its owner promises (seconds), None for no promise. `checkpoint` is how often progress is saved (seconds); None for
    never, so that an eviction loses all of it.
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

    jobs: tuple[Job, ...]

    @classmethod
    def of(cls, jobs: Iterable[Job]) -> Self:
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
        """Return the mean of how many GPUs would be in use until the last submission if nobody waited, by `gpus`.

        It is what a cluster of unlimited size would be asked for, and so may be above 1.
        """
        asked = sum(job.all_gpus * min(job.runtime, self.span - job.submitted) for job in self.jobs)
        capacity = gpus * self.span
        return asked / capacity if capacity else 0.0
