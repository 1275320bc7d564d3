"""The recording as a file, for `muster replay`.

It is collected in one go, which takes milliseconds, and put together in a thread, so that the verbs do not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from fastapi import HTTPException, Request

from extender.control.controller import Controller
from extender.journal.anonymising import anonymised
from extender.journal.archive import Snapshot
from extender.service.routes import (
    BAD_PARAMETER,
    BAD_REQUEST,
    UNAVAILABLE,
    ApiRoute,
    StreamedAnswer,
    query_parameter,
    refuse_other_parameters,
)

_MEDIA_TYPE = "application/gzip"
_PARAMETER: Final = "anonymise"
_CHOICES: Final = ("false", "true")
#: Bytes of the file that are sent at once.
_PART_BYTES = 1 << 18


def snapshot_routes(controller: Controller) -> list[ApiRoute]:
    """Return the route of the recording."""

    async def snapshot(request: Request) -> StreamedAnswer:
        without_names = _wants_no_names(request)
        collected = controller.snapshot()
        if collected is None:
            raise HTTPException(UNAVAILABLE, _why_not(controller))
        file = await asyncio.to_thread(lambda: _file(collected(), without_names=without_names))
        headers = {
            "Content-Disposition": 'attachment; filename="muster-snapshot.tar.gz"',
            "Content-Length": str(len(file)),
            "Cache-Control": "no-store",
        }
        return StreamedAnswer(_parts(file), media_type=_MEDIA_TYPE, headers=headers)

    values = {"type": "string", "enum": list(_CHOICES)}
    return [
        ApiRoute(
            "/api/v1/snapshot",
            snapshot,
            "Hand over all that was seen, asked and decided since the start, for `muster replay`.",
            answers={_MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
            fails={BAD_REQUEST: BAD_PARAMETER, UNAVAILABLE: "Nothing is recorded; `detail` says why."},
            parameters=[query_parameter(_PARAMETER, values, "Whether to put pseudonyms in place of names and labels.")],
        )
    ]


def _wants_no_names(request: Request) -> bool:
    """Tell whether pseudonyms are asked for; raise HTTPException for all else that a query may say."""
    refuse_other_parameters(request, (_PARAMETER,))
    value = request.query_params.get(_PARAMETER, "false")
    if value not in _CHOICES:
        raise HTTPException(BAD_REQUEST, f"{_PARAMETER} cannot be {value[:100]!r}; known: {', '.join(_CHOICES)}")
    return value == "true"


async def _parts(file: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(file), _PART_BYTES):
        yield file[at : at + _PART_BYTES]


def _file(snapshot: Snapshot, *, without_names: bool) -> bytes:
    return (anonymised(snapshot) if without_names else snapshot).pack()


def _why_not(controller: Controller) -> str:
    ended = controller.journal.standing().ended
    if not ended:
        return "nothing is recorded: recording_megabytes is 0"
    return f"the recording has ended: {ended}; it begins again when Muster starts"
