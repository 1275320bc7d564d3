"""Objects of operators that can be suspended: which pods they make when they are resumed."""

from __future__ import annotations

from typing import Any

import pytest

from extender.objects.podgroup import MOST_PODS
from extender.objects.sources.table import SOURCES
from extender.objects.suspendables import read_suspendable
from extender.objects.workload import Suspendable, read_place, write_place
from tests.builders import Json, metadata_json, written

TEMPLATE: Json = {"spec": {"schedulerName": "muster", "priorityClassName": "high", "containers": [{"name": "main"}]}}
#: Kinds that make pods and cannot be suspended.
ALWAYS = ["LeaderWorkerSet"]


def read(kind: str, annotations: dict[str, str] | None = None, **spec: Any) -> Suspendable:
    """Read an object called team/train."""
    row = next(each for source in SOURCES for each in source.kinds if each.kind == kind)
    metadata = metadata_json("train", namespace="team", annotations=annotations)
    item = row.decode(written({"metadata": metadata, "spec": spec}))
    found = read_suspendable(row, item, row.read(item, {})[0])
    assert found is not None
    return found


def job_set(pods: int = 2, replicas: int = 2, template: Json | None = TEMPLATE) -> list[Json]:
    """Return a driver, and Jobs of so many pods each."""
    spec = {"parallelism": pods, "template": template}
    return [
        {"name": "driver", "template": {"spec": {"template": template}}},
        {"name": "workers", "replicas": replicas, "template": {"spec": spec}},
    ]


def made(found: Suspendable) -> list[tuple[str, str, tuple[int, ...]]]:
    """Return name, role and numbers of its pods."""
    pods = found.expected({"high": 7}, 0).values()
    assert {pod.priority for pod in pods} <= {7}
    assert {pod.group for pod in pods} <= {found.group.ref}
    return [(pod.name, pod.role, pod.rank.indices) for pod in pods]


def test_a_job_set_makes_the_pods_of_all_of_its_jobs() -> None:
    """Each has the number of its Job, and its own."""
    assert made(read("JobSet", suspend=True, replicatedJobs=job_set())) == [
        ("train-driver-0-0", "driver", (0, 0)),
        ("train-workers-0-0", "workers", (0, 0)),
        ("train-workers-0-1", "workers", (0, 1)),
        ("train-workers-1-0", "workers", (1, 0)),
        ("train-workers-1-1", "workers", (1, 1)),
    ]


def test_what_is_made_later_is_not_expected() -> None:
    """It is made when others run."""
    jobs = job_set()
    jobs[1]["dependsOn"] = [{"name": "driver", "status": "Ready"}]
    assert [name for name, _, _ in made(read("JobSet", suspend=True, replicatedJobs=jobs))] == ["train-driver-0-0"]


def test_kubeflow_jobs_and_ray_clusters() -> None:
    """By roles; Kubeflow numbers them, Ray does not."""
    replicas = {"Master": {"template": TEMPLATE}, "Worker": {"replicas": 2, "template": TEMPLATE}}
    policy = {"suspend": True}
    assert made(read("PyTorchJob", runPolicy=policy, pytorchReplicaSpecs=replicas)) == [
        ("train-master-0", "master", (0,)),
        ("train-worker-0", "worker", (0,)),
        ("train-worker-1", "worker", (1,)),
    ]
    groups = [{"groupName": "a", "replicas": 1, "numOfHosts": 2, "template": TEMPLATE}]
    ray = read("RayCluster", suspend=True, headGroupSpec={"template": TEMPLATE}, workerGroupSpecs=groups)
    assert made(ray) == [("train-head-0", "head", ()), ("train-a-0", "a", ()), ("train-a-1", "a", ())]


def test_of_one_that_runs_its_pods_say_everything() -> None:
    """While it starts, which pods its place is about; that annotation is no request of its owner's."""
    suspended = read("JobSet", suspend=True, replicatedJobs=job_set())
    place = write_place(suspended.uids, dict.fromkeys(suspended.uids, "node"))
    starting = read("JobSet", {"muster.dev/place": place}, replicatedJobs=job_set())
    assert (starting.suspended, starting.group.options.problems) == (False, ())
    assert set(read_place(starting.place, starting.uids).values()) == {"node"}
    running = read("JobSet", replicatedJobs=job_set())
    assert (running.suspended, running.pods, running.left) == (False, (), 0)


@pytest.mark.parametrize(
    ("jobs", "problem"),
    [
        (job_set(pods=MOST_PODS, replicas=1), f"has {MOST_PODS + 1} pods, more than {MOST_PODS}"),
        (job_set(pods=2**31 - 1), "more than a question may be about"),
        (job_set(pods=-1), "-1 is negative"),
        (job_set(template=None), "containers: there is none"),
        (job_set(template=TEMPLATE | {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "x"}}}), "another gang"),
    ],
)
def test_what_cannot_be_planned_is_a_problem(jobs: list[Json], problem: str) -> None:
    """It waits with that, and has no pods."""
    found = read("JobSet", suspend=True, replicatedJobs=jobs)
    assert problem in str(found.group.problem)
    assert found.pods == ()


@pytest.mark.parametrize("kind", ALWAYS)
def test_kinds_that_cannot_be_suspended_are_none(kind: str) -> None:
    """Their pods are made at once."""
    row = next(each for source in SOURCES for each in source.kinds if each.kind == kind)
    assert row.suspending is None
