"""The recording as a file, for `muster replay`.

It is collected in one go, which takes milliseconds, and put together in a thread, so that the verbs do not wait.
"""

from __future__ import annotations

import asyncio
from typing import Final

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse

from extender.control.controller import Controller
from extender.recording.anonymising import anonymised
from extender.recording.archive import Snapshot
from extender.service.readiness import ERROR_SCHEMA, UNAVAILABLE

_MEDIA_TYPE = "application/gzip"
_BAD_REQUEST: Final = 400
_PARAMETER: Final = "anonymise"
_CHOICES: Final = ("false", "true")
_ANONYMISE: Final = {
    "name": _PARAMETER,
    "in": "query",
    "required": False,
    "description": "Whether to put pseudonyms in place of names and labels.",
    "schema": {"type": "string", "enum": list(_CHOICES)},
}
#: Bytes of the file that are sent at once.
_PART_BYTES = 1 << 18


def add_snapshot(app: FastAPI, controller: Controller) -> None:
    """Add the read of the recording to an application."""

    @app.get(
        "/api/v1/snapshot",
        summary="Hand over all that was seen, asked and decided since the start, for `muster replay`.",
        response_class=StreamingResponse,
        responses={
            200: {"content": {_MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}},
            _BAD_REQUEST: {
                "description": "A parameter that nobody knows, or a value that it cannot have; `detail` names it.",
                "content": {"application/json": {"schema": ERROR_SCHEMA}},
            },
            UNAVAILABLE: {
                "description": "Nothing is recorded; `detail` says why.",
                "content": {"application/json": {"schema": ERROR_SCHEMA}},
            },
        },
        openapi_extra={"parameters": [_ANONYMISE]},
    )
    async def snapshot(request: Request) -> StreamingResponse:
        without_names = _wants_no_names(request)
        collected = controller.recorder.snapshot()
        if collected is None:
            raise HTTPException(UNAVAILABLE, _why_not(controller))
        file = await asyncio.to_thread(lambda: _file(collected(), without_names=without_names))
        headers = {
            "Content-Disposition": 'attachment; filename="muster-snapshot.tar.gz"',
            "Content-Length": str(len(file)),
            "Cache-Control": "no-store",
        }
        parts = (file[at : at + _PART_BYTES] for at in range(0, len(file), _PART_BYTES))
        return StreamingResponse(parts, media_type=_MEDIA_TYPE, headers=headers)


def _wants_no_names(request: Request) -> bool:
    """Tell whether pseudonyms are asked for; raise HTTPException for all else that a query may say."""
    for name, value in request.query_params.multi_items():
        if name != _PARAMETER:
            raise HTTPException(_BAD_REQUEST, f"no parameter is called {name[:100]!r}; known: {_PARAMETER}")
        if value not in _CHOICES:
            raise HTTPException(_BAD_REQUEST, f"{name} cannot be {value[:100]!r}; known: {', '.join(_CHOICES)}")
    return request.query_params.get(_PARAMETER) == "true"


def _file(snapshot: Snapshot, *, without_names: bool) -> bytes:
    return (anonymised(snapshot) if without_names else snapshot).pack()


def _why_not(controller: Controller) -> str:
    ended = controller.recording.ended
    if not ended:
        return "nothing is recorded: recording_megabytes is 0"
    return f"the recording has ended: {ended}; it begins anew when Muster starts"
