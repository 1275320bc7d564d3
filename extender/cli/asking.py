"""Asking a running Muster over HTTP, and the way to one by its address. The ways by a kubeconfig are in `pods`."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar
from urllib.parse import SplitResult, urlencode, urlsplit

T = TypeVar("T")

#: How long Muster may take to answer (seconds): it takes milliseconds.
ANSWER_SECONDS = 10.0

OK, BAD_REQUEST, NOT_FOUND = 200, 400, 404
#: What to do about a refusal that is not in Muster's words, by its HTTP status: a proxy's, or another server's.
_ADVICE = {
    401: "log in there, or give --token-file with a token that is valid",
    403: "ask those who run it for access, or leave out --server to ask by your kubeconfig",
    NOT_FOUND: "is that where the verbs are, and as new as this command?",
    **dict.fromkeys(
        (502, 503, 504), "no replica of Muster answers behind it; kubectl -n muster-system get pods says why"
    ),
}
#: Bytes of an answer that are taken at once, at most.
_CHUNK_BYTES = 65_536


class ServerError(ValueError):
    """Arguments that do not lead to a Muster; the message names the option or quotes the argument."""


class AskError(Exception):
    """A question without an answer; the message says what to do. `status` is the HTTP status of Muster's, else 0.

    Each of `details` is said in a line of its own below the message.
    """

    def __init__(self, message: str, status: int = 0, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.details = details


class UnknownPathError(AskError):
    """The server does not know the question: an older Muster, one configured not to answer it, or no Muster at all."""


class Asker(ABC):
    """A running Muster. A path may carry a query, encoded; `where` is how messages name it."""

    where: str

    def get(self, path: str, timeout: float = ANSWER_SECONDS) -> bytes:
        """Return what is at a path, within `timeout` seconds; raise AskError for all else than success."""
        return self._ask("GET", path, timeout, None)

    def post(self, path: str, timeout: float = ANSWER_SECONDS, body: bytes | None = None) -> bytes:
        """Have done what is at a path, with a JSON document if one is needed; as `get` in all else."""
        return self._ask("POST", path, timeout, body)

    def read(self, body: bytes, kind: type[T]) -> T:
        """Return the document of an answer; raise AskError if it is not what Muster answers."""
        import msgspec

        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.ValidationError as error:
            said = f"the answer of {self.where} cannot be read: {error}"
            raise AskError(f"{said}; is it as new as this command?") from error
        except msgspec.DecodeError as error:
            said = f"{self.where} does not answer as Muster does"
            raise AskError(f"{said}: is it another program, or another port?") from error

    def lines(self, path: str, idle_seconds: float) -> Iterator[str]:
        """Yield the lines of a stream as they come, without their ends; stop when the server ends it.

        Raises AskError if it is refused, breaks, or is silent for `idle_seconds`.
        """
        return lines_of(self._chunks(path, idle_seconds))

    @abstractmethod
    def _ask(self, method: str, path: str, timeout: float, body: bytes | None) -> bytes:
        """Return the body of a success; raise AskError for all else."""

    @abstractmethod
    def _chunks(self, path: str, idle_seconds: float) -> Iterator[bytes]:
        """Yield the bytes of a stream, cut anywhere."""


class Server(Asker):
    """Muster at an address: its own, or one that a port-forward leads from, which then has a `name`."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None, name: str = "") -> None:
        """Take `http://HOST:PORT`, or https with `tls`; raise ServerError for another URL."""
        address = _address(url)
        self._url, self._tls, self._name = url, tls, name
        self._host, self._port = address.hostname or "", address.port or (80 if tls is None else 443)
        self._token = ""
        self.where = name or url

    def show_token(self, file: Path) -> None:
        """Show the bearer token in a file with every question; raise ServerError as `read_token`."""
        self._token = read_token(file)

    @classmethod
    def at(cls, url: str, ca_file: Path | None, cert_file: Path | None, key_file: Path | None) -> Self:
        """Read the command line; raise ServerError for what cannot be used."""
        files = {"--ca-file": ca_file, "--cert-file": cert_file, "--key-file": key_file}
        given = [option for option, file in files.items() if file is not None]
        if _address(url).scheme == "http":
            if given:
                raise ServerError(f"{given[0]} is for https; --server is {url}")
            return cls(url)
        if (cert_file is None) != (key_file is None):
            raise ServerError("--cert-file and --key-file go together")
        try:
            tls = ssl.create_default_context(cafile=ca_file)
            if cert_file is not None:
                tls.load_cert_chain(cert_file, key_file)
        except OSError as error:  # ssl.SSLError is one
            raise ServerError(f"{', '.join(given)}: {error}") from error
        return cls(url, tls)

    def _ask(self, method: str, path: str, timeout: float, body: bytes | None) -> bytes:
        return b"".join(self._answer(method, path, timeout, body))

    def _chunks(self, path: str, idle_seconds: float) -> Iterator[bytes]:
        return self._answer("GET", path, idle_seconds, None)

    def _answer(self, method: str, path: str, timeout: float, body: bytes | None) -> Iterator[bytes]:
        """Ask, and yield the answer as it comes, with `timeout` seconds at most between two pieces of it."""
        if self._tls is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        else:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)
        try:
            kind = {} if body is None else {"content-type": "application/json"}
            shown = {"authorization": f"Bearer {self._token}"} if self._token else {}
            connection.request(method, path, body, kind | shown)
            answer = connection.getresponse()
            if answer.status != OK:
                raise self._refusal(path, answer)
            while chunk := answer.read1(_CHUNK_BYTES):
                yield chunk
        except (OSError, http.client.HTTPException) as error:
            raise AskError(f"{self.where} does not answer{self._silence(error, timeout)}") from error
        finally:
            connection.close()

    def _silence(self, error: Exception, timeout: float) -> str:
        """Return why there is no answer, and what to do."""
        if isinstance(error, TimeoutError):
            return f" within {timeout:g} s: it is busy, or the way to it is cut; try again, then look at its log"
        said = str(error) or type(error).__name__
        if self._name:
            return f": {said}"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f": {said}; --ca-file names who signed its certificate"
        if isinstance(error, ssl.SSLError):
            return f": {said}; does it speak http there?"
        if isinstance(error, socket.gaierror):
            return f": {said}; is the host in --server spelt right?"
        return f": {said}; is Muster running there (kubectl port-forward, for example)?"

    def _refusal(self, path: str, answer: http.client.HTTPResponse) -> AskError:
        if detail := detail_of(answer.read()):
            return AskError(detail, answer.status)
        kind = UnknownPathError if answer.status == NOT_FOUND else AskError
        advice = _ADVICE.get(answer.status, "is that where the verbs are?")
        return kind(f"{self._url}{path} answered {answer.status} {answer.reason}; {advice}")


