"""A controller on a virtual clock, and an API server that answers as scripted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest

from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.control.ports import ApiError, ClusterEvent, GroupStatus, Kind, PodKey
from extender.domain.membership import GroupApi, GroupRef
from extender.domain.node import Node
from extender.domain.pod import Pod, Shape
from extender.domain.podgroup import PodGroup
from extender.settings import Settings
from extender.simulation.virtual_time import LoopClock, VirtualTimeLoop

GPU = "nvidia.com/gpu"


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run every asynchronous test of this folder in virtual time."""
    return {"virtual": VirtualTimeLoop}


@dataclass
class ScriptedApi:
    """An API server's side of the writes: records them, and fails Bindings as a test says."""

    binding_failures: list[ApiError] = field(default_factory=list)
    nominations: list[tuple[str, str]] = field(default_factory=list)
    bindings: list[tuple[str, str]] = field(default_factory=list)
    events: list[ClusterEvent] = field(default_factory=list)
    statuses: list[tuple[str, GroupStatus]] = field(default_factory=list)

    async def nominate(self, pod: PodKey, node: str) -> None:
        """Record a nomination."""
        self.nominations.append((pod.name, node))

    async def bind(self, pod: PodKey, node: str) -> None:
        """Record a Binding."""
        if self.binding_failures:
            raise self.binding_failures.pop(0)
        self.bindings.append((pod.name, node))

    async def record_event(self, event: ClusterEvent) -> None:
        """Record an Event."""
        self.events.append(event)

    async def update_group_status(self, group: GroupRef, uid: str, status: GroupStatus) -> None:
        """Record a status."""
        assert uid
        self.statuses.append((group.name, status))


@dataclass
class Muster:
    """A running controller with its surroundings."""

    controller: Controller
    api: ScriptedApi
    metrics: Metrics
    settings: Settings

    def sync(self) -> None:
        """Let the first lists of all kinds be complete."""
        for kind in Kind:
            self.controller.synced(kind)

    def nodes(self, count: int, gpus: int = 8) -> list[str]:
        """Add GPU nodes."""
        names = [f"node-{index}" for index in range(count)]
        for name in names:
            self.controller.node_seen(Node(name, allocatable={"cpu": 64_000, "pods": 110, GPU: gpus}))
        return names

    def gang(self, name: str, members: int, gpus: int = 8, min_member: int | None = None) -> list[Pod]:
        """Create a PodGroup and its pods."""
        ref = GroupRef(GroupApi.COSCHEDULING, "default", name)
        self.controller.group_seen(PodGroup(ref, uid=f"{name}-uid", min_member=min_member or members, created=name))
        pods = [self.pod(f"{name}-{index}", gpus, ref) for index in range(members)]
        for pod in pods:
            self.controller.pod_seen(pod)
        return pods

    def pod(self, name: str, gpus: int, ref: GroupRef | None = None) -> Pod:
        """Return a pod that has not been seen yet."""
        shape = Shape((("cpu", 1000), (GPU, gpus), ("pods", 1)))
        return Pod(f"{name}-uid", "default", name, shape, created=name, group=ref, scheduler_name="muster")

    def planned(self, pod: Pod) -> str:
        """Return the node that a pod was last nominated on."""
        return next(node for name, node in reversed(self.api.nominations) if name == pod.name)

    async def bind(self, pod: Pod, node: str | None = None) -> str:
        """Call bind and return its error."""
        key = PodKey(pod.namespace, pod.name, pod.uid)
        return (await self.controller.bind(key, node or self.planned(pod))).error

    def sample(self, name: str, **labels: str) -> float:
        """Read a metric."""
        self.controller.scrape()
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
def settings() -> Settings:
    """Return the defaults; a test that is about a setting overrides this."""
    return Settings()


@pytest.fixture
async def muster(settings: Settings) -> AsyncIterator[Muster]:
    """Run a controller that has not been told anything yet."""
    api, metrics = ScriptedApi(), Metrics()
    controller = Controller(settings, LoopClock(asyncio.get_running_loop()), api, metrics)
    task = asyncio.create_task(controller.run())
    yield Muster(controller, api, metrics, settings)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
