"""A controller on a virtual clock, and an API server that answers as scripted."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from extender.admission.events import GroupSeen, NodeSeen, PodSeen
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.control.ports import NO_ANNOTATIONS, ApiError, ClusterEvent, PodKey
from extender.control.watched import REQUIRED_KINDS
from extender.explain.views import GroupStatus, QueueReport
from extender.ledger.effects import NodeAsk
from extender.objects.keys import Options
from extender.objects.lease import Lease
from extender.objects.meta import ObjectRef
from extender.objects.node import Node
from extender.objects.noderequest import NodeRequest
from extender.objects.pod import Pod, Shape
from extender.objects.podgroup import NO_GROUP, GroupRef, PodGroup
from extender.objects.reason import Problem
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.workload import Suspendable
from extender.settings import Settings
from muster_lab.simulation.virtual_time import LoopClock, VirtualTimeLoop
from tests.state import State

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
    annotations: dict[str, dict[str, str]] = field(default_factory=dict)
    events: list[ClusterEvent] = field(default_factory=list)
    statuses: list[tuple[str, GroupStatus]] = field(default_factory=list)
    status_failures: list[ApiError] = field(default_factory=list)
    queue_statuses: list[tuple[str, QueueReport]] = field(default_factory=list)
    queue_status_failures: list[ApiError] = field(default_factory=list)
    evictions: list[tuple[str, bool]] = field(default_factory=list)
    eviction_failures: list[ApiError] = field(default_factory=list)
    ungated: list[tuple[str, str]] = field(default_factory=list)
    ungate_failures: list[ApiError] = field(default_factory=list)
    notices: list[tuple[str, str, str, str]] = field(default_factory=list)
    suspended: list[tuple[str, str | None]] = field(default_factory=list)
    suspend_failures: list[ApiError] = field(default_factory=list)
    asked: list[tuple[NodeAsk, ObjectRef]] = field(default_factory=list)
    asking_failures: list[ApiError] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    write_seconds: float = 0.0
    nominating_fails: ApiError | None = None

    async def nominate(self, pod: PodKey, node: str) -> None:
        """Record a nomination."""
        if self.nominating_fails is not None:
            raise self.nominating_fails
        self.nominations.append((pod.name, node))

    async def bind(self, pod: PodKey, node: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> None:
        """Record a Binding."""
        await asyncio.sleep(self.write_seconds)
        if self.binding_failures:
            raise self.binding_failures.pop(0)
        self.bindings.append((pod.name, node))
        self.annotations[pod.name] = dict(annotations)

    async def evict(self, pod: PodKey, *, dry_run: bool = False) -> None:
        """Record an eviction, or fail as scripted."""
        if self.eviction_failures:
            raise self.eviction_failures.pop(0)
        self.evictions.append((pod.name, dry_run))

    async def ungate(self, pod: PodKey, gate: str) -> None:
        """Record a gate that is taken off, or fail as scripted."""
        if self.ungate_failures:
            raise self.ungate_failures.pop(0)
        self.ungated.append((pod.name, gate))

    async def notify(self, pod: PodKey, planned: str, reason: str, message: str) -> None:
        """Record a notice of eviction."""
        self.notices.append((pod.name, planned, reason, message))

    async def suspend(self, workload: Suspendable, place: str | None = None) -> None:
        """Record an object, or fail as scripted."""
        if self.suspend_failures:
            raise self.suspend_failures.pop(0)
        self.suspended.append((workload.about.name, place))

    async def request_nodes(self, ask: NodeAsk, owner: ObjectRef) -> None:
        """Record a request for nodes, or fail as scripted."""
        if self.asking_failures:
            raise self.asking_failures.pop(0)
        self.asked.append((ask, owner))

    async def withdraw_nodes(self, request: NodeRequest) -> None:
        """Record that a request is withdrawn."""
        self.withdrawn.append(request.name)

    async def annotate(self, pod: PodKey, annotations: Mapping[str, str]) -> None:
        """Record the annotations of a pod."""
        self.annotations.setdefault(pod.name, {}).update(annotations)

    async def record_event(self, event: ClusterEvent) -> None:
        """Record an Event."""
        self.events.append(event)

    async def update_group_status(self, group: GroupRef, uid: str, status: GroupStatus) -> None:
        """Record a status, or fail as scripted."""
        assert uid
        if self.status_failures:
            raise self.status_failures.pop(0)
        self.statuses.append((group.name, status))

    async def update_queue_status(self, name: str, uid: str, report: QueueReport) -> None:
        """Record a Queue's status, or fail as scripted."""
        assert uid
        if self.queue_status_failures:
            raise self.queue_status_failures.pop(0)
        self.queue_statuses.append((name, report))


