"""What people ask about the whole cluster: gangs, nodes, free capacity, and what was decided lately."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from fastapi import FastAPI, HTTPException, Request, Response

from extender.board.board import Board, Picture
from extender.board.capacity import capacity_json
from extender.board.document import Json
from extender.board.eventrows import event_row
from extender.board.writing import gangs_json, node_json, picture_json
from extender.control.controller import Controller
from extender.control.decisionlog import MOST_ENTRIES
from extender.control.views import GangPhase
from extender.domain.reason import Reason
from extender.service.readiness import ERROR_SCHEMA, NOT_READ_YET, UNAVAILABLE, require_ready
from extender.wire.codec import encode

_BAD_REQUEST: Final = 400
_FAILURES: Final[dict[int | str, dict[str, object]]] = {
    status: {"description": text, "content": {"application/json": {"schema": ERROR_SCHEMA}}}
    for status, text in {
        _BAD_REQUEST: "A parameter that nobody knows, or a value that it cannot have; `detail` names it.",
        UNAVAILABLE: NOT_READ_YET,
    }.items()
}
_OBJECT: Final = {"type": "object"}
_LIST: Final = {"type": "array", "items": _OBJECT}
#: Parameter of `gangs` -> the field of a row that it compares with, and what it may be, None for anything.
_FILTERS: Final[dict[str, tuple[Callable[[Json], object], frozenset[str] | None]]] = {
    "phase": (lambda row: row["phase"], frozenset(GangPhase)),
    "reason": (lambda row: None if row["reason"] is None else row["reason"]["code"], frozenset(Reason)),
    "queue": (lambda row: row["queue"], None),
    "namespace": (lambda row: row["namespace"], None),
}


async def look(board: Board) -> Picture:
    """Bring a board up to date, letting others have the event loop on the way, and return what it shows."""
    for _ in board.refresh():
        await asyncio.sleep(0)
    return board.picture()


def add_overview(app: FastAPI, controller: Controller, board: Board) -> None:
    """Add the reads about the whole cluster to an application; lists are written in a thread."""

    async def answer(write: Callable[[Picture], object]) -> Response:
        require_ready(controller)
        picture = await look(board)
        body = await asyncio.to_thread(lambda: encode(write(picture)))
        return _fresh(body)

    @app.get(
        "/api/v1/status",
        summary="Say how Muster and the cluster are, in numbers; also while not ready.",
        response_class=Response,
        responses={200: {"content": {"application/json": {"schema": _OBJECT}}}},
    )
    async def status() -> Response:
        picture = await look(board)
        return _fresh(encode(picture.status))

    @app.get(
        "/api/v1/gangs",
        summary="List the gangs: those that wait in the order in which they are judged, then the others by age.",
        response_class=Response,
        responses={**_FAILURES, 200: _answers("gangs")},
        openapi_extra={"parameters": [_parameter(name, known) for name, (_, known) in _FILTERS.items()]},
    )
    async def gangs(request: Request) -> Response:
        wanted = _wanted(request)
        return await answer(lambda picture: {"gangs": [row for row in gangs_json(picture) if _matches(row, wanted)]})

    @app.get(
        "/api/v1/nodes",
        summary="List the nodes: who holds which GPU, and what is reserved.",
        response_class=Response,
        responses={**_FAILURES, 200: _answers("nodes")},
    )
    async def nodes(request: Request) -> Response:
        _refuse_others(request, ())
        resources = board.resources()
        return await answer(
            lambda picture: {
                "levels": list(picture.levels),
                "nodes": [node_json(node, resources(node.name)) for node in picture.nodes],
            }
        )

    @app.get(
        "/api/v1/capacity",
        summary="Say how many free GPUs there are, and in pieces of what size, level by level.",
        response_class=Response,
        responses={**_FAILURES, 200: _answers("levels")},
    )
    async def capacity(request: Request) -> Response:
        _refuse_others(request, ())
        return await answer(lambda picture: capacity_json(picture.levels, picture.nodes))

    @app.get(
        "/api/v1/board",
        summary="Show everything that the dashboard shows, nodes in columns.",
        response_class=Response,
        responses={**_FAILURES, 200: {"content": {"application/json": {"schema": _OBJECT}}}},
    )
    async def whole_board(request: Request) -> Response:
        _refuse_others(request, ())
        return await answer(picture_json)

    @app.get(
        "/api/v1/events",
        summary="List what was decided lately, oldest first: reservations, starts, releases, evictions, notes.",
        response_class=Response,
        responses={**_FAILURES, 200: _answers("events")},
        openapi_extra={
            "parameters": [
                _parameter("after", None, {"type": "integer", "minimum": 0}),
                _parameter("limit", None, {"type": "integer", "minimum": 1, "maximum": MOST_ENTRIES}),
                _parameter("gang", None),
            ]
        },
    )
    async def events(request: Request) -> Response:
        _refuse_others(request, ("after", "limit", "gang"))
        after, limit = _number(request, "after", 0, 0), _number(request, "limit", MOST_ENTRIES, 1)
        gang = request.query_params.get("gang")
        entries = [entry for entry in controller.decisions.since(after) if gang is None or entry.gang == gang]
        document = {"next": controller.decisions.last, "events": [event_row(entry) for entry in entries[-limit:]]}
        return _fresh(encode(document))


def _fresh(body: bytes) -> Response:
    """Return JSON that nobody keeps: it is of this moment."""
    return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})


def _answers(key: str) -> dict[str, Any]:
    schema = {"type": "object", "required": [key], "properties": {key: _LIST}}
    return {"content": {"application/json": {"schema": schema}}}


def _parameter(name: str, known: Iterable[str] | None, schema: Json | None = None) -> Json:
    kind = schema or ({"type": "string"} if known is None else {"type": "string", "enum": sorted(known)})
    return {"name": name, "in": "query", "required": False, "schema": kind}


def _refuse_others(request: Request, known: Iterable[str]) -> None:
    """Raise HTTPException for a parameter that is not among `known`, or is given twice."""
    names = [name for name, _ in request.query_params.multi_items()]
    for name in names:
        if name not in known:
            possible = ", ".join(known) or "none"
            raise HTTPException(_BAD_REQUEST, f"no parameter is called {name[:100]!r}; known: {possible}")
        if names.count(name) > 1:
            raise HTTPException(_BAD_REQUEST, f"parameter {name} is given {names.count(name)} times")


def _wanted(request: Request) -> dict[str, str]:
    """Return what rows are asked for."""
    _refuse_others(request, _FILTERS)
    wanted = dict(request.query_params)
    for name, value in wanted.items():
        known = _FILTERS[name][1]
        if known is not None and value not in known:
            raise HTTPException(_BAD_REQUEST, f"{name} cannot be {value[:100]!r}; known: {', '.join(sorted(known))}")
    return wanted


def _matches(row: Json, wanted: dict[str, str]) -> bool:
    return all(_FILTERS[name][0](row) == value for name, value in wanted.items())


def _number(request: Request, name: str, default: int, least: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text) >= least):  # noqa: PLR2004 - int64
        raise HTTPException(_BAD_REQUEST, f"{name} is {text[:100]!r}, not a number from {least} on")
    return int(text)
