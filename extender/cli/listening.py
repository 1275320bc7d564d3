"""Listening, serving, and stopping when told."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import uvicorn

from extender.service.certificates import Reload, ServingCertificates
from extender.service.connections import ConnectionRules, GuardedProtocol
from extender.service.stream import hang_up

#: Seconds that an idle connection stays open. Go's client keeps one for 90 s; closing earlier races with its next call.
KEEP_ALIVE_SECONDS = 120
#: Seconds for calls under way at shutdown; held binds fail by then, and kube-scheduler tries again.
SHUTDOWN_SECONDS = 3
#: Connections that may wait to be accepted: hundreds of binds arrive at once, each on a connection of its own.
BACKLOG = 2048


AsgiApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
"""Whatever the HTTP server can serve."""


class ListenError(Exception):
    """An address that cannot be listened on; the message names it and why."""


@dataclass(frozen=True, slots=True)
class Site:
    """An application, the socket that it is served on, and to whom: over TLS where there are certificates."""

    app: AsgiApp
    socket: socket.socket
    rules: ConnectionRules
    certificates: ServingCertificates | None = None


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; raise ListenError if the address is taken, foreign or no address."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        msg = f"cannot listen on {host}:{port}: {error.strerror or error}"
        raise ListenError(msg) from error


class SiteServer(uvicorn.Server):
    """A server with limits on its connections, which leaves the signals to the process: that may run two of them."""

    def __init__(self, site: Site) -> None:
        """Serve `site`."""
        super().__init__(
            uvicorn.Config(
                site.app,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            )
        )
        self._site = site

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections; uvicorn's own start-up knows no limits and no time for the TLS handshake."""
        del sockets
        site = self._site
        tls = site.certificates
        server = await asyncio.get_running_loop().create_server(
            lambda: GuardedProtocol(self.config, self.server_state, site.rules),
            sock=site.socket,
            backlog=BACKLOG,
            ssl=None if tls is None else tls.context,
            ssl_handshake_timeout=None if tls is None else site.rules.head_seconds,
        )
        self.servers = [server]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what never ends by itself, the pages that follow the board, then stop as usual."""
        hang_up(self._site.app)
        await super().shutdown(sockets)

    @property
    def certificates(self) -> ServingCertificates | None:
        """Return the certificates of the site, None without TLS."""
        return self._site.certificates

    async def renew(self, certificates: ServingCertificates) -> None:
        """Look for new certificates every now and then, for ever.

        Connections of clients that the former authorities vouched for end with the answer under way: theirs may have
        been taken away because its key was lost.
        """
        while True:
            await asyncio.sleep(certificates.check_seconds)
            if certificates.reload() is Reload.TRUST:
                for connection in list(self.server_state.connections):
                    connection.shutdown()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield


async def run_until_stopped(sites: list[Site], background: list[Coroutine[Any, Any, None]]) -> int:
    """Serve until a signal comes (exit code 0) or a part ends, which none should (exit code 1)."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    waiting = asyncio.create_task(stop.wait())
    servers = [SiteServer(site) for site in sites]
    serving = [asyncio.create_task(server.serve()) for server in servers]
    renewing = [server.renew(server.certificates) for server in servers if server.certificates is not None]
    working = [asyncio.create_task(work) for work in (*background, *renewing)]
    await asyncio.wait([waiting, *serving, *working], return_when=asyncio.FIRST_COMPLETED)
    for server in servers:
        server.should_exit = True
    for task in (waiting, *working):
        task.cancel()
    results = await asyncio.gather(*serving, *working, return_exceptions=True)
    failures = [result for result in results if isinstance(result, Exception)]
    for failure in failures:
        sys.excepthook(type(failure), failure, failure.__traceback__)
    return 0 if stop.is_set() and not failures else 1
