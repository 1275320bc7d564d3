"""What a caller gets in place of what the server said."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping

from aiohttp import web

from localcluster.faults.fault import Answer, Drop
from localcluster.faults.request import Exchange

#: Headers that concern one connection, not the request. Source: RFC 9110, section 7.6.1.
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "trailer", "transfer-encoding", "upgrade", "host", "content-length"}
)


def answer_instead(fault: Drop | Answer, incoming: web.Request, exchange: Exchange) -> web.StreamResponse:
    """Return the answer that takes the server's place, or hang up."""
    if isinstance(fault, Drop):
        return hang_up(incoming)
    exchange.status = fault.status
    headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    body = json.dumps(fault.status_object()).encode() if fault.body is None else fault.body
    return web.Response(status=fault.status, body=body, headers=headers, content_type="application/json")


def hang_up(incoming: web.Request) -> web.StreamResponse:
    """Break the caller's connection; what is returned never reaches it."""
    if incoming.transport is not None:
        incoming.transport.abort()
    return web.Response()


async def half_answer(
    incoming: web.Request, exchange: Exchange, status: int, headers: Mapping[str, str], answer: bytes
) -> web.StreamResponse:
    """Announce a whole answer, send half, and break the connection."""
    half = web.StreamResponse(status=status, headers=headers)
    half.content_length = len(answer)
    exchange.status = status
    with contextlib.suppress(OSError):  # the caller is gone
        await half.prepare(incoming)
        await half.write(answer[: len(answer) // 2])
    if incoming.transport is not None:
        incoming.transport.close()  # after what is buffered has gone out
    return half


def end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that are meant for the other end."""
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
