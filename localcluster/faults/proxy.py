"""What the two proxies share: a thread with its own event loop, rules and a record."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from aiohttp import web

from localcluster.errors import LocalClusterError
from localcluster.faults.answers import end_to_end
from localcluster.faults.fault import Fault
from localcluster.faults.handling import Handling, Record
from localcluster.faults.request import Exchange, Request
from localcluster.faults.rules import ANYTHING, Match, Rule, RuleBook
from localcluster.faults.upstream import Upstream
from localcluster.ports import LOOPBACK, free_ports
from localcluster.startable import Startable

#: Longer than any story: an idle connection is closed by a rule or by the caller, never by the proxy.
_KEEP_ALIVE_SECONDS = 3600.0

#: How long the proxy may take to listen, in seconds.
_START_TIMEOUT_SECONDS = 10.0


class Proxy(Startable):
    """A server on a loopback port of its own that forwards every request, unless a rule says otherwise.

    The port stays the same over stop and start. If the server behind does not answer, the caller's connection is
    closed without an answer.
    """

    _stopping: asyncio.Event

    def __init__(self, upstream_url: str) -> None:
        """Prepare to forward to `upstream_url`; nothing listens before `start`."""
        self._upstream_url = upstream_url
        (self.port,) = free_ports(1)
        self._book = RuleBook()
        self._record = Record()
        self._thread: threading.Thread | None = None
        self._running: tuple[asyncio.AbstractEventLoop, Handling] | None = None
        self._listening = threading.Event()

    @property
    def url(self) -> str:
        """Return the base URL that callers use."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def requests(self) -> list[Exchange]:
        """Return everything that was asked, in order; those under way are completed later."""
        return list(self._record.exchanges)

    def matching(self, match: Match) -> list[Exchange]:
        """Return what was asked and matches, in order."""
        return [exchange for exchange in self.requests if match(exchange.request)]

    def forget(self) -> None:
        """Start the record anew."""
        self._record.exchanges.clear()

    def add(self, *rules: Rule) -> None:
        """Put rules in force; those about streams take hold of watches that are open, too."""
        for rule in rules:
            self._on_loop(lambda handling, rule=rule: handling.add(rule))  # type: ignore[misc] # bound now

    def random(self, seed: int, rates: Mapping[Fault, float], match: Match = ANYTHING) -> None:
        """Let requests that match meet a seeded mix of faults: each fault with its rate, and one at most.

        A watch meets stream faults when it is opened; so give those some `after_events`.
        """
        self._book.storm(seed, rates, match)

    def clear(self) -> None:
        """Take all rules back, and let go what they hold back: requests, and watches that are open."""
        self._on_loop(Handling.clear)

    def check(self) -> None:
        """Raise LocalClusterError if a function of a Call has failed."""
        for failure in self._record.failures:
            raise LocalClusterError(f"a Call of the fault proxy failed: {failure!r}") from failure

    def start(self) -> float:
        """Listen."""
        started = time.monotonic()
        self._listening.clear()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name=type(self).__name__, daemon=True
        )
        self._thread.start()
        if not self._listening.wait(_START_TIMEOUT_SECONDS):
            raise LocalClusterError(f"{type(self).__name__} does not listen on port {self.port}")
        return time.monotonic() - started

    def stop(self) -> None:
        """Close every connection and stop listening."""
        if self._running is not None:
            self._running[0].call_soon_threadsafe(self._stopping.set)
        if self._thread is not None:
            self._thread.join()
        self._running = self._thread = None

    @abstractmethod
    def read_request(self, method: str, path: str, query: Mapping[str, str], raw: bytes) -> Request:
        """Say what a request is."""

    def headers(self, incoming: web.Request) -> dict[str, str]:
        """Return the headers to send on."""
        return end_to_end(incoming.headers)

    def _trusted(self) -> ssl.SSLContext | None:
        """Return whose certificate the server behind must show; None where it speaks plain HTTP."""
        return None

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        async with Upstream(self._upstream_url, self._trusted()) as upstream:
            handling = Handling(self, upstream, self._book, self._record)
            app = web.Application(client_max_size=2**30)
            app.router.add_route("*", "/{path:.*}", handling.handle)
            # A caller that hangs up ends its watch; other requests go their way regardless.
            runner = web.AppRunner(
                app,
                access_log=None,
                handler_cancellation=True,
                keepalive_timeout=_KEEP_ALIVE_SECONDS,
                shutdown_timeout=0.1,
                auto_decompress=False,
            )
            await runner.setup()
            await web.TCPSite(runner, LOOPBACK, self.port).start()
            self._running = (asyncio.get_running_loop(), handling)
            self._listening.set()
            await self._stopping.wait()
            await handling.end()
            await runner.cleanup()

    def _on_loop(self, work: Callable[[Handling], Coroutine[Any, Any, None]]) -> None:
        """Have the event loop do something, and wait until it is done."""
        if self._running is None:
            raise LocalClusterError(f"{type(self).__name__} is not started")
        loop, handling = self._running
        asyncio.run_coroutine_threadsafe(work(handling), loop).result()
