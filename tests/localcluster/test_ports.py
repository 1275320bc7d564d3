"""Free ports."""

import socket
import subprocess
import sys
from contextlib import closing, suppress

import pytest

from localcluster.errors import LocalClusterError
from localcluster.ports import LOOPBACK, PORT_RANGE, PortBlocks, free_ports

_TAKE = "from localcluster.ports import free_ports; print(*free_ports(30), flush=True); input()"


def test_ports_are_different_and_free() -> None:
    """Each port is another one, in this call and the next, and a server can listen on it."""
    found = [*free_ports(5), *free_ports(5)]
    assert len(set(found)) == 10
    for port in found:
        with socket.create_server((LOOPBACK, port)):
            assert port in PORT_RANGE


def test_taken_ports_are_passed_over() -> None:
    """A port on which something listens is not given; with no port left the error says which range."""
    taken, free = _two_neighbours()
    with closing(PortBlocks(range(taken, free + 1), size=2)) as blocks:
        with socket.create_server((LOOPBACK, taken)):
            assert blocks.take(1) == (free,)
        with pytest.raises(LocalClusterError, match=f"no 1 free ports in {taken}-{free} on 127.0.0.1: other processes"):
            blocks.take(1)


def test_a_block_of_another_holder_is_left_alone() -> None:
    """Ports of a block go to one holder only, before any server listens on them."""
    first, second = _two_neighbours()
    ports = range(first, second + 1)
    with closing(PortBlocks(ports, size=1)) as one, closing(PortBlocks(ports, size=1)) as other:
        assert {*one.take(1), *other.take(1)} == {first, second}
        with pytest.raises(LocalClusterError, match="no 1 free ports"):
            other.take(1)


def test_processes_that_search_at_once_get_different_ports() -> None:
    """Two processes have no port in common, although neither has a server yet."""
    processes = [
        subprocess.Popen([sys.executable, "-c", _TAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        found = [process.stdout.readline().split() for process in processes if process.stdout is not None]
    finally:
        for process in processes:
            process.communicate("\n")
    assert len({*found[0], *found[1]}) == 60


def _two_neighbours() -> tuple[int, ...]:
    """Return two ports in a row outside of the range that control planes use."""
    for first in range(32_000, 32_700, 2):
        with closing(PortBlocks(range(first, first + 2), size=2)) as blocks, suppress(LocalClusterError):
            return blocks.take(2)
    pytest.fail("no two free ports in a row")
