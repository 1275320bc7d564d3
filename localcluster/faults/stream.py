"""Pass a watch on event by event, and let its stream meet faults."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from aiohttp import ClientError, ClientResponse, web

from localcluster.client import JsonObject
from localcluster.faults.fault import (
    CloseStream,
    DelayEvents,
    HalfOpen,
    ReplayOld,
    RewriteEvents,
    StreamFault,
    Truncate,
)
from localcluster.faults.request import Exchange

#: Events remembered of a watch, to be sent again.
_REMEMBERED = 100

_Lines: TypeAlias = "asyncio.Queue[tuple[float, bytes] | None]"


class WatchRelay:
    """One open watch between a caller and the server; everything happens on the proxy's event loop."""

    def __init__(self, exchange: Exchange, upstream: ClientResponse, downstream: web.StreamResponse) -> None:
        """Prepare to read events from `upstream` and write them to `downstream`, which is prepared already."""
        self.exchange = exchange
        self._upstream = upstream
        self._downstream = downstream
        self._armed: list[tuple[int, StreamFault]] = []  # at how many events passed on, what
        self._recent: deque[bytes] = deque(maxlen=_REMEMBERED)
        self._delay = 0.0
        self._rewrite: Callable[[JsonObject], JsonObject] | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._closing = asyncio.Event()
        self._broken = False

    async def run(self) -> bool:
        """Pass events on until either side ends; return whether the caller should see a proper end."""
        lines: _Lines = asyncio.Queue()
        tasks = [asyncio.create_task(work) for work in (self._read(lines), self._write(lines))]
        end = asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait([tasks[1], end], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, end):
                task.cancel()
            await asyncio.gather(*tasks, end, return_exceptions=True)
            self._hang_up_on_server()
        return not self._broken

    async def arm(self, fault: StreamFault) -> None:
        """Let the stream meet a fault, at once if it waits for no events."""
        if isinstance(fault, DelayEvents):
            self._delay = fault.seconds
            return
        if isinstance(fault, RewriteEvents):
            self._rewrite = fault.function
            return
        self._armed.append((self.exchange.events + fault.after_events, fault))
        await self._fire()

    def heal(self) -> None:
        """Forget the faults that have not come yet, and let what is held back flow."""
        self._armed.clear()
        self._delay, self._rewrite = 0.0, None
        self._flowing.set()

    async def _read(self, lines: _Lines) -> None:
        """Read the server's events as they come, whatever holds the writing up."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ClientError, OSError):
            async for line in self._events():
                lines.put_nowait((loop.time(), line))
        lines.put_nowait(None)

    async def _write(self, lines: _Lines) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):  # the caller is gone
            while not self._closing.is_set() and (taken := await lines.get()) is not None:
                came, line = taken
                if self._delay:
                    await asyncio.sleep(max(came + self._delay - loop.time(), 0.0))
                await self._flowing.wait()
                await self._pass_on(line if self._rewrite is None else _rewritten(line, self._rewrite))
            await self._flowing.wait()

    async def _events(self) -> AsyncIterator[bytes]:
        """Yield JSON events line by line, anything else as it arrives."""
        rest = b""
        in_lines = self._upstream.content_type == "application/json"
        async for chunk in self._upstream.content.iter_any():
            if not in_lines:
                yield chunk
                continue
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield line + b"\n"
        if rest:
            yield rest

    async def _pass_on(self, line: bytes) -> None:
        halving = next((entry for entry in self._armed if isinstance(entry[1], Truncate) and self._due(entry)), None)
        if halving is not None:
            await self._downstream.write(line[: len(line) // 2])
            self._broken = True
            self._closing.set()
            return
        await self._downstream.write(line)
        self.exchange.events += 1
        self._recent.append(line)
        await self._fire()

    def _hang_up_on_server(self) -> None:
        """Break the server's connection at once: the polite end of TLS waits for the other side."""
        connection = self._upstream.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()

    def _due(self, entry: tuple[int, StreamFault]) -> bool:
        return self.exchange.events >= entry[0]

    async def _fire(self) -> None:
        """Carry out what is due; a half event waits for the event."""
        due = [entry for entry in self._armed if self._due(entry) and not isinstance(entry[1], Truncate)]
        for entry in due:
            self._armed.remove(entry)
            match entry[1]:
                case CloseStream():
                    self._closing.set()
                case HalfOpen(seconds=seconds):
                    self._flowing.clear()
                    if seconds is not None:
                        asyncio.get_running_loop().call_later(seconds, self._flowing.set)
                case ReplayOld(events=events):
                    for line in list(self._recent)[-events:]:
                        await self._downstream.write(line)


def _rewritten(line: bytes, function: Callable[[JsonObject], JsonObject]) -> bytes:
    event = json.loads(line)
    if event["type"] in {"ADDED", "MODIFIED", "DELETED"}:
        event["object"] = function(event["object"])
    return json.dumps(event).encode() + b"\n"
