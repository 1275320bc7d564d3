"""Routes as values: what each answers and how it can fail; the OpenAPI document follows from that."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from fastapi import HTTPException, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from extender.control.controller import Controller
from extender.explain.documents import ApiDocument
from extender.service.endpoint import Endpoint

Schema: TypeAlias = dict[str, Any]

BAD_REQUEST: Final = 400
NOT_FOUND: Final = 404
UNAVAILABLE: Final = 503

NOT_READ_YET: Final = "Not everything has been read from the API server yet; `detail` says what is missing."
BAD_PARAMETER: Final = "An unknown parameter, or a value that it cannot have; `detail` names it."
TEXT: Final = {"text/plain": {"schema": {"type": "string"}}}
"""What a route answers that answers plain text."""

_ERROR: Final = {"type": "object", "required": ["detail"], "properties": {"detail": {"type": "string"}}}
_TEMPLATE: Final = "#/components/schemas/{name}"
#: How the verbs answer. Each has a body in the verb's own form.
_VERB_STATUSES: Final = {
    "200": "The answer; a failure that is not the request's form is in `Error`.",
    "400": "The body is not of the expected form; `Error` names the place.",
    "413": "The body exceeds a limit.",
}


class ApiRoute(APIRoute):
    """A route that says what it takes and answers: a struct as JSON, or media types with their schemas.

    Attributes:
        structs: what its schemas refer to.
    """

    def __init__(  # noqa: PLR0913 - what there is to say of a route
        self,
        path: str,
        endpoint: Callable[..., Any],
        summary: str,
        *,
        answers: type[ApiDocument] | Mapping[str, Schema],
        fails: Mapping[int, str] | None = None,
        takes: type[msgspec.Struct] | None = None,
        parameters: Sequence[Schema] = (),
        method: str = "GET",
        failing: Schema | None = None,
    ) -> None:
        """Serve `path` with `endpoint`; `fails` says when a status is answered that is not 200, as `failing`."""
        extra: Schema = {"parameters": list(parameters)} if parameters else {}
        if takes is not None:
            extra["requestBody"] = {"required": True, "content": _json(_reference(takes))}
        responses: dict[int | str, dict[str, Any]] = {
            200: {"content": _json(_reference(answers)) if isinstance(answers, type) else dict(answers)}
        }
        for status, text in (fails or {}).items():
            responses[status] = {"description": text, "content": failing or _json(_ERROR)}
        super().__init__(
            path,
            endpoint,
            methods=[method],
            summary=summary,
            description=inspect.getdoc(answers) if isinstance(answers, type) else None,
            response_class=Response,
            responses=responses,
            openapi_extra=extra,
        )
        self.structs = tuple(each for each in (takes, answers) if isinstance(each, type))


class StreamedAnswer(StreamingResponse):
    """An answer in parts, which goes away with its reader.

    Starlette's own ends in a group of tasks, which leaves its connection and all that it refers to in a cycle of
    tracebacks and frames. If it has lived for long, nothing would find that.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the reader leaves, or the parts end."""
        del scope
        sending = asyncio.ensure_future(self.stream_response(send))
        leaving = asyncio.ensure_future(self.listen_for_disconnect(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)


def query_parameter(name: str, schema: Schema, description: str = "") -> Schema:
    """Return what OpenAPI says of an optional parameter."""
    told = {"description": description} if description else {}
    return {"name": name, "in": "query", "required": False, **told, "schema": schema}


def describe(document: Schema, routes: Iterable[BaseRoute]) -> None:
    """Add the verbs, and every schema that routes refer to, to an OpenAPI document."""
    structs: list[Any] = []
    for route in routes:
        if isinstance(route, ApiRoute):
            structs += route.structs
        elif isinstance(route, Route) and isinstance(route.app, Endpoint):
            verb = route.app.verb
            structs += (verb.takes, verb.answers)
            document["paths"][route.path] = {
                "post": {
                    "summary": verb.summary,
                    "operationId": verb.name,
                    "requestBody": {"required": True, "content": _json(_reference(verb.takes))},
                    "responses": {
                        status: {"description": text, "content": _json(_reference(verb.answers))}
                        for status, text in _VERB_STATUSES.items()
                    },
                }
            }
    _, components = msgspec.json.schema_components(structs, ref_template=_TEMPLATE)
    document.setdefault("components", {}).setdefault("schemas", {}).update(components)


def fresh(document: ApiDocument) -> Response:
    """Return a document as JSON that is not to be cached: it is of this moment."""
    return fresh_json(msgspec.json.encode(document))


def fresh_json(body: bytes) -> Response:
    """Return JSON that is not to be cached."""
    return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})


def require_ready(controller: Controller) -> None:
    """Raise HTTPException as long as not everything has been read."""
    if not controller.health.ready:
        why = "; ".join(controller.health.unready_because() or ["starting"])
        raise HTTPException(UNAVAILABLE, f"not ready: {why}")


def refuse_other_parameters(request: Request, known: Collection[str]) -> None:
    """Raise HTTPException for a parameter that is not among `known`, or is given twice."""
    names = [name for name, _ in request.query_params.multi_items()]
    for name in names:
        if name not in known:
            possible = ", ".join(known) or "none"
            raise HTTPException(BAD_REQUEST, f"no parameter is called {name[:100]!r}; known: {possible}")
        if names.count(name) > 1:
            raise HTTPException(BAD_REQUEST, f"parameter {name} is given {names.count(name)} times")


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _reference(struct: Any) -> Schema:  # noqa: ANN401 - a type, or one such as list[HostPriority]
    (schema,), _ = msgspec.json.schema_components((struct,), ref_template=_TEMPLATE)
    return schema
