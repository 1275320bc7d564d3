"""The two ways to an extender."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest

from muster_lab.simulation.scheduler.extender import TransportError
from muster_lab.simulation.transports import Message, asgi_transport, http_transport
from tests.lab.conftest import Virtually

Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Application:
    """An ASGI application that answers with what it was asked, in two pieces, after some time."""

    def __init__(self, status: int = 200, delay: float = 0.0) -> None:
        """Answer with `status` after `delay` seconds."""
        self._status = status
        self._delay = delay
        self.scope: MutableMapping[str, Any] = {}
        self.after: Message = {}
        self.answered = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        self.scope = scope
        request = await receive()
        self.after = await receive()
        await asyncio.sleep(self._delay)
        await send({"type": "http.response.start", "status": self._status, "headers": []})
        await send({"type": "http.response.body", "body": request["body"], "more_body": True})
        await send({"type": "http.response.body", "body": b"!"})
        self.answered += 1


def test_an_application_gets_a_whole_http_request(virtually: Virtually) -> None:
    """Method, path, headers and body are there; the answer's body comes back whole."""
    application = Application()

    async def story() -> bytes:
        return await asgi_transport(application)("/v1/filter", b"body")

    assert virtually(story()) == b"body!"
    assert (application.scope["type"], application.scope["method"]) == ("http", "POST")
    assert application.scope["path"] == "/v1/filter"
    assert (b"content-length", b"4") in application.scope["headers"]
    assert application.after == {"type": "http.disconnect"}


def test_another_status_is_an_error(virtually: Virtually) -> None:
    """kube-scheduler throws the body away and names the code."""

    async def story() -> bytes:
        return await asgi_transport(Application(503))("/v1/filter", b"")

    with pytest.raises(TransportError, match="code 503"):
        virtually(story())


def test_a_caller_who_gives_up_does_not_stop_the_answer(virtually: Virtually) -> None:
    """A server works on when its client has gone."""
    application = Application(delay=10)

    async def story() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await asgi_transport(application)("/v1/bind", b"")
        assert application.answered == 0
        await asyncio.sleep(20)

    virtually(story())
    assert application.answered == 1


class Server:
    """A loopback server that answers every connection with fixed bytes."""

    def __init__(self, answer: bytes) -> None:
        """Answer with `answer`."""
        self._answer = answer
        self.request = b""

    async def ask(self, body: bytes) -> bytes:
        """Post a body to it."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await http_transport("127.0.0.1", port)("/v1/filter", body)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.request = head + await reader.readexactly(4)
        writer.write(self._answer)
        writer.close()
        await writer.wait_closed()


async def test_http_posts_json_and_reads_the_body() -> None:
    """One request on a connection of its own, with its length."""
    server = Server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    assert await server.ask(b"body") == b"ok"
    assert server.request.startswith(b"POST /v1/filter HTTP/1.1\r\n")
    assert b"Content-Length: 4\r\nConnection: close\r\n\r\nbody" in server.request


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 500 Oops\r\n\r\nbody", "code 500"),
        (b"", "no HTTP response"),
        (b"nonsense", "no HTTP response"),
    ],
)
async def test_any_other_answer_is_an_error(answer: bytes, message: str) -> None:
    """A status other than 200, or none at all."""
    with pytest.raises(TransportError, match=message):
        await Server(answer).ask(b"body")


async def test_a_server_that_is_not_there_is_an_error() -> None:
    """The address is named."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(TransportError, match=f"cannot connect to 127.0.0.1:{port}"):
        await http_transport("127.0.0.1", port)("/v1/filter", b"body")


async def test_a_connection_that_is_reset_is_an_error() -> None:
    """What breaks on the way is a transport error too."""

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        transport = writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.abort()

    server = await asyncio.start_server(reset, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TransportError, match=r"connection lost|no HTTP response"):
            await http_transport("127.0.0.1", port)("/v1/filter", b"x" * 8_000_000)
