"""One Muster as a process: the controller, its watches and its verbs, started from nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from random import Random
from typing import Any

import orjson
from starlette.types import ASGIApp

from extender.clock import Clock
from extender.control.controller import Controller
from extender.control.leadership import Leadership
from extender.control.metrics import Metrics
from extender.kube.reflector import Feeds
from extender.kube.writer import KubeClusterApi
from extender.service.verbs import VerbRoutes
from extender.settings import Settings
from muster_lab.simulation.scheduler.extender import PREFIX, TransportError
from tests.properties.faults.apiline import Line
from tests.properties.faults.apiserver import ApiServerFront
from tests.properties.faults.client import Client
from tests.properties.faults.election import LEASE
from tests.properties.faults.process import Process
from tests.properties.faults.record import Record

_OK = 200


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a Muster finds around itself, on a `host`.

    `record` is told of bind calls, `crashed` of an error that nobody expected.
    """

    host: str
    front: ApiServerFront
    line: Line
    clock: Clock
    record: Record
    crashed: Callable[[str], None]


class Replica:
    """A Muster that has just been started and knows nothing.

    Attributes:
        process: its fate.
        controller: the real one.
    """

    def __init__(
        self, name: str, settings: Settings, around: Surroundings, leadership: Leadership | None = None
    ) -> None:
        """Start it; with `leadership` it is one of several."""
        self.process = Process(name, around.front.loop)
        self._around = around
        metrics = Metrics()
        client = Client(around.front, around.line, self.process)
        api = KubeClusterApi(client, around.clock, name)
        self.controller = Controller(settings, around.clock, api, metrics, leadership)
        feeds = Feeds(client, self.controller, random=Random(name), lease=None if leadership is None else LEASE)
        routes = VerbRoutes(self.controller, settings, metrics, around.clock).routes()
        self._verbs: dict[str, ASGIApp] = {route.path: route.app for route in routes}
        for work in (self.controller.run(), feeds.run()):
            self.process.start(self._guard(work))

    async def answer(self, path: str, body: bytes) -> bytes:
        """Answer one call; raise TransportError for anything but HTTP 200."""
        if path != f"{PREFIX}/bind":
            return await self._ask(path, body)
        arguments = orjson.loads(body)
        call = self._around.record.arrived(self._around.host, arguments["PodUID"], arguments["Node"])
        try:
            return await self._ask(path, body)
        finally:
            self._around.record.answered(call)

    async def _ask(self, path: str, body: bytes) -> bytes:
        scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return parts.pop()

        sent: list[MutableMapping[str, Any]] = []

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self._verbs[path](scope, receive, send)
        start, end = sent
        answer = bytes(end["body"])
        if b"internal error" in answer:
            self._around.crashed(f"{path} answered {answer.decode()}")
        if start["status"] != _OK:
            raise TransportError(f"code {start['status']}")
        return answer

    async def _guard(self, work: Awaitable[object]) -> None:
        """Tell of an error that ends the process."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 - whatever it is, it would have ended the process
            self._around.crashed(f"the process ended with {error!r}")
