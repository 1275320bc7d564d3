"""One verb as an ASGI endpoint: limits before it, metric and log after it, and an answer for every failure.

A gang of 1,000 pods asks 2,000 times within seconds, and finding an answer takes some ten microseconds. That is why an
endpoint speaks ASGI: request and response objects, and the middleware around them, would cost several times as much.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Self

import structlog
from starlette.types import Receive, Scope, Send

from extender.admission.events import Outcome
from extender.clock import Clock
from extender.control.health import DegradedError
from extender.control.metrics import Metrics
from extender.objects.meta import DecodeError

log = structlog.get_logger("muster.verbs")

_OK, _BAD_REQUEST, _TOO_LARGE = 200, 400, 413


class RequestError(ValueError):
    """A request that could be read but asks for nothing that can be answered."""


class TooManyCallsError(Exception):
    """One call more than may be under way at once."""


class BodyTooLargeError(Exception):
    """A request body beyond a limit; the rest of it was not read."""

    def __init__(self, what: str, limit: int, setting: str) -> None:
        super().__init__(f"{what} {limit} bytes ({setting})")


class BodyLostError(Exception):
    """A client that went away before its request was complete; nothing waits for an answer."""


class CallSlots:
    """Count calls under way: a context manager around each, which refuses one too many."""

    def __init__(self, limit: int, setting: str) -> None:
        """Allow `limit` calls; `setting` is what to change if that is too few."""
        self._limit = limit
        self._setting = setting
        self._taken = 0

    def __enter__(self) -> None:
        if self._taken >= self._limit:
            raise TooManyCallsError(f"{self._taken} calls are under way, no more are taken ({self._setting})")
        self._taken += 1

    def __exit__(self, *_: object) -> None:
        self._taken -= 1


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """How large one body may be, in bytes, and what to call that limit."""

    size: int
    name: str


class BodyBudget:
    """Bytes that the bodies of all requests being read or answered may take together."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0

    def take(self, size: int) -> None:
        """Count `size` bytes more; raise BodyTooLargeError, counting nothing, if that is too much."""
        if self._used + size > self._limit:
            raise BodyTooLargeError("bodies under way exceed", self._limit, "setting bodies_limit_bytes")
        self._used += size

    def give_back(self, size: int) -> None:
        """Count `size` bytes less."""
        self._used -= size


class Body:
    """One request's body, counted in a budget while it is in use: a context manager around reading and answering."""

    def __init__(self, scope: Scope, receive: Receive, limit: BodyLimit, budget: BodyBudget) -> None:
        self._scope = scope
        self._receive = receive
        self._limit = limit
        self._budget = budget
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._budget.give_back(self._size)

    async def read(self) -> bytes:
        """Return the whole body.

        Raises BodyTooLargeError as soon as it is known to exceed a limit, BodyLostError if the client goes away.
        """
        if self._announced() > self._limit.size:
            raise self._too_large()
        chunks: list[bytes] = []
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise BodyLostError("the client went away before its request was complete")
            chunk = message.get("body", b"")
            if self._size + len(chunk) > self._limit.size:
                raise self._too_large()
            self._budget.take(len(chunk))
            self._size += len(chunk)
            chunks.append(chunk)
            more = message.get("more_body", False)
        return b"".join(chunks)

    def _announced(self) -> int:
        """Return how many bytes the request says that it has, 0 if it does not say."""
        length = next((value for name, value in self._scope["headers"] if name == b"content-length"), b"")
        return int(length) if length.isdigit() else 0

    def _too_large(self) -> BodyTooLargeError:
        return BodyTooLargeError("body exceeds", self._limit.size, self._limit.name)


@dataclass(frozen=True, slots=True)
class VerbAnswer:
    """The bytes to send and how the call ended; `about` and `decision` are for the log."""

    body: bytes
    outcome: Outcome
    about: str = ""
    decision: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: how it is answered, what it answers when that fails, and its limits.

    `summary`, and the types that it `takes` and `answers`, are for the OpenAPI document.
    """

    name: str
    answer: Callable[[bytes], Awaitable[VerbAnswer]]
    failure: Callable[[str], bytes]
    slots: CallSlots
    body_limit: BodyLimit
    summary: str
    takes: Any
    answers: Any

    def failed(self, message: str) -> VerbAnswer:
        """Return the answer to a call that failed."""
        return VerbAnswer(self.failure(message), Outcome.ERROR, error=message)


class Endpoint:
    """Answer the requests to one verb."""

    def __init__(self, verb: Verb, budget: BodyBudget, metrics: Metrics, clock: Clock) -> None:
        self.verb = verb
        self._budget = budget
        self._clock = clock
        self._timer = cache(partial(metrics.verb_seconds.labels, verb.name))
        self._recent = metrics.recent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read a request, and send its answer."""
        began = self._clock.monotonic()
        status, answer = await self._answer(scope, receive)
        self._tell(answer, began, self._clock.monotonic() - began)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer.body))]
        if status == _TOO_LARGE:
            headers.append((b"connection", b"close"))  # the rest of the body is not waited for
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, VerbAnswer]:
        """Return the HTTP status and the answer; every failure has one in the verb's own terms."""
        verb = self.verb
        try:
            body = Body(scope, receive, verb.body_limit, self._budget)
            with verb.slots, body:
                return _OK, await verb.answer(await body.read())
        except (DecodeError, BodyLostError) as error:
            return _BAD_REQUEST, verb.failed(str(error))
        except BodyTooLargeError as error:
            return _TOO_LARGE, verb.failed(str(error))
        except (RequestError, TooManyCallsError, DegradedError) as error:
            return _OK, verb.failed(str(error))
        except Exception as error:  # an error of ours is an answer, never a wrong placement (P9)
            log.exception("verb failed", verb=verb.name)
            return _OK, verb.failed(f"internal error: {type(error).__name__}")

    def _tell(self, answer: VerbAnswer, began: float, seconds: float) -> None:
        """Count and log how a call ended."""
        self._timer(answer.outcome).observe(seconds)
        self._recent.observe(self.verb.name, seconds, began + seconds)
        write = log.warning if answer.outcome is Outcome.ERROR else log.debug
        write(
            self.verb.name,
            pod=answer.about,
            outcome=answer.outcome,
            decision=answer.decision,
            message=answer.error,
            milliseconds=round(seconds * 1000, 3),
        )
