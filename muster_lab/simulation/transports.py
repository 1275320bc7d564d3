"""Two ways to an extender: an ASGI application in the same process, and HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from muster_lab.simulation.scheduler.extender import Transport, TransportError

Message: TypeAlias = MutableMapping[str, Any]
AsgiApp: TypeAlias = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]
"""An ASGI application: scope, receive, send."""

_OK = 200


def asgi_transport(app: AsgiApp) -> Transport:
    """Return a transport to an application in this process and on this loop.

    Each call is answered in a task of its own: as over HTTP, other things happen while the answer is worked out, and a
    caller who gives up does not stop that.
    """

    async def post(path: str, body: bytes) -> bytes:
        return await asyncio.shield(asyncio.create_task(_call(app, path, body)))

    return post


async def _call(app: AsgiApp, path: str, body: bytes) -> bytes:
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 0),
    }
    requests: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    chunks: list[bytes] = []
    status = 0

    async def receive() -> Message:
        return requests.pop() if requests else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            chunks.append(message.get("body", b""))

    await app(scope, receive, send)
    if status != _OK:
        raise TransportError(f"code {status}")
    return b"".join(chunks)


def http_transport(host: str, port: int) -> Transport:
    """Return a transport over HTTP/1.1, one connection per call: enough for a demonstration on loopback."""

    async def post(path: str, body: bytes) -> bytes:
        try:
            reader, writer = await asyncio.open_connection(host, port)
        except OSError as error:
            raise TransportError(f"cannot connect to {host}:{port}: {error}") from error
        try:
            head = f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
            await writer.drain()
            answer = await reader.read()
        except OSError as error:
            raise TransportError(f"connection lost: {error}") from error
        finally:
            writer.close()
        return _body(answer)

    return post


def _body(answer: bytes) -> bytes:
    """Return the body of a whole HTTP/1.1 response that was sent with its length."""
    head, separator, body = answer.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    if not separator or status != [b"200"]:
        raise TransportError(f"code {status[0].decode('latin-1')}" if status else "no HTTP response")
    return body
