"""A client of the API server that costs little: the measurement shares its processors with what it measures.

Bodies are encoded before the clock starts, answers are read and thrown away, one event loop drives all connections.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp

from localcluster.credentials import Connection
from localcluster.errors import ApiError, LocalClusterError

_FIRST_ERROR_STATUS = 300
#: Longer than any write here takes, in seconds: a server that does not answer ends the measurement.
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """One request, its body encoded already."""

    method: str
    path: str
    body: bytes
    content_type: str = "application/json"


class LoadClient:
    """Send many requests over a few connections, as an async context manager. Use within one event loop."""

    def __init__(self, connection: Connection) -> None:
        """Prepare; nothing is sent yet."""
        self._connection = connection
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the pool of connections."""
        self._session = aiohttp.ClientSession(
            self._connection.url,
            headers={"Authorization": f"Bearer {self._connection.token}"},
            connector=aiohttp.TCPConnector(
                limit=0, ssl=ssl.create_default_context(cafile=self._connection.certificate_authority)
            ),
            skip_auto_headers=("Accept-Encoding", "User-Agent"),
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS),
            trust_env=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """Return the open session; raise RuntimeError outside the context."""
        if self._session is None:
            raise RuntimeError("LoadClient is used as an async context manager")
        return self._session

    async def send(self, request: Request) -> bytes:
        """Send one request and return the answer's body.

        Raises ApiError if it is not a success, LocalClusterError if there is none.
        """
        try:
            async with self.session.request(
                request.method, request.path, data=request.body, headers={"Content-Type": request.content_type}
            ) as answer:
                body = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise LocalClusterError(f"{request.method} {request.path}: no answer: {error!r}") from error
        if answer.status >= _FIRST_ERROR_STATUS:
            raise ApiError(answer.status, answer.reason or "", body.decode(errors="replace")[:500])
        return body

    async def send_all(self, requests: Iterable[Request], concurrency: int) -> None:
        """Send requests in the order given, `concurrency` at a time; raise as `send` does, at the first that fails."""
        left = iter(requests)

        async def worker() -> None:
            for request in left:  # shared: each worker takes what is next
                await self.send(request)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(worker())
        except* LocalClusterError as failed:
            failure = failed.exceptions[0]
        else:
            return
        raise failure
