"""A Muster in this process with a small busy cluster, asked through its ASGI application."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from extender.admission.events import GroupSeen, NodeSeen, PodGone, PodSeen
from extender.clock import SystemClock
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.control.ports import NO_ANNOTATIONS, ClusterEvent, PodKey, WatchedKind
from extender.control.watched import REQUIRED_KINDS, WATCHED, Known
from extender.explain.views import GroupStatus, QueueReport
from extender.history.store import HistoryStore
from extender.ledger.effects import NodeAsk
from extender.objects.meta import ObjectRef
from extender.objects.node import Node
from extender.objects.noderequest import NodeRequest
from extender.objects.pod import Phase, Pod, Shape
from extender.objects.podgroup import NO_GROUP, GroupRef, PodGroup
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.workload import Suspendable
from extender.service.app import Application, create_app
from extender.settings import Settings
from muster_lab.simulation.transports import AsgiApp, Message
from tests.fuzz.messages import Answer, Request

NODES = tuple(f"node-{index}" for index in range(6))
GPU = "nvidia.com/gpu"
_EXAMPLES = Path(__file__).parents[2] / "examples"

#: Binds are held for a moment only, so that a run is not spent waiting; bodies are small, so that limits are met; the
#: watches, which are silent here, never count as stale, however long a run takes.
SETTINGS = Settings(
    bind_hold_seconds=0.02,
    observe_wait_seconds=0.001,
    body_limit_bytes=64 * 1024,
    debounce_seconds=0.001,
    stale_after_seconds=86_400,
    recording_megabytes=1,
    history_write_seconds=1,
)


class ForgetfulApi:
    """An API server to which every write succeeds, and which remembers none."""

    async def nominate(self, pod: PodKey, node: str) -> None:
        """Take a nomination."""

    async def bind(self, pod: PodKey, node: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> None:
        """Take a Binding."""

    async def evict(self, pod: PodKey, *, dry_run: bool = False) -> None:
        """Take an eviction."""

    async def ungate(self, pod: PodKey, gate: str) -> None:
        """Take a gate off."""

    async def notify(self, pod: PodKey, planned: str, reason: str, message: str) -> None:
        """Take a notice."""

    async def suspend(self, workload: Suspendable, place: str | None = None) -> None:
        """Suspend or resume an object."""

    async def request_nodes(self, ask: NodeAsk, owner: ObjectRef) -> None:
        """Take a request for nodes."""

    async def withdraw_nodes(self, request: NodeRequest) -> None:
        """Take that one is withdrawn."""

    async def annotate(self, pod: PodKey, annotations: Mapping[str, str]) -> None:
        """Take annotations."""

    async def update_queue_status(self, name: str, uid: str, report: QueueReport) -> None:
        """Take a Queue's status."""

    async def record_event(self, event: ClusterEvent) -> None:
        """Take an Event."""

    async def update_group_status(self, group: GroupRef, uid: str, status: GroupStatus) -> None:
        """Take a status."""


