"""The head of a Ray cluster and the workers that it cannot do without are one gang."""

from __future__ import annotations

import pytest

from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.sources.ray import (
    RAY,
    RAY_JOB,
    decode_ray_cluster,
    decode_ray_job,
    read_ray_cluster,
    read_ray_job,
)
from tests.builders import Json, metadata_json, written


def read(*groups: Json, **spec: object) -> PodGroup:
    """Read a RayCluster called team/ray."""
    metadata = metadata_json("ray", namespace="team")
    document = {"metadata": metadata, "spec": {"headGroupSpec": {}, "workerGroupSpecs": groups} | spec}
    return read_ray_cluster(decode_ray_cluster(written(document)))


def workers(name: str = "gpu", **counts: object) -> Json:
    """Return a group of workers."""
    return {"groupName": name} | counts


@pytest.mark.parametrize(
    ("group", "min_member"),
    [
        ({}, 1),
        ({"replicas": 4}, 5),
        ({"replicas": 4, "minReplicas": 1}, 5),
        ({"replicas": 1, "minReplicas": 3}, 4),
        ({"replicas": 9, "maxReplicas": 2}, 3),
        ({"minReplicas": 5, "maxReplicas": 2}, 3),
        ({"replicas": 2, "numOfHosts": 4}, 9),
        ({"replicas": 2, "numOfHosts": 4, "suspend": True}, 1),
    ],
)
def test_a_fixed_cluster_needs_all_that_kuberay_makes(group: Json, min_member: int) -> None:
    """Without an autoscaler the cluster is the head and every group's replicas, within bounds, times hosts."""
    read_group = read(workers(**group))
    assert (read_group.ref, read_group.min_member) == (GroupRef(RAY, "team", "ray"), min_member)
    assert (read_group.problem, read_group.role_minimums) == (None, ())
    assert str(read_group.about) == "RayCluster team/ray"


def test_what_the_autoscaler_adds_are_extras() -> None:
    """With an autoscaler the least replicas of each group count, each for itself."""
    big = workers("big", replicas=6, minReplicas=2, numOfHosts=2)
    group = read(big, workers("small", replicas=3), enableInTreeAutoscaling=True)
    assert (group.min_member, dict(group.role_minimums)) == (5, {"head": 1, "big": 4})
    assert group.tree is not None
    assert [(part.name, part.least, part.by) for part in group.tree.parts] == [
        ("head", 1, 1),
        ("big", 4, 2),
        ("small", 0, 1),
    ]
    assert read(workers("one", replicas=6, minReplicas=2), enableInTreeAutoscaling=True).tree is None


@pytest.mark.parametrize("field", ["replicas", "minReplicas", "maxReplicas", "numOfHosts"])
def test_a_negative_count_is_the_problem(field: str) -> None:
    """The field is named."""
    group = read(workers("a"), workers("b", **{field: -1}))
    assert str(group.problem) == f"spec.workerGroupSpecs[1].{field}: -1 is negative"


def test_an_empty_object_is_its_head() -> None:
    """What says nothing has a head."""
    assert read_ray_cluster(decode_ray_cluster(b"{}")).min_member == 1


def test_a_ray_job_is_a_gang_as_its_cluster_is() -> None:
    """Under its own name, with what is wrong told of where it stands."""

    def read_job(*groups: Json) -> PodGroup:
        cluster = {"headGroupSpec": {}, "workerGroupSpecs": groups}
        spec = {"rayClusterSpec": cluster, "shutdownAfterJobFinishes": True}
        return read_ray_job(decode_ray_job(written({"metadata": metadata_json("job", namespace="team"), "spec": spec})))

    group = read_job(workers(replicas=4))
    assert (group.ref, group.min_member, group.problem) == (GroupRef(RAY_JOB, "team", "job"), 5, None)
    assert str(group.about) == "RayJob team/job"
    negative = read_job(workers(replicas=-1))
    assert str(negative.problem) == "spec.rayClusterSpec.workerGroupSpecs[0].replicas: -1 is negative"
