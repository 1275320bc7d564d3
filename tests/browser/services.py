"""Muster as it is, on a simulated cluster in real time, in a thread of its own: what a browser is pointed at."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Self

import uvicorn
from fastapi import FastAPI

from extender.cli.listening import listen
from extender.clock import Clock, SystemClock
from extender.control.controller import Controller
from extender.control.historykeeper import HistoryKeeper
from extender.control.metrics import Metrics
from extender.history.store import HistoryStore
from extender.service.app import create_app
from extender.settings import Settings
from muster_lab.simulation.scenario import ScenarioGang, ScenarioMember
from muster_lab.simulation.scenario_file import read_scenario
from muster_lab.simulation.scheduler.extender import Transport
from muster_lab.simulation.transports import asgi_transport
from muster_lab.simulation.virtual_time import LoopClock
from muster_lab.simulation.world import World

#: Eight nodes in two blocks of two racks; two teams with half of the GPUs each; a gang that runs, and one of parts that
#: waits.
_SCENARIO = """
topology:
  levels:
    - {name: block, nodeLabel: example.com/block}
    - {name: rack, nodeLabel: example.com/rack}
nodes:
  - name: gpu
    count: 8
    allocatable: {cpu: 96, memory: 1Ti, nvidia.com/gpu: 8}
    labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
    labelsFrom:
      example.com/block: "b{index//4}"
      example.com/rack: "r{index//2}"
queues:
  - name: research
  - name: team-a
    parent: research
    flavors: [{name: default, resources: [{name: nvidia.com/gpu, nominalQuota: 32}]}]
  - name: team-b
    parent: research
    flavors: [{name: default, resources: [{name: nvidia.com/gpu, nominalQuota: 32}]}]
gangs:
  - {name: first, queue: team-a, minMember: 4, requests: {cpu: 8, nvidia.com/gpu: 8}, duration: 60m}
  - name: large
    queue: team-b
    minMember: 5
    requests: {cpu: 8, nvidia.com/gpu: 8}
    roles: [{name: prefill, replicas: 1}, {name: decode, replicas: 4}]
    annotations:
      muster.dev/tree: '{"parts": [{"name": "r0", "required": "block", "roles": {"prefill": 1, "decode": 4}}]}'
    duration: 60m
until: 3h
gpuHourPrice: 3.67
"""
_STARTING_SECONDS = 20


class Thread:
    """An application, served on a loopback port by a thread with an event loop of its own."""

    def __init__(self, port: int = 0) -> None:
        """Take a port, a free one for 0; serve nothing before `start`."""
        self._socket: socket.socket = listen("127.0.0.1", port)
        self.port: int = self._socket.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Return where the page is."""
        return f"http://127.0.0.1:{self.port}/"

    def start(self, build: Callable[[], tuple[FastAPI, Coroutine[Any, Any, None] | None]]) -> Self:
        """Serve what `build`, called on the loop, returns: an application, and what runs beside it."""
        started = threading.Event()

        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            app, beside = build()
            config = uvicorn.Config(app, lifespan="off", log_config=None, ws="none", timeout_graceful_shutdown=0)
            self._server = uvicorn.Server(config)
            task = None if beside is None else asyncio.create_task(beside)
            started.set()
            await self._server.serve(sockets=[self._socket])
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

        self._thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
        self._thread.start()
        assert started.wait(_STARTING_SECONDS), "the service did not start"
        return self

    def soon(self, call: Callable[[], None]) -> None:
        """Have something done on the loop."""
        assert self._loop is not None, "nothing is served yet"
        self._loop.call_soon_threadsafe(call)

    def stop(self) -> None:
        """Break off all connections, and end."""
        assert self._server is not None, "nothing is served yet"
        assert self._thread is not None, "nothing is served yet"
        self._server.should_exit = True
        self._thread.join(_STARTING_SECONDS)
        assert not self._thread.is_alive(), "the service did not end"


class Muster:
    """Muster on a simulated cluster that can be given further gangs."""

    def __init__(self, port: int = 0, past: HistoryStore | None = None) -> None:
        """Start on a port, a free one for 0; `past` is a history that is told, and not written."""
        self._world: World | None = None
        self._past = past
        self._thread = Thread(port).start(self._build)
        self.url, self.port, self.stop = self._thread.url, self._thread.port, self._thread.stop

    def submit(self, name: str, members: int, queue: str = "team-a") -> None:
        """Have a gang arrive, of members with eight GPUs each, that trains for an hour."""
        requests = {"cpu": "8", "nvidia.com/gpu": "8"}
        gang = ScenarioGang(
            name=name,
            namespace="default",
            min_member=members,
            members=tuple(ScenarioMember(f"{name}-{index}", requests) for index in range(members)),
            duration=3600.0,
            queue=queue,
        )
        assert self._world is not None, "nothing is served yet"
        workload = self._world.workload
        self._thread.soon(lambda: workload.add([gang]))

    def _build(self) -> tuple[FastAPI, Coroutine[Any, Any, None]]:
        apps: list[FastAPI] = []

        def connect(controller: Controller, settings: Settings, metrics: Metrics, clock: Clock) -> Transport:
            if self._past is not None:
                controller.history = HistoryKeeper(
                    controller.accountant,
                    self._past,
                    clock,
                    metrics,
                    records=lambda: False,
                    capacity=controller.gpus,
                    every=3600,
                    retention_days=400,
                )
            apps.append(create_app(controller, settings, metrics, clock))
            return asgi_transport(apps[0])

        clock = LoopClock(asyncio.get_running_loop(), start=SystemClock().now())
        world = World(read_scenario(_SCENARIO, "the browser's cluster"), clock, connect, settings=Settings())
        self._world = world
        return apps[0], world.run()
