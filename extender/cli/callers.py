"""Who may call the verbs: processes on the same machine, or clients with a certificate."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from extender.service.certificates import TlsFiles


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address can only be reached from the same machine; nothing is looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class CallersError(ValueError):
    """Options that would let the wrong callers in, or none; the message names the option."""


@dataclass(frozen=True, slots=True)
class Callers:
    """Plain HTTP, or TLS with these files; with `names`, only certificates that carry one of them."""

    tls: TlsFiles | None
    names: tuple[str, ...]

    @classmethod
    def from_options(
        cls,
        host: str,
        certificate: Path | None,
        key: Path | None,
        client_ca: Path | None,
        names: tuple[str, ...],
    ) -> Self:
        """Read the command line; raise CallersError where the verbs would be open to other machines.

        The extender's protocol knows no token, and a client that can call bind can place pods.
        """
        if names and client_ca is None:
            raise CallersError("--allowed-client-name needs --client-ca-file: without it no name is verified")
        if certificate is not None and key is not None:
            if client_ca is None and not is_loopback(host):
                raise CallersError(
                    f"--host {host}: TLS alone says nothing about callers; give --client-ca-file, or use a loopback "
                    "address such as 127.0.0.1"
                )
            return cls(TlsFiles(certificate, key, client_ca), names)
        for option, value in (
            ("--tls-cert-file", certificate),
            ("--tls-private-key-file", key),
            ("--client-ca-file", client_ca),
        ):
            if value is not None:
                raise CallersError(f"{option} {value}: TLS needs both --tls-cert-file and --tls-private-key-file")
        if not is_loopback(host):
            raise CallersError(
                f"--host {host}: the verbs are only offered to other machines over TLS with client certificates "
                "(--tls-cert-file, --tls-private-key-file, --client-ca-file); otherwise use a loopback address such as "
                "127.0.0.1"
            )
        return cls(None, ())
