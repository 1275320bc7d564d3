"""Asking a running Muster over HTTP."""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self
from urllib.parse import urlsplit

from extender.cli.serverevents import lines_of

#: How long Muster may take to answer (seconds): it takes milliseconds.
ANSWER_SECONDS = 10.0

_OK, _NOT_FOUND = 200, 404
#: Bytes of a stream that are taken at once, at most.
_CHUNK_BYTES = 65_536
#: Largest answer that is read, in bytes: a gang of 10,000 members takes some 2 MB, a recording what it is allowed to.
_MOST_BYTES = 1024 * 1024 * 1024


class ServerError(ValueError):
    """Arguments that nobody can be asked with; the message names the option or quotes the argument."""


class AskError(Exception):
    """A question without an answer; the message says what to do. `status` is the HTTP status of Muster's, else 0."""

    def __init__(self, message: str, status: int = 0) -> None:
        """Keep the status."""
        super().__init__(message)
        self.status = status


class UnknownPathError(AskError):
    """Whoever answers does not know the question: an older Muster, one that was told not to, or no Muster at all."""


class Asker(Protocol):
    """A running Muster, whichever way it is reached. A path may carry a query, encoded."""

    @property
    def where(self) -> str:
        """Return who is asked, for messages."""
        ...

    def get(self, path: str, timeout: float = ANSWER_SECONDS) -> bytes:
        """Return what is at a path, within `timeout` seconds; raise AskError for all else than 200."""
        ...

    def post(self, path: str, timeout: float = ANSWER_SECONDS, body: bytes | None = None) -> bytes:
        """Have done what is at a path, with a JSON document if one is needed; as `get` in all else."""
        ...

    def lines(self, path: str, idle_seconds: float) -> Iterator[str]:
        """Yield the lines of a stream as they come, without their ends; stop when the server ends it.

        Raises AskError if it is refused, breaks, or is silent for `idle_seconds`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Server:
    """Where Muster serves the verbs; `tls` is None for plain HTTP. `name` is what messages call it, else its URL."""

    url: str
    host: str
    port: int
    tls: ssl.SSLContext | None
    name: str = ""

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

    @property
    def where(self) -> str:
        """Return who is asked, for messages."""
        return self.name or self.url

    def get(self, path: str, timeout: float = ANSWER_SECONDS) -> bytes:
        """Return what is at a path, within `timeout` seconds between bytes; raise AskError for all else than 200."""
        return self._ask("GET", path, timeout, None)

    def post(self, path: str, timeout: float = ANSWER_SECONDS, body: bytes | None = None) -> bytes:
        """Have done what is at a path, and return the answer; as `get` in all else."""
        return self._ask("POST", path, timeout, body)

    def lines(self, path: str, idle_seconds: float) -> Iterator[str]:
        """Yield the lines of a stream as they come; AskError if it is refused, breaks or is silent for too long."""
        return lines_of(self._chunks(path, idle_seconds))

    def _ask(self, method: str, path: str, timeout: float, body: bytes | None) -> bytes:
        connection = self._connection(timeout)
        try:
            return self._answer(connection, method, path, body).read(_MOST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise self._silent(error) from error
        finally:
            connection.close()

    def _chunks(self, path: str, idle_seconds: float) -> Iterator[bytes]:
        connection = self._connection(idle_seconds)
        try:
            answer = self._answer(connection, "GET", path, None)
            while chunk := answer.read1(_CHUNK_BYTES):
                yield chunk
        except (OSError, http.client.HTTPException) as error:
            raise self._silent(error) from error
        finally:
            connection.close()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self.tls is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=self.tls)

    def _answer(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None
    ) -> http.client.HTTPResponse:
        """Ask, and return the answer unread; raise AskError for all else than 200."""
        headers = {} if body is None else {"content-type": "application/json"}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        if answer.status == _OK:
            return answer
        if detail := detail_of(answer.read(_MOST_BYTES)):
            raise AskError(detail, answer.status)
        kind = UnknownPathError if answer.status == _NOT_FOUND else AskError
        raise kind(f"{self.url}{path} answered {answer.status} {answer.reason}; is that where the verbs are?")

    def _silent(self, error: Exception) -> AskError:
        advice = "" if self.name else "; is Muster running there (kubectl port-forward, for example)?"
        return AskError(f"{self.where} does not answer: {str(error) or type(error).__name__}{advice}")


def gang_path(gang: str) -> str:
    """Return where Muster answers for NAMESPACE/NAME, or NAME in the namespace default; raise ServerError."""
    namespace, _, name = gang.rpartition("/")
    namespace = namespace or "default"
    if not (re.fullmatch(r"[-a-z0-9]+", namespace, re.ASCII) and re.fullmatch(r"[-A-Za-z0-9_.]+", name, re.ASCII)):
        raise ServerError(f"'{gang}' is no NAMESPACE/NAME of a gang")
    return f"/api/v1/gangs/{namespace}/{name}"


def detail_of(body: bytes | str) -> str:
    """Return what a refusal says, "" if it is not one of Muster's."""
    try:
        document = json.loads(body)
    except ValueError:
        return ""
    detail = document.get("detail") if isinstance(document, dict) else None
    return detail if isinstance(detail, str) and detail != "Not Found" else ""
