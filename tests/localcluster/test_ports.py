"""Free ports."""

import socket

import pytest

from localcluster import ports
from localcluster.errors import LocalClusterError


def test_ports_are_different_and_free() -> None:
    """Each port is another one, and a server can listen on it."""
    found = ports.free_ports(5)
    assert len(set(found)) == 5
    for port in found:
        with socket.create_server((ports.LOOPBACK, port)):
            assert port in ports.PORT_RANGE


def test_taken_ports_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one free port in the range it is found; with none, the error says which range."""
    (taken, free) = ports.free_ports(2)
    with socket.create_server((ports.LOOPBACK, taken)):
        monkeypatch.setattr(ports, "PORT_RANGE", range(taken, taken + 1))
        with pytest.raises(LocalClusterError, match=f"no 1 free ports in {taken}-{taken}"):
            ports.free_ports(1)
        monkeypatch.setattr(ports, "PORT_RANGE", [taken, free])
        assert ports.free_ports(1) == (free,)
