"""Who can reach an address."""

from __future__ import annotations

import pytest

from extender.domain.addresses import is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_loopback_is_reached_from_the_same_machine_alone(host: str) -> None:
    """Every address of the loopback networks counts, and their one name."""
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.example", "127.0.0.1.example", "host"])
def test_everything_else_may_be_reached_from_elsewhere(host: str) -> None:
    """All interfaces, other networks, and names, which are not looked up."""
    assert not is_loopback(host)