def read_token(file: Path) -> str:
    """Return the bearer token in a file; raise ServerError if it cannot be read, or is none."""
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeError) as error:
        raise ServerError(f"--token-file {file}: {error}") from error
    if not token or any(character.isspace() for character in token):
        raise ServerError(f"--token-file {file} holds no token: one word is expected")
    return token


def _address(url: str) -> SplitResult:
    """Split the URL of a server; raise ServerError for one that is more or less than scheme, host and port."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ServerError(f"--server {url}: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ServerError(f"--server {url} is not an address such as http://127.0.0.1:10261")
    return parts


def gang_key(gang: str, namespace: str = "default") -> str:
    """Return NAMESPACE/NAME for itself or for a NAME in `namespace`; raise ServerError for what cannot be one."""
    where, _, name = gang.rpartition("/")
    where = where or namespace
    if not (re.fullmatch(r"[-a-z0-9]+", where, re.ASCII) and re.fullmatch(r"[-A-Za-z0-9_.]+", name, re.ASCII)):
        raise ServerError(f"'{gang}' is no NAMESPACE/NAME of a gang")
    return f"{where}/{name}"


def gang_path(gang: str, namespace: str = "default") -> str:
    """Return where Muster answers for NAMESPACE/NAME, or NAME in `namespace`; raise ServerError."""
    return f"/api/v1/gangs/{gang_key(gang, namespace)}"


def with_query(path: str, query: Mapping[str, str | int | None]) -> str:
    """Return a path with the parameters that have a value."""
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def detail_of(body: bytes | str) -> str:
    """Return what a refusal says, "" if it is not one of Muster's."""
    try:
        document = json.loads(body)
    except ValueError:
        return ""
    detail = document.get("detail") if isinstance(document, dict) else None
    return detail if isinstance(detail, str) and detail != "Not Found" else ""


def lines_of(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines in bytes that are cut anywhere, without their ends; what has no end is no line."""
    rest: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest.append(first)
        for other in others:
            yield b"".join(rest).removesuffix(b"\r").decode(errors="replace")
            rest = [other]
