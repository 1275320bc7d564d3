"""Asking Muster through the API server: with the caller's own credentials, by its proxy to pods."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from extender.cli.asking import ANSWER_SECONDS, AskError, ServerError, UnknownPathError, detail_of
from extender.cli.discovery import LABEL, MusterPod, leading, running
from extender.cli.serverevents import lines_of

if TYPE_CHECKING:
    from extender.control.ports import ApiError
    from extender.kube.transport import Transport

T = TypeVar("T")

#: Longest that anything but a stream may take; each question has a bound of its own below this.
_LONGEST_SECONDS = 600.0
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _BAD_GATEWAY, _UNAVAILABLE = 401, 403, 404, 502, 503
#: The shipped Role that has what it takes.
_ROLE = "the Role muster-view has it (docs/command-line.md)"


class ApiServerError(AskError):
    """The API server itself said no, or nothing; `refusal` is its HTTP status, 0 without an answer."""

    def __init__(self, message: str, refusal: int) -> None:
        """Keep the status apart from those of Muster."""
        super().__init__(message)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class ApiSession:
    """The API server, asked by code that is not asynchronous."""

    runner: asyncio.Runner
    transport: Transport

    def get(self, path: str, timeout: float, right: str) -> bytes:
        """Return what is at a path; raise AskError, which names the `right` if that is what lacks."""
        parts = urlsplit(path)
        return self._run(self.transport.get(parts.path, dict(parse_qsl(parts.query))), timeout, right)

    def post(self, path: str, timeout: float, right: str, body: bytes | None) -> bytes:
        """Send a JSON document, and return the answer; as `get` in all else."""
        return self._run(self.transport.post(path, json.loads(body or b"{}")), timeout, right)

    def chunks(self, path: str, idle_seconds: float, right: str) -> Iterator[bytes]:
        """Yield the bytes of a stream as they come; raise AskError as `get`, and when the stream breaks."""
        from extender.control.ports import ApiError

        parts = urlsplit(path)
        stream = self.transport.stream(parts.path, dict(parse_qsl(parts.query)), idle_timeout_seconds=idle_seconds)
        try:
            arriving = self.runner.run(_entered(stream))
        except ApiError as error:
            raise told(error, right) from error
        try:
            while (chunk := self.runner.run(_following(arriving))) is not None:
                yield chunk
        except ApiError as error:
            raise told(error, right) from error
        finally:
            self.runner.run(_left(stream))

    def _run(self, question: Coroutine[Any, Any, bytes], timeout: float, right: str) -> bytes:
        from extender.control.ports import ApiError

        try:
            return self.runner.run(_within(question, timeout))
        except ApiError as error:
            raise told(error, right) from error
        except TimeoutError as error:
            raise AskError(f"no answer through the API server within {timeout:g} s") from error


@contextlib.contextmanager
def api_session(kubeconfig: Path | None, context: str | None) -> Iterator[ApiSession]:
    """Reach the API server of a kubeconfig, as kubectl would; raise ServerError where that says nothing usable."""
    from extender.cli.logs import LogFormat, LogLevel, configure_logs
    from extender.clock import SystemClock
    from extender.kube.credentials import CredentialsError, find_credentials
    from extender.kube.transport import Transport

    configure_logs(LogLevel.ERROR, LogFormat.AUTO)
    with asyncio.Runner() as runner:
        try:
            source = find_credentials(os.environ, kubeconfig, context)
            transport = runner.run(
                Transport.connect(source, SystemClock(), pool_size=4, timeout_seconds=_LONGEST_SECONDS)
            )
        except CredentialsError as error:
            raise ServerError(f"{error}; or --server with Muster's address") from error
        except TimeoutError as error:
            raise AskError("the kubeconfig's exec plugin does not end; run it by hand to see why") from error
        try:
            yield ApiSession(runner, transport)
        finally:
            runner.run(transport.close())


def find_muster(api: ApiSession, namespace: str) -> MusterPod:
    """Return the pod of Muster that leads; raise AskError where none can be found."""
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={LABEL}"
    listed = json.loads(api.get(path, ANSWER_SECONDS, f"list pods in namespace {namespace}"))
    pods = running(map(MusterPod.read, listed.get("items") or ()), namespace)
    if len(pods) == 1:
        return pods[0]
    lease = pods[0].lease
    path = f"/apis/coordination.k8s.io/v1/namespaces/{lease.namespace}/leases/{lease.name}"
    try:
        found = json.loads(api.get(path, ANSWER_SECONDS, f"get leases in namespace {lease.namespace}"))
    except ApiServerError as error:
        if error.refusal != _NOT_FOUND:
            raise
        found = None
    return leading(pods, found)


@dataclass(frozen=True, slots=True)
class PodProxy:
    """Muster's listener for people, behind the API server's proxy to its pod."""

    api: ApiSession
    pod: MusterPod
    port: int

    @property
    def where(self) -> str:
        """Return who is asked, for messages."""
        return f"{self.pod} (through the API server's proxy)"

    def get(self, path: str, timeout: float = ANSWER_SECONDS) -> bytes:
        """Return what is at a path, within `timeout` seconds; raise AskError for all else than success."""
        return self.api.get(self._path(path), timeout, self._right("get"))

    def post(self, path: str, timeout: float = ANSWER_SECONDS, body: bytes | None = None) -> bytes:
        """Have done what is at a path; as `get` in all else."""
        return self.api.post(self._path(path), timeout, self._right("create"), body)

    def lines(self, path: str, idle_seconds: float) -> Iterator[str]:
        """Yield the lines of a stream as they come."""
        return lines_of(self.api.chunks(self._path(path), idle_seconds, self._right("get")))

    def _path(self, path: str) -> str:
        return f"/api/v1/namespaces/{self.pod.namespace}/pods/http:{self.pod.name}:{self.port}/proxy{path}"

    def _right(self, verb: str) -> str:
        return f"{verb} pods/proxy in namespace {self.pod.namespace}"


def told(error: ApiError, right: str) -> AskError:
    """Say what went wrong on the way through the API server: Muster's own words where it was Muster that refused."""
    if detail := detail_of(error.message):
        return AskError(detail, error.status)
    status = error.status
    if error.message.startswith("{"):
        kind = UnknownPathError if status == _NOT_FOUND else AskError
        return kind(f"Muster answered {status} {error.reason}; is it older than this command?")
    if status == _FORBIDDEN:
        return ApiServerError(f"{error.message or error}: the right to {right} is missing; {_ROLE}", status)
    if status == _UNAUTHORIZED:
        return ApiServerError("the API server does not know these credentials (401); log in again", status)
    if status in {_BAD_GATEWAY, _UNAVAILABLE}:
        advice = "--via port-forward takes another way"
        return ApiServerError(f"the API server does not get through to Muster: {error}; {advice}", status)
    return ApiServerError(f"the API server: {error}", status)


async def _within(question: Coroutine[Any, Any, T], seconds: float) -> T:
    async with asyncio.timeout(seconds):
        return await question


async def _entered(stream: contextlib.AbstractAsyncContextManager[AsyncIterator[bytes]]) -> AsyncIterator[bytes]:
    return await stream.__aenter__()


async def _following(arriving: AsyncIterator[bytes]) -> bytes | None:
    return await anext(arriving, None)


async def _left(stream: contextlib.AbstractAsyncContextManager[AsyncIterator[bytes]]) -> None:
    await stream.__aexit__(None, None, None)
