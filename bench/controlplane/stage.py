"""Where contenders are measured: a control plane with ready nodes, and one contender at a time on it.

No kwok runs: it would take part of the two processors that are measured. Nodes are ready from their creation and stay
so, since no node controller runs either; bound pods never start, which no contender waits for. Pods that take nodes
from the beginning on are created once and stay, whoever is measured.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson
import uvloop

from bench.controlplane import fill
from bench.controlplane.accounts import cpu_seconds, milestones, read_api_server, read_muster, read_scheduler
from bench.controlplane.client import LoadClient, Request
from bench.controlplane.contenders import Contender, Team, Teams
from bench.controlplane.meter import Counters, Meter
from bench.controlplane.podwatch import PodWatch
from bench.controlplane.workload import GPUS_PER_NODE, GROUP_RESOURCES, NAMESPACE, Workload
from bench.soak.sampling import Page
from localcluster.build import ensure_binaries
from localcluster.client import NATIVE_POD_GROUPS, NODES, PODS
from localcluster.cluster import LocalCluster
from localcluster.controlplane import NATIVE_PODGROUP_API_SERVER
from localcluster.credentials import Connection
from localcluster.errors import NotInTimeError
from localcluster.nodes import NodeShape, numbered_nodes

#: Requests under way at once while things are created and patched. More do not help an API server on two cores.
CONCURRENCY = 32

#: How long everything may take to be bound, in seconds: native gang scheduling needs 80 s for 3,000 pods.
GIVE_UP_SECONDS = 300.0

#: The name of this process among those whose processor time is read.
HARNESS = "harness"

#: Pods of the gang that each contender places before the clock starts, and the pause after it in seconds.
_WARM_UP_PODS = 8
_PAUSE_SECONDS = 0.5
#: The queues of kube-scheduler from which pods are tried without anything happening, and seconds between two looks.
_QUEUES_AT_WORK, _LOOK_SECONDS = ("active", "backoff", "pending"), 0.5
#: Below so many processors all servers are at rest: what they have to write after the last pod is bound is written. And
#: how long that may take, in seconds.
_REST_PROCESSORS, _REST_SECONDS = 0.15, 15.0
#: How long the API server may take to delete everything, in seconds.
_CLEAR_SECONDS = 60.0


@dataclass(slots=True)
class Stage:
    """One contender at work, seen from outside. `nodes` are those that are free."""

    team: Team
    client: LoadClient
    admin: Connection
    watch: PodWatch
    nodes: list[str]
    pids: Mapping[str, int]

    def meter(self) -> Meter:
        """Begin to measure what is spent."""
        return Meter(self._counters, self.pids)

    def muster(self) -> Page:
        """Return Muster's metrics, empty without Muster."""
        return read_muster(self.team.muster_url) if self.team.muster is not None else Page()

    def milestones(self, since: float) -> Iterator[tuple[str, float]]:
        """Yield Muster's decisions about gangs since a time in Unix seconds; none without Muster."""
        if self.team.muster is not None:
            yield from milestones(self.team.muster.command.log_path, since)

    async def settled(self, waiting: int, most_seconds: float) -> bool:
        """Wait until kube-scheduler has put `waiting` pods aside and tries none; return whether that came in time.

        Not before it has been so twice in a row: what is asked about may be on its way to Muster and back.
        """
        deadline = time.monotonic() + most_seconds
        last: Page | None = None
        while time.monotonic() < deadline:
            page = self._scheduler()
            busy = sum(page.sum("scheduler_pending_pods", queue=queue) for queue in _QUEUES_AT_WORK)
            idle = not busy and page.sum("scheduler_pending_pods") >= waiting
            if idle and last == page:
                return True
            last = page if idle else None
            await asyncio.sleep(_LOOK_SECONDS)
        return False

    async def rests(self) -> None:
        """Wait until all servers have done what is left for them to do, or some time has passed."""
        await _until_at_rest({name: pid for name, pid in self.pids.items() if name != HARNESS})

    def _counters(self) -> Counters:
        attempts = self._scheduler().sum("scheduler_schedule_attempts_total")
        return Counters(self.muster(), attempts, read_api_server(self.admin))

    def _scheduler(self) -> Page:
        return read_scheduler(self.team.scheduler_address)

    async def create(self, workload: Workload) -> None:
        """Create a workload for this contender."""
        contender = self.team.contender
        await self.client.send_all(workload.creations(contender.scheduler_name, contender.groups), CONCURRENCY)

    async def until_bound(self, pods: int) -> None:
        """Wait until so many pods are bound, counting from the opening of the watch."""
        await self.watch.until_bound(pods, GIVE_UP_SECONDS)


