"""What people ask about gangs that they have not submitted: would they start, where, and if not, what would help."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

import msgspec
from fastapi import FastAPI, HTTPException, Request, Response

from extender.control.controller import Controller
from extender.control.whatif import Answer, Newcomer, answer_json, ask, complete, newcomers, study
from extender.domain.submission.manifest import SubmissionError
from extender.domain.submission.submission import Priorities, read_submission
from extender.domain.timestamp import write_timestamp
from extender.service.bodies import Body, BodyBudget, BodyLimit, BodyLostError, BodyTooLargeError
from extender.service.readiness import ERROR_SCHEMA, NOT_READ_YET, UNAVAILABLE, require_ready
from extender.service.slots import CallSlots, TooManyCallsError
from extender.settings import Settings
from extender.wire.codec import DecodeError, Decoder, encode

#: Gangs of one question. Each takes as long as an explanation, with up to 64 trials besides.
_MOST_GANGS: Final = 64
#: Questions that may wait while one is being worked out.
_MOST_WAITING: Final = 8

_BAD_REQUEST, _TOO_LARGE, _TOO_MANY = 400, 413, 429
_FAILURES = {
    _BAD_REQUEST: "Objects that nobody can judge; `detail` names object and field.",
    _TOO_LARGE: "The body exceeds the setting body_limit_bytes.",
    _TOO_MANY: "Others ask already, and they are answered one by one.",
    UNAVAILABLE: f"{NOT_READ_YET} Or this replica stands by; the one that leads has to be asked.",
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": {"application/json": {"schema": ERROR_SCHEMA}}}
    for status, text in _FAILURES.items()
}
_ANSWER = {
    "type": "object",
    "required": ["gangs"],
    "properties": {"gangs": {"type": "array", "items": {"type": "object"}}},
}


class WhatIf(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The objects that somebody thinks of submitting, as the API server would get them."""

    objects: Annotated[list[dict[str, Any]], msgspec.Meta(min_length=1, description="Kubernetes objects as JSON.")]


_decode = Decoder(WhatIf, "the question")


def add_whatif(app: FastAPI, controller: Controller, settings: Settings) -> None:
    """Add the question to an application, with the limits of `settings`."""
    limit = BodyLimit(settings.body_limit_bytes, "setting body_limit_bytes")
    budget, slots = BodyBudget(settings.body_limit_bytes), CallSlots(_MOST_WAITING, "fixed")
    one_by_one = asyncio.Lock()

    @app.post(
        "/api/v1/explain",
        summary="Say what would become of objects if they were submitted now. Nothing is decided, and nothing kept.",
        response_class=Response,
        responses={**_RESPONSES, 200: {"content": {"application/json": {"schema": _ANSWER}}}},
        openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": _schema()}}}},
    )
    async def explain_objects(request: Request) -> Response:
        require_ready(controller)
        if not controller.leading:
            raise HTTPException(UNAVAILABLE, "this replica stands by and decides nothing; ask the one that leads")
        try:
            with slots, Body(request.scope, request.receive, limit, budget) as body:
                content = await body.read()
                async with one_by_one:
                    priorities = Priorities(controller.observer.priorities, controller.observer.default_priority())
                    clock = controller.admission.clock
                    coming = write_timestamp(clock.now()), clock.monotonic()
                    asked = await asyncio.to_thread(_read, content, priorities, *coming)
                    answers = [await _answer(controller, each) for each in asked]
                    document = await asyncio.to_thread(lambda: encode(answer_json(answers)))
        except (DecodeError, SubmissionError, BodyLostError) as error:
            raise HTTPException(_BAD_REQUEST, str(error)) from error
        except BodyTooLargeError as error:
            raise HTTPException(_TOO_LARGE, str(error), {"connection": "close"}) from error
        except TooManyCallsError as error:
            raise HTTPException(_TOO_MANY, str(error)) from error
        return Response(document, media_type="application/json")


def _read(content: bytes, priorities: Priorities, created: str, now: float) -> list[Newcomer]:
    """Read a question about gangs created at `created`, which is `now`; raise DecodeError or SubmissionError."""
    submitted = read_submission(_decode(content).objects, priorities, created)
    if len(submitted) > _MOST_GANGS:
        raise SubmissionError(f"{len(submitted)} gangs are more than one question may be about, {_MOST_GANGS}")
    return newcomers(submitted, now)


async def _answer(controller: Controller, newcomer: Newcomer) -> Answer:
    """Answer for one gang; only what has to be is read on the event loop."""
    admission = controller.admission
    # Whoever lets go of the copy last frees it, which takes milliseconds: that is to be the thread.
    question = [ask(admission, newcomer)]
    answer = await asyncio.to_thread(lambda: study(question.pop()))
    return complete(admission, answer)


def _schema() -> dict[str, Any]:
    """Return the schema of the question."""
    (schema,), components = msgspec.json.schema_components([WhatIf])
    return components["WhatIf"] if "$ref" in schema else schema
