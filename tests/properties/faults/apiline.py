"""The line between Muster and the API server: watch connections, and what can happen to requests on their way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextvars import Context
from dataclasses import dataclass, field
from enum import StrEnum

from extender.control.ports import ApiError
from extender.kube.api import DISCONNECTED, TIMEOUT


class Wreck(StrEnum):
    """What can happen to a request on its way to the API server and back."""

    DELAYED = "delayed"
    ANSWERED_LATE = "answered late"
    DROPPED = "dropped on the way"
    LOST = "applied, answer lost"
    LATE = "given up by the client, applied later"
    TWICE = "applied twice"
    REFUSED = "refused"
    FAILED = "applied, answered 500"
    OVERTAKEN = "object re-created under its name before it is applied"
    KILLED_BEFORE = "sender killed before it is applied"
    KILLED_AFTER = "sender killed after it is applied"


@dataclass(frozen=True, slots=True)
class WriteFault:
    """A fault of one write; `seconds` is how late something comes, `status` what a refusal says."""

    wreck: Wreck
    seconds: float = 0.0
    status: int = 503


@dataclass(slots=True)
class Line:
    """One client's line to the API server.

    `latency` is how long a write takes, `lag` how much later than that news of a kind arrive (seconds). `down` lets
    nothing through. `faults` are what happens to the next writes, by what is written. `killed` kills the client,
    `overtake` has what is called so deleted and created again, `refused` is told of evictions that were not answered
    as was wished, with the pod's name.
    """

    latency: float
    watch_latency: float
    down: bool = False
    lag: dict[str, float] = field(default_factory=dict)
    faults: dict[str, deque[WriteFault]] = field(default_factory=dict)
    killed: Callable[[], None] = lambda: None
    overtake: Callable[[str], None] = lambda _: None
    refused: Callable[[str], None] = lambda _: None

    def heal(self) -> None:
        """Let everything through from now on."""
        self.down = False
        self.lag.clear()
        self.faults.clear()

    def next_fault(self, what: str) -> WriteFault | None:
        """Return what happens to the next write of `what`."""
        faults = self.faults.get(what)
        return faults.popleft() if faults else None


class Stream:
    """One watch connection: lines that the server has sent, on their way or arrived."""

    def __init__(self, kind: str, line: Line, loop: asyncio.AbstractEventLoop, since: int) -> None:
        """Carry what happens to `kind` after the version `since` over `line`."""
        self.kind = kind
        self.since = since
        self.stalled = False
        self.line = line
        self._loop = loop
        self._on_the_way: deque[tuple[float, bytes]] = deque()
        self._arrived: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self._armed = False
        self.ended = False
        self.error: ApiError | None = None

    def send(self, data: bytes) -> None:
        """Put bytes on the way; they arrive in order."""
        due = self._loop.time() + self.line.watch_latency + self.line.lag.get(self.kind, 0.0)
        if self._on_the_way:
            due = max(due, self._on_the_way[-1][0])
        self._on_the_way.append((due, data))
        self._arm()

    def end(self, error: ApiError | None = None) -> None:
        """End the connection; what is on the way is lost with it."""
        self.ended, self.error = True, error
        self._on_the_way.clear()
        self._wake()

    def cut(self) -> None:
        """Break the connection in the middle of a line, if one is on the way."""
        if self._on_the_way:
            line = self._on_the_way[0][1]
            self._arrived.append(line[: len(line) // 2])
        self.end(ApiError(0, DISCONNECTED, "connection lost"))

    def release(self) -> None:
        """Let everything through that a stall has kept."""
        self.stalled = False
        self._arm()

    async def read(self, idle: float) -> AsyncIterator[bytes]:
        """Yield what arrives; raise ApiError after `idle` seconds of silence, or when the connection breaks."""
        while True:
            if self._arrived:
                data, self._arrived = b"".join(self._arrived), []
                yield data
            elif self.ended:
                if self.error is not None:
                    raise self.error
                return
            else:
                self._waiter = self._loop.create_future()
                try:
                    async with asyncio.timeout(idle):
                        await self._waiter
                except TimeoutError as error:
                    raise ApiError(0, TIMEOUT, f"silent for {idle:g} s") from error

    def _arm(self) -> None:
        if not self._armed and self._on_the_way and not self.stalled:
            self._armed = True
            self._loop.call_at(self._on_the_way[0][0], self._arrive, context=Context())

    def _arrive(self) -> None:
        self._armed = False
        if self.stalled:
            return
        now = self._loop.time()
        while self._on_the_way and self._on_the_way[0][0] <= now:
            self._arrived.append(self._on_the_way.popleft()[1])
        self._wake()
        self._arm()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
