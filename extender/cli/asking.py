"""Asking a running Muster over HTTP."""

from __future__ import annotations

import http.client
import json
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

_OK = 200
#: Largest answer that is read, in bytes: a gang of 10,000 members takes some 2 MB.
_MOST_BYTES = 64 * 1024 * 1024


class ServerError(ValueError):
    """Arguments that nobody can be asked with; the message names the option or quotes the argument."""


class AskError(Exception):
    """A question without an answer; the message says what to do. `status` is the HTTP status of Muster's, else 0."""

    def __init__(self, message: str, status: int = 0) -> None:
        """Keep the status."""
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Server:
    """Where Muster serves the verbs; `tls` is None for plain HTTP."""

    url: str
    host: str
    port: int
    tls: ssl.SSLContext | None

    @classmethod
    def at(cls, url: str, ca_file: Path | None, cert_file: Path | None, key_file: Path | None) -> Self:
        """Read the command line; raise ServerError for what cannot be used."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ServerError(f"--server {url}: {error}") from error
        if parts.scheme not in {"http", "https"} or not host or parts.path.strip("/") or parts.query:
            raise ServerError(f"--server {url} is not an address such as http://127.0.0.1:10261")
        given = [
            f"--{name}"
            for name, file in (("ca-file", ca_file), ("cert-file", cert_file), ("key-file", key_file))
            if file
        ]
        if parts.scheme == "http":
            if given:
                raise ServerError(f"{given[0]} is for https; --server is {url}")
            return cls(url, host, port or 80, None)
        if (cert_file is None) != (key_file is None):
            raise ServerError("--cert-file and --key-file go together")
        try:
            tls = ssl.create_default_context(cafile=ca_file)
            if cert_file is not None:
                tls.load_cert_chain(cert_file, key_file)
        except OSError as error:  # ssl.SSLError is one
            raise ServerError(f"{', '.join(given)}: {error}") from error
        return cls(url, host, port or 443, tls)

    def get(self, path: str, timeout: float) -> bytes:
        """Return what is at a path, within `timeout` seconds between bytes; raise AskError for all else than 200."""
        return self._ask("GET", path, timeout)

    def post(self, path: str, timeout: float) -> bytes:
        """Have done what is at a path, and return the answer; as `get` in all else."""
        return self._ask("POST", path, timeout)

    def _ask(self, method: str, path: str, timeout: float) -> bytes:
        if self.tls is None:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        else:
            connection = http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=self.tls)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            body = answer.read(_MOST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise AskError(
                f"{self.url} does not answer: {reason}; is Muster running there (kubectl port-forward, for example)?"
            ) from error
        finally:
            connection.close()
        if answer.status != _OK:
            if detail := _detail(body):
                raise AskError(detail, answer.status)
            raise AskError(f"{self.url}{path} answered {answer.status} {answer.reason}; is that where the verbs are?")
        return body


def gang_path(gang: str) -> str:
    """Return where Muster answers for NAMESPACE/NAME, or NAME in the namespace default; raise ServerError."""
    namespace, _, name = gang.rpartition("/")
    namespace = namespace or "default"
    if not (re.fullmatch(r"[-a-z0-9]+", namespace, re.ASCII) and re.fullmatch(r"[-A-Za-z0-9_.]+", name, re.ASCII)):
        raise ServerError(f"'{gang}' is no NAMESPACE/NAME of a gang")
    return f"/api/v1/gangs/{namespace}/{name}"


def _detail(body: bytes) -> str:
    """Return what a refusal says, "" if it is not one of Muster's."""
    try:
        document = json.loads(body)
    except ValueError:
        return ""
    detail = document.get("detail") if isinstance(document, dict) else None
    return detail if isinstance(detail, str) and detail != "Not Found" else ""