@dataclass
class Subject:
    """The Muster that is asked."""

    controller: Controller
    app: Application
    metrics: Metrics
    waiting: list[Pod] = field(default_factory=list)
    _serial: itertools.count[int] = field(default_factory=itertools.count)

    async def ask(self, request: Request) -> Answer:
        """Send a request through the application."""
        return await call(self.app, request)

    def populate(self) -> None:
        """Add nodes, a gang that runs, and those that wait."""
        for name in NODES:
            self.controller.tell(NodeSeen(Node(name, allocatable={"cpu": 64_000, "pods": 110, GPU: 8})))
        known = Known()
        rows = {(row.api_version, row.kind): row for row in WATCHED}
        for document in submitted():
            if (row := rows.get((document["apiVersion"], document["kind"]))) is not None:
                for news in row.seen(row.decode(json.dumps(document).encode()), known):
                    self.controller.tell(news)
        for kind in (WatchedKind.LEASE, *REQUIRED_KINDS):
            self.controller.synced(kind)
        running = self._gang("running", 2)
        for pod, node in zip(running, NODES, strict=False):
            self._see(pod, node)
        self.churn()

    def churn(self) -> None:
        """Replace what waits by new pods of the old names, as controllers do after a failure; the watches live."""
        for kind in (WatchedKind.LEASE, *REQUIRED_KINDS):
            self.controller.heard(kind)
        for pod in self.waiting:
            self.controller.tell(PodGone(pod.uid))
        self.waiting = [*self._gang("gang", 2), *self._gang("large", 9), self._pod("single", NO_GROUP)]
        for pod in self.waiting:
            self.controller.tell(PodSeen(pod))

    def _gang(self, name: str, members: int) -> list[Pod]:
        ref = GroupRef(COSCHEDULING, "default", name)
        serial = f"{next(self._serial):09}"
        self.controller.tell(
            GroupSeen(PodGroup(ref, uid=f"{name}-{serial}", min_member=members, created=_moment(serial)))
        )
        return [self._pod(f"{name}-{index}", ref) for index in range(members)]

    def _pod(self, name: str, ref: GroupRef) -> Pod:
        shape = Shape((("cpu", 1000), (GPU, 8), ("pods", 1)))
        serial = f"{next(self._serial):09}"
        return Pod(
            f"uid-{name}-{serial}", "default", name, shape, created=_moment(serial), group=ref, scheduler_name="muster"
        )

    def _see(self, pod: Pod, node: str) -> None:
        seen = Pod(
            pod.uid,
            pod.namespace,
            pod.name,
            pod.shape,
            created=pod.created,
            group=pod.group,
            scheduler_name="muster",
            node_name=node,
            phase=Phase.RUNNING,
        )
        self.controller.tell(PodSeen(seen))


@asynccontextmanager
async def running() -> AsyncIterator[Subject]:
    """Run a Muster with a small cluster."""
    clock, metrics = SystemClock(), Metrics()
    with TemporaryDirectory() as folder:
        store = HistoryStore(f"{folder}/history.db")
        await asyncio.to_thread(store.load, "", ())  # makes the tables: questions come sooner than the first write
        controller = Controller(SETTINGS, clock, ForgetfulApi(), metrics, store=store, forecasts=True)
        subject = Subject(controller, create_app(controller, SETTINGS, metrics, clock), metrics)
        task = asyncio.create_task(controller.run())
        subject.populate()
        while not controller.admission.passes or controller.admission.pending:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
        try:
            yield subject
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def call(app: AsgiApp, request: Request) -> Answer:
    """Send one request through an ASGI application, in two pieces, and return the whole answer."""
    half = len(request.body) // 2
    incoming: list[Message] = [
        {"type": "http.request", "body": request.body[half:], "more_body": False},
        {"type": "http.request", "body": request.body[:half], "more_body": True},
    ]
    status, content_type, chunks = 0, "", list[bytes]()

    async def receive() -> Message:
        return incoming.pop() if incoming else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status, content_type
        if message["type"] == "http.response.start":
            status = message["status"]
            content_type = dict(message["headers"]).get(b"content-type", b"").decode()
        else:
            chunks.append(message.get("body", b""))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.path,
        "raw_path": request.path.encode("utf-8", "surrogatepass"),
        "root_path": "",
        "query_string": request.query,
        "headers": list(request.headers),
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 0),
    }
    await app(scope, receive, send)
    return Answer(status, b"".join(chunks), content_type)


def submitted() -> Iterator[dict[str, Any]]:
    """Return the objects of examples/workloads and examples/queues, as an API server would have them."""
    paths = [path for folder in ("workloads", "queues") for path in sorted((_EXAMPLES / folder).glob("*.yaml"))]
    for number, document in enumerate(each for path in paths for each in yaml.safe_load_all(path.read_text())):
        about = {"namespace": "default", "uid": f"example-{number}", "creationTimestamp": _moment("0")}
        yield {**document, "metadata": about | document["metadata"]}


def _moment(serial: str) -> str:
    """Return when the object with that number was created: one each second."""
    return (dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=int(serial))).strftime("%Y-%m-%dT%H:%M:%SZ")
