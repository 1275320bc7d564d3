"""What happened to a trace under one policy: runs, evictions, interruptions, and how things stood when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from extender.objects.reason import Reason
from muster_lab.traces.trace import Trace


class StudyRun(NamedTuple):
    """One time that a job held its GPUs: from `start` until they were free again at `end` (seconds).

    `kept` are the seconds of work that counted in the end: less than it held them if it was evicted, or if it ran at a
    `pace` below 1, which is that of the fastest place that there could be for it.
    """

    job: int
    start: float
    end: float
    kept: float
    pace: float = 1.0


class StudyEviction(NamedTuple):
    """One gang that was evicted: its job, when, for whom (namespace/name, "" if unknown), why."""

    job: int
    at: float
    by: str
    reason: str


class StudyInterruption(NamedTuple):
    """One time that a node failed under a gang that ran: its job, when, and when it ran again, None for never."""

    job: int
    at: float
    resumed: float | None


class UsageStep(NamedTuple):
    """How things stood from `at` (seconds) until the next step: GPUs that were free, stranded, and waited for."""

    at: float
    free: int
    stranded: float
    wanted: int


@dataclass(frozen=True, slots=True)
class StudyHistory:
    """A trace as one policy played it; jobs are named by their place in the trace.

    `waiting` says why those waited that had not ended when nothing more could happen. `passes` and `cpu_seconds` are
    what it took of this machine.
    """

    trace: Trace
    runs: tuple[StudyRun, ...]
    evictions: tuple[StudyEviction, ...]
    steps: tuple[UsageStep, ...]
    waiting: Mapping[int, Reason | None]
    passes: int
    cpu_seconds: float
    interruptions: tuple[StudyInterruption, ...] = ()
