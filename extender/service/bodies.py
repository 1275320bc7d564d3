"""Request bodies, read within a limit."""

from __future__ import annotations

from starlette.requests import Request


class BodyTooLargeError(Exception):
    """A request body beyond the limit; the rest of it was not read."""

    def __init__(self, limit: int) -> None:
        """Keep the limit, in bytes."""
        super().__init__(f"body exceeds {limit} bytes (setting body_limit_bytes)")


async def read_body(request: Request, limit: int) -> bytes:
    """Return the whole body; raise BodyTooLargeError as soon as it is known to exceed `limit` bytes."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise BodyTooLargeError(limit)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise BodyTooLargeError(limit)
        chunks.append(chunk)
    return b"".join(chunks)
