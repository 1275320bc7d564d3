"""The way from kube-scheduler to Muster's verbs, on which calls can be delayed, lost, repeated or be Muster's last."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from muster_lab.simulation.scheduler.extender import PREFIX, TransportError
from tests.properties.faults.process import Process

Answerer: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]
"""Answers a verb's body, in Muster's process."""


class Mishap(StrEnum):
    """What can happen to a call on its way to Muster and back."""

    DELAYED = "delayed"
    ANSWERED_LATE = "answered late"
    DROPPED = "dropped on the way"
    LOST = "served, answer lost"
    TWICE = "served twice"
    HUNG = "served, never answered"
    KILLED_BEFORE = "Muster killed before it serves the call"
    KILLED_AFTER = "Muster killed before it answers"


@dataclass(frozen=True, slots=True)
class CallFault:
    """A fault of one call; `seconds` is how late something comes."""

    mishap: Mishap
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Listener:
    """A Muster that takes calls."""

    process: Process
    answer: Answerer
    kill: Callable[[], None]


class VerbLine:
    """Carry calls, and take what goes wrong with them from a list; implements the simulation's Transport.

    Attributes:
        latency: seconds each way.
        listener: who answers; None while there is nobody.
        faults: what happens to the next calls, by verb.
        hung: told of a call that is never answered.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, latency: float) -> None:
        """Carry faultlessly."""
        self._loop = loop
        self.latency = latency
        self.listener: Listener | None = None
        self.faults: dict[str, deque[CallFault]] = {}
        self.hung: Callable[[], None] = lambda: None
        self._hung: list[asyncio.Future[bytes]] = []
        self._open: dict[asyncio.Future[bytes], Listener] = {}

    def heal(self) -> None:
        """Carry everything faultlessly from now on, and break the calls that would never be answered."""
        self.faults.clear()
        for answer in self._hung:
            self._fail(answer)
        self._hung.clear()

    def hang_up(self, listener: Listener) -> None:
        """Break every call that `listener` has not answered: it is dead."""
        for answer, called in list(self._open.items()):
            if called is listener:
                self._fail(answer)

    async def post(self, path: str, body: bytes) -> bytes:
        """Carry one call; raise TransportError if no answer comes back."""
        answer: asyncio.Future[bytes] = self._loop.create_future()
        faults = self.faults.get(path.removeprefix(f"{PREFIX}/"))
        fault = faults.popleft() if faults else None
        seconds = self.latency
        if fault is not None and fault.mishap is Mishap.DROPPED:
            self._later(seconds, self._fail, answer)
        else:
            delay = fault.seconds if fault is not None and fault.mishap is Mishap.DELAYED else 0.0
            self._later(seconds + delay, self._serve, path, body, answer, fault)
        try:
            return await answer
        finally:
            self._open.pop(answer, None)

    def _serve(self, path: str, body: bytes, answer: asyncio.Future[bytes], fault: CallFault | None) -> None:
        listener = self.listener
        if listener is None:
            self._fail(answer)
            return
        mishap = None if fault is None else fault.mishap
        self._open[answer] = listener
        if mishap is Mishap.KILLED_BEFORE:
            listener.kill()
            return
        task = listener.process.spawn(_answer(listener, path, body))
        task.add_done_callback(lambda done: self._served(done, answer, fault), context=Context())
        if mishap is Mishap.TWICE and fault is not None:
            self._later(fault.seconds, self._serve_again, listener, path, body)

    def _serve_again(self, listener: Listener, path: str, body: bytes) -> None:
        if not listener.process.dead:
            listener.process.start(_answer(listener, path, body))

    def _served(self, done: asyncio.Task[bytes], answer: asyncio.Future[bytes], fault: CallFault | None) -> None:
        if done.cancelled() or done.exception() is not None:
            self._fail(answer)
            return
        mishap = None if fault is None else fault.mishap
        if mishap is Mishap.LOST:
            self._later(self.latency, self._fail, answer)
        elif mishap is Mishap.KILLED_AFTER and self.listener is not None:
            self.listener.kill()
        elif mishap is Mishap.HUNG:
            self._hung.append(answer)
            self.hung()
        else:
            late = fault.seconds if fault is not None and mishap is Mishap.ANSWERED_LATE else 0.0
            self._later(self.latency + late, self._reply, answer, done.result())

    def _reply(self, answer: asyncio.Future[bytes], body: bytes) -> None:
        if not answer.done():
            answer.set_result(body)

    def _fail(self, answer: asyncio.Future[bytes]) -> None:
        if not answer.done():
            answer.set_exception(TransportError("connection lost"))

    def _later(self, seconds: float, then: Callable[..., object], *arguments: object) -> None:
        self._loop.call_later(seconds, then, *arguments, context=Context())


async def _answer(listener: Listener, path: str, body: bytes) -> bytes:
    return await listener.answer(path, body)
