"""Bind calls that wait for the rest of their gang."""

from __future__ import annotations

import asyncio


class Barrier:
    """Hold bind calls, and let them go or fail; who may go is the admission's decision."""

    def __init__(self) -> None:
        """Hold nobody."""
        self._held: dict[str, list[asyncio.Future[str]]] = {}

    def __len__(self) -> int:
        """Count the calls held."""
        return sum(map(len, self._held.values()))

    async def wait(self, uid: str, seconds: float) -> str:
        """Wait until the pod may go, and return "" then, else why not; raise TimeoutError after `seconds`.

        kube-scheduler may call again for a pod that is still held, after a restart say: all calls get one answer.
        """
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._held.setdefault(uid, []).append(future)
        try:
            async with asyncio.timeout(seconds):
                return await future
        finally:
            calls = self._held.get(uid, [])
            if future in calls:
                calls.remove(future)
            if not calls:
                self._held.pop(uid, None)

    def holds(self, uid: str) -> bool:
        """Tell whether any call is held for the pod."""
        return uid in self._held

    def release(self, uid: str) -> None:
        """Let the pod's calls go."""
        self._answer(uid, "")

    def refuse(self, uid: str, why: str) -> None:
        """Fail the pod's calls with `why`."""
        self._answer(uid, why)

    def refuse_all(self, why: str) -> None:
        """Fail every call with `why`."""
        for uid in list(self._held):
            self.refuse(uid, why)

    def _answer(self, uid: str, answer: str) -> None:
        for future in self._held.pop(uid, []):
            if not future.done():
                future.set_result(answer)
