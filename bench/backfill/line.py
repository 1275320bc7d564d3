"""A line of gangs before a cluster, played event by event: who starts when, and what was promised to whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappop, heappush
from itertools import count

import numpy as np
from numpy.typing import NDArray

from extender.cluster.occupancy import HoldingScope
from extender.cluster.table import NodeTable
from extender.cluster.tree import build
from extender.cluster.whatif import WhatIf
from extender.objects.levels import Levels
from extender.objects.pod import Pod
from extender.placement.backfill.outlook import Calendar, Release
from extender.placement.backfill.start import Blocked, Start, earliest_start
from extender.placement.candidates import Candidates, Eligibility, PlacementTerms
from extender.placement.earmark import MARGIN_SECONDS, CapacityProfile, earmark, fits_gap
from extender.placement.plan import Plan, plan


class Backfilling(StrEnum):
    """Who may pass a gang that waits: nobody, who does not delay the first, who does not delay anybody."""

    NONE = "none"
    EASY = "easy"
    CONSERVATIVE = "conservative"


@dataclass(frozen=True, slots=True)
class Job:
    """A gang: when it comes, how long it runs, and how long it says that it will (seconds); None: it does not say."""

    name: str
    pods: tuple[Pod, ...]
    arrival: float
    runtime: float
    declared: float | None
    terms: PlacementTerms = field(default_factory=PlacementTerms)


@dataclass(slots=True)
class Record:
    """What happened: when each gang started and ended, and every start that it was promised, in order."""

    started: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    promises: dict[str, list[Start]] = field(default_factory=dict)


class Line:
    """Play gangs that come, wait in the order in which they came, run and end.

    Attributes:
        table: the cluster; its claims are those of the gangs that run, and whatever was there before, which stays.
        now: seconds since the beginning.
        waiting: who waits, first come first.
        running: name -> who runs.
        record: what has happened so far.
    """

    def __init__(
        self,
        table: NodeTable,
        jobs: Sequence[Job],
        backfilling: Backfilling,
        *,
        levels: Levels | None = None,
        margin: float = MARGIN_SECONDS,
    ) -> None:
        """Play on `table`; `margin` is how many seconds before a start others must be gone."""
        self.table = table
        self.now = 0.0
        self.waiting: list[Job] = []
        self.running: dict[str, Job] = {}
        self.record = Record()
        self._backfilling = backfilling
        self._margin = margin
        self._candidates = Candidates(build(table, levels or Levels()), Eligibility(table).mask)
        self._number = count()
        self._events: list[tuple[float, int, int, Job | None]] = []  # ends (0), arrivals (1), promised starts (2)
        for job in jobs:
            heappush(self._events, (job.arrival, 1, next(self._number), job))

    def play(self) -> Iterator[float]:
        """Play to the end; yield the time after each moment at which anything happened."""
        while self._events:
            self.now = self._events[0][0]
            while self._events and self._events[0][0] == self.now:
                _, kind, _, job = heappop(self._events)
                if job is not None:
                    (self.waiting.append if kind else self._end)(job)
            match self._backfilling:
                case Backfilling.NONE:
                    self._first_come()
                case Backfilling.EASY:
                    self._easy()
                case Backfilling.CONSERVATIVE:
                    self._conservative()
            yield self.now

    def calendar(self) -> Calendar:
        """Return when those who run are expected to end."""
        releases = (
            Release(self.record.started[job.name] + job.declared, tuple(pod.uid for pod in job.pods), job.name)
            for job in self.running.values()
            if job.declared is not None
        )
        return Calendar(releases, self.now)

    def _first_come(self) -> None:
        while self.waiting and (nodes := self._plan(self.waiting[0])) is not None:
            self._start(self.waiting[0], nodes)

    def _easy(self) -> None:
        start: Start | None = None
        kept: NDArray[np.int64] | None = None  # for the head, once there is one
        for job in list(self.waiting):
            fits = fits_gap(self.now, job.declared, start, self._margin)
            nodes = self._plan(job, None if fits else kept)
            if nodes is None and kept is None:
                promise = self._promise(job)
                if promise is not None and promise.at <= self.now:
                    nodes = promise.nodes
                elif promise is not None:
                    start, kept = promise, promise.kept
                else:
                    kept = self._earmark(job)
            if nodes is not None:
                self._start(job, nodes)

    def _conservative(self) -> None:
        blocked = [
            Blocked(job.name, job.pods, self._candidates, job.terms, job.declared, self._promised(job))
            for job in self.waiting
        ]
        profile = CapacityProfile(blocked, WhatIf(self.table), self.calendar(), self._margin)
        for name, start in profile.starts.items():
            self._tell(name, start)
        for job in list(self.waiting):
            due = profile.starts.get(job.name)
            nodes = self._plan(job, profile.kept(job.declared, besides=job.name))
            if nodes is None and due is not None and due.at <= self.now:
                nodes = due.nodes
            if nodes is not None:
                profile.settle(job.name)
                self._start(job, nodes)

    def _promised(self, job: Job) -> Start | None:
        promises = self.record.promises.get(job.name)
        return promises[-1] if promises else None

    def _promise(self, job: Job) -> Start | None:
        free, calendar = WhatIf(self.table), self.calendar()
        start = earliest_start(job.pods, free, self._candidates, job.terms, calendar, promised=self._promised(job))
        if start is not None:
            self._tell(job.name, start)
        return start

    def _tell(self, name: str, start: Start) -> None:
        """Promise a start, and come back when it is due: nothing else need happen then."""
        self.record.promises.setdefault(name, []).append(start)
        if start.at > self.now:
            heappush(self._events, (start.at, 2, next(self._number), None))

    def _earmark(self, job: Job) -> NDArray[np.int64] | None:
        """Return what is kept for a gang that waits for somebody who does not say when he ends."""
        later = WhatIf(self.table, self.table.potential(), HoldingScope.LASTING)
        return earmark(job.pods, WhatIf(self.table), later, self._candidates, job.terms)

    def _plan(self, job: Job, kept: NDArray[np.int64] | None = None) -> Mapping[str, str] | None:
        free = self.table.free()
        result = plan(job.pods, WhatIf(self.table, free if kept is None else free - kept), self._candidates, job.terms)
        return result.nodes if isinstance(result, Plan) else None

    def _start(self, job: Job, nodes: Mapping[str, str]) -> None:
        for pod in job.pods:
            self.table.claim(pod.uid, nodes[pod.uid], pod.shape)
        self.waiting.remove(job)
        self.running[job.name] = job
        self.record.started[job.name] = self.now
        heappush(self._events, (self.now + job.runtime, 0, next(self._number), job))

    def _end(self, job: Job) -> None:
        for pod in job.pods:
            self.table.release(pod.uid)
        del self.running[job.name]
        self.record.ended[job.name] = self.now
