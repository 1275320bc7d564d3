"""Run one server as a subprocess: start, wait until ready, pause, kill, restart, and surely end it."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from localcluster.errors import LocalClusterError, NotInTimeError
from localcluster.reaper import Reaper
from localcluster.waiting import wait_until

#: How long a server may take to end after SIGTERM before it is killed, in seconds.
STOP_GRACE_SECONDS = 5.0

LOG_TAIL_LINES = 30


@dataclass(frozen=True, slots=True)
class Command:
    """What to run: arguments, working folder and environment (None inherits this process's)."""

    name: str
    arguments: Sequence[str]
    folder: Path
    environment: Mapping[str, str] | None = None

    @property
    def log_path(self) -> Path:
        """Return the file that takes the server's output, over all its restarts."""
        return self.folder / f"{self.name}.log"


@dataclass(slots=True)
class Server:
    """A server process in a process group of its own, known to the reaper from its first moment.

    `is_ready` asks the running server, over the network, whether it serves.
    """

    command: Command
    reaper: Reaper
    is_ready: Callable[[], bool]
    ready_timeout_seconds: float = 30.0
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def pid(self) -> int:
        """Return the process id; raises LocalClusterError when the server is not started."""
        return self._running().pid

    @property
    def running(self) -> bool:
        """Return whether the process exists (a paused one does)."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> float:
        """Launch the process, wait until it is ready, and return the seconds that took.

        Raises LocalClusterError with the end of the log if the process ends or is not ready in time.
        """
        started = time.monotonic()
        self.launch()
        self.wait_ready()
        return time.monotonic() - started

    def launch(self) -> None:
        """Launch the process without waiting until it is ready."""
        if self.running:
            raise LocalClusterError(f"{self.command.name} is already running")
        self.kill()  # what is left of one that ended by itself
        with self.command.log_path.open("ab") as log:
            self._process = self._spawn(log)
        self.reaper.watch_group(self._process.pid)

    def wait_ready(self) -> None:
        """Wait until the server answers that it is ready.

        Raises LocalClusterError with the end of the log if the process ends or is not ready in time.
        """
        try:
            wait_until(
                self._answers, timeout_seconds=self.ready_timeout_seconds, description=f"{self.command.name} ready"
            )
        except NotInTimeError as error:
            tail = self.log_tail()
            self.kill()
            raise LocalClusterError(f"{error}\n{tail}") from error
        except LocalClusterError:
            self.kill()
            raise

    def check(self) -> None:
        """Raise LocalClusterError with the end of the log if the process has ended by itself."""
        code = self._running().poll()
        if code is not None:
            raise LocalClusterError(f"{self.command.name} ended with code {code}:\n{self.log_tail()}")

    def stop(self) -> None:
        """End the process with SIGTERM, after STOP_GRACE_SECONDS with SIGKILL. Does nothing if it is not running."""
        if not self.running:
            return
        self.resume()
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._running().wait(timeout=STOP_GRACE_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End the process group at once with SIGKILL, as a crash would. Does nothing if it has ended."""
        if self._process is None:
            return
        self._signal(signal.SIGKILL)
        self._process.wait()
        self.reaper.forget_group(self._process.pid)
        self._process = None

    def pause(self) -> None:
        """Freeze the process with SIGSTOP: its connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        self._signal(signal.SIGCONT)

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """Return the last `lines` lines of the server's output."""
        path = self.command.log_path
        if not path.exists():
            return f"({path} was never written)"
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def _answers(self) -> bool:
        self.check()
        return self.is_ready()

    def _spawn(self, log: BinaryIO) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(  # noqa: S603 - arguments are composed by this package
                self.command.arguments,
                cwd=self.command.folder,
                env=self.command.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise LocalClusterError(f"{self.command.name} cannot be started: {error}") from error

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._running().pid, number)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise LocalClusterError(f"{self.command.name} is not running")
        return self._process
