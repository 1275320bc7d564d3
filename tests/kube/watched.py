"""One watch of the scripted server, and what it tells."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random

from extender.control.ports import WatchedKind
from extender.kube.api import ApiServer
from extender.kube.reflector import Reflector
from extender.kube.watch import WatchFeed, WatchOptions
from extender.objects.podspec import PodObject, decode_pod
from tests.kube.changes import Changes
from tests.kube.observer import Recorder

#: Where the watched objects are.
PODS = "/api/v1/pods"


class Longest(Random):
    """Draws the upper bound of every range."""

    def uniform(self, _a: float, b: float) -> float:
        """Return the upper bound."""
        return b

    def randint(self, _a: int, b: int) -> int:
        """Return the upper bound."""
        return b


class Naps(Changes):
    """Sleep no time at all, and keep for how long it would have been."""

    def __init__(self) -> None:
        """Have not slept yet."""
        super().__init__()
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        """Keep the seconds, and let others run."""
        self.seconds.append(seconds)
        self.changed()
        await asyncio.sleep(0)


class Watched:
    """A reflector of pods under test: what it told, in words, and for how long it paused."""

    def __init__(self, api: ApiServer, options: WatchOptions, *, optional: bool, older: tuple[str, ...]) -> None:
        """Prepare; nothing is read before `running`."""
        self.observer = Recorder()
        self.naps = Naps()
        feed = WatchFeed(
            kind=WatchedKind.POD,
            path=PODS,
            decode=decode_pod,
            seen=self._seen,
            gone=lambda who: self.observer.keep("gone", who.key, who.uid),
            optional=optional,
            older=older,
        )
        self.reflector: Reflector[PodObject] = Reflector(
            feed, api, self.observer, options, random=Longest(), sleep=self.naps
        )

    def _seen(self, pod: PodObject) -> None:
        assert pod.metadata is not None
        meta = pod.metadata
        self.observer.keep("seen", f"{meta.namespace or ''}/{meta.name}", meta.uid or "")

    @property
    def told(self) -> list[tuple[str, ...]]:
        """Return what was told of objects."""
        return self.observer.told

    async def tells(self, *words: str) -> None:
        """Wait until something is told."""
        await self.observer.until(lambda: words in self.told)

    async def restarts(self, *causes: str) -> None:
        """Wait until the watch has started again as often as there are causes, and check them."""
        await self.observer.until(lambda: len(self.observer.restarts) >= len(causes))
        assert self.observer.restarts == list(causes)


#: The options that Muster ships with.
PATIENT = WatchOptions()


@contextlib.asynccontextmanager
async def watching(
    api: ApiServer,
    options: WatchOptions = PATIENT,
    *,
    optional: bool = False,
    older: tuple[str, ...] = (),
) -> AsyncIterator[Watched]:
    """Run a reflector of pods."""
    watched = Watched(api, options, optional=optional, older=older)
    task = asyncio.create_task(watched.reflector.run())
    try:
        yield watched
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
