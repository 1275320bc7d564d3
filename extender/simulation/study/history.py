"""What happened when a trace was played: runs, evictions, and how full the cluster was, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from extender.domain.reason import Reason
from extender.simulation.traces.trace import Trace


class Run(NamedTuple):
    """One time that a job held its GPUs: from `start` until they were free again at `end` (seconds).

    `kept` are the seconds of work that counted in the end: less than it held them if it was evicted.
    """

    job: int
    start: float
    end: float
    kept: float


class Eviction(NamedTuple):
    """One gang that was evicted: its job, when, for whom (namespace/name, "" for nobody), why."""

    job: int
    at: float
    by: str
    reason: str


class Step(NamedTuple):
    """How things stood from `at` (seconds) until the next step: GPUs that were free, stranded, and waited for."""

    at: float
    free: int
    stranded: float
    wanted: int


@dataclass(frozen=True, slots=True)
class History:
    """A trace as one policy played it; jobs are named by their place in the trace.

    `waiting` says why those waited that had not ended when nothing more could happen. `passes` and `cpu_seconds` are
    what it took of this machine.
    """

    trace: Trace
    runs: tuple[Run, ...]
    evictions: tuple[Eviction, ...]
    steps: tuple[Step, ...]
    waiting: Mapping[int, Reason | None]
    passes: int
    cpu_seconds: float
