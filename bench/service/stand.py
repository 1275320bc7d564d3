"""The test stand: one Muster, and the replay server that it reads, each on a core of its own where there are two."""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx

from bench.service.population import PINNED, Size, member
from bench.soak.sampling import Page
from localcluster.components import REPOSITORY
from localcluster.controlplane import probe
from localcluster.credentials import Connection as ApiConnection
from localcluster.errors import LocalClusterError
from localcluster.ports import LOOPBACK, free_ports
from localcluster.processes import Command, Server
from localcluster.reaper import Reaper
from localcluster.startable import Startable
from localcluster.waiting import wait_until

_HERE = Path(__file__).parent
#: Has Muster collect its garbage.
_COLLECT = signal.SIGUSR1
#: Seconds for a start with the largest cluster, on a machine that does other things besides.
_START_SECONDS = 180.0
#: Seconds until the gang that fits certainly has its nominations.
_SETTLE_SECONDS = 300.0
#: Nothing binds here what has been planned, and no measurement is to outlive it: a day.
_SETTINGS = "reservation_timeout_seconds: 86400\n"


@dataclass(frozen=True, slots=True)
class Cores:
    """On which processors Muster runs, and on which what loads it: one each, the same one if there is only one.

    The measurement and the replay server share theirs, since machines with two processors are common; the one waits
    for Muster's answers most of the time, the other takes an eighth of it at 2,000 events a second, nothing at rest.
    """

    muster: frozenset[int]
    load: frozenset[int]

    @classmethod
    def available(cls) -> Self:
        """Choose among the processors that this process may use."""
        first, *rest = sorted(os.sched_getaffinity(0))
        return cls(frozenset({first}), frozenset(rest[:1] or {first}))

    @contextmanager
    def keep_off(self) -> Iterator[None]:
        """Keep this process off Muster's processor for a while."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self.load)
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)


class Stand(Startable):
    """A replay server and the Muster that reads it, in a folder that goes away with them.

    Attributes:
        ready_after: seconds from the last start of Muster's process until it said that it was ready.
    """

    def __init__(self, size: Size, cores: Cores) -> None:
        """Prepare; nothing runs before `start`."""
        self.size = size
        self.ready_after = 0.0
        self._cores = cores
        self.port, self._api_port = free_ports(2)
        self._folder = Path(tempfile.mkdtemp(prefix="muster-service-"))
        self._reaper = Reaper()
        self._reaper.watch_folder(self._folder)
        certificate, key = _write_certificate(self._folder)
        api = ApiConnection(f"https://{LOOPBACK}:{self._api_port}", certificate, token="replay")  # noqa: S106 - nobody reads it
        trust = ssl.create_default_context(cafile=certificate)
        self._control = httpx.Client(
            base_url=f"{api.url}/control", verify=trust, timeout=_START_SECONDS, trust_env=False
        )
        self._reads = httpx.Client(base_url=f"http://{LOOPBACK}:{self.port}", timeout=_START_SECONDS, trust_env=False)
        replay = [sys.executable, "-P", str(_HERE / "replay.py"), str(self._api_port), str(certificate), str(key)]
        self._replay = self._server(
            "replay", [*replay, *size.arguments()], lambda: probe(f"{api.url}/control/state", api)
        )
        kubeconfig = api.write_kubeconfig(self._folder / "kubeconfig")
        launch = [sys.executable, "-P", str(_HERE / "launch.py"), str(_COLLECT.value)]
        arguments = [*launch, "serve", "--kubeconfig", str(kubeconfig), "--host", LOOPBACK, "--port", str(self.port)]
        settings = self._folder / "muster.yaml"
        settings.write_text(_SETTINGS)
        arguments += ["--config", str(settings)]
        self.muster = self._server("muster", arguments, lambda: probe(f"http://{LOOPBACK}:{self.port}/readyz"))

    def start(self) -> float:
        """Start both, wait until the gang that fits is nominated, and return the seconds that it took."""
        began = time.monotonic()
        _launch(self._replay, self._cores.load)
        self._replay.wait_ready()
        return time.monotonic() - began + self.start_muster()

    def start_muster(self) -> float:
        """Start Muster, wait until the gang that fits is nominated, and return the seconds that it took.

        The pods without a gang have been planned too by then, which no write tells; that is not in the result.
        """
        began = time.monotonic()
        _launch(self.muster, self._cores.muster)
        self.muster.wait_ready()
        self.ready_after = time.monotonic() - began
        nominated_after = self.ready_after + wait_until(
            lambda: len(self.pinned()) == self.size.pinned,
            timeout_seconds=_SETTLE_SECONDS,
            description=f"{self.size.pinned} members nominated",
        )
        gangs = 1 + self.size.singles
        wait_until(
            lambda: self.metrics().sum("muster_gangs", phase="Scheduling") == gangs,
            timeout_seconds=_SETTLE_SECONDS,
            description=f"{gangs} gangs planned",
        )
        return nominated_after

    def stop(self) -> None:
        """Stop both, and remove the folder."""
        self.muster.stop()
        self._replay.stop()
        self._control.close()
        self._reads.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._reaper.forget_folder(self._folder)
        self._reaper.close()

    def pinned(self) -> dict[int, str]:
        """Return the nominated node of each member of the gang that fits, by the member's number."""
        nominated = self._state()["nominated"]
        names = {number: member(PINNED, number).name for number in range(self.size.pinned)}
        return {number: nominated[name] for number, name in names.items() if name in nominated}

    def writes(self) -> dict[str, int]:
        """Return how many writes of each sort Muster has made."""
        return dict(self._state()["writes"])

    def events(self) -> int:
        """Return how many events have been pushed."""
        return int(self._state()["events"])

    def backlog(self) -> int:
        """Return how many events Muster has not taken off its connections yet, beside those in the kernel's buffers."""
        return int(self._state()["backlog"])

    def push_events(self, rate: float) -> None:
        """Have so many events a second pushed from now on."""
        self._control.post("/events", params={"rate": rate}).raise_for_status()

    def relist(self) -> None:
        """End every watch as one that the server has forgotten, and wait until all is listed again."""
        state = self._state()
        wanted = state["lists"] + state["kinds"]
        self._control.post("/relist").raise_for_status()
        wait_until(
            lambda: self._state()["lists"] == wanted,
            timeout_seconds=_START_SECONDS,
            description="every kind listed again",
        )

    def collect_garbage(self) -> None:
        """Have Muster collect all its garbage, a moment from now."""
        os.kill(self.muster.pid, _COLLECT)

    def metrics(self) -> Page:
        """Read Muster's metrics."""
        return Page.parse(self._reads.get("/metrics").raise_for_status().text)

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._control.get("/state").raise_for_status().json()
        return state

    def _server(self, name: str, arguments: list[str], is_ready: Callable[[], bool]) -> Server:
        # A test run that measures coverage would have it measured in these processes as well: several times as slow.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
        environment = {**inherited, "PYTHONPATH": str(REPOSITORY)}
        command = Command(name, arguments, self._folder, environment)
        return Server(command, self._reaper, is_ready, _START_SECONDS)


def _launch(server: Server, processors: Collection[int]) -> None:
    """Start a server on these processors; the threads that it will have stay there too."""
    server.launch()
    os.sched_setaffinity(server.pid, processors)


def _write_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for loopback that vouches for itself, and its key; return both files."""
    openssl = shutil.which("openssl")
    if openssl is None:
        raise LocalClusterError("`openssl` is needed to replay an API server. Install it: `apt-get install openssl`.")
    certificate, key = folder / "server.crt", folder / "server.key"
    subject = ["-subj", "/CN=replay", "-addext", f"subjectAltName=IP:{LOOPBACK}"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-out", str(certificate), "-keyout", str(key)]
    subprocess.run(  # noqa: S603 - the openssl found on PATH
        [openssl, "req", "-x509", "-days", "2", *curve, *subject, *files], check=True, capture_output=True
    )
    return certificate, key
