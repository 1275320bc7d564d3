"""Jobs that keep arriving on the demo's cluster, and what becomes of those that are over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from muster_lab.cli.demo_cluster import NEVER_FITS, DemoJob, Jobs
from muster_lab.simulation.accounting import GpuSeconds
from muster_lab.simulation.timeline import state_of
from muster_lab.simulation.workload import GangRun
from muster_lab.simulation.world import World

#: Seconds between two jobs, and how many may wait for a start before no more are added.
_PAUSE_SECONDS = 8.0
_MOST_WAITING = 4
#: Seconds for which a finished job stays to be seen.
_KEEP_SECONDS = 20.0
#: Seconds between two looks at what is over.
_LOOK_SECONDS = 1.0
#: Evictions that the cluster remembers.
_MOST_EVICTIONS = 100


class DemoArrivals:
    """Add a job now and then, clear away those that have been over for a while, withdraw those that cannot start.

    Attributes:
        spent: what the gangs have spent that were cleared away.
    """

    def __init__(self, world: World) -> None:
        """Add to `world`; nothing happens before `run`."""
        self.spent = GpuSeconds()
        self._world = world
        self._upcoming: Iterator[DemoJob] = iter(Jobs())
        self._due = _LOOK_SECONDS
        self._patience: dict[GangRun, float] = {}

    async def run(self) -> None:
        """Look at what is due every now and then, until cancelled."""
        while True:
            self._look()
            await asyncio.sleep(_LOOK_SECONDS)

    def _look(self) -> None:
        """Do what is due now."""
        now = self._world.clock.elapsed()
        workload = self._world.workload
        for run in workload.gangs:
            over = run.finished_at is not None and now >= run.finished_at + _KEEP_SECONDS
            tired = run.admitted_at is None and now >= self._patience.get(run, float("inf"))
            if over or tired:
                self._patience.pop(run, None)
                self.spent += run.meter.read()
                workload.forget(run)
        for evictions in (self._world.evicted.evictions, self._world.scheduler.evictions):
            del evictions[:-_MOST_EVICTIONS]
        if now >= self._due and self._waiting() < _MOST_WAITING:
            self._due = now + _PAUSE_SECONDS
            self._add(next(self._upcoming), now)

    def _add(self, job: DemoJob, now: float) -> None:
        workload = self._world.workload
        workload.add([job.gang])
        if job.patience is not None:
            self._patience[workload.gang(job.gang.namespace, job.gang.name)] = now + job.patience

    def _waiting(self) -> int:
        """Count the gangs that wait and will start sooner or later."""
        runs = self._world.workload.gangs
        return sum(
            state_of(run) == "waits" and run not in self._patience and run.spec.key != NEVER_FITS for run in runs
        )
