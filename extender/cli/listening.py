"""The process: listening, connections and files, and stopping when told."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import structlog
import uvicorn
import uvloop

from extender.service.certificates import Reload, ServingCertificates
from extender.service.connections import ConnectionRules, GuardedProtocol
from extender.service.stream import hang_up

#: Seconds that an idle connection stays open. Go's client keeps one for 90 s; closing earlier races with its next call.
KEEP_ALIVE_SECONDS = 120
#: Seconds for calls under way at shutdown; held binds fail by then, and kube-scheduler tries again.
SHUTDOWN_SECONDS = 3
#: Connections that may wait to be accepted: hundreds of binds arrive at once, each on a connection of its own.
BACKLOG = 2048

#: Files that may be open where the system sets no limit. Each held bind is a connection, and a shell's usual 1,024 is
#: less than a large gang has members: the soft limit is raised to the hard one.
OPEN_FILES = 65_536
#: Files for logs, certificates, tokens, sockets that listen and what libraries open.
RESERVED_FILES = 64
#: Of a listener's connections one in so many more may wait to be accepted.
WAITING_SHARE = 4
#: One part in so many of the connections is for each listener beside the verbs'.
OTHERS_PART = 8
#: With fewer connections for the verbs a gang of that many members could never start.
FEWEST_CONNECTIONS = 64
log = structlog.get_logger("muster")

AsgiApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
"""Whatever the HTTP server can serve."""


class ListenError(Exception):
    """An address that cannot be listened on; the message names it and why."""


@dataclass(frozen=True, slots=True)
class ListeningMuster:
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

    def __init__(self, site: ListeningMuster) -> None:
        super().__init__(
            uvicorn.Config(
                site.app,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # where a request comes from decides nothing
                server_header=False,
                date_header=False,
                headers=[("x-content-type-options", "nosniff")],
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
            backlog=max(1, min(BACKLOG, site.rules.connections // WAITING_SHARE)),
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
        """Look for new certificates every now and then, until cancelled.

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


async def run_until_stopped(sites: list[ListeningMuster], background: list[Coroutine[Any, Any, None]]) -> int:
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
        log.critical("a part of Muster ended", exc_info=failure)
    return 0 if stop.is_set() and not failures else 1


def raise_file_limit() -> None:
    """Let this process open as many files as the system allows."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if most == resource.RLIM_INFINITY else most
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def open_files() -> int:
    """Return how many files this process may have open at once."""
    now, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES if now == resource.RLIM_INFINITY else now


@dataclass(frozen=True, slots=True)
class ConnectionShares:
    """How many connections the listener of the verbs may have, and each of the others."""

    verbs: int
    others: int

    @classmethod
    def of(cls, files: int, limit: int, others: int, api_connections: int) -> Self:
        """Share out so many files: `api_connections` to the API server and a reserve come first, then the verbs.

        Each listener takes a part more for a moment: connections that wait are accepted together, and those beyond its
        limit are refused then. `limit` is the most that any listener may have, `others` how many there are beside the
        verbs'. Raises ListenError where too few are left for the verbs.
        """
        left = (files - RESERVED_FILES - api_connections) * WAITING_SHARE // (WAITING_SHARE + 1)
        each = min(limit, max(0, left) // OTHERS_PART)
        verbs = min(limit, left - others * each)
        if verbs < FEWEST_CONNECTIONS:
            needed = files + (FEWEST_CONNECTIONS - verbs) * 2
            raise ListenError(f"{files} files may be open at once (ulimit -n), and at least {needed} are needed")
        return cls(verbs, each)


def run(main: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine on a uvloop event loop and return its exit code."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
