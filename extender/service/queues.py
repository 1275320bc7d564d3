"""What people ask about queues: who has how much, what of it is borrowed, and how many wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fastapi import FastAPI, Response

from extender.admission.queueview import QueueView
from extender.board.queuerows import queue_row
from extender.control.controller import Controller
from extender.service.readiness import ERROR_SCHEMA, NOT_READ_YET, UNAVAILABLE, require_ready
from extender.wire.codec import encode

_TEXTS = {"type": "string"}
_COUNTS = {"type": "integer", "minimum": 0}
_QUEUE = {
    "type": "object",
    "properties": {
        "name": _TEXTS,
        "parent": _TEXTS,
        "active": {"type": "boolean"},
        "reason": _TEXTS,
        "message": _TEXTS,
        "share": {"type": "number"},
        "pendingGangs": _COUNTS,
        "admittedGangs": _COUNTS,
        "flavors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": _TEXTS,
                    "resource": _TEXTS,
                    "nominal": _COUNTS,
                    "used": _COUNTS,
                    "borrowed": _COUNTS,
                    "lent": _COUNTS,
                },
            },
        },
    },
}
_SCHEMA = {"type": "object", "properties": {"queues": {"type": "array", "items": _QUEUE}}}


def add_queues(app: FastAPI, controller: Controller, views: Callable[[], Iterable[QueueView]]) -> None:
    """Add the reads about queues to an application; `views` says how they stand once `controller` is ready."""

    @app.get(
        "/api/v1/queues",
        summary="Say how every Queue stands: quota, usage (milli-CPU, bytes, counts), share, gangs.",
        response_class=Response,
        responses={
            200: {"content": {"application/json": {"schema": _SCHEMA}}},
            UNAVAILABLE: {
                "description": NOT_READ_YET,
                "content": {"application/json": {"schema": ERROR_SCHEMA}},
            },
        },
    )
    async def queues() -> Response:
        require_ready(controller)
        document = {"queues": [queue_row(view) for view in views()]}
        return Response(encode(document), media_type="application/json")
