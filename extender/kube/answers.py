"""What went wrong with a request, as an `ApiError`."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiohttp import ClientError, ClientResponse, ConnectionTimeoutError

from extender.control.ports import ApiError, BudgetError
from extender.kube.api import DISCONNECTED, TIMEOUT
from extender.wire.api import Status
from extender.wire.codec import DecodeError, decode_status

#: What a connection raises when no answer comes, or not all of it.
NO_ANSWER = (TimeoutError, ClientError, OSError)

#: A cause of refused evictions. Source: k8s.io/api/policy/v1 DisruptionBudgetCause.
_DISRUPTION_BUDGET = "DisruptionBudget"

#: How much is shown of an answer that is not a metav1.Status.
_SHOWN_CHARACTERS = 300
#: How much is kept of a JSON document that is not: what a pod behind the API server's proxy says, for others to read.
_KEPT_CHARACTERS = 10_000


def no_answer(error: Exception) -> ApiError:
    """Turn one of NO_ANSWER into an ApiError."""
    silent = isinstance(error, TimeoutError) and not isinstance(error, ConnectionTimeoutError)
    reason = TIMEOUT if silent else DISCONNECTED
    return ApiError(0, reason, f"{type(error).__name__}: {error}")


async def refusal(response: ClientResponse) -> ApiError:
    """Return what an answer that is no success says: a metav1.Status, or a proxy's or a dying server's text."""
    try:
        body = await response.read()
    except NO_ANSWER as error:
        body = f"({type(error).__name__} while reading the answer)".encode()
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


def _kind_of(status: Status) -> type[ApiError]:
    causes = (status.details and status.details.causes) or ()
    return BudgetError if any(cause.reason == _DISRUPTION_BUDGET for cause in causes) else ApiError


async def whole_body(response: ClientResponse) -> bytes:
    """Read an answer to its end; raise ApiError if that does not come."""
    try:
        return await response.read()
    except NO_ANSWER as error:
        raise no_answer(error) from error


async def chunks(response: ClientResponse) -> AsyncIterator[bytes]:
    """Yield an answer's bytes as they arrive; raise ApiError when the connection breaks or is silent for too long."""
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except NO_ANSWER as error:
        raise no_answer(error) from error


def hang_up(response: ClientResponse) -> None:
    """Give up an answer, and with it the connection, at once: the polite end of TLS waits for the other side."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()
