"""The members that a gang cannot start without."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from extender.cluster.gangs import Gang, core, core_size
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import PodGroup
from tests.cluster.conftest import group_ref, pod

JOB = group_ref()


def gang_of(*members: Pod, min_member: int = 1, **minimums: int) -> Gang:
    """Return a gang with these members, that needs so many in all and of each role."""
    group = PodGroup(JOB, "uid", min_member=min_member, role_minimums=tuple(sorted(minimums.items())))
    return Gang(JOB, "uid", 0.0, group, {member.uid: member for member in members})


def of(role: str, count: int, **fields: Any) -> list[Pod]:
    """Return so many members of a role, named in order."""
    return [pod(f"{role}-{index}", group=JOB, role=role, **fields) for index in range(count)]


def names(members: list[Pod]) -> list[str]:
    """Return the names of members."""
    return [member.name for member in members]


def test_without_role_minimums_the_first_members_are_the_core() -> None:
    """MinMember is filled in member order."""
    gang = gang_of(*of("worker", 5), min_member=3)
    assert core_size(gang, 0) == 3
    assert names(core(gang, 3)) == ["worker-0", "worker-1", "worker-2"]
    assert names(core(gang, 9)) == [f"worker-{index}" for index in range(5)]


def test_each_roles_minimum_comes_first() -> None:
    """The last role in member order is in the core too, at the cost of members beyond other roles' minimum."""
    gang = gang_of(*of("ps", 4), *of("worker", 4), min_member=4, worker=2)
    assert core_size(gang, 0) == 4
    assert names(core(gang, 4)) == ["ps-0", "ps-1", "worker-0", "worker-1"]


def test_what_is_promised_or_runs_is_not_asked_for_again() -> None:
    """A role lacks what is neither secured nor has a node promised."""
    running = of("leader", 1, node_name="n", phase=Phase.RUNNING)
    workers = of("worker", 5)
    gang = gang_of(*running, *workers, min_member=4, leader=1, worker=3)
    gang.promise([workers[0].uid])
    assert core_size(gang, 1) == 2
    assert names(core(gang, 2)) == ["worker-1", "worker-2"]


def test_a_role_can_lack_members_of_a_gang_that_has_enough() -> None:
    """The leader that died is needed though minMember others run."""
    running = of("worker", 4, node_name="n", phase=Phase.RUNNING)
    gang = gang_of(*running, *of("leader", 2), min_member=3, leader=1, worker=2)
    assert core_size(gang, 0) == 1
    assert names(core(gang, 1)) == ["leader-0"]


def test_a_core_is_no_larger_than_what_waits() -> None:
    """Members that do not exist cannot be placed."""
    assert core_size(gang_of(*of("worker", 2), min_member=8, worker=4), 0) == 2


ROLES = st.sampled_from(["a", "b", "c"])
MEMBER = st.tuples(ROLES, st.sampled_from(["waits", "promised", "runs", "gated"]))


@given(st.lists(MEMBER, max_size=12), st.dictionaries(ROLES, st.integers(1, 4), max_size=3), st.integers(1, 10))
def test_the_core_with_what_there_is_makes_every_minimum(
    members: list[tuple[str, str]], minimums: dict[str, int], min_member: int
) -> None:
    """If enough members of each role exist, the core, promises and running members are enough, and none too many."""
    states: dict[str, dict[str, Any]] = {"runs": {"node_name": "n", "phase": Phase.RUNNING}, "gated": {"gated": True}}
    pods = [pod(f"m-{i}", group=JOB, role=role, **states.get(state, {})) for i, (role, state) in enumerate(members)]
    gang = gang_of(*pods, min_member=min_member, **minimums)
    usable = Counter(role for role, state in members if state != "gated")
    assume(sum(usable.values()) >= gang.min_member and all(usable[role] >= least for role, least in minimums.items()))
    promised = [each for each, (_, state) in zip(pods, members, strict=True) if state == "promised"]
    for each in promised:
        gang.promise([each.uid])
    size = core_size(gang, len(promised))
    chosen = core(gang, size)
    assert len(chosen) == size
    assert names(chosen) == [each.name for each in gang.unplaced() if each in chosen]
    there = Counter(each.role for each in (*chosen, *promised))
    assert gang.would_have_minimum(there)
    for needless in chosen[-1:]:
        assert not gang.would_have_minimum(there - Counter([needless.role])) or size == 0
