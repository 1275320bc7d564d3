"""Where contenders are measured: a control plane with ready nodes, and one contender at a time on it.

No kwok runs: it would take part of the two processors that are measured. Nodes are ready from their creation and stay
so, since no node controller runs either; bound pods never start, which no contender waits for.
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

from bench.controlplane.accounts import cpu_seconds, milestones, read_muster, read_scheduler
from bench.controlplane.client import LoadClient, Request
from bench.controlplane.contenders import Contender, Team, Teams
from bench.controlplane.podwatch import PodWatch
from bench.controlplane.workload import GPUS_PER_NODE, GROUP_RESOURCES, NAMESPACE, Workload
from bench.soak.sampling import Page
from localcluster.build import ensure_binaries
from localcluster.client import NATIVE_POD_GROUPS, NODES, PODS
from localcluster.cluster import LocalCluster
from localcluster.controlplane import NATIVE_PODGROUP_API_SERVER
from localcluster.errors import NotInTimeError
from localcluster.nodes import NodeShape, numbered_nodes

#: Requests under way at once while things are created and patched. More do not help an API server on two cores.
CONCURRENCY = 32

#: How long everything may take to be bound, in seconds: native gang scheduling needs half a minute for 1,000 pods.
GIVE_UP_SECONDS = 300.0

#: The name of this process among those whose processor time is read.
HARNESS = "harness"

#: Pods of the gang that each contender places before the clock starts, and the pause after it in seconds.
_WARM_UP_PODS = 8
_PAUSE_SECONDS = 0.5
#: The queues of kube-scheduler from which pods are tried without anything happening, and seconds between two looks.
_QUEUES_AT_WORK, _LOOK_SECONDS = ("active", "backoff", "pending"), 0.5
#: How long the API server may take to delete everything, in seconds.
_CLEAR_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Account:
    """What has been used up so far.

    Processor seconds by process, Muster's metrics (empty without Muster), and how often kube-scheduler has tried to
    place a pod.
    """

    cpu: Mapping[str, float]
    muster: Page
    attempts: float


@dataclass(slots=True)
class Stage:
    """One contender at work, seen from outside."""

    team: Team
    client: LoadClient
    watch: PodWatch
    nodes: list[str]
    pids: Mapping[str, int]

    def account(self) -> Account:
        """Return what has been used up so far."""
        cpu = self.cpu()  # first: to be asked for metrics is work, too
        muster = read_muster(self.team.muster_url) if self.team.muster is not None else Page()
        return Account(cpu, muster, self._scheduler().sum("scheduler_schedule_attempts_total"))

    def cpu(self) -> dict[str, float]:
        """Return the processor seconds that each process has used so far."""
        return cpu_seconds(self.pids)

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
    """A control plane of its own with nodes of eight GPUs, as a context manager."""

    def __init__(self, nodes: int) -> None:
        """Prepare; nothing runs yet. Raises LocalClusterError that says what to install if Go is missing."""
        binaries = ensure_binaries()
        folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
        self._cluster = LocalCluster(folder, binaries, NATIVE_PODGROUP_API_SERVER, kubelets=False)
        self._teams = Teams(self._cluster)
        self._nodes = numbered_nodes(nodes, NodeShape(gpus=GPUS_PER_NODE))

    def __enter__(self) -> Self:
        """Start the control plane and create the nodes."""
        self._cluster.__enter__()
        try:
            uvloop.run(self._create_nodes())
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
    async def stage(self, contender: Contender) -> AsyncIterator[Stage]:
        """Start a contender afresh and let it place a small gang; at the end, kill it and delete what was created."""
        team = self._teams.of(contender)
        control_plane = self._cluster.control_plane
        names = [node["metadata"]["name"] for node in self._nodes]
        async with LoadClient(control_plane.admin) as client:
            try:
                team.start()
                await self._warm_up(team, client)
                pids = {
                    "apiserver": control_plane.api_server.pid,
                    "etcd": control_plane.etcd.pid,
                    **{role: server.pid for role, server in team.servers.items()},
                    HARNESS: os.getpid(),
                }
                async with PodWatch(client, NAMESPACE) as watch:
                    yield Stage(team, client, watch, names, pids)
                    team.check()
            except NotInTimeError as error:
                logs = "\n".join(f"end of {role}'s log:\n{server.log_tail()}" for role, server in team.servers.items())
                raise NotInTimeError(f"{contender}: {error}\n{logs}") from error
            finally:
                team.kill()
                await self._clear(client)
            self._cluster.check()

    async def _create_nodes(self) -> None:
        requests = [Request("POST", NODES.path(), orjson.dumps(node)) for node in self._nodes]
        async with LoadClient(self._cluster.control_plane.admin) as client:
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
