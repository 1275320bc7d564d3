"""PodGroups that are parts of CompositePodGroups: one gang, in whatever order its objects and pods come."""

from __future__ import annotations

from itertools import permutations

import pytest

from extender.admission.events import GroupGone, GroupSeen, PodSeen
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.reason import Reason
from extender.objects.sources.native import (
    COMPOSITE,
    NATIVE,
    decode_composite_pod_group,
    decode_native_pod_group,
    read_composite,
    read_native,
)
from tests.worlds import Job, World

SERVE = GroupRef(COMPOSITE, "default", "serve")


def composite(name: str, least: int | None, parent: str = "", key: str = "") -> PodGroup:
    """Return a CompositePodGroup as the API server sends it; without a least number its policy is basic."""
    policy = '{"basic": {}}' if least is None else f'{{"gang": {{"minGroupCount": {least}}}}}'
    above = f'"parentCompositePodGroupName": "{parent}", ' if parent else ""
    levels = f', "schedulingConstraints": {{"topology": [{{"key": "{key}"}}]}}' if key else ""
    text = f"""{{"metadata": {{"name": "{name}", "namespace": "default", "uid": "u-{name}"}},
        "spec": {{{above}"workloadRef": {{"name": "w"}}, "schedulingPolicy": {policy}{levels}}}}}"""
    return read_composite(decode_composite_pod_group(text.encode()))


def leaf(name: str, least: int, parent: str = "") -> PodGroup:
    """Return a PodGroup as the API server sends it."""
    above = f'"parentCompositePodGroupName": "{parent}", ' if parent else ""
    text = f"""{{"metadata": {{"name": "{name}", "namespace": "default", "uid": "u-{name}"}},
        "spec": {{{above}"schedulingPolicy": {{"gang": {{"minCount": {least}}}}}}}}}"""
    return read_native(decode_native_pod_group(text.encode()))


def pods(world: World, *names: str) -> list[Pod]:
    """Return pods called NAME-NUMBER that name the PodGroup NAME."""
    return [world.pod(name, 8, group=GroupRef(NATIVE, "default", name.rpartition("-")[0])) for name in names]


def objects(key: str = "rack") -> list[PodGroup]:
    """Return a gang of two replicas, of which it needs one; each has two PodGroups."""
    replicas = [composite(name, 2, "serve", key) for name in ("r0", "r1")]
    leaves = [leaf(f"{name}.{role}", 1, name) for name in ("r0", "r1") for role in ("p", "d")]
    return [composite("serve", 1), *replicas, *leaves]


MEMBERS = ("r0.p-0", "r0.d-0", "r1.p-0", "r1.d-0")


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_objects_and_pods_come_in_any_order(order: tuple[int, ...]) -> None:
    """However they come, there is one gang at last, of the same parts, and none is left of groups that are parts."""
    world = World()
    world.nodes(4)
    serve, *others = objects()
    parts: list[list[GroupSeen | PodSeen]] = [
        [GroupSeen(serve)],
        [GroupSeen(each) for each in others[:2]],
        [GroupSeen(each) for each in others[2:]],
        [PodSeen(pod) for pod in pods(world, *MEMBERS)],
    ]
    for index in order:
        for event in parts[index]:
            world.tell(event)
        world.judge()
    model = world.admission.model
    assert [gang.ref for gang in model.gangs] == [SERVE]
    gang = Job(world, SERVE).gang
    assert gang.uid == "u-serve"
    assert {pod.role for pod in gang.members.values()} == {"r0.p", "r0.d", "r1.p", "r1.d"}
    assert gang.tree is not None
    assert [(part.name, part.least, part.required) for part in gang.tree.parts] == [
        ("r0", 2, "rack"),
        ("r1", 2, "rack"),
    ]


def test_nothing_starts_before_the_outermost_group_is_known(world: World) -> None:
    """Its parts alone do not say of how many it consists."""
    world.nodes(4)
    for each in objects()[1:]:
        world.tell(GroupSeen(each))
    for pod in pods(world, *MEMBERS):
        world.tell(PodSeen(pod))
    world.judge()
    job = Job(world, SERVE)
    assert (job.reason, job.reserved) == (Reason.POD_GROUP_MISSING, {})
    assert job.wait is not None
    assert job.wait.message == "CompositePodGroup default/serve does not exist"


def test_groups_that_are_not_there_yet_are_waited_for(world: World) -> None:
    """Of two groups that are needed one is there: the wait says which part nobody is of."""
    world.nodes(4)
    world.tell(GroupSeen(composite("serve", 2)))
    world.tell(GroupSeen(leaf("one", 1, "serve")))
    world.tell(PodSeen(pods(world, "one-0")[0]))
    world.judge()
    job = Job(world, SERVE)
    assert job.wait is not None
    assert job.wait.message == "0 of 1 members of role serve (part 2) exist"
    world.tell(GroupSeen(leaf("two", 2, "serve")))
    for pod in pods(world, "two-0", "two-1"):
        world.tell(PodSeen(pod))
    world.judge()
    assert set(job.reserved) == {"one-0", "two-0", "two-1"}


def test_a_group_that_is_deleted_is_no_part_any_more(world: World) -> None:
    """Its pods wait for it under its own name; with the outermost group the gang is none."""
    world.nodes(4)
    for each in objects(key=""):
        world.tell(GroupSeen(each))
    world.tell(GroupGone(GroupRef(NATIVE, "default", "r0.p"), "u-r0.p"))
    for pod in pods(world, *MEMBERS):
        world.tell(PodSeen(pod))
    world.judge()
    job = Job(world, SERVE)
    assert set(job.reserved) == {"r1.p-0", "r1.d-0"}
    alone = Job(world, GroupRef(NATIVE, "default", "r0.p"))
    assert alone.reason is Reason.POD_GROUP_MISSING
    world.tell(GroupGone(SERVE, "u-serve"))
    world.judge()
    assert (job.reason, job.reserved) == (Reason.POD_GROUP_MISSING, {})


def test_groups_that_are_each_others_parents_start_nothing(world: World) -> None:
    """Neither their pods nor their parts make anything go on for ever."""
    world.nodes(4)
    for each in (composite("a", 1, "b"), composite("b", 1, "a"), leaf("l", 1, "a")):
        world.tell(GroupSeen(each))
    world.tell(PodSeen(pods(world, "l-0")[0]))
    world.judge()
    assert all(gang.unplaced_count == len(gang.members) for gang in world.admission.model.gangs)


def test_what_a_composite_cannot_be_is_told() -> None:
    """A count below one is a problem; the basic policy needs any one of the groups."""
    assert str(composite("c", 0).problem) == "spec.schedulingPolicy.gang.minGroupCount: 0 is not at least 1"
    assert composite("c", None).parts_needed == 1
