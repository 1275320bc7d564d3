"""Who may call the verbs, as the options say."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender.cli.callers import Callers, CallersError, is_loopback
from extender.service.certificates import TlsFiles

CERT, KEY, CA = Path("tls.crt"), Path("tls.key"), Path("ca.crt")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_plain_http_is_for_loopback(host: str) -> None:
    """Whoever shares the machine may call without a certificate."""
    assert Callers.from_options(host, None, None, None, ()) == Callers(None, ())
    assert Callers.from_options(host, CERT, KEY, None, ()) == Callers(TlsFiles(CERT, KEY, None), ())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.org"])
def test_other_addresses_need_client_certificates(host: str) -> None:
    """TLS alone would let everybody place pods."""
    assert Callers.from_options(host, CERT, KEY, CA, ("me",)) == Callers(TlsFiles(CERT, KEY, CA), ("me",))
    with pytest.raises(CallersError, match="--client-ca-file"):
        Callers.from_options(host, CERT, KEY, None, ())
    with pytest.raises(CallersError, match="loopback"):
        Callers.from_options(host, None, None, None, ())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((CERT, None, None, ()), "--tls-cert-file tls.crt: TLS needs both"),
        ((None, KEY, None, ()), "--tls-private-key-file tls.key: TLS needs both"),
        ((None, None, CA, ()), "--client-ca-file ca.crt: TLS needs both"),
        ((CERT, KEY, None, ("me",)), "--allowed-client-name needs --client-ca-file"),
    ],
)
def test_half_a_configuration_is_refused(
    options: tuple[Path | None, Path | None, Path | None, tuple[str, ...]], message: str
) -> None:
    """An option that would have no effect is an error."""
    with pytest.raises(CallersError, match=message):
        Callers.from_options("127.0.0.1", *options)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_loopback_is_reached_from_the_same_machine_alone(host: str) -> None:
    """Every address of the loopback networks counts, and their one name."""
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.example", "127.0.0.1.example", "host"])
def test_everything_else_may_be_reached_from_elsewhere(host: str) -> None:
    """All interfaces, other networks, and names, which are not looked up."""
    assert not is_loopback(host)
