"""Requests to the API server, and what went wrong with one, as an `ApiError`.

Of the `kubernetes` package Muster uses how to read credentials. Its models, its `Watch` and its informers stay unused:
they decode a hundred times slower than msgspec structs and lose events (docs/decisions/0002). Its way to send a request
is aiohttp's, and costs a quarter more than aiohttp alone (docs/decisions/0029).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Self

import structlog
from aiohttp import ClientError, ClientResponse, ClientTimeout, ConnectionTimeoutError
from kubernetes.aio.client import Configuration

from extender.clock import Clock, ClusterClock
from extender.control.ports import ApiError, BudgetError
from extender.kube.api import DISCONNECTED, TIMEOUT, ApiStatus, JsonObject, PatchForm, Query, decode_status
from extender.kube.credentials import Credentials, CredentialsError, CredentialSource, read_credentials
from extender.kube.session import JSON, ServerRequest, ServerSession
from extender.objects.meta import DecodeError

#: Credentials are read at most this often, however many requests are refused.
_RENEWAL_PAUSE_SECONDS = 10.0
_CONNECT_SECONDS = 5.0
#: How long the other end gets to answer the end of TLS when everything is closed; a live one takes a millisecond.
_FAREWELL_SECONDS = 0.05
#: How long the start waits for the API server's time of day: what comes later is put right then.
_ASK_TIME_SECONDS = 2.0
#: From how many seconds on it is worth a line in the log that the API server's time of day is another one.
_TOLD_SECONDS = 5.0
_UNAUTHORIZED = 401
_FIRST_ERROR_STATUS = 300

#: What a connection raises when no answer comes, or not all of it.
_NO_ANSWER = (TimeoutError, ClientError, OSError)

#: A cause of refused evictions. Source: k8s.io/api/policy/v1 DisruptionBudgetCause.
_DISRUPTION_BUDGET = "DisruptionBudget"

#: How much is shown of an answer that is not a metav1.Status.
_SHOWN_CHARACTERS = 300
#: How much is kept of a JSON document that is not: what a pod behind the API server's proxy says, for others to read.
_KEPT_CHARACTERS = 10_000

log = structlog.get_logger("muster.transport")


class Transport:
    """A pool of connections to the API server, with credentials that stay fresh.

    Implements `extender.kube.api.ApiServer`. Use as an async context manager, or call `close`.

    Attributes:
        clock: tells the time of day as the API server has it.
    """

    def __init__(
        self, source: CredentialSource, credentials: Credentials, clock: Clock, pool_size: int, timeout_seconds: float
    ) -> None:
        """Use `connect` instead, which reads the credentials first."""
        self._source = source
        self.clock = ClusterClock(clock)
        self._pool_size = pool_size
        self._timeout = ClientTimeout(total=timeout_seconds, sock_connect=_CONNECT_SECONDS)
        self._renewing = asyncio.Lock()
        self._renewals = 0
        self._next_attempt = 0.0
        self._hear_at = -math.inf
        self._renew_at = self._due(credentials)
        self._session = ServerSession(credentials.configuration, pool_size)

    @classmethod
    async def connect(
        cls, source: CredentialSource, clock: Clock, *, pool_size: int = 100, timeout_seconds: float = 15.0
    ) -> Self:
        """Read credentials; nothing is sent yet.

        Args:
            source: where the credentials are, read again when they run out or are refused.
            clock: tells when.
            pool_size: connections at most; each watch keeps one for itself, each write holds one while it lasts.
            timeout_seconds: how long a request other than a watch may take, waiting for a connection included.

        Raises CredentialsError.
        """
        return cls(source, await read_credentials(source, clock), clock, pool_size, timeout_seconds)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()
        # aiohttp does not wait for connections that were cancelled in the middle of a request.
        await asyncio.sleep(_FAREWELL_SECONDS if self._session.encrypted else 0.0)

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    async def ask_time(self) -> None:
        """Ask for anything, so that the API server's time of day is known; give up soon if it does not answer."""
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(_ASK_TIME_SECONDS):
                await self.get("/livez", {})

    async def token(self) -> str:
        """Return the value of the Authorization header that is sent, "" where there is none."""
        await self._renew_if_due()
        return self._session.token

    async def get(self, path: str, query: Query, headers: Mapping[str, str] | None = None) -> bytes:
        """Read an object or a list."""
        return await _whole_body(
            await self._open(ServerRequest("GET", path, self._timeout, query=query, headers=headers))
        )

    async def post(self, path: str, body: JsonObject, headers: Mapping[str, str] | None = None) -> bytes:
        """Create an object."""
        return await _whole_body(
            await self._open(ServerRequest("POST", path, self._timeout, JSON, body, headers=headers))
        )

    async def patch(self, path: str, body: JsonObject, form: PatchForm = PatchForm.MERGE) -> bytes:
        """Change an object and return it as stored."""
        return await _whole_body(await self._open(ServerRequest("PATCH", path, self._timeout, form.value, body)))

    async def delete(self, path: str, body: JsonObject) -> bytes:
        """Delete an object; `body` are DeleteOptions."""
        return await _whole_body(await self._open(ServerRequest("DELETE", path, self._timeout, JSON, body)))

    @asynccontextmanager
    async def stream(
        self, path: str, query: Query, *, idle_timeout_seconds: float, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch and yield its bytes as they arrive, cut anywhere."""
        timeout = ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=idle_timeout_seconds)
        response = await self._open(ServerRequest("GET", path, timeout, query=query, headers=headers))
        try:
            yield _chunks(response)
        finally:
            _hang_up(response)

    async def _open(self, request: ServerRequest) -> ClientResponse:
        """Send a request and return the answer unread; raise ApiError unless it is a success.

        A request that is refused as unauthorized is sent once more if the credentials can be renewed: it had no effect.
        """
        await self._renew_if_due()
        renewals = self._renewals
        response = await self._send(request)
        if response.status == _UNAUTHORIZED and await self._renew(since=renewals):
            _hang_up(response)
            response = await self._send(request)
        if response.status >= _FIRST_ERROR_STATUS:
            raise await _refusal(response)
        return response

    async def _send(self, request: ServerRequest) -> ClientResponse:
        sent = self.clock.monotonic()
        try:
            response = await self._session.send(request)
        except _NO_ANSWER as error:
            raise _no_answer(error) from error
        if sent >= self._hear_at and (date := response.headers.get("Date")):
            self._hear_at = sent + 1.0
            self._hear(date, sent)
        return response

    def _hear(self, date: str, sent: float) -> None:
        """Take in the time of day that an answer has."""
        try:
            added = self.clock.hear(parsedate_to_datetime(date), sent)
        except (TypeError, ValueError):
            return  # a proxy's own idea of a date
        if abs(added) > _TOLD_SECONDS:
            log.warning("times are the API server's: this machine's clock was set, or is wrong", added_seconds=added)

    async def _renew_if_due(self) -> None:
        if self._renew_at is not None and self.clock.monotonic() >= self._renew_at:
            await self._renew(since=self._renewals)

    async def _renew(self, *, since: int) -> bool:
        """Read the credentials again, unless that happened `since`; return whether there are newer ones than then."""
        async with self._renewing:
            if self._renewals != since:
                return True
            now = self.clock.monotonic()
            if now < self._next_attempt:
                return False
            self._next_attempt = now + _RENEWAL_PAUSE_SECONDS
            try:
                fresh = await read_credentials(self._source, self.clock)
            except CredentialsError as error:
                log.error("credentials could not be renewed, keeping the old ones", error=str(error))  # noqa: TRY400 - the message says it all
                return False
            await self._adopt(fresh.configuration)
            self._renewals += 1
            self._renew_at = self._due(fresh)
            return True

    async def _adopt(self, fresh: Configuration) -> None:
        """Use fresh credentials: a new token on the old connections, anything else on new ones."""
        if self._session.connects_alike(fresh):
            self._session.authorize(fresh)
            return
        old, self._session = self._session, ServerSession(fresh, self._pool_size)
        await old.close()  # what is under way on them fails as any broken connection does

    def _due(self, credentials: Credentials) -> float | None:
        if credentials.good_for is None:
            return None
        return self.clock.monotonic() + max(credentials.good_for, _RENEWAL_PAUSE_SECONDS)


def _no_answer(error: Exception) -> ApiError:
    """Turn one of `_NO_ANSWER` into an ApiError."""
    silent = isinstance(error, TimeoutError) and not isinstance(error, ConnectionTimeoutError)
    reason = TIMEOUT if silent else DISCONNECTED
    return ApiError(0, reason, f"{type(error).__name__}: {error}")


def _let_go(error: Exception) -> Exception:
    """Return an error that an answer keeps, without the traceback that keeps the answer: none would ever be freed."""
    return error.with_traceback(None)


async def _refusal(response: ClientResponse) -> ApiError:
    """Return what an answer that is no success says: a metav1.Status, or a proxy's or a dying server's text."""
    try:
        body = await response.read()
    except _NO_ANSWER as error:
        body = f"({type(error).__name__} while reading the answer)".encode()
        _let_go(error)
    retry_after = response.headers.get("Retry-After", "")
    wait = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else None
    try:
        status = decode_status(body)
    except DecodeError:
        text = body.decode(errors="replace")[:_SHOWN_CHARACTERS].strip()
        return ApiError(response.status, response.reason or "", text, wait)
    if status.reason is None and status.message is None:
        text = body.decode(errors="replace")[:_KEPT_CHARACTERS].strip()
        return ApiError(response.status, response.reason or "", text, wait)
    return _kind_of(status)(response.status, status.reason or response.reason or "", status.message or "", wait)


def _kind_of(status: ApiStatus) -> type[ApiError]:
    causes = (status.details and status.details.causes) or ()
    return BudgetError if any(cause.reason == _DISRUPTION_BUDGET for cause in causes) else ApiError


async def _whole_body(response: ClientResponse) -> bytes:
    """Read an answer to its end; raise ApiError if that does not come."""
    try:
        return await response.read()
    except _NO_ANSWER as error:
        raise _no_answer(error) from _let_go(error)


async def _chunks(response: ClientResponse) -> AsyncIterator[bytes]:
    """Yield an answer's bytes as they arrive; raise ApiError when the connection breaks or is silent for too long."""
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except _NO_ANSWER as error:
        raise _no_answer(error) from _let_go(error)


def _hang_up(response: ClientResponse) -> None:
    """Give up an answer, and with it the connection, at once: the polite end of TLS waits for the other side."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()
