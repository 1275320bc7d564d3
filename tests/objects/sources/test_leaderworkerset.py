"""Each group of a LeaderWorkerSet is a gang; the set is read only where its pods do not say enough."""

from __future__ import annotations

import pytest

from extender.objects.podgroup import GroupProgress, GroupRef, PodGroup
from extender.objects.sources.leaderworkerset import (
    EXCLUSIVE_TOPOLOGY,
    LEADER_WORKER_SET,
    decode_leader_worker_set,
    read_leader_worker_set,
)
from tests.builders import Json, metadata_json, written


def read(size: int | None = 4, annotations: dict[str, str] | None = None, **spec: object) -> tuple[PodGroup, ...]:
    """Read a LeaderWorkerSet called team/llm."""
    template = {} if size is None else {"size": size}
    document = {
        "metadata": metadata_json("llm", namespace="team", annotations=annotations or {}),
        "spec": {"leaderWorkerTemplate": template} | spec,
    }
    return read_leader_worker_set(decode_leader_worker_set(written(document)))


@pytest.mark.parametrize("policy", [{}, {"startupPolicy": "LeaderCreated"}])
def test_pods_that_come_together_say_enough(policy: Json) -> None:
    """Where leader and workers are made at once, the size that the pods carry is the minimum."""
    assert read(replicas=3, **policy) == ()


def test_workers_that_wait_for_their_leader_are_a_step() -> None:
    """Of each group the leader starts alone, and the workers together once there are any."""
    first, second = read(replicas=2, startupPolicy="LeaderReady")
    assert first.ref == GroupRef(LEADER_WORKER_SET, "team", "llm-0")
    assert (first.uid, second.uid, second.ref.name) == ("uid-llm/0", "uid-llm/1", "llm-1")
    assert (first.min_member, first.role_minimums) == (1, (("leader", 1),))
    assert first.steps == (GroupProgress("worker", after=0, least=3),)
    assert first.about is not None
    assert (str(first.about), first.about.uid) == ("LeaderWorkerSet team/llm", "uid-llm")


def test_exclusive_topology_makes_workers_wait() -> None:
    """Workers are made when the leader is bound; people are told once, not for each group."""
    groups = read(annotations={EXCLUSIVE_TOPOLOGY: "rack"}, replicas=3)
    assert [len(group.options.problems) for group in groups] == [1, 0, 0]
    assert "muster.dev/topology-required: rack" in groups[0].options.problems[0].message
    assert {group.steps for group in groups} == {(GroupProgress("worker", after=0, least=3),)}


@pytest.mark.parametrize(("surge", "groups"), [(2, 6), ("30%", 6), ("0%", 4), ("many", 4), (-1, 4)])
def test_an_update_may_add_groups(surge: int | str, groups: int) -> None:
    """There are groups for all that an update makes beyond the replicas; a percentage is rounded up."""
    strategy = {"rollingUpdateConfiguration": {"maxSurge": surge}}
    assert len(read(replicas=4, startupPolicy="LeaderReady", rolloutStrategy=strategy)) == groups


def test_a_negative_count_is_the_problem() -> None:
    """The field is named once."""
    (group,) = read(size=-1, startupPolicy="LeaderReady")
    assert str(group.problem) == "spec.leaderWorkerTemplate.size: -1 is negative"
    (group,) = read(replicas=-2, startupPolicy="LeaderReady")
    assert str(group.problem) == "spec.replicas: -2 is negative"


def test_roles_of_the_templates_count() -> None:
    """The leader has the workers' template, and so their role, where it has none of its own."""
    template = {"size": 3, "workerTemplate": {"metadata": {"labels": {"muster.dev/role": "shard"}}}}
    (group,) = read(None, startupPolicy="LeaderReady", leaderWorkerTemplate=template)
    assert (group.role_minimums, group.steps) == ((("shard", 1),), (GroupProgress("shard", after=1, least=3),))
    (alone,) = read(None, startupPolicy="LeaderReady")
    assert (alone.min_member, alone.steps) == (1, ())
