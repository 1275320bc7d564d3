"""Certificates for servers and clients on loopback, made by openssl."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificate:
    """A self-signed certificate and its key."""

    certificate: Path
    key: Path


def make_certificate(folder: Path, name: str) -> Certificate:
    """Make a self-signed certificate of `name` for 127.0.0.1 that is good for a day."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "`openssl` is needed for this test. Install it with `apt-get install openssl`."
    made = Certificate(folder / f"{name}.crt", folder / f"{name}.key")
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "1", "-subj", f"/CN={name}", "-keyout", str(made.key), "-out", str(made.certificate)]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    return made


def server_context(own: Certificate, *clients: Certificate) -> ssl.SSLContext:
    """Return TLS for a server; with `clients` it asks for their certificates and takes no others."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(own.certificate, own.key)
    for client in clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client.certificate)
    return context
