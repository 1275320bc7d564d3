"""One verb as an ASGI endpoint: limits before it, metric and log after it, and an answer for every failure.

A gang of 1,000 pods asks 2,000 times within seconds, and finding an answer takes some ten microseconds. That is why an
endpoint speaks ASGI: request and response objects, and the middleware around them, would cost several times as much.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, partial

import structlog
from starlette.types import Receive, Scope, Send

from extender.admission.answers import Outcome
from extender.clock import Clock
from extender.control.health import DegradedError
from extender.control.metrics import Metrics
from extender.service.bodies import Body, BodyBudget, BodyLimit, BodyLostError, BodyTooLargeError
from extender.service.slots import CallSlots, TooManyCallsError
from extender.wire.codec import DecodeError

log = structlog.get_logger("muster.verbs")

_OK, _BAD_REQUEST, _TOO_LARGE = 200, 400, 413


class RequestError(ValueError):
    """A request that could be read but asks for nothing that can be answered."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The bytes to send and how the call ended; `about` and `decision` are for the log."""

    body: bytes
    outcome: Outcome
    about: str = ""
    decision: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: how it is answered, what it answers when that fails, and its limits."""

    name: str
    answer: Callable[[bytes], Awaitable[Answer]]
    failure: Callable[[str], bytes]
    slots: CallSlots
    body_limit: BodyLimit

    def failed(self, message: str) -> Answer:
        """Return the answer to a call that failed."""
        return Answer(self.failure(message), Outcome.ERROR, error=message)


class Endpoint:
    """Answer the requests to one verb."""

    def __init__(self, verb: Verb, budget: BodyBudget, metrics: Metrics, clock: Clock) -> None:
        """Share `budget` with the other verbs."""
        self._verb = verb
        self._budget = budget
        self._clock = clock
        self._timer = cache(partial(metrics.verb_seconds.labels, verb.name))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read a request, and send its answer."""
        began = self._clock.monotonic()
        status, answer = await self._answer(scope, receive)
        self._tell(answer, self._clock.monotonic() - began)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer.body))]
        if status == _TOO_LARGE:
            headers.append((b"connection", b"close"))  # whoever is still sending is not waited for
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, Answer]:
        """Return the HTTP status and the answer; every failure has one in the verb's own terms."""
        verb = self._verb
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

    def _tell(self, answer: Answer, seconds: float) -> None:
        """Count and log how a call ended."""
        self._timer(answer.outcome).observe(seconds)
        write = log.warning if answer.outcome is Outcome.ERROR else log.debug
        write(
            self._verb.name,
            pod=answer.about,
            outcome=answer.outcome,
            decision=answer.decision,
            message=answer.error,
            milliseconds=round(seconds * 1000, 3),
        )
