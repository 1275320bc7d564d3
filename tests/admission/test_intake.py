"""Whether a gang could be placed at all: what it lacks, role by role, and how many members want a place."""

from __future__ import annotations

from typing import Any

import pytest

from extender.admission.intake import GangCandidates, wanted
from extender.cluster.gangs import Gang
from extender.objects.keys import Options
from extender.objects.meta import ObjectRef
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import PodGroup
from extender.objects.reason import Problem, Reason, Wait
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.sources.jobset import JOBSET
from extender.objects.sources.kubeflow import KUBEFLOW
from extender.objects.sources.kueue import KUEUE
from extender.objects.sources.leaderworkerset import LEADER_WORKER_SET
from extender.objects.sources.ray import RAY
from extender.objects.sources.table import LABEL, SOURCE_OF
from extender.objects.sources.volcano import VOLCANO
from tests.cluster.conftest import group_ref, pod

JOB = group_ref()
LABELS = group_ref(api=LABEL)
MINIMUMS = {"leader": 1, "worker": 3}


def of(role: str, count: int, start: int = 0, **fields: Any) -> list[Pod]:
    """Return so many members of a role."""
    return [pod(f"{role}-{index}", group=JOB, role=role, **fields) for index in range(start, start + count)]


def gang_of(*members: Pod, min_member: int = 4, minimums: dict[str, int] | None = None) -> Gang:
    """Return a gang that needs a leader and three workers, unless told otherwise."""
    least = tuple(sorted((MINIMUMS if minimums is None else minimums).items()))
    group = PodGroup(JOB, "uid", min_member=min_member, role_minimums=least)
    return Gang(JOB, "uid", 0.0, group, {member.uid: member for member in members})


def test_a_gang_with_all_roles_wants_its_core_and_then_the_rest() -> None:
    """What the roles and minMember ask for is the core, all others are extras."""
    assert wanted(gang_of(*of("leader", 1), *of("worker", 5)), 0) == GangCandidates(core=4, extras=2)


@pytest.mark.parametrize(
    ("members", "numbers", "role"),
    [
        (of("worker", 6), {"exist": 0, "minMember": 1}, "leader"),
        (of("leader", 6), {"exist": 0, "minMember": 3}, "worker"),
        ([*of("leader", 1), *of("worker", 2)], {"exist": 2, "minMember": 3}, "worker"),
        ([*of("leader", 3), *of("worker", 3, phase=Phase.FAILED)], {"exist": 0, "minMember": 3}, "worker"),
        ([], {"exist": 0, "minMember": 1}, "leader"),
    ],
)
def test_a_missing_role_is_named(members: list[Pod], numbers: dict[str, int], role: str) -> None:
    """Members of other roles do not make up for those of a role that lacks some; the first such role is told."""
    wait = Wait(Reason.ROLE_MEMBERS_MISSING, numbers, {"role": role})
    assert wanted(gang_of(*members), 0) == wait


def test_too_few_members_in_all_are_told_when_each_role_has_its_own() -> None:
    """A gang that needs more than its roles do says so as any other."""
    gang = gang_of(*of("leader", 1), *of("worker", 3), min_member=6)
    assert wanted(gang, 0) == Wait(Reason.MEMBERS_MISSING, {"exist": 4, "minMember": 6})


def test_gated_members_of_a_role_are_told() -> None:
    """Enough of a role exist, but too few may be placed; without roles the gang's own numbers are told."""
    members = [*of("leader", 1), *of("worker", 4), *of("worker", 2, 4, gated=True)]
    assert wanted(gang_of(*members), 0) == GangCandidates(core=4, extras=1)
    members = [*of("leader", 4), *of("worker", 1), *of("worker", 3, 1, gated=True)]
    numbers = {"gated": 3, "exist": 4, "minMember": 3}
    assert wanted(gang_of(*members), 0) == Wait(Reason.ROLE_MEMBERS_GATED, numbers, {"role": "worker"})
    numbers = {"gated": 3, "exist": 8, "minMember": 7}
    assert wanted(gang_of(*members, min_member=7, minimums={"leader": 1}), 0) == Wait(Reason.MEMBERS_GATED, numbers)