@dataclass
class Term:
    """A leadership that the test gives and takes."""

    until: float = math.inf

    def held_until(self) -> float:
        """Return the end of the term (seconds, monotonic)."""
        return self.until

    def lease_seen(self, lease: Lease) -> None:
        """Take a Lease's duration for the end of the term."""
        self.until = lease.duration

    def lease_gone(self) -> None:
        """End the term."""
        self.until = -math.inf


@dataclass
class Muster:
    """A running controller with its surroundings."""

    controller: Controller
    api: ScriptedApi
    metrics: Metrics
    settings: Settings
    _beating: asyncio.TimerHandle | None = None

    @property
    def state(self) -> State:
        """Return what may be asked about the engine's state."""
        return State(self.controller)

    def sync(self) -> None:
        """Let the first lists of all kinds be complete, and their watches be heard of every now and then."""
        for kind in REQUIRED_KINDS:
            self.controller.synced(kind)
        self._beat()

    def fall_silent(self) -> None:
        """Let nothing be heard of any watch from now on."""
        if self._beating is not None:
            self._beating.cancel()

    def _beat(self) -> None:
        for kind in REQUIRED_KINDS:
            self.controller.heard(kind)
        self._beating = asyncio.get_running_loop().call_later(30, self._beat)

    def nodes(self, count: int, gpus: int = 8) -> list[str]:
        """Add GPU nodes."""
        names = [f"node-{index}" for index in range(count)]
        for name in names:
            self.controller.tell(NodeSeen(Node(name, allocatable={"cpu": 64_000, "pods": 110, GPU: gpus})))
        return names

    def gang(
        self, name: str, members: int, gpus: int = 8, min_member: int | None = None, present: int | None = None
    ) -> list[Pod]:
        """Create a PodGroup and its pods, or only the first ones that are to be `present`."""
        ref = GroupRef(COSCHEDULING, "default", name)
        self.controller.tell(
            GroupSeen(PodGroup(ref, uid=f"{name}-uid", min_member=min_member or members, created=name))
        )
        pods = [self.pod(f"{name}-{index}", gpus, ref) for index in range(members)]
        for pod in pods[:present]:
            self.controller.tell(PodSeen(pod))
        return pods

    def pod(self, name: str, gpus: int, ref: GroupRef = NO_GROUP) -> Pod:
        """Return a pod that has not been seen yet."""
        shape = Shape((("cpu", 1000), (GPU, gpus), ("pods", 1)))
        return Pod(f"{name}-uid", "default", name, shape, created=name, group=ref, scheduler_name="muster")

    def odd_pod(self, name: str) -> Pod:
        """Return a pod with a `muster.dev/` key that there is not."""
        problem = Problem("metadata.annotations.muster.dev/odd", "there is no such key")
        return replace(self.pod(name, 0), options=Options(problems=(problem,)))

    def planned(self, pod: Pod) -> str:
        """Return the node that a pod is promised."""
        slot = self.state.slot(pod)
        assert slot is not None, f"{pod.key} is promised no node"
        return slot.node

    async def bind(self, pod: Pod, node: str | None = None) -> str:
        """Call bind and return its error."""
        key = PodKey(pod.namespace, pod.name, pod.uid)
        return (await self.controller.bind(key, node or self.planned(pod))).error

    def sample(self, name: str, **labels: str) -> float:
        """Read a metric."""
        list(self.controller.scrape_in_steps())
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
def settings() -> Settings:
    """Return the defaults; a test that is about a setting overrides this."""
    return Settings()


@pytest.fixture
def term() -> Term:
    """Return a leadership that does not end unless the test ends it."""
    return Term()


@pytest.fixture
async def muster(settings: Settings, term: Term) -> AsyncIterator[Muster]:
    """Run a controller that has not been told anything yet."""
    api, metrics = ScriptedApi(), Metrics()
    controller = Controller(settings, LoopClock(asyncio.get_running_loop()), api, metrics, term)
    task = asyncio.create_task(controller.run())
    running = Muster(controller, api, metrics, settings)
    yield running
    running.fall_silent()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
