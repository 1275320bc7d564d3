"""Other operators' kinds, from the API server's JSON to what the observer is told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import pytest
from aiohttp import web

from extender.domain.membership import GroupApi, GroupRef
from extender.domain.podgroup import PodGroup
from extender.kube.feeds import Feeds
from extender.kube.transport import Transport
from extender.kube.workloadfeeds import Namesakes, workload_feeds
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
    assert [(group.ref, group.min_member) for group in observer.groups] == [(GroupRef(GroupApi.JOBSET, "x", "s"), 6)]


async def test_ray_clusters(script: ApiScript, transport: Transport) -> None:
    """A RayCluster is a gang under its own API, and its deletion ends that gang."""
    item = added("r", namespace="x", spec={"workerGroupSpecs": [{"groupName": "g", "replicas": 2}]})
    script.plan(RAY_CLUSTERS, watch(item, listed(7), deleted("r", namespace="x"), then=holding))
    async with running(transport) as observer:
        await observer.until(lambda: ("group gone", "ray.io", "x/r", "uid-r") in observer.told)
    assert [(group.ref, group.min_member) for group in observer.groups] == [(GroupRef(GroupApi.RAY, "x", "r"), 3)]


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
    assert (group.ref, group.min_member, group.priority) == (GroupRef(GroupApi.KUBEFLOW, "x", "j"), 4, None)


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

    def state(replicas: int, event: Callable[..., dict[str, Any]] = added) -> dict[str, Any]:
        template = {"size": 4}
        spec = {"replicas": replicas, "startupPolicy": "LeaderReady", "leaderWorkerTemplate": template}
        return event("l", namespace="x", spec=spec)

    plain = added("plain", namespace="x", spec={"replicas": 2, "leaderWorkerTemplate": {"size": 4}})
    script.plan(SETS, watch(plain, state(2), listed(7), state(1), deleted("l", namespace="x"), then=holding))
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
    feeds = workload_feeds(Recorder(), {})
    assert all(feed.optional for feed in feeds)
    assert len({feed.kind for feed in feeds}) == len(feeds)


class TestNamesakes:
    """Kubeflow's jobs of different kinds under one name."""

    REF = GroupRef(GroupApi.KUBEFLOW, "x", "train")

    def job(self, uid: str, created: int) -> PodGroup:
        """Return a job that was made in a year."""
        return PodGroup(self.REF, uid, created=f"{created}-01-01T00:00:00Z")

    def test_the_newest_counts(self) -> None:
        """The pods that there are belong to it, in whatever order the kinds are listed."""
        observer = Recorder()
        namesakes = Namesakes(observer)
        for job in (self.job("new", 2026), self.job("old", 2025), self.job("new", 2026)):
            namesakes.seen(job)
        assert [group.uid for group in observer.groups] == ["new", "new"]

    def test_another_counts_when_the_newest_is_gone(self) -> None:
        """A job that stands beside a deleted one is told of; one that did not count goes without a word."""
        observer = Recorder()
        namesakes = Namesakes(observer)
        for uid, created in (("old", 2025), ("new", 2026), ("middle", 2025)):
            namesakes.seen(self.job(uid, created))
        namesakes.gone(self.REF, "middle")
        namesakes.gone(self.REF, "new")
        namesakes.gone(self.REF, "old")
        namesakes.gone(self.REF, "never seen")
        told = [(words[0], words[3]) for words in observer.told]
        assert told == [
            ("group seen", "old"),
            ("group seen", "new"),
            ("group gone", "new"),
            ("group seen", "old"),
            ("group gone", "old"),
        ]
