"""Waiting for news that are on their way."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Expectation(Generic[Key]):
    """Wait for keys to become known, each for a short time."""

    def __init__(self) -> None:
        """Expect nothing."""
        self._futures: dict[Key, asyncio.Future[None]] = {}

    def met(self, key: Key) -> None:
        """Let those go on who wait for `key`."""
        future = self._futures.pop(key, None)
        if future is not None and not future.done():
            future.set_result(None)

    async def wait(self, key: Key, seconds: float) -> None:
        """Wait until `key` is known, for `seconds` at most."""
        future = self._futures.setdefault(key, asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(future)
        except TimeoutError:
            self._futures.pop(key, None)
