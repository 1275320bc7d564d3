"""Virtual time for tests, a scheduler on a small cluster, and an extender that follows a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

import pytest

from extender.control.ports import WatchedKind
from extender.objects.pod import Pod
from extender.service.app import create_app
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.scheduler.extender import ExtenderClient
from muster_lab.simulation.scheduler.filters import RuledOut
from muster_lab.simulation.scheduler.scheduler import Scheduler
from muster_lab.simulation.transports import asgi_transport
from muster_lab.simulation.virtual_time import LoopClock, VirtualTimeLoop
from muster_lab.simulation.world import Connect
from tests.builders import node_json, pod_json

T = TypeVar("T")
Answer = Callable[[dict[str, Any]], Any]


class Virtually(Protocol):
    """Runs a coroutine on an event loop with virtual time and returns its result."""

    def __call__(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run `coroutine`."""
        ...


@pytest.fixture
def virtually() -> Virtually:
    """Return what runs a coroutine in virtual time."""

    def run(coroutine: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            return runner.run(coroutine)

    return run


@pytest.fixture
def connect() -> Connect:
    """Return what puts Muster's real application in front of a simulated world."""
    return lambda controller, settings, metrics, clock: asgi_transport(create_app(controller, settings, metrics, clock))


def loop_clock() -> LoopClock:
    """Return the running loop's clock."""
    return LoopClock(asyncio.get_running_loop())


async def reach(when: float) -> None:
    """Return once everything due up to `when` has happened."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    await loop.reach(when)


class ScriptedExtender:
    """Answers each verb as its script says, after some time, and keeps what it was asked.

    By default every offered node passes, scores nothing, every bind succeeds and nobody may be evicted.

    Attributes:
        asked: verb and body of every call, in order.
        delay: seconds until an answer.
    """

    def __init__(self, cluster: Cluster) -> None:
        """Bind pods in `cluster`."""
        self._cluster = cluster
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.delay = 0.0
        self.filter: Answer = lambda body: {"NodeNames": body["NodeNames"]}
        self.prioritize: Answer = lambda body: [{"Host": name, "Score": 0} for name in body["NodeNames"]]
        self.preempt: Answer = lambda _: {"NodeNameToMetaVictims": {}}
        self.bind: Answer = self.write_binding

    def write_binding(self, body: dict[str, Any]) -> dict[str, str]:
        """Bind the pod, as an extender with a bind verb has to."""
        self._cluster.bind(body["PodNamespace"], body["PodName"], body["Node"], body["PodUID"])
        return {"Error": ""}

    async def transport(self, path: str, body: bytes) -> bytes:
        """Answer one call."""
        verb = path.removeprefix("/v1/")
        document = json.loads(body)
        self.asked.append((verb, document))
        await asyncio.sleep(self.delay)
        answer = getattr(self, verb)(document)
        if isinstance(answer, Awaitable):
            answer = await answer
        return json.dumps(answer).encode()

    def calls(self, verb: str) -> list[dict[str, Any]]:
        """Return what one verb was asked."""
        return [body for asked, body in self.asked if asked == verb]


class Bench:
    """A cluster with a scheduler, in virtual time."""

    def __init__(self, *, extended: bool = False, ruled_out: RuledOut | None = None) -> None:
        """Start an empty cluster on the running loop; `extended` gives the scheduler a scripted extender."""
        self.clock = loop_clock()
        self.cluster = Cluster(self.clock)
        self.extender = ScriptedExtender(self.cluster)
        client = ExtenderClient(self.extender.transport) if extended else None
        self.scheduler = Scheduler(self.cluster, self.clock, ["muster"], client, ruled_out)
        self._running = asyncio.create_task(self.scheduler.run())

    def nodes(self, *names: str, **options: Any) -> None:
        """Create nodes with eight GPUs each, unless told otherwise."""
        for name in names:
            self.cluster.create(WatchedKind.NODE, node_json(name, **options))

    def pod(self, name: str, **options: Any) -> None:
        """Create a pod."""
        self.cluster.create(WatchedKind.POD, pod_json(name, **options))

    def get(self, name: str) -> Pod:
        """Return a pod as it stands."""
        return self.cluster.get(WatchedKind.POD, "default", name).pod

    def placed(self) -> dict[str, str]:
        """Return the node of every pod that has one."""
        return {v.pod.name: v.pod.node_name for v in self.cluster.list(WatchedKind.POD) if v.pod.node_name}

    def nominate(self, name: str, node: str) -> None:
        """Set a pod's nominated node, as Muster does."""

        def patch(document: dict[str, Any]) -> None:
            document["status"]["nominatedNodeName"] = node

        self.cluster.update(WatchedKind.POD, ("default", name), patch)

    def end(self, name: str, phase: str = "Succeeded") -> None:
        """Let a pod end."""

        def patch(document: dict[str, Any]) -> None:
            document["status"]["phase"] = phase

        self.cluster.update(WatchedKind.POD, ("default", name), patch)

    async def settle(self) -> None:
        """Let everything happen that takes no time."""
        await reach(self.clock.elapsed())

    async def close(self) -> None:
        """Stop the scheduler; raise what stopped it before."""
        if self._running.done():
            await self._running
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
