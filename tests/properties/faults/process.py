"""Processes on one event loop, each of which can be stopped between any two of its steps, as by SIGSTOP and SIGKILL."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar, TypeVarTuple, Unpack

from muster_lab.simulation.virtual_time import EPOCH, VirtualTimeLoop

T = TypeVar("T")
_Arguments = TypeVarTuple("_Arguments")


class State(Enum):
    """Whether a process runs, is paused, or is dead."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class Process:
    """A set of tasks that share a fate.

    What belongs to it is told by the context (`contextvars`) in which the loop calls it. While it is paused, whatever
    it would have done piles up; what a dead one would have done, no `finally` excepted, never happens.
    """

    def __init__(self, name: str, loop: VirtualTimeLoop) -> None:
        """Run nothing yet."""
        self.name = name
        self.state = State.RUNNING
        self._loop = loop
        self._context = copy_context()
        self._context.run(_OWNER.set, self)
        self._missed: list[_Step] = []
        self._timers: dict[_Step, float] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def dead(self) -> bool:
        """Tell whether it has been killed."""
        return self.state is State.DEAD

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """Start a task of the process that nobody waits for."""
        self.spawn(work).add_done_callback(_ignore, context=Context())

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task of the process."""
        task = self._loop.create_task(work, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard, context=Context())
        return task

    def expect(self, when: float, step: _Step) -> None:
        """Note that a step is due at `when` (seconds of the loop)."""
        self._timers[step] = when

    def ring(self, step: _Step) -> None:
        """Do a step that is due, unless a jump of the clock made it due before."""
        if self._timers.pop(step, None) is not None:
            self.take(step)

    def jump(self, seconds: float) -> None:
        """Set its steady clock forwards: what it does at a time is due so much sooner, as in any event loop."""
        now = self._loop.time()
        for step, when in list(self._timers.items()):
            if step.handle is None or step.handle.cancelled():
                del self._timers[step]
                continue
            self._timers[step] = due = max(now, when - seconds)
            VirtualTimeLoop.call_at(self._loop, due, self.ring, step, context=step.context)

    def take(self, step: _Step) -> None:
        """Do one step of the process, unless it is stopped or the step was cancelled while it was."""
        if self.state is not State.RUNNING:
            self._missed.append(step)
        elif step.handle is None or not step.handle.cancelled():
            step.callback(*step.arguments)

    def pause(self) -> None:
        """Let nothing of it run until it is resumed."""
        if self.state is State.RUNNING:
            self.state = State.PAUSED

    def resume(self) -> None:
        """Let it run again, and first do what it missed."""
        if self.state is State.PAUSED:
            self._go_on()

    def kill(self) -> None:
        """Let nothing of it ever run again."""
        self.state = State.DEAD

    async def bury(self) -> None:
        """Close its tasks once nobody looks any more, so that no coroutine is left open."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        self._go_on()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _go_on(self) -> None:
        self.state = State.RUNNING
        missed, self._missed = self._missed, []
        for step in missed:
            self._loop.call_soon(self.take, step, context=step.context)


@dataclass(slots=True, eq=False)
class _Step:
    """Something that the loop calls for a process, and the handle by which that can be cancelled."""

    context: Context
    callback: Callable[..., object]
    arguments: tuple[Any, ...]
    handle: asyncio.Handle | None = None


def _ignore(_task: asyncio.Task[object]) -> None:
    """Do nothing when a task ends that nobody waits for."""


_OWNER: ContextVar[Process | None] = ContextVar("process", default=None)


class ProcessLoop(VirtualTimeLoop):
    """Virtual time for several processes: whatever the loop calls is a step of the process in whose context it is."""

    def call_soon(
        self,
        callback: Callable[[Unpack[_Arguments]], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Have `callback` called in the next turn."""
        owner = _OWNER.get() if context is None else context.get(_OWNER)
        if owner is None:
            return super().call_soon(callback, *args, context=context)
        step = _Step(context or copy_context(), callback, args)
        step.handle = handle = super().call_soon(owner.take, step, context=step.context)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[_Arguments]], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Have `callback` called at `when` (seconds)."""
        owner = _OWNER.get() if context is None else context.get(_OWNER)
        if owner is None:
            return super().call_at(when, callback, *args, context=context)
        step = _Step(context or copy_context(), callback, args)
        owner.expect(when, step)
        step.handle = handle = super().call_at(when, owner.ring, step, context=step.context)
        return handle


class MachineClock:
    """The clocks of one machine: the loop's time, and by how much each of them has been set wrong (seconds)."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start right."""
        self._loop = loop
        self.ahead = 0.0
        self.wall_ahead = 0.0

    def monotonic(self) -> float:
        """Return the steady time; it may jump forwards."""
        return self._loop.time() + self.ahead

    def now(self) -> dt.datetime:
        """Return the calendar time; it may jump anywhere."""
        return EPOCH + dt.timedelta(seconds=self._loop.time() + self.wall_ahead)
