"""How a request meets its faults, on the proxy's event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp
from aiohttp import web

from localcluster.faults.answers import answer_instead, end_to_end, half_answer, hang_up
from localcluster.faults.fault import (
    STREAM_FAULTS,
    Answer,
    Call,
    Delay,
    Drop,
    Duplicate,
    Fault,
    HalfOpen,
    Hold,
    Lose,
    Truncate,
)
from localcluster.faults.request import Exchange, Request
from localcluster.faults.rules import Rule, RuleBook
from localcluster.faults.stream import WatchRelay
from localcluster.faults.upstream import Upstream


class Dialect(Protocol):
    """What is spoken with the server behind."""

    def read_request(self, method: str, path: str, query: Mapping[str, str], raw: bytes) -> Request:
        """Say what a request is."""
        ...

    def headers(self, incoming: web.Request) -> dict[str, str]:
        """Return the headers to send on."""
        ...


@dataclass(slots=True)
class Record:
    """What a proxy has seen: `exchanges` in order, and what functions of Calls have raised."""

    exchanges: list[Exchange] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)


class Handling:
    """Forwards requests, as the rules allow, and records them."""

    def __init__(self, dialect: Dialect, upstream: Upstream, book: RuleBook, record: Record) -> None:
        """Forward to `upstream` by the rules of `book`."""
        self._record = record
        self._dialect = dialect
        self._upstream = upstream
        self._book = book
        self._watches: set[WatchRelay] = set()
        self._work: set[asyncio.Task[web.StreamResponse | None]] = set()
        self._cleared = asyncio.Event()

    async def add(self, rule: Rule) -> None:
        """Put a rule in force, for open watches too if it is about streams."""
        self._book.add(rule)
        if not all(isinstance(fault, STREAM_FAULTS) for fault in rule.faults):
            return
        for watch in list(self._watches):
            for fault in self._book.newest(watch.exchange.request):
                await self._arm(watch, fault)

    async def clear(self) -> None:
        """Take all rules back, and let go what they hold back."""
        self._book.clear()
        self._cleared.set()
        self._cleared = asyncio.Event()
        for watch in self._watches:
            watch.heal()

    async def end(self) -> None:
        """Give up what is under way."""
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    async def _arm(self, watch: WatchRelay, fault: Fault) -> None:
        if isinstance(fault, STREAM_FAULTS):
            watch.exchange.faults.append(repr(fault))
            await watch.arm(fault)

    async def handle(self, incoming: web.Request) -> web.StreamResponse:
        """Record a request, let it meet its faults, and return its answer."""
        raw = await incoming.read()
        request = self._dialect.read_request(incoming.method, incoming.path, dict(incoming.query), raw)
        exchange = Exchange(time.monotonic(), request)
        self._record.exchanges.append(exchange)
        faults = self._book.faults(request)
        try:
            if request.is_watch:
                return await self._watch(incoming, raw, exchange, faults)
            # A request that has arrived takes its effect whether or not its caller lives to see it.
            work = asyncio.create_task(self._relay(incoming, raw, exchange, faults))
            self._work.add(work)
            work.add_done_callback(self._work.discard)
            answer = await asyncio.shield(work)
            if answer is None:
                await asyncio.Event().wait()  # until the caller hangs up
            return answer if answer is not None else hang_up(incoming)
        finally:
            exchange.ended = time.monotonic()

    async def _relay(
        self, incoming: web.Request, raw: bytes, exchange: Exchange, faults: list[Fault]
    ) -> web.StreamResponse | None:
        """Forward a request and return what its caller gets; None for nothing, on a connection that stays open."""
        exchange.faults += [repr(fault) for fault in faults]
        if instead := await self._before(exchange, faults):
            return answer_instead(instead, incoming, exchange)
        if any(isinstance(fault, HalfOpen) and fault.seconds is None for fault in faults):
            return None
        answer = b""
        headers: dict[str, str] = {}
        try:
            for _ in range(2 if any(isinstance(fault, Duplicate) for fault in faults) else 1):
                async with self._ask(incoming, raw) as response:
                    exchange.upstream_status = response.status
                    headers = end_to_end(response.headers)
                    answer = await response.read()
        except (aiohttp.ClientError, OSError):
            return hang_up(incoming)
        await self._call(exchange, faults, "after")
        if any(isinstance(fault, Lose) for fault in faults):
            return hang_up(incoming)
        status = exchange.upstream_status or 0
        if any(isinstance(fault, Truncate) for fault in faults):
            return await half_answer(incoming, exchange, status, headers, answer)
        exchange.status = status
        return web.Response(status=status, body=answer, headers=headers)

    async def _watch(
        self, incoming: web.Request, raw: bytes, exchange: Exchange, faults: list[Fault]
    ) -> web.StreamResponse:
        opening = [fault for fault in faults if not isinstance(fault, STREAM_FAULTS)]
        exchange.faults += [repr(fault) for fault in opening]
        if instead := await self._before(exchange, opening):
            return answer_instead(instead, incoming, exchange)
        try:
            async with self._ask(incoming, raw) as upstream:
                exchange.upstream_status = upstream.status
                await self._call(exchange, opening, "after")
                if any(isinstance(fault, Lose) for fault in opening):
                    return hang_up(incoming)
                if upstream.status != 200:  # noqa: PLR2004 - the one status of a watch that opens
                    exchange.status = upstream.status
                    return web.Response(
                        status=upstream.status, body=await upstream.read(), headers=end_to_end(upstream.headers)
                    )
                downstream = web.StreamResponse(status=200, headers=end_to_end(upstream.headers))
                await downstream.prepare(incoming)
                exchange.status = 200
                return await self._stream(incoming, WatchRelay(exchange, upstream, downstream), downstream, faults)
        except (aiohttp.ClientError, OSError):
            return hang_up(incoming)

    async def _stream(
        self, incoming: web.Request, watch: WatchRelay, downstream: web.StreamResponse, faults: list[Fault]
    ) -> web.StreamResponse:
        self._watches.add(watch)
        try:
            for fault in faults:
                await self._arm(watch, fault)
            proper = await watch.run()
        finally:
            self._watches.discard(watch)
        if not proper and incoming.transport is not None:
            incoming.transport.close()  # after what is buffered has gone out
        return downstream

    async def _before(self, exchange: Exchange, faults: Sequence[Fault]) -> Drop | Answer | None:
        """Carry out, in order, what happens before forwarding; return what takes the place of forwarding, if any."""
        for fault in faults:
            match fault:
                case Delay(seconds=seconds):
                    await asyncio.sleep(seconds)
                case Hold():
                    await self._cleared.wait()
                case HalfOpen(seconds=float(seconds)):
                    await asyncio.sleep(seconds)
                case Call(when="before"):
                    await self._call(exchange, [fault], "before")
                case Drop() | Answer():
                    return fault
                case _:
                    pass
        return None

    async def _call(self, exchange: Exchange, faults: Sequence[Fault], when: str) -> None:
        for fault in faults:
            if isinstance(fault, Call) and fault.when == when:
                try:
                    await asyncio.to_thread(fault.function, exchange)
                except Exception as error:  # noqa: BLE001 - kept for the story's own thread, see check
                    self._record.failures.append(error)

    def _ask(self, incoming: web.Request, raw: bytes) -> Any:  # noqa: ANN401 - aiohttp keeps the type to itself
        return self._upstream.ask(incoming, self._dialect.headers(incoming), raw)
