"""py-spy at work on a running process: attached, sampling, and told to stop."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from localcluster.errors import LocalClusterError
from localcluster.waiting import wait_until

#: Samples a second.
RATE = 500
#: py-spy says so once it has attached.
_SAMPLING = "Sampling process"
#: Seconds for attaching, which reads the interpreter's symbols, and for writing what was sampled.
_ATTACH_SECONDS, _WRITE_SECONDS = 30.0, 60.0
#: What py-spy and the kernel say when one process may not read another's memory.
_REFUSALS = ("permission denied", "operation not permitted", "eperm")
_WHAT_TO_DO = (
    "py-spy may not read Muster's memory. Allow it for a while with: sudo sysctl kernel.yama.ptrace_scope=0\n"
    "(in a container, start that with --cap-add SYS_PTRACE; on macOS, run as root)"
)


@dataclass(frozen=True, slots=True)
class Recording:
    """What was sampled: `file` holds folded stacks once the recording is over."""

    file: Path
    log: Path


@contextmanager
def recording(pid: int, folder: Path) -> Iterator[Recording]:
    """Sample the Python stacks of a process, 500 times a second, for as long as the context lasts.

    Stacks of threads that wait are left out, and so are native frames. Raises LocalClusterError with what py-spy said,
    and with what to do if it may not attach.
    """
    taken = Recording(folder / "stacks.folded", folder / "py-spy.log")
    with taken.log.open("wb") as log:
        spy = subprocess.Popen(_command(pid, taken.file), stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603 - put together here
    try:
        wait_until(
            lambda: _samples(spy, taken.log), timeout_seconds=_ATTACH_SECONDS, description="py-spy attached to Muster"
        )
        yield taken
        _finish(spy, taken)
    finally:
        with contextlib.suppress(ProcessLookupError):
            spy.kill()
        spy.wait()


def _command(pid: int, file: Path) -> list[str]:
    # Folded stacks instead of its own flame graph: from them come the table and the drawing, and other tools read them.
    # Whole file names, since those that it shortens by itself may still hold the path of the machine.
    program = Path(sys.executable).with_name("py-spy")
    if not program.exists():
        raise LocalClusterError(f"{program} is missing; install it with: make setup")
    options = ["--rate", str(RATE), "--format", "raw", "--function", "--full-filenames", "--output", str(file)]
    return [str(program), "record", "--pid", str(pid), *options]


def _samples(spy: subprocess.Popen[bytes], log: Path) -> bool:
    said = _said(log)
    if _SAMPLING in said:
        return True
    if spy.poll() is not None:
        raise LocalClusterError(explain(said))
    return False


def _finish(spy: subprocess.Popen[bytes], taken: Recording) -> None:
    """Let py-spy write what it has; it may have ended by itself with the process that it watched."""
    spy.send_signal(signal.SIGINT)
    try:
        spy.wait(_WRITE_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise LocalClusterError(f"py-spy still writes after {_WRITE_SECONDS:g} s: {_said(taken.log)}") from error
    if not taken.file.exists():
        raise LocalClusterError(explain(_said(taken.log)))


def explain(said: str) -> str:
    """Return what py-spy said, with what to do if it was not allowed to attach."""
    if any(refusal in said.lower() for refusal in _REFUSALS):
        return f"{_WHAT_TO_DO}\npy-spy said: {said.strip()}"
    return f"py-spy sampled nothing; it said: {said.strip() or 'nothing'}"


def _said(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")