class Arena:
    """A control plane of its own with nodes of eight GPUs, `occupied` of which are taken, as a context manager."""

    def __init__(self, nodes: int, occupied: int = 0) -> None:
        """Prepare; nothing runs yet. Raises LocalClusterError that says what to install if Go is missing."""
        binaries = ensure_binaries()
        folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
        self._cluster = LocalCluster(folder, binaries, NATIVE_PODGROUP_API_SERVER, kubelets=False)
        self._teams = Teams(self._cluster)
        self._nodes = numbered_nodes(nodes, NodeShape(gpus=GPUS_PER_NODE))
        self._names = [node["metadata"]["name"] for node in self._nodes]
        self._taken = fill.taken(self._names, occupied)

    def __enter__(self) -> Self:
        """Start the control plane, create the nodes, and the pods that take some of them."""
        self._cluster.__enter__()
        try:
            uvloop.run(self._create())
        except BaseException:
            self._cluster.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything."""
        self._cluster.stop()

    @asynccontextmanager
    async def stage(self, contender: Contender, hold_seconds: int | None = None) -> AsyncIterator[Stage]:
        """Start a contender afresh and let it place a small gang; at the end, kill it and delete what was created.

        With `hold_seconds` Muster holds bind calls for so long, instead of as long as it does by default.
        """
        team = self._teams.of(contender, hold_seconds)
        control_plane = self._cluster.control_plane
        taken = set(self._taken)
        free = [name for name in self._names if name not in taken]
        async with LoadClient(control_plane.admin) as client:
            try:
                team.start()
                await self._warm_up(team, client)
                pids = self._pids | {role: server.pid for role, server in team.servers.items()}
                await _until_at_rest(pids)
                pids[HARNESS] = os.getpid()
                async with PodWatch(client, NAMESPACE) as watch:
                    yield Stage(team, client, control_plane.admin, watch, free, pids)
                    team.check()
            except NotInTimeError as error:
                logs = "\n".join(f"end of {role}'s log:\n{server.log_tail()}" for role, server in team.servers.items())
                raise NotInTimeError(f"{contender}: {error}\n{logs}") from error
            finally:
                team.kill()
                await self._clear(client)
            self._cluster.check()
            await _until_at_rest(self._pids)

    @property
    def _pids(self) -> dict[str, int]:
        return {"apiserver": self._cluster.control_plane.api_server.pid, "etcd": self._cluster.control_plane.etcd.pid}

    async def _create(self) -> None:
        nodes = [Request("POST", NODES.path(), orjson.dumps(node)) for node in self._nodes]
        async with LoadClient(self._cluster.control_plane.admin) as client:
            await client.send(fill.namespace())
            for requests in (nodes, fill.creations(self._taken), fill.starts(self._taken)):
                await client.send_all(requests, CONCURRENCY)

    async def _warm_up(self, team: Team, client: LoadClient) -> None:
        """Open the connections, and see that the contender works: what it does once only is not measured."""
        await client.send_all([Request("GET", "/version", b"")] * CONCURRENCY, CONCURRENCY)
        gang = Workload(1, _WARM_UP_PODS, prefix="warm-up")
        async with PodWatch(client, NAMESPACE) as watch:
            contender = team.contender
            await client.send_all(gang.creations(contender.scheduler_name, contender.groups), CONCURRENCY)
            await watch.until_bound(_WARM_UP_PODS, GIVE_UP_SECONDS)
        await self._clear(client)
        await asyncio.sleep(_PAUSE_SECONDS)

    async def _clear(self, client: LoadClient) -> None:
        """Delete all pods and PodGroups, and wait until they are gone.

        Native PodGroups carry a finalizer that kube-controller-manager takes away after the last pod; none runs here.
        """
        now = orjson.dumps({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
        path = NATIVE_POD_GROUPS.path(NAMESPACE)
        body, patch = orjson.dumps({"metadata": {"finalizers": None}}), "application/merge-patch+json"
        listed = orjson.loads(await client.send(Request("GET", path, b"")))["items"]
        unlock = [Request("PATCH", f"{path}/{item['metadata']['name']}", body, patch) for item in listed]
        await client.send_all(unlock, CONCURRENCY)
        collections = [resource.path(NAMESPACE) for resource in (PODS, *GROUP_RESOURCES)]
        deadline = time.monotonic() + _CLEAR_SECONDS
        for collection in collections:
            await client.send(Request("DELETE", collection, now))
        for collection in collections:
            while orjson.loads(await client.send(Request("GET", f"{collection}?limit=1", b"")))["items"]:
                if time.monotonic() > deadline:
                    raise NotInTimeError(f"{collection} not empty {_CLEAR_SECONDS:g} s after everything was deleted")
                await asyncio.sleep(_PAUSE_SECONDS / 5)


async def _until_at_rest(servers: Mapping[str, int]) -> None:
    """Wait until these processes do next to nothing, or some time has passed.

    Told by their processor time, which costs them nothing to be asked for.
    """
    deadline, busy = time.monotonic() + _REST_SECONDS, float("inf")
    while busy > _REST_PROCESSORS * _LOOK_SECONDS and time.monotonic() < deadline:
        before = sum(cpu_seconds(servers).values())
        await asyncio.sleep(_LOOK_SECONDS)
        busy = sum(cpu_seconds(servers).values()) - before
