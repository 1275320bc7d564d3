"""Asking Muster by `kubectl port-forward`: also what it offers on its pod's loopback alone."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn

from extender.cli.asking import AskError, Server
from extender.cli.discovery import MusterPod

#: How long kubectl may take until it forwards; it takes a second, an exec plugin that opens a browser some more.
START_SECONDS = 30.0
#: The shipped Role that has what it takes.
_ROLE = "the Role muster-port-forward has it (docs/command-line.md)"
#: How long kubectl may take to end.
_END_SECONDS = 5.0
#: What kubectl prints when it forwards, with --address 127.0.0.1.
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ->")


@contextlib.contextmanager
def forwarded(
    pod: MusterPod, port: int, kubeconfig: Path | None, context: str | None, start_seconds: float = START_SECONDS
) -> Iterator[Server]:
    """Forward a free port to a pod's while the context lasts; raise AskError with what kubectl says against it."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise AskError(
            "a port-forward needs kubectl, and none is on PATH: install it (https://kubernetes.io/docs/tasks/tools), "
            "or offer Muster's listener for people and use --via proxy (docs/command-line.md)"
        )
    command = [kubectl, *([f"--kubeconfig={kubeconfig}"] if kubeconfig else [])]
    command += [f"--context={context}"] if context else []
    command += ["port-forward", "--address=127.0.0.1", f"--namespace={pod.namespace}", f"pod/{pod.name}", f":{port}"]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as complaints, _signals_unwind():
        process = subprocess.Popen(  # noqa: S603 - the kubectl found on PATH, with a list of arguments
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        )
        try:
            local = _local_port(process, start_seconds)
            if local is None:
                raise AskError(f"kubectl port-forward to {pod} failed: {_said(process, complaints, start_seconds)}")
            yield Server(f"http://127.0.0.1:{local}", "127.0.0.1", local, None, f"{pod} (by kubectl port-forward)")
        finally:
            _end(process)


@contextlib.contextmanager
def _signals_unwind() -> Iterator[None]:
    """Have signals that would end this process at once unwind it instead, so that kubectl does not forward for ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    raise SystemExit(128 + number)  # as a shell reports the end by a signal


def _local_port(process: subprocess.Popen[str], start_seconds: float) -> int | None:
    """Return the port that kubectl listens on, None if it ended or takes too long, and is ended therefore."""
    late = threading.Timer(start_seconds, process.kill)
    late.start()
    try:
        for line in process.stdout or ():
            if found := _FORWARDING.match(line):
                return int(found[1])
        return None
    finally:
        late.cancel()


def _said(process: subprocess.Popen[str], complaints: IO[str], start_seconds: float) -> str:
    """Return the last line of what kubectl complained about, and which right that takes where it is about one."""
    code = process.wait()
    complaints.seek(0)
    lines = [line.strip() for line in complaints if line.strip()]
    if not lines:
        return f"nothing happened for {start_seconds:g} s" if code < 0 else f"it ended with exit code {code}"
    said = lines[-1].removeprefix("error: ")
    if "forbidden" in said.lower():
        said += f"; the right to create pods/portforward is missing; {_ROLE}"
    return said


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
