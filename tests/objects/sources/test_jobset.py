"""The pods of a JobSet that exist at the same time are one gang."""

from __future__ import annotations

import pytest

from extender.objects.podgroup import GroupProgress, GroupRef, PodGroup
from extender.objects.reason import Problem
from extender.objects.sources.jobset import (
    EXCLUSIVE_TOPOLOGY,
    JOBSET,
    NODE_SELECTOR_STRATEGY,
    decode_job_set,
    read_job_set,
)
from tests.builders import Json, metadata_json, written


def job(name: str, replicas: int | None = None, pods: int | None = None, **more: object) -> Json:
    """Return a replicated job of so many Jobs with so many pods each."""
    template: Json = {"spec": {"parallelism": pods} if pods is not None else {}}
    return {"name": name, "template": template} | ({} if replicas is None else {"replicas": replicas}) | more


def read(*jobs: Json, annotations: dict[str, str] | None = None, **spec: object) -> PodGroup:
    """Read a JobSet called team/train."""
    metadata = metadata_json("train", namespace="team", annotations=annotations or {})
    return read_job_set(decode_job_set(written({"metadata": metadata, "spec": {"replicatedJobs": jobs} | spec})))


def test_all_pods_of_all_jobs_count() -> None:
    """The minimum is the sum of replicas times parallelism, of which either is 1 where it is not said."""
    group = read(job("driver"), job("worker", replicas=2, pods=4))
    assert (group.ref, group.uid) == (GroupRef(JOBSET, "team", "train"), "uid-train")
    assert (group.min_member, group.role_minimums, group.problem) == (9, (), None)
    assert group.about is not None
    assert str(group.about) == "JobSet team/train"


def test_no_more_pods_run_than_have_to_complete() -> None:
    """A Job with fewer completions than its parallelism has only so many pods."""
    template = {"spec": {"parallelism": 8, "completions": 3}}
    assert read(job("worker", replicas=2) | {"template": template}).min_member == 6


@pytest.mark.parametrize(
    "spec",
    [
        {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
        {"replicatedJobs": [job("init"), job("worker", 2, 4, dependsOn=[{"name": "init", "status": "Complete"}])]},
    ],
)
def test_what_waits_for_another_job_is_a_step(spec: Json) -> None:
    """Jobs that are made when others run or have ended start together then, and are no reason to wait before."""
    group = read(job("init"), job("worker", 2, 4), **spec)
    assert (group.min_member, group.role_minimums) == (1, (("init", 1),))
    assert group.steps == (GroupProgress("worker", after=0, least=8),)
    assert read(job("a"), job("b"), startupPolicy={"startupPolicyOrder": "AnyOrder"}).min_member == 2


@pytest.mark.parametrize("on_jobs", [False, True])
def test_exclusive_topology_starts_the_first_pods_and_then_the_others(on_jobs: bool) -> None:
    """JobSet makes a Job's other pods when its first is bound: two steps, of which people are told."""
    asks = {EXCLUSIVE_TOPOLOGY: "cloud.example/pool"}
    worker = job("worker", replicas=3, pods=4)
    if on_jobs:
        worker["template"]["metadata"] = {"annotations": asks}
    group = read(worker, annotations={} if on_jobs else asks)
    assert (group.min_member, group.steps) == (3, (GroupProgress("worker", after=3, least=12),))
    (problem,) = group.options.problems
    assert problem.field == f"metadata.annotations[{EXCLUSIVE_TOPOLOGY}]"
    assert "muster.dev/topology-slice: cloud.example/pool=PODS" in problem.message


def test_exclusive_topology_by_node_selectors_is_respected() -> None:
    """With its other strategy JobSet writes node selectors onto all pods at once."""
    asks = {EXCLUSIVE_TOPOLOGY: "pool", NODE_SELECTOR_STRATEGY: "true"}
    group = read(job("worker", 2, 4), annotations=asks)
    assert (group.min_member, group.steps, group.options.problems) == (8, (), ())


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (job("a", replicas=-1), "spec.replicatedJobs[1].replicas"),
        (job("a", pods=-2), "spec.replicatedJobs[1].template.spec.parallelism"),
        (job("a") | {"template": {"spec": {"completions": -3}}}, "spec.replicatedJobs[1].template.spec.completions"),
    ],
)
def test_a_negative_count_is_the_problem(bad: Json, field: str) -> None:
    """The field is named, and the gang is not placed."""
    problem = read(job("good"), bad).problem
    assert isinstance(problem, Problem)
    assert problem.field == field


@pytest.mark.parametrize("document", [{}, {"spec": None}, {"spec": {"replicatedJobs": None}}])
def test_an_empty_object_is_a_gang_of_one(document: Json) -> None:
    """What says nothing does not break anything."""
    group = read_job_set(decode_job_set(written(document)))
    assert (group.min_member, group.problem) == (1, None)


def test_a_templates_role_is_that_of_its_pods() -> None:
    """Minimums name the roles that the pods carry."""
    named = job("worker", 2, 4, dependsOn=[{"name": "driver"}])
    named["template"]["spec"]["template"] = {"metadata": {"labels": {"muster.dev/role": "learner"}}}
    assert read(job("driver"), named).steps == (GroupProgress("learner", after=0, least=8),)
