"""A process's connection to the API server, on which a request can be delayed, lost, repeated, or its sender's last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import Any

from extender.control.ports import ApiError
from extender.kube.api import DISCONNECTED, JsonObject, PatchForm, Query
from tests.properties.faults.apiline import Line, Wreck, WriteFault
from tests.properties.faults.apiserver import KINDS, ApiServerFront
from tests.properties.faults.process import Process

_TOO_MANY_REQUESTS = 429

#: How long a request may outlive its sender: the server drops what nobody waits for. A new Muster takes longer to
#: start.
LONGEST_AFTERLIFE_SECONDS = 0.6

_NOT_APPLIED = frozenset({Wreck.DROPPED, Wreck.LATE, Wreck.REFUSED, Wreck.KILLED_BEFORE})


class Client:
    """One process's connection to the API server. Implements `extender.kube.api.ApiServer`."""

    def __init__(self, front: ApiServerFront, line: Line, process: Process) -> None:
        """Send over `line` on behalf of `process`."""
        self._front = front
        self._line = line
        self._process = process

    async def get(self, path: str, query: Query) -> bytes:
        """Read."""
        query = dict(query)
        return await self._send("read", "", lambda: self._front.get(path, query))

    async def post(self, path: str, body: JsonObject) -> bytes:
        """Create."""
        target, _, subresource = path.rpartition("/")
        what = subresource if subresource in {"binding", "eviction"} else "report"
        name = path.rpartition("/")[2] if what == "report" else target.rpartition("/")[2]
        return await self._send(what, name, lambda: self._front.post(path, body))

    async def patch(self, path: str, body: JsonObject, form: PatchForm = PatchForm.MERGE) -> bytes:
        """Change."""
        gates = "schedulingGates" in body.get("spec", {})
        assert (form is PatchForm.STRATEGIC) == gates, "only gates are patched strategically"
        what = "nomination" if "/pods/" in path else "suspension" if "/jobs/" in path else "report"
        name = path.removesuffix("/status").rpartition("/")[2]
        return await self._send(what, name, lambda: self._front.patch(path, body))

    async def delete(self, path: str, body: JsonObject) -> bytes:
        """Raise ApiError 404: no autoscaler is asked for anything here."""
        raise ApiError(404, "NotFound", f"{path} {body}")

    @asynccontextmanager
    async def stream(
        self, path: str, query: Query, *, idle_timeout_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch."""
        kind = KINDS.get(path)
        await self._send("read", "", lambda: b"")
        if kind is None:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        stream = self._front.open(kind, query, self._line)
        try:
            yield stream.read(idle_timeout_seconds)
        finally:
            self._front.close(stream)

    async def _send(self, what: str, name: str, request: Callable[[], bytes]) -> bytes:
        answer: asyncio.Future[bytes] = self._front.loop.create_future()
        loop = self._front.loop
        request_sent = _Request(loop, self._line, self._process, name, request, answer, loop.time())
        request_sent.send(self._line.next_fault(what))
        try:
            return await answer
        except ApiError:
            if what == "eviction":
                self._line.refused(name)
            raise


@dataclass(frozen=True, slots=True)
class _Request:
    """A request on its way; what becomes of it is no longer in its sender's hands."""

    loop: asyncio.AbstractEventLoop
    line: Line
    process: Process
    name: str
    request: Callable[[], bytes]
    answer: asyncio.Future[bytes]
    sent_at: float

    def send(self, fault: WriteFault | None) -> None:
        """Let happen what `fault` says."""
        latency = self.line.latency
        if self.line.down:
            self._later(latency, self._fail, _no_answer())
        elif fault is None:
            self._later(latency, self._serve, self._reply)
        elif fault.wreck in _NOT_APPLIED:
            self._later(latency, self._turn_away, fault)
        else:
            delay = fault.seconds if fault.wreck is Wreck.DELAYED else 0.0
            if fault.wreck is Wreck.OVERTAKEN:
                self._later(latency, self.line.overtake, self.name)
            self._later(latency + delay, self._serve, partial(self._after, fault))
            if fault.wreck is Wreck.TWICE:
                self._later(latency + fault.seconds, self._serve, _ignore)

    def _turn_away(self, fault: WriteFault) -> None:
        """End a request that is not applied, or not yet."""
        if fault.wreck is Wreck.KILLED_BEFORE:
            self.line.killed()
        elif fault.wreck is Wreck.REFUSED:
            retry_after = fault.seconds if fault.status == _TOO_MANY_REQUESTS else None
            self._fail(ApiError(fault.status, "Fault", "injected", retry_after))
        else:
            self._fail(_no_answer())
        if fault.wreck is Wreck.LATE:
            self._later(min(fault.seconds, LONGEST_AFTERLIFE_SECONDS), self._serve, _ignore)

    def _after(self, fault: WriteFault, body: bytes, error: ApiError | None) -> None:
        """Go on with a request that was applied."""
        if fault.wreck is Wreck.KILLED_AFTER:
            self.line.killed()
        elif fault.wreck is Wreck.LOST:
            self._later(fault.seconds, self._fail, _no_answer())
        elif fault.wreck is Wreck.FAILED:
            self._fail(ApiError(500, "Fault", "injected"))
        else:
            late = fault.seconds if fault.wreck is Wreck.ANSWERED_LATE else 0.0
            self._later(late, self._reply, body, error)

    def _later(self, seconds: float, then: Callable[..., object], *arguments: Any) -> None:
        self.loop.call_later(seconds, then, *arguments, context=Context())

    def _serve(self, reply: Callable[[bytes, ApiError | None], object]) -> None:
        if self.process.dead and self.loop.time() - self.sent_at > LONGEST_AFTERLIFE_SECONDS:
            return
        try:
            body = self.request()
        except ApiError as error:
            reply(b"", error)
        else:
            reply(body, None)

    def _reply(self, body: bytes, error: ApiError | None) -> None:
        if error is not None:
            self._fail(error)
        elif not self.answer.done():
            self.answer.set_result(body)

    def _fail(self, error: ApiError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


def _ignore(_body: bytes, _error: ApiError | None) -> None:
    """Do nothing with an answer that nobody waits for."""


def _no_answer() -> ApiError:
    return ApiError(0, DISCONNECTED, "connection lost")
