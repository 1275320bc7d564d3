"""What one event crosses: the real application in this process, traced while it takes in one thing.

Everything but sockets and time is as in production: bytes of watches, reflectors, the controller, the journal and the
verbs. A trip is the set of own files (those of `extender/`) in which at least one function ran.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import orjson
import pytest
import structlog

import extender
from extender.control.metrics import Metrics
from extender.control.ports import WatchedKind
from extender.service.app import create_view_app
from extender.service.board.board import Board
from extender.service.stream import Stream
from extender.settings import Settings
from muster_lab.simulation.scenario import DisruptionLimit
from tests.properties.faults.host import Pace
from tests.properties.faults.population import Gang, Population
from tests.properties.faults.process import Process, ProcessLoop
from tests.properties.faults.replica import Replica
from tests.properties.faults.world import World

OWN = Path(extender.__file__).parent
#: The packages that decide: a pass, as a trip, is what it crosses of them. What waits for it, notes it and writes what
#: comes of it is the same for every event.
DECIDING = ("admission", "eviction", "judge", "ledger", "queues", "placement", "cluster", "hardware", "objects")
#: A pass waits this long after a change (seconds), so that what a change costs by itself is seen apart.
DEBOUNCE = 1.0
#: Long enough for everything that is under way, and for reports about it (seconds).
SETTLED = 5.0
#: How long news of the API server takes (seconds), and after which all that it causes at once has happened.
NEWS, AT_ONCE = 0.01, 0.011


@dataclass
class Trace:
    """The own files in which a function ran while it was on, as paths below `extender/`."""

    files: set[str] = field(default_factory=set)

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Note a call."""
        if event == "call" and (path := Path(frame.f_code.co_filename)).is_relative_to(OWN):
            self.files.add(path.relative_to(OWN).as_posix())

    @contextmanager
    def on(self) -> Iterator[None]:
        """Trace whatever runs in this thread; what other tests have left behind ends before, or later."""
        gc.collect()
        gc.disable()
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            gc.enable()


class Here(ThreadPoolExecutor):
    """Run what is meant for another thread at once: virtual time does not wait for threads."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Future[Any]:
        """Call it, and return its result."""
        done: Future[Any] = Future()
        done.set_result(call(*arguments, **keywords))
        return done


class Cluster:
    """Five nodes, a running Muster, and no kube-scheduler but this one's questions."""

    def __init__(self, world: World) -> None:
        """Fill the cluster; nothing has happened yet."""
        self._world = world
        self._people = Population(world.cluster, 5)
        (self._host,) = world.hosts
        self._host.scheduler.pause()
        assert self._host.replica is not None
        self._replica: Replica = self._host.replica

    async def settle(self) -> None:
        """Let everything happen that is under way."""
        await self._world.pass_time(SETTLED)
        assert self._world.crashes == []

    def gang(self, name: str, members: int = 2, minimum: int = 2) -> Gang:
        """Create a gang of pods that take a node each."""
        gang = Gang(name, minimum, members, gpus=8)
        self._people.create_gang(gang)
        return gang

    async def news(self, cause: Callable[[], object]) -> set[str]:
        """Return what Muster runs when it hears of what `cause` does, before any pass."""
        cause()
        trace = Trace()
        with trace.on():
            await self._world.pass_time(AT_ONCE)
        return trace.files

    def budget(self, gang: Gang) -> None:
        """Create a PodDisruptionBudget for a gang's pods."""
        self._people.create_budget(gang, DisruptionLimit(min_available=1))

    def member(self, gang: Gang) -> None:
        """Create one more pod of a gang."""
        self._people.create_member(gang, f"{gang.name}-{gang.members}")

    async def deciding(self, name: str) -> set[str]:
        """Return what decides in the one step of the loop in which a gang that has just been created is placed."""
        self.gang(name)
        steps: list[tuple[set[str], bool]] = []
        take = Process.take

        def traced(process: Process, step: Any) -> None:
            before, trace = self._placed(name), Trace()
            with trace.on():
                take(process, step)
            steps.append((trace.files, self._placed(name) and not before))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Process, "take", traced)
            await self.settle()
        (files,) = (files for files, placed in steps if placed)
        return {file for file in files if file.partition("/")[0].removesuffix(".py") in DECIDING}

    async def filter(self, pod: str) -> set[str]:
        """Return what runs for the filter call of a member that has its place, which is among the nodes offered."""
        stored = self._world.cluster.find(WatchedKind.POD, "default", pod)
        assert stored is not None
        body = orjson.loads(stored.body)
        nominated = body["status"]["nominatedNodeName"]
        call = orjson.dumps({"Pod": body, "NodeNames": [nominated]})
        trace = Trace()
        with trace.on():
            answer = await self._replica.process.spawn(self._replica.answer("/v1/filter", call))
        assert orjson.loads(answer)["NodeNames"] == [nominated]
        return trace.files

    async def explain(self, gang: str) -> set[str]:
        """Return what runs for the question why a gang waits."""
        metrics = Metrics()
        stream = Stream(Board(self._replica.controller, metrics, self._host.clock))
        app = create_view_app(self._replica.controller, Settings(), metrics, stream)
        trace = Trace()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://muster") as client:
            path = f"/api/v1/gangs/default/{gang}/explain"
            assert (await client.get(path)).json()["reason"] != ""  # routes compile at their first request
            with trace.on():
                answer = await client.get(path)
        assert answer.status_code == httpx.codes.OK
        return trace.files

    def _placed(self, name: str) -> bool:
        return any(view.ref.name == name and view.reserved for view in self._replica.controller.inspection.gangs())


async def travel() -> dict[str, set[str]]:
    """Return the own files of each trip, by its name in `limits`."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ProcessLoop)
    loop.set_default_executor(Here())
    pace = Pace(write=0.005, muster_watch=NEWS, scheduler_watch=NEWS, call=0.001)
    world = World(loop, pace, Settings(debounce_seconds=DEBOUNCE))
    try:
        cluster = Cluster(world)
        await cluster.settle()
        trips = {"pass": await cluster.deciding("first")}
        trips["filter"] = await cluster.filter("first-0")
        growing = cluster.gang("growing", members=2, minimum=3)
        waiting = cluster.gang("waiting", members=9, minimum=9)
        await cluster.settle()
        trips["budget"] = await cluster.news(lambda: cluster.budget(waiting))
        await cluster.settle()
        trips["pod"] = await cluster.news(lambda: cluster.member(growing))
        await cluster.settle()
        # A pass that comes between is no part of the trip: what both questions run is.
        trips["explain"] = await cluster.explain(waiting.name) & await cluster.explain(waiting.name)
        return trips
    finally:
        await world.close()


def traced() -> dict[str, set[str]]:
    """Return the own files of each trip, played on a loop in virtual time."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        with asyncio.Runner(loop_factory=ProcessLoop) as runner:
            return runner.run(travel())
    finally:
        structlog.configure(**before)  # other tests read what is logged


if __name__ == "__main__":
    for trip, files in traced().items():
        sys.stdout.write(f"{trip}: {len(files)}\n  " + "\n  ".join(sorted(files)) + "\n")
