"""A thread for calls that block: the event loop goes on meanwhile, and is told what came of each."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Final, TypeVar

R = TypeVar("R")

#: Calls that may wait for one thread. People ask the history, and a page asks for four things at a time.
_MOST_CALLS: Final = 100


class BusyWorkerError(Exception):
    """Too many calls wait for a thread."""


class Worker:
    """One thread for calls that block. It is a daemon: a call that hangs does not keep the process from ending."""

    def __init__(self, name: str) -> None:
        """Start the thread with the first call."""
        self._name = name
        self._calls: queue.Queue[Callable[[], None]] = queue.Queue(_MOST_CALLS)
        self._thread: threading.Thread | None = None

    def submit(self, call: Callable[[], R]) -> asyncio.Future[R]:
        """Make a call after those before it, unless its outcome is cancelled by then; return that, to be awaited.

        Raises BusyWorkerError if too many wait.
        """
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[R] = loop.create_future()

        def settle(result: R | None, error: BaseException | None) -> None:
            if outcome.done():
                return
            if error is None:
                outcome.set_result(result)  # type: ignore[arg-type]  # of type R if there is no error
            else:
                outcome.set_exception(error)

        def run() -> None:
            if outcome.cancelled():
                return
            try:
                result, error = call(), None
            except Exception as raised:  # noqa: BLE001 - it is raised where the outcome is awaited
                result, error = None, raised
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, result, error)

        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        try:
            self._calls.put_nowait(run)
        except queue.Full as full:
            raise BusyWorkerError(f"{_MOST_CALLS} calls wait already") from full
        return outcome

    def _run(self) -> None:
        while True:
            self._calls.get()()
