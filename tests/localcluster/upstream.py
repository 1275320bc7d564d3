"""A small server for the fault proxies to stand in front of."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections import Counter
from types import TracebackType
from typing import Self

from aiohttp import web

from localcluster.ports import LOOPBACK, free_ports
from tests.patience import HANGS


class Upstream:
    """Answer every request with how often it came, and every watch with numbered events, on a thread of its own.

    A watch brings `events` events and stays open, until `say` brings one more.
    """

    def __init__(self, events: int = 5, tls: ssl.SSLContext | None = None) -> None:
        """Prepare, with `tls` for HTTPS; nothing listens before the context is entered."""
        (self.port,) = free_ports(1)
        self.seen: Counter[str] = Counter()
        self.authorizations: list[str] = []
        self.connections: list[int] = []  #: over which each came, by the caller's port
        self._events = events
        self._tls = tls
        self._said: list[asyncio.Queue[int]] = []
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    @property
    def url(self) -> str:
        """Return the base URL."""
        return f"http://{LOOPBACK}:{self.port}"

    def say(self, number: int) -> None:
        """Send one more event on every open watch."""
        for queue in self._said:
            self._loop.call_soon_threadsafe(queue.put_nowait, number)

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        assert self._started.wait(HANGS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, self.port, ssl_context=self._tls).start()
        self._started.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        line = f"{request.method} {request.path}"
        self.seen[line] += 1
        self.authorizations.append(request.headers.get("Authorization", ""))
        assert request.transport is not None
        self.connections.append(request.transport.get_extra_info("peername")[1])
        if request.query.get("watch") == "true":
            return await self._watch(request)
        return web.json_response({"line": line, "time": self.seen[line], "sent": (await request.read()).decode()})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        said: asyncio.Queue[int] = asyncio.Queue()
        for number in range(1, self._events + 1):
            said.put_nowait(number)
        self._said.append(said)
        while True:
            event = {"type": "ADDED", "object": {"metadata": {"resourceVersion": str(await said.get())}}}
            await answer.write(json.dumps(event).encode() + b"\n")
