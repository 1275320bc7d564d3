"""An application on a real socket, and a client that sends exactly the bytes it is told to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from extender.control.metrics import Metrics
from extender.service.connections import ConnectionRules, GuardedProtocol
from extender.settings import Settings
from tests.patience import HANGS

POST = b"POST /v1/bind HTTP/1.1\r\nHost: localhost\r\n"


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answer every request with the number of bytes of its body; answer /large with 8 MB."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message["body"])
        more = message["more_body"]
    body = b"x" * 8_000_000 if scope["path"] == "/large" else b"%d bytes" % size
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@dataclass
class Service:
    """A listening application."""

    port: int
    metrics: Metrics
    tls: ssl.SSLContext | None = None
    connections: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connect(self, tls: ssl.SSLContext | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection."""
        name = None if tls is None else "127.0.0.1"
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls, server_hostname=name)
        self.connections.append(writer)
        return reader, writer

    async def send(self, *parts: bytes, tls: ssl.SSLContext | None = None) -> bytes:
        """Send parts on a new connection, and return everything that comes back before the server closes it."""
        reader, writer = await self.connect(tls)
        for part in parts:
            writer.write(part)
        return await reader.read()

    def refused(self, cause: str) -> float:
        """Return how many connections were ended for this cause."""
        labels = {"cause": cause}
        return self.metrics.registry.get_sample_value("muster_connections_refused_total", labels) or 0.0


@asynccontextmanager
async def served(
    settings: Settings,
    *,
    app: Any = echo,
    tls: ssl.SSLContext | None = None,
    client_names: tuple[str, ...] = (),
    idle_seconds: int = 60,
) -> AsyncIterator[Service]:
    """Serve an application on a free port, under the limits of `settings`."""
    metrics = Metrics()
    rules = ConnectionRules.from_settings(settings, metrics.connections_refused, client_names)
    config = uvicorn.Config(app, lifespan="off", log_config=None, timeout_keep_alive=idle_seconds)
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: GuardedProtocol(config, state, rules),
        "127.0.0.1",
        0,
        ssl=tls,
        ssl_handshake_timeout=None if tls is None else settings.head_timeout_seconds,
    )
    service = Service(server.sockets[0].getsockname()[1], metrics)
    try:
        yield service
    finally:
        for writer in service.connections:
            writer.transport.abort()
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        async with asyncio.timeout(HANGS):
            await until(lambda: not state.connections)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds that nobody announces."""
    while not condition():  # noqa: ASYNC110 - the condition is the protocol's, which sets no event
        await asyncio.sleep(0.005)
