"""Coroutines run by code that is not asynchronous, in a command that a user may interrupt at any moment."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class InterruptibleRunner:
    """Runs coroutines one after the other; Ctrl-C cancels the one that runs, or else the next one.

    `asyncio.Runner` cancels what has become a task. An interrupt a moment before leaves a coroutine behind that never
    ran; one while its loop is opened or closed leaves that open. Python complains of both on standard error. So Ctrl-C
    is held back while the context lasts, and raised by `run`, or when everything is closed; a second one is not held.
    """

    def __init__(self) -> None:
        self._held = False
        self._task: asyncio.Task[Any] | None = None

    def __enter__(self) -> Self:
        here = threading.current_thread() is threading.main_thread()
        self._holds = here and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._holds:
            signal.signal(signal.SIGINT, self._hold)
        self._runner = asyncio.Runner()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._runner.close()
        finally:
            if self._holds:
                signal.signal(signal.SIGINT, signal.default_int_handler)
        self._raise_held()

    def run(self, question: Callable[[], Awaitable[T]], timeout: float | None = None) -> T:
        """Return what a coroutine returns; raise what it raises, TimeoutError after so many seconds."""

        async def answer() -> T:
            self._task = asyncio.current_task()
            try:
                # With Ctrl-C held it still does what needs no waiting: what is open is closed that way.
                async with asyncio.timeout(0 if self._held else timeout):
                    return await question()
            finally:
                self._task = None

        try:
            return self._runner.run(answer())
        finally:
            self._raise_held()

    def _hold(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._held:
            raise KeyboardInterrupt
        self._held = True
        if self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    def _raise_held(self) -> None:
        if self._held:
            self._held = False
            raise KeyboardInterrupt
