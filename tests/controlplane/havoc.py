"""What a storm does to processes and connections, by a thread of its own: nothing that others wait for delays it."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from localcluster.errors import LocalClusterError, NotInTimeError
from localcluster.faults.api import ApiProxy
from localcluster.faults.fault import Drop, HalfOpen
from localcluster.faults.rules import FOREVER, Match, Rule
from localcluster.processes import Server
from localcluster.waiting import wait_until
from tests.controlplane.stage import Site, Stage
from tests.controlplane.storm_script import Act, Script

#: How often it is looked whether a process has ended by itself (seconds).
_ROUND = 0.25

#: After this it is not waited for any longer that all is ready, and the next gust comes (seconds).
_LONGEST_SECONDS = 40.0

#: How long processes may take to be ready once the storm is over (seconds); a kubelet starts them again and again.
_READY_SECONDS = 60.0


@dataclass(slots=True)
class Victim:
    """A server that is hit.

    `mortal` ones may end by themselves, when what they wait for is away, and are started again as a kubelet does.
    `down` ones have been killed, `stopped` ones are paused, `ready` ones have answered since they were last hit.
    """

    kind: str
    server: Server
    mortal: bool
    down: bool = False
    stopped: bool = False
    ready: bool = True


@dataclass(slots=True)
class Havoc:
    """Plays a script's blows.

    Attributes:
        kills: how often each kind of server was killed.
        pauses: how often each was stopped for a while.
        cuts: how often each was cut off from the API server.
        ended: how often each ended by itself.
        deposed: how often a replica's Muster or kube-scheduler woke when the other replica had taken the Lease from it.
        deaths: when the Muster of each site was killed (`time.monotonic` seconds).
        log: what was done, and when.
    """

    stage: Stage
    script: Script
    kills: Counter[str] = field(default_factory=Counter)
    pauses: Counter[str] = field(default_factory=Counter)
    cuts: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    deposed: int = 0
    deaths: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    log: list[tuple[float, str]] = field(default_factory=list)
    _later: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _failure: Exception | None = None
    _wake_kwok: bool = False
    _sites: dict[str, tuple[Victim, Victim]] = field(init=False)
    _others: dict[str, Victim] = field(init=False)

    def __post_init__(self) -> None:
        """Look at the stage's processes."""
        stage = self.stage
        mortal = stage.replicas is not None  # a kube-scheduler that loses the Lease ends
        self._sites = {
            site.name: (Victim("muster", site.muster, mortal=False), Victim("scheduler", site.scheduler, mortal=mortal))
            for site in stage.sites
        }
        self._others = {
            "api_server": Victim("api_server", stage.control_plane.api_server, mortal=True),
            "etcd": Victim("etcd", stage.control_plane.etcd, mortal=False),
        }
        if (controllers := stage.local_cluster.controllers) is not None:
            self._others["controllers"] = Victim("controllers", controllers, mortal=True)

    def start(self) -> None:
        """Play, gust by gust."""
        self._thread = threading.Thread(target=self._run, name="havoc", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise what the thread has met, such as LocalClusterError for a server that has ended and must not."""
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        """Strike no more, and have every process run and be ready."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self.check()
        for victim in self._victims():
            victim.down = False
            if victim.server.running:
                victim.server.resume()
            elif not victim.mortal:
                victim.server.launch()
        for victim in sorted(self._victims(), key=lambda victim: victim.kind != "etcd"):
            self._wait_ready(victim)
        if self.script.flavour.outages:
            self.stage.local_cluster.restart_clients()
        if self.stage.replicas is not None:
            self.stage.replicas.wait_leader()

    def tend(self) -> None:
        """Start what has ended by itself; raise LocalClusterError if that was not to be expected."""
        for victim in self._victims():
            if victim.down:
                continue
            if not victim.mortal:
                victim.server.check()
            elif not victim.server.running:
                self.ended[victim.kind] += 1
                victim.ready = False
                victim.server.launch()
        self._let_kwok_hear()

    def _victims(self) -> list[Victim]:
        return [victim for pair in self._sites.values() for victim in pair] + list(self._others.values())

    def _run(self) -> None:
        try:
            for gust in self.script.gusts:
                began = time.monotonic()
                self._later += [(began + act.at, partial(self._strike, act)) for act in gust.blows]
                while (self._later or not self._all_ready()) and time.monotonic() < began + _LONGEST_SECONDS:
                    self._play(_ROUND)
                    if self._over.is_set():
                        return
                self._play(gust.lull)
        except Exception as error:  # noqa: BLE001 - raised again by `check`, in the story's own thread
            self._failure = error

    def _all_ready(self) -> bool:
        """Tell whether every server has answered since it was last hit, and one of two replicas leads."""
        for victim in self._victims():
            victim.ready = victim.ready or (victim.server.running and victim.server.is_ready())
        if not all(victim.ready for victim in self._victims()):
            return False
        replicas = self.stage.replicas
        return replicas is None or any(replica.leading for replica in replicas.members)

    def _play(self, seconds: float) -> None:
        """Do what is due within so many seconds."""
        until = time.monotonic() + seconds
        while not self._over.is_set():
            self._later.sort(key=lambda entry: entry[0])
            following = min([until, *(at for at, _ in self._later[:1])])
            self._over.wait(max(0.0, following - time.monotonic()))
            if self._later and self._later[0][0] <= time.monotonic():
                self._later.pop(0)[1]()
            elif time.monotonic() >= until:
                break
        self.tend()

    def _strike(self, act: Act) -> None:
        verb, _, whom = act.what.rpartition("_") if act.what.startswith("cut_off") else act.what.partition("_")
        site = self.stage.sites[act.number % len(self.stage.sites)]
        muster, scheduler = self._sites[site.name]
        targets = {"muster": [muster], "scheduler": [scheduler], "replica": [muster, scheduler]}
        victims = targets[whom] if whom in targets else [self._others[whom]]
        self.log.append((time.monotonic(), f"{act.what} {site.name} for {act.seconds:.3f} s"))
        for victim in victims:
            victim.ready = False
        match verb:
            case "kill":
                self._kill(site, victims, act.seconds)
            case "pause":
                self._pause(site, victims, act.seconds)
            case _:
                self._cut_off(site, victims, act)

    def _kill(self, site: Site, victims: list[Victim], seconds: float) -> None:
        for victim in victims:
            if victim.down or not victim.server.running:
                continue
            victim.server.kill()
            victim.down, victim.stopped = True, False
            self.kills[victim.kind] += 1
            if victim.kind == "muster":
                self.deaths[site.name].append(time.monotonic())
            self._after(seconds, partial(self._start, victim))

    def _start(self, victim: Victim) -> None:
        victim.down = False
        victim.server.launch()
        self._wake_kwok |= victim.kind in {"api_server", "etcd"}

    def _pause(self, site: Site, victims: list[Victim], seconds: float) -> None:
        led = self.stage.leader() == site.name
        stopped = [victim for victim in victims if victim.server.running and not victim.stopped]
        for victim in stopped:
            victim.server.pause()
            victim.stopped = True
            self.pauses[victim.kind] += 1

        def resume() -> None:
            self.deposed += bool(stopped) and led and self.stage.leader() not in {"", site.name}
            for victim in stopped:
                victim.stopped = False
                if victim.server.running:
                    victim.server.resume()

        self._after(seconds, resume)

    def _cut_off(self, site: Site, victims: list[Victim], act: Act) -> None:
        """Let nothing pass to or from the API server: requests are refused, or arrive when the partition is over."""
        until = time.monotonic() + act.seconds
        during = Match(where=lambda _: time.monotonic() < until)
        watches = Match(kind="watch", where=lambda _: time.monotonic() < until)
        silence = HalfOpen(seconds=act.seconds)
        for victim in victims:
            proxy: ApiProxy | None = site.api_proxy if victim.kind == "muster" else site.scheduler_proxy
            if proxy is None:
                continue
            proxy.add(
                Rule(watches, silence, FOREVER), Rule(during, Drop() if act.number // 2 % 2 else silence, FOREVER)
            )
            self.cuts[victim.kind] += 1

    def _after(self, seconds: float, then: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + seconds, then))

    def _let_kwok_hear(self) -> None:
        """Restart kwok when the API server is back: it may take half a minute to notice by itself."""
        if self._wake_kwok and self._others["api_server"].server.is_ready():
            self._wake_kwok = False
            self.stage.local_cluster.kwok.kill()
            self.stage.local_cluster.kwok.launch()

    def _wait_ready(self, victim: Victim) -> None:
        def ready() -> bool:
            if not victim.server.running:
                if not victim.mortal:
                    victim.server.check()
                victim.server.launch()
            return victim.server.is_ready()

        try:
            wait_until(ready, timeout_seconds=_READY_SECONDS, description=f"{victim.kind} ready")
        except NotInTimeError as error:
            raise LocalClusterError(f"{error}\n{victim.server.log_tail()}") from error
