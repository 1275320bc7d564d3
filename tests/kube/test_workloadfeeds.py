"""Other operators' kinds, from the API server's JSON to what the observer is told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from aiohttp import web

from extender.kube.reflector import Feeds, feeds
from extender.kube.transport import Transport
from extender.objects.podgroup import GroupRef
from extender.objects.sources.jobset import JOBSET
from extender.objects.sources.kubeflow import KUBEFLOW
from extender.objects.sources.ray import RAY
from extender.objects.sources.table import SOURCES
from tests.kube.apiscript import ApiScript, added, deleted, listed, refuses, watch
from tests.kube.apiscript import hold as holding
from tests.kube.observer import Recorder
from tests.kube.watched import Naps

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
SETS = "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets"
MPI_JOBS = "/apis/kubeflow.org/v2beta1/mpijobs"
EARLIER_MPI_JOBS = "/apis/kubeflow.org/v1/mpijobs"
RAY_CLUSTERS = "/apis/ray.io/v1/rayclusters"


@contextlib.asynccontextmanager
async def running(transport: Transport) -> AsyncIterator[Recorder]:
    """Run the feeds."""
    observer = Recorder()
    task = asyncio.create_task(Feeds(transport, observer, random=Random(1), sleep=Naps()).run())
    try:
        yield observer
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def job(name: str, replicas: str, count: int, **policy: object) -> dict[str, Any]:
    """Return the event that adds a Kubeflow job of so many workers."""
    spec = {replicas: {"Worker": {"replicas": count}}, "runPolicy": {"schedulingPolicy": policy}}
    return added(name, namespace="x", spec=spec)


async def test_job_sets(script: ApiScript, transport: Transport) -> None:
    """A JobSet is a gang under its own API, and its deletion ends that gang."""
    jobs = [{"name": "worker", "replicas": 2, "template": {"spec": {"parallelism": 3}}}]
    item = added("s", namespace="x", spec={"replicatedJobs": jobs})
    script.plan(JOB_SETS, watch(item, listed(7), deleted("s", namespace="x"), then=holding))
    async with running(transport) as observer:
        await observer.until(lambda: ("group gone", "jobset.x-k8s.io", "x/s", "uid-s") in observer.told)
    assert [(group.ref, group.min_member) for group in observer.groups] == [(GroupRef(JOBSET, "x", "s"), 6)]


async def test_ray_clusters(script: ApiScript, transport: Transport) -> None:
    """A RayCluster is a gang under its own API, and its deletion ends that gang."""
    item = added("r", namespace="x", spec={"workerGroupSpecs": [{"groupName": "g", "replicas": 2}]})
    script.plan(RAY_CLUSTERS, watch(item, listed(7), deleted("r", namespace="x"), then=holding))
    async with running(transport) as observer:
        await observer.until(lambda: ("group gone", "ray.io", "x/r", "uid-r") in observer.told)
    assert [(group.ref, group.min_member) for group in observer.groups] == [(GroupRef(RAY, "x", "r"), 3)]


@pytest.mark.parametrize(
    ("resource", "replicas"),
    [
        ("pytorchjobs", "pytorchReplicaSpecs"),
        ("tfjobs", "tfReplicaSpecs"),
        ("xgboostjobs", "xgbReplicaSpecs"),
        ("paddlejobs", "paddleReplicaSpecs"),
        ("jaxjobs", "jaxReplicaSpecs"),
    ],
)
async def test_kubeflow_jobs(script: ApiScript, transport: Transport, resource: str, replicas: str) -> None:
    """Every kind of Kubeflow's jobs is a gang, and its deletion ends that gang."""
    path = f"/apis/kubeflow.org/v1/{resource}"
    script.plan(path, watch(job("j", replicas, 4), listed(7), deleted("j", namespace="x"), then=holding))
    async with running(transport) as observer:
        await observer.until(lambda: ("group gone", "kubeflow.org", "x/j", "uid-j") in observer.told)
    (group,) = observer.groups
    assert (group.ref, group.min_member, group.priority) == (GroupRef(KUBEFLOW, "x", "j"), 4, None)


@pytest.mark.parametrize("path", [MPI_JOBS, EARLIER_MPI_JOBS])
async def test_mpi_jobs_of_either_version(script: ApiScript, transport: Transport, path: str) -> None:
    """The version that the installed operator serves is read; a PriorityClass that is named gives its value."""
    script.plan(CLASSES, watch(added("high", value=1000), listed(7), then=holding))
    if path == EARLIER_MPI_JOBS:
        script.plan(MPI_JOBS, refuses(404, "NotFound"))
    async with running(transport) as observer:

        async def later(script: ApiScript, request: web.Request) -> web.StreamResponse:
            await observer.until(lambda: ("class seen", "high", "1000", "") in observer.told)
            item = job("j", "mpiReplicaSpecs", 4, priorityClass="high")
            return await watch(item, listed(7), then=holding)(script, request)

        script.plan(path, later)
        await observer.until(lambda: observer.groups)
    assert [(group.min_member, group.priority) for group in observer.groups] == [(4, 1000)]


async def test_groups_of_a_leader_worker_set(script: ApiScript, transport: Transport) -> None:
    """A set whose pods do not say enough is told of group by group; groups that it has no more are gone."""

    def state(replicas: int, version: int) -> dict[str, Any]:
        template = {"size": 4}
        spec = {"replicas": replicas, "startupPolicy": "LeaderReady", "leaderWorkerTemplate": template}
        return added("l", namespace="x", version=version, spec=spec)

    plain = added("plain", namespace="x", spec={"replicas": 2, "leaderWorkerTemplate": {"size": 4}})
    script.plan(
        SETS, watch(plain, state(2, 3), listed(7), state(1, 8), deleted("l", namespace="x", version=9), then=holding)
    )
    async with running(transport) as observer:
        await observer.until(lambda: ("group gone", "leaderworkerset.x-k8s.io", "x/l-0", "uid-l/0") in observer.told)
    told = [words[0::2] for words in observer.told if words[0].startswith("group")]
    assert told == [
        ("group seen", "x/l-0"),
        ("group seen", "x/l-1"),
        ("group gone", "x/l-1"),
        ("group seen", "x/l-0"),
        ("group gone", "x/l-0"),
    ]


def test_none_of_them_need_be_installed() -> None:
    """A cluster without these operators is complete."""
    names = {kind.name for source in SOURCES for kind in source.kinds}
    described = [feed for feed in feeds(Recorder()) if feed.kind in names]
    assert len(described) == len(names)
    assert all(feed.optional for feed in described)
