"""Small real servers and a reaper, to test processes with."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localcluster.controlplane import probe
from localcluster.ports import LOOPBACK, free_ports
from localcluster.processes import Command, Server
from localcluster.reaper import Reaper
from tests.localcluster.upstream import Upstream

ServerFactory = Callable[..., Server]


@pytest.fixture
def reaper() -> Iterator[Reaper]:
    """Run a reaper that cleans up whatever the test leaves."""
    with Reaper() as running:
        yield running


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """Run a server for requests, and for proxies to stand in front of."""
    with Upstream() as running:
        yield running


@pytest.fixture
def http_server(tmp_path: Path, reaper: Reaper) -> Iterator[Server]:
    """Yield a server, not started, that answers every GET of a file in its folder."""
    (port,) = free_ports(1)
    arguments = [sys.executable, "-m", "http.server", str(port), "--bind", LOOPBACK]
    server = Server(Command("http", arguments, tmp_path), reaper, lambda: probe(f"http://{LOOPBACK}:{port}/"))
    yield server
    server.kill()


@pytest.fixture
def program(tmp_path: Path, reaper: Reaper) -> Iterator[ServerFactory]:
    """Yield a maker of servers that run a piece of Python and are ready when it has made the file `ready`."""
    made: list[Server] = []

    def make(source: str, *, ready_timeout_seconds: float = 10.0) -> Server:
        command = Command("program", [sys.executable, "-c", source], tmp_path)
        made.append(Server(command, reaper, (tmp_path / "ready").exists, ready_timeout_seconds))
        return made[-1]

    yield make
    for server in made:
        server.kill()
