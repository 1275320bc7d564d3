"""Running `muster` as its users do: in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import httpx


def muster(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, for a wide screen."""
    return subprocess.run(
        [sys.executable, "-m", "extender", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "COLUMNS": "200"},
    )


def free_port() -> int:
    """Return a loopback port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(url: str, seconds: float = 30) -> httpx.Response:
    """Return the first answer of a service that is starting."""
    give_up = time.monotonic() + seconds  # noqa: TID251 - a real process keeps real time
    while True:
        try:
            return httpx.get(url, trust_env=False)
        except httpx.TransportError:
            assert time.monotonic() < give_up, f"{url} never answered"  # noqa: TID251 - a real process keeps real time
            time.sleep(0.05)  # noqa: TID251 - a real process keeps real time
