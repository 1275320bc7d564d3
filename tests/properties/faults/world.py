"""A cluster, a kube-scheduler and a Muster, each of which can be hit; and the record of what the API server saw."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from extender.control.ports import WatchedKind
from extender.objects.pod import Pod
from extender.settings import Settings
from muster_lab.simulation.claim_controller import ClaimController
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.kubelet import Kubelet
from muster_lab.simulation.scheduler.extender import ExtenderClient
from muster_lab.simulation.scheduler.scheduler import Scheduler
from tests.properties.faults.apiline import Line
from tests.properties.faults.apiserver import ApiServerFront
from tests.properties.faults.population import PICKY_STEM
from tests.properties.faults.process import MachineClock, Process, ProcessLoop
from tests.properties.faults.record import Record
from tests.properties.faults.replica import Replica, Surroundings
from tests.properties.faults.verbline import Listener, VerbLine


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things take where nothing is wrong (seconds): a write, news to Muster and to the scheduler, a call."""

    write: float
    muster_watch: float
    scheduler_watch: float
    call: float


class World:
    """Everything there is in one story.

    Attributes:
        cluster: the API server's objects.
        front: the API server as a client sees it.
        line: Muster's line to the API server.
        calls: the scheduler's line to Muster.
        clock: the machine's clocks, as Muster reads them.
        replica: the Muster that runs; None while there is none.
        record: what the judge is shown.
        crashes: errors of Muster that nobody expected.
        injected: how often each fault was injected.
    """

    def __init__(self, loop: ProcessLoop, pace: Pace, settings: Settings) -> None:
        """Start the scheduler and Muster on an empty cluster."""
        self.loop = loop
        self.pace = pace
        self._settings = settings
        self.clock = MachineClock(loop)
        self.cluster = Cluster(self.clock)
        self.record = Record(loop, self.cluster)
        self.front = ApiServerFront(self.cluster, loop, self.clock)
        self.front.told = self.record.told
        self.line = Line(pace.write, pace.muster_watch, killed=self.kill_muster, refused=self.record.refused)
        self.calls = VerbLine(loop, pace.call)
        self.crashes: list[str] = []
        self.injected: Counter[str] = Counter()
        self.quiet = False
        self.obstacles: set[tuple[str, int]] = set()
        self._kubelet = Kubelet(self.cluster, self.clock)
        ClaimController(self.cluster)
        self._processes: list[Process] = []
        self._starts = 0
        self.replica: Replica | None = None
        self._listener: Listener | None = None
        self.restart_after = 1.0
        self.scheduler_process = self._new_scheduler()
        self.start_muster()
        loop.set_exception_handler(self._complain)

    def start_muster(self) -> None:
        """Start a Muster unless one runs."""
        if self.replica is not None:
            return
        self._starts += 1
        around = Surroundings(self.front, self.line, self.clock, self.record, self.crashes.append)
        replica = self.replica = Replica(f"muster-{self._starts}", self._settings, around)
        self._processes.append(replica.process)
        self._listener = self.calls.listener = Listener(replica.process, replica.answer, self.kill_muster)

    def kill_muster(self) -> None:
        """Kill Muster in the middle of whatever it does; it is started again after `restart_after` seconds."""
        if self.replica is None or self._listener is None:
            return
        self.replica.process.kill()
        self.replica = None
        self.calls.listener = None
        self.calls.hang_up(self._listener)
        for stream in list(self.front.streams):
            self.front.close(stream)
        self.record.died()
        self.loop.call_later(self.restart_after, self.start_muster, context=Context())

    def start_scheduler(self) -> None:
        """Start a kube-scheduler in place of the one that runs; what that was about to do is lost."""
        self.scheduler_process.kill()
        self.scheduler_process = self._new_scheduler()

    def _new_scheduler(self) -> Process:
        process = Process("kube-scheduler", self.loop)
        self._processes.append(process)
        names = self._settings.scheduler_names
        scheduler = Scheduler(self.cluster, self.clock, names, ExtenderClient(self.calls.post), self._ruled_out)
        process.start(self._run_scheduler(scheduler))
        return process

    async def _run_scheduler(self, scheduler: Scheduler) -> None:
        try:
            await scheduler.run(self.pace.scheduler_watch)
        except Exception as error:  # noqa: BLE001 - a fault of the model would look like one of Muster
            self.crashes.append(f"the model of kube-scheduler ended with {error!r}")

    def _ruled_out(self, pod: Pod, node: str) -> bool:
        if pod.name.startswith(PICKY_STEM):
            return True
        return bool(self.obstacles) and (node, int(pod.uid[:8], 16) % 4) in self.obstacles

    def heal(self) -> None:
        """Put an end to all faults of processes and lines."""
        self.quiet = True
        self.line.heal()
        self.calls.heal()
        self.obstacles.clear()
        self.clock.wall_ahead = 0.0
        for stream in self.front.streams:
            stream.release()
        for process in self._processes:
            process.resume()
        self.start_muster()

    def jump(self, seconds: float) -> None:
        """Set the steady clock of the machine forwards, by which Muster lives."""
        self.clock.ahead += seconds
        if self.replica is not None:
            self.replica.process.jump(seconds)

    async def pass_time(self, seconds: float) -> None:
        """Let everything happen that is due within `seconds`."""
        await self.loop.reach(self.loop.time() + seconds)

    def later(self, seconds: float, then: Callable[..., object], *arguments: Any) -> None:
        """Do something later, in nobody's process."""
        self.loop.call_later(seconds, then, *arguments, context=Context())

    def pods(self) -> list[Any]:
        """Return all pods as they stand."""
        return [version.pod for version in self.cluster.list(WatchedKind.POD)]

    async def close(self) -> None:
        """Stop everything."""
        self.line.down = True
        self.calls.listener = None
        self.loop.set_exception_handler(lambda *_: None)
        for process in self._processes:
            await process.bury()

    def _complain(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep what the loop complains of, except for futures whose owner is dead."""
        error = context.get("exception")
        if error is not None and "never retrieved" not in context["message"]:
            self.crashes.append(f"{context['message']}: {error!r}")