def test_what_has_a_slot_is_left_out() -> None:
    """Members with a node promised are not asked for again."""
    members = [*of("leader", 1), *of("worker", 4)]
    gang = gang_of(*members)
    gang.promise([members[1].uid])
    assert wanted(gang, 1) == GangCandidates(core=3, extras=1)


def test_a_started_gang_that_lost_its_leader_wants_it_back() -> None:
    """Though minMember others run, the leader is core, and further workers are extras."""
    running = of("worker", 4, node_name="n", phase=Phase.RUNNING)
    gang = gang_of(*running, *of("leader", 1), *of("worker", 1, 9))
    assert wanted(gang, 0) == GangCandidates(core=1, extras=1)


def test_a_member_that_cannot_be_read_stops_its_gang() -> None:
    """It is named with its problem, in member order, unless it is being deleted."""
    problem = Problem("spec", "odd")
    members = [*of("leader", 1), *of("worker", 2), *of("worker", 2, 2, problem=problem)]
    names = {"pod": "default/worker-2", "detail": "spec: odd"}
    assert wanted(gang_of(*members), 0) == Wait(Reason.INVALID_MEMBER, names=names)
    members = [*of("leader", 1), *of("worker", 3), *of("worker", 2, 3, problem=problem, deleting=True)]
    assert wanted(gang_of(*members), 0) == GangCandidates(core=4, extras=0)


@pytest.mark.parametrize(
    ("options", "stated"),
    [
        (Options(min_member=1), True),
        (Options(role_minimums=(("worker", 1),)), True),
        (Options(), False),
    ],
)
def test_a_gang_without_object_states_a_minimum(options: Options, *, stated: bool) -> None:
    """Minimums of roles are as good as minMember; without either nobody knows when the gang is whole."""
    member = pod("worker-0", group=LABELS, role="worker", options=options)
    verdict = wanted(Gang(LABELS, "uid", 0.0, None, {member.uid: member}), 0)
    assert isinstance(verdict, GangCandidates) == stated


@pytest.mark.parametrize(
    ("api", "message"),
    [
        (COSCHEDULING, "PodGroup default/job does not exist"),
        (VOLCANO, "PodGroup default/job does not exist"),
        (JOBSET, "JobSet default/job does not exist"),
        (KUBEFLOW, "Kubeflow job default/job does not exist"),
        (RAY, "RayCluster default/job does not exist"),
    ],
)
def test_a_missing_object_is_called_by_its_kind(api: str, message: str) -> None:
    """People look for the object that their operator knows."""
    ref = group_ref(api=api)
    wait = wanted(Gang(ref, "pod:p", 0.0, members={"p": pod("p", group=ref)}), 0)
    assert isinstance(wait, Wait)
    assert (wait.reason, wait.message) == (Reason.POD_GROUP_MISSING, message)


def test_an_invalid_object_is_called_by_its_kind() -> None:
    """Object and field are named."""
    ref = group_ref(api=KUBEFLOW)
    about = ObjectRef("kubeflow.org/v1", "PyTorchJob", "default", "job", "u")
    problem = Problem("spec.pytorchReplicaSpecs[Worker].replicas", "-1 is negative")
    group = PodGroup(ref, "u", about=about, problem=problem)
    wait = wanted(Gang(ref, "u", 0.0, group, {"p": pod("p", group=ref)}), 0)
    assert isinstance(wait, Wait)
    assert wait.message == f"PyTorchJob default/job is invalid: {problem}"


@pytest.mark.parametrize("api", [KUEUE, LEADER_WORKER_SET, LABEL])
def test_pods_that_do_not_say_how_many_they_are_are_told_where_to(api: str) -> None:
    """The annotation is named that such pods have."""
    ref = group_ref(api=api)
    wait = wanted(Gang(ref, "pod:p", 0.0, members={"p": pod("p", group=ref)}), 0)
    assert isinstance(wait, Wait)
    assert wait.reason is Reason.INVALID_MEMBER
    assert f"annotation {SOURCE_OF[api].size_annotation} is missing or invalid" in wait.message
