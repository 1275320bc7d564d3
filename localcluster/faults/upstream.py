"""Connections to the server behind a proxy."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import AddrInfoType, web
from yarl import URL

#: How long connections may take to close, in seconds. aiohttp does not wait for those that were closed in the middle of
#: a request, and the polite end of TLS needs an answer.
_FAREWELL_SECONDS = 2.0

#: What `fileno` says of a socket that is closed.
_CLOSED = -1

_NEVER = None


class Upstream:
    """As many connections to one server as there are requests under way; entered on the event loop that uses them.

    `trusted` says whose certificate the server must show; None where it speaks plain HTTP.
    """

    def __init__(self, url: str, trusted: ssl.SSLContext | None) -> None:
        """Open nothing yet."""
        self._url = url
        self._sockets: list[socket.socket] = []
        self._connector = aiohttp.TCPConnector(limit=0, ssl=trusted or True, socket_factory=self._new_socket)
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=_NEVER),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection, and wait until that is done."""
        await self._connector.close(abort_ssl=True)
        await self._session.close()
        until = time.monotonic() + _FAREWELL_SECONDS
        while any(known.fileno() != _CLOSED for known in self._sockets):
            if time.monotonic() > until:
                return
            await asyncio.sleep(0.001)

    def ask(self, incoming: web.Request, headers: dict[str, str], body: bytes) -> Any:  # noqa: ANN401 - aiohttp keeps the type to itself
        """Return an async context manager that sends a request on and yields its answer."""
        url = URL(self._url + incoming.raw_path, encoded=True)
        return self._session.request(incoming.method, url, headers=headers, data=body or None, allow_redirects=False)

    def _new_socket(self, address: AddrInfoType) -> socket.socket:
        """Make a socket, and remember it as long as it is open."""
        family, kind, protocol, *_ = address
        created = socket.socket(family, kind, protocol)
        self._sockets = [*(known for known in self._sockets if known.fileno() != _CLOSED), created]
        return created
