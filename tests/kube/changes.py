"""Waiting for what a test expects, without polling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.patience import HANGS


class Changes:
    """Something that changes, and can be waited for."""

    def __init__(self) -> None:
        """Start unchanged."""
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Have those who wait look again."""
        self._changed.set()

    async def until(self, condition: Callable[[], object]) -> None:
        """Return when `condition()` holds, looked at after every change; raise TimeoutError if that never comes."""
        async with asyncio.timeout(HANGS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()
