"""One host: a kube-scheduler and the Muster that it calls, their lines and their clock, each of which can be hit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass
from functools import partial

from extender.control.leadership import LeaseHolder
from extender.objects.pod import Pod
from extender.settings import Settings
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.scheduler.extender import ExtenderClient
from muster_lab.simulation.scheduler.scheduler import Scheduler
from tests.properties.faults.apiline import Line, Stream
from tests.properties.faults.apiserver import ApiServerFront
from tests.properties.faults.election import Election
from tests.properties.faults.process import MachineClock, Process, ProcessLoop
from tests.properties.faults.record import Record
from tests.properties.faults.replica import Replica, Surroundings
from tests.properties.faults.verbline import Listener, VerbLine

#: How long kube-scheduler takes to start again after it has lost the Lease (seconds).
_RESTART = 1.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things take where nothing is wrong (seconds): a write, news to Muster and to the scheduler, a call."""

    write: float
    muster_watch: float
    scheduler_watch: float
    call: float


@dataclass(frozen=True, slots=True)
class Site:
    """What all hosts share.

    `crashed` takes in an error that nobody expected, `ruled_out` tells which nodes kube-scheduler rules out by itself.
    With `elects` the hosts stand for election.
    """

    loop: ProcessLoop
    cluster: Cluster
    front: ApiServerFront
    record: Record
    settings: Settings
    pace: Pace
    crashed: Callable[[str], None]
    ruled_out: Callable[[Pod, str], bool]
    elects: bool


class Host:
    """A kube-scheduler and a Muster beside it.

    Attributes:
        line: Muster's line to the API server; while it is down, kube-scheduler cannot reach that either.
        calls: the scheduler's line to Muster.
        clock: the host's clocks.
        replica: the Muster that runs; None while there is none.
        scheduler: kube-scheduler's process.
        restart_after: how long until a Muster that was killed is started again (seconds).
    """

    def __init__(self, name: str, site: Site, clock: MachineClock) -> None:
        """Start both."""
        self.name = name
        self.clock = clock
        self.line = Line(site.pace.write, site.pace.muster_watch, killed=self.kill_muster, refused=site.record.refused)
        self.calls = VerbLine(site.loop, site.pace.call)
        self.calls.hung = site.record.hung
        self.restart_after = 1.0
        self.replica: Replica | None = None
        self._site = site
        self._listener: Listener | None = None
        self._processes: list[Process] = []
        self._starts = 0
        self.scheduler = self._new_scheduler()
        self.start_muster()

    def start_muster(self) -> None:
        """Start a Muster unless one runs."""
        if self.replica is not None:
            return
        site = self._site
        self._starts += 1
        around = Surroundings(self.name, site.front, self.line, self.clock, site.record, site.crashed)
        leadership = LeaseHolder(self.name, self.clock) if site.elects else None
        replica = self.replica = Replica(f"{self.name}-{self._starts}", site.settings, around, leadership)
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
        for stream in self.streams():
            self._site.front.close(stream)
        self._site.record.died(self.name)
        self._site.loop.call_later(self.restart_after, self.start_muster, context=Context())

    def streams(self) -> list[Stream]:
        """Return Muster's watches that are open."""
        return [stream for stream in self._site.front.streams if stream.line is self.line]

    def restart_scheduler(self) -> None:
        """Start a kube-scheduler in place of the one that runs; what that was about to do is lost."""
        self.scheduler.kill()
        self.scheduler = self._new_scheduler()

    def processes(self) -> list[Process]:
        """Return what runs here."""
        return [self.scheduler, *([self.replica.process] if self.replica is not None else [])]

    def jump(self, seconds: float) -> None:
        """Set the steady clock forwards, by which all that runs here lives."""
        self.clock.ahead += seconds
        for process in self.processes():
            process.jump(seconds)

    def heal(self) -> None:
        """Put an end to all faults."""
        self.line.heal()
        self.calls.heal()
        self.clock.wall_ahead = 0.0
        for process in self._processes:
            process.resume()
        self.start_muster()

    async def close(self) -> None:
        """Stop everything."""
        self.line.down = True
        self.calls.listener = None
        for process in self._processes:
            await process.bury()

    def _new_scheduler(self) -> Process:
        process = Process(f"kube-scheduler of {self.name}", self._site.loop)
        self._processes.append(process)
        process.start(self._guard(partial(self._stand, process) if self._site.elects else self._schedule))
        return process

    async def _stand(self, process: Process) -> None:
        """Stand for election; schedule from when that is won until the Lease is lost, which ends the process."""
        site = self._site
        identity = f"{self.name}_{len(self._processes)}"
        election = Election(site.cluster, self.clock, identity, lambda: not self.line.down)
        await election.win()
        site.record.took_over()
        process.start(self._guard(self._schedule))
        await election.keep()
        process.kill()
        site.loop.call_later(_RESTART, self._replace, process, context=Context())

    def _replace(self, lost: Process) -> None:
        if lost is self.scheduler:
            self.restart_scheduler()

    async def _schedule(self) -> None:
        site, extender = self._site, ExtenderClient(self.calls.post)
        scheduler = Scheduler(site.cluster, self.clock, site.settings.scheduler_names, extender, site.ruled_out)
        await scheduler.run(site.pace.scheduler_watch)

    async def _guard(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - a fault of the model would look like one of Muster
            self._site.crashed(f"the model of kube-scheduler ended with {error!r}")
