"""How long the event loop computes without a pause."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NoReturn

#: Seconds between two looks.
_LOOK_SECONDS = 0.005


class TurnMeter:
    """Look every few milliseconds how much the loop's thread has computed since the last look.

    A request that waits for a thread takes seconds, in which the loop may do whatever else it has to: it holds up the
    loop only if it computes for long between two looks.
    """

    def __init__(self, cpu_seconds: Callable[[], float]) -> None:
        """Take the processor time of the thread that serves from `cpu_seconds`."""
        self._cpu_seconds = cpu_seconds
        self._longest = 0.0
        self._began = cpu_seconds()

    def begin(self) -> None:
        """Begin to measure."""
        self._longest, self._began = 0.0, self._cpu_seconds()

    def longest(self) -> float:
        """Return the most that was computed between two looks, or since the last (seconds)."""
        return max(self._longest, self._cpu_seconds() - self._began)

    async def look(self) -> NoReturn:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._longest, self._began = self.longest(), self._cpu_seconds()


@asynccontextmanager
async def looking(cpu_seconds: Callable[[], float]) -> AsyncIterator[TurnMeter]:
    """Look for as long as the context lasts."""
    meter = TurnMeter(cpu_seconds)
    task = asyncio.create_task(meter.look())
    try:
        yield meter
    finally:
        task.cancel()
