"""One watch of the pods, decoded as far as a measurement needs: which pod was nominated and bound, and when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import aiohttp
import msgspec

from bench.controlplane.client import LoadClient, Request
from localcluster.client import PODS
from localcluster.errors import ApiError, LocalClusterError, NotInTimeError

#: What may be read and not yet decoded: a thousand pods and more, so that the server need not wait for this process.
_BUFFER_BYTES = 1 << 24


class _Metadata(msgspec.Struct):
    name: str = ""
    resourceVersion: str = ""  # noqa: N815 - the API's name


class _Spec(msgspec.Struct):
    nodeName: str = ""  # noqa: N815 - the API's name


class _Status(msgspec.Struct):
    nominatedNodeName: str = ""  # noqa: N815 - the API's name


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    object: _Pod


class _List(msgspec.Struct):
    metadata: _Metadata


_event_decoder = msgspec.json.Decoder(_Event)
_list_decoder = msgspec.json.Decoder(_List)


class PodWatch:
    """What happened to the pods of a namespace since the watch was opened, as an async context manager.

    All times are `time.monotonic` seconds, taken when the event was read.
    """

    def __init__(self, client: LoadClient, namespace: str) -> None:
        """Prepare; nothing is asked yet."""
        self.bound: dict[str, float] = {}
        self.nominated: dict[str, float] = {}
        self.nominations = 0
        self._client = client
        self._path = PODS.path(namespace)
        self._version = ""
        self._nominees: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Open the watch from the present state on."""
        listed = _list_decoder.decode(await self._client.send(Request("GET", f"{self._path}?limit=1", b"")))
        self._version = listed.metadata.resourceVersion
        self._reading = asyncio.create_task(self._follow(await self._open()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the watch."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def until(
        self, condition: Callable[[], bool], *, timeout_seconds: float, description: Callable[[], str]
    ) -> None:
        """Wait until `condition()`, looked at after everything read.

        Raises NotInTimeError with `description()` at the deadline, LocalClusterError if the watch ended.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                while not condition():
                    self._check()
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise NotInTimeError(f"not within {timeout_seconds:g} s: {description()}") from None

    async def until_bound(self, count: int, timeout_seconds: float) -> None:
        """Wait until so many pods are bound."""
        await self.until(
            lambda: len(self.bound) >= count,
            timeout_seconds=timeout_seconds,
            description=lambda: f"{count} pods bound, {len(self.bound)} are",
        )

    async def _follow(self, answer: aiohttp.ClientResponse) -> None:
        """Read the open watch and, whenever the server ends it, the next one from there on.

        It ends watches that are not read for a moment because the processors are busy.
        """
        try:
            while True:
                await self._read(answer)
                answer = await self._open()
        finally:
            self._changed.set()
            answer.close()

    async def _open(self) -> aiohttp.ClientResponse:
        query = {"watch": "true", "resourceVersion": self._version, "timeoutSeconds": "86400"}
        answer = await self._client.session.get(
            self._path, params=query, timeout=aiohttp.ClientTimeout(total=None), read_bufsize=_BUFFER_BYTES
        )
        if not answer.ok:
            raise ApiError(answer.status, answer.reason or "", (await answer.text())[:500])
        return answer

    async def _read(self, answer: aiohttp.ClientResponse) -> None:
        rest = b""
        async for chunk in answer.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            now = time.monotonic()
            for line in lines:
                self._take(line, now)
            self._changed.set()

    def _take(self, line: bytes, now: float) -> None:
        try:
            pod = _event_decoder.decode(line).object
        except msgspec.ValidationError as error:  # a Status: the server ends the watch
            raise LocalClusterError(f"not an event of a pod: {line.decode(errors='replace')[:500]}") from error
        self._version = pod.metadata.resourceVersion
        name, node, nominee = pod.metadata.name, pod.spec.nodeName, pod.status.nominatedNodeName
        if node and name not in self.bound:
            self.bound[name] = now
        if not node and nominee != self._nominees.get(name, ""):
            self._nominees[name] = nominee
            if nominee:
                self.nominations += 1
                self.nominated[name] = now

    def _check(self) -> None:
        if self._reading is None or not self._reading.done():
            return
        failure = self._reading.exception()
        raise LocalClusterError(f"the watch of pods failed: {failure}") from failure
