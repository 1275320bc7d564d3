"""Cores: which other members a gang may start with."""

from __future__ import annotations

from dataclasses import replace

from extender.cluster.gangs import Gang
from extender.objects.pod import Pod, Shape
from extender.objects.podgroup import PodGroup
from extender.placement.cores import other_cores
from tests.cluster.conftest import group_ref, pod


def gang_of(minimum: int, role_minimums: dict[str, int] | None = None, **roles: int) -> Gang:
    """Return a gang with so many members of each role; the shape of each role asks for other CPUs."""
    members: list[Pod] = []
    for rank, (role, count) in enumerate(roles.items()):
        members += [
            replace(pod(f"{role}-{index}", cpu=1000 * (rank + 1), group=group_ref()), role=role)
            for index in range(count)
        ]
    group = PodGroup(group_ref(), uid="g", min_member=minimum, role_minimums=tuple((role_minimums or {}).items()))
    return Gang(group_ref(), "g", 0.0, group, {each.uid: each for each in members})


def cores(gang: Gang, pods: int, most: int = 100) -> list[str]:
    """Return the names of the members of each other core."""
    return [" ".join(each.name for each in core) for core in other_cores(gang, pods, lambda _: most)]


def test_example() -> None:
    """`cores.py`: three of two a and four b, of which only one a has room anywhere."""
    gang = gang_of(3, a=2, b=4)

    def most(shape: Shape) -> int:
        return 1 if shape.request("cpu") == 1000 else 100

    found = [" ".join(each.name for each in core) for core in other_cores(gang, 3, most)]
    assert found == ["a-0 b-0 b-1", "b-0 b-1 b-2"]
    assert [" ".join(each.name for each in core) for core in other_cores(gang_of(3, {"a": 1}, a=2, b=4), 3, most)] == [
        "a-0 b-0 b-1"
    ]


def test_all_choices_come_once() -> None:
    """Every number of members of each kind comes up but that of the first choice, the nearest first."""
    found = cores(gang_of(2, a=2, b=2, c=1), 2)
    assert found[0] in {"a-0 b-0", "a-0 c-0"}
    assert sorted(found) == ["a-0 b-0", "a-0 c-0", "b-0 b-1", "b-0 c-0"]


def test_no_other_choice() -> None:
    """Members that are all alike, minimums of roles that leave none, and too little room for so many: nothing else."""
    assert cores(gang_of(2, a=4), 2) == []
    assert cores(gang_of(3, {"a": 2, "b": 1}, a=2, b=1), 3) == []
    assert cores(gang_of(3, a=2, b=2), 3, most=1) == []


def test_refused_members_are_in_none() -> None:
    """A member that kube-scheduler refuses does not help a gang to start."""
    gang = gang_of(2, a=2, b=2)
    gang.refused["uid-b-1"] = "no"
    assert cores(gang, 2) == ["a-0 b-0"]


def test_choices_that_ask_for_more_than_is_free_are_left_out() -> None:
    """Two of `a` ask for 2 CPUs, two of `b` for 4: of three free ones and a half no more is left than one of each."""
    gang = gang_of(2, a=2, b=2)
    found = other_cores(gang, 2, lambda _: 100, {"cpu": 3500, "pods": 10})
    assert [" ".join(each.name for each in core) for core in found] == ["a-0 b-0"]
    assert list(other_cores(gang, 2, lambda _: 100, {"cpu": 3500})) == []
