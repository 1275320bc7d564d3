"""PodGroups that are parts of CompositePodGroups: one gang, in whatever order its objects and pods come."""

from __future__ import annotations

from itertools import permutations

import pytest

from extender.admission.events import GroupGone, GroupSeen, PodGone, PodSeen
from extender.objects.keys import Options
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.reason import Reason
from extender.objects.sources.disaggregatedset import (
    DISAGGREGATED_SET,
    SET_ROLE,
    decode_disaggregated_set,
    read_disaggregated_set,
)
from extender.objects.sources.leaderworkerset import (
    LEADER_WORKER_SET,
    LWS_GROUP,
    decode_leader_worker_set,
    read_leader_worker_set,
)
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
    assert [gang.ref for gang in world.state.gangs()] == [SERVE]
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
    assert all(gang.unplaced_count == len(gang.members) for gang in world.state.gangs())


def test_what_a_composite_cannot_be_is_told() -> None:
    """A count below one is a problem; the basic policy needs any one of the groups."""
    assert str(composite("c", 0).problem) == "spec.schedulingPolicy.gang.minGroupCount: 0 is not at least 1"
    assert composite("c", None).parts_needed == 1


def leader_ready(identity: str = "Hash") -> PodGroup:
    """Return what a LeaderWorkerSet says of its groups, whose workers are made when the leader is ready."""
    text = """{"metadata": {"name": "llm", "namespace": "default", "uid": "u"}, "spec": {"groupIdentity": "Hash",
        "startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 3}}}"""
    (group,) = read_leader_worker_set(decode_leader_worker_set(text.replace("Hash", identity).encode()))
    return group


@pytest.mark.parametrize("late", [False, True])
def test_a_leader_with_a_hash_does_not_wait_for_workers_that_it_makes(world: World, late: bool) -> None:
    """The object stands for groups of any name: the leader starts, then its two workers together; nothing is left."""
    world.nodes(3)
    assert leader_ready("Ordinal").ref.name == "llm-0"
    described = leader_ready()
    ref = GroupRef(LEADER_WORKER_SET, "default", "llm-0a0b")
    job, options = Job(world, ref), Options(min_member=3)

    def see(name: str, role: str) -> Pod:
        pod = world.pod(name, 8, group=ref, role=role, options=options)
        job.pods.append(pod)
        world.tell(PodSeen(pod))
        world.judge()
        return pod

    if not late:
        world.tell(GroupSeen(described))
    leader = see("llm-x", "leader")
    if late:
        assert job.reason is Reason.MEMBERS_MISSING
        world.tell(GroupSeen(described))
        world.judge()
    assert set(job.reserved) == {"llm-x"}
    job.run()
    one = see("llm-x-1", "worker")
    assert not job.reserved
    two = see("llm-x-2", "worker")
    assert set(job.reserved) == {"llm-x-1", "llm-x-2"}
    for pod in (leader, one, two):
        world.tell(PodGone(pod.uid))
    assert world.state.gangs() == []
    job.pods.clear()
    see("llm-y", "leader")
    world.tell(GroupGone(described.ref, "u/*"))
    world.judge()
    assert (job.reason, job.reserved) == (Reason.MEMBERS_MISSING, {})


PREFILL = ("p0-0", "p0-1", "p1-0", "p1-1")
DECODE = ("d0-0", "d1-0")


def slice_pods(world: World, names: tuple[str, ...], revision: str = "5d8c") -> list[Pod]:
    """Return pods of groups of a DisaggregatedSet's first slice, called ROLE GROUP-WORKER."""
    ref = GroupRef(DISAGGREGATED_SET, "default", f"llm-0-{revision}")
    role = {"p": "prefill", "d": "decode"}
    return [
        world.pod(name, 8, group=ref, labels={SET_ROLE: role[name[0]], LWS_GROUP: f"hash{name[1]}"}) for name in names
    ]


def disaggregated(prefill: int = 2) -> PodGroup:
    """Return what a DisaggregatedSet says of its slice: groups of so many pods prefill, of one decode."""
    text = f"""{{"metadata": {{"name": "llm", "namespace": "default", "uid": "u"}}, "spec": {{"roles": [
        {{"name": "prefill", "spec": {{"leaderWorkerTemplate": {{"size": {prefill}}}}}}},
        {{"name": "decode", "spec": {{"leaderWorkerTemplate": {{"size": 1}}}}}}]}}}}"""
    (group,) = read_disaggregated_set(decode_disaggregated_set(text.encode()))
    return group


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_a_slice_of_a_disaggregated_set_is_one_gang(order: tuple[int, ...]) -> None:
    """However they come: it starts with one group of each role, and others join whole, each by its hash."""
    world = World()
    world.nodes(5)
    prefill, decode = slice_pods(world, PREFILL), slice_pods(world, DECODE)
    steps: list[list[GroupSeen | PodSeen]] = [[GroupSeen(disaggregated())]]
    steps += ([PodSeen(pod) for pod in pods] for pods in (prefill, decode))
    for index in order:
        for event in steps[index]:
            world.tell(event)
        world.judge()
    job = Job(world, prefill[0].group, [*prefill, *decode])
    assert {pod.role for pod in job.gang.members.values()} == {
        *("prefill,group-index=hash0", "prefill,group-index=hash1"),
        *("decode,group-index=hash0", "decode,group-index=hash1"),
    }
    placed = "".join(sorted(name[:2] for name in job.reserved))
    assert placed in {"d0d1p0p0", "d0d1p1p1"}  # the second prefill has one node left for its two pods
    world.nodes(1, prefix="more")
    world.judge()
    assert len(job.reserved) == len(job.pods)


def test_no_role_of_a_slice_starts_without_the_other() -> None:
    """A prefill waits for a decode, each revision by itself; nothing is left of a revision when its pods have gone."""
    world = World()
    world.nodes(6)
    world.tell(GroupSeen(disaggregated()))
    old, new = slice_pods(world, (*PREFILL[:2], "d0-0")), slice_pods(world, PREFILL[:2], "7b9f")
    for pod in (*old, *new):
        world.tell(PodSeen(pod))
    world.judge()
    assert len(Job(world, old[0].group).reserved) == len(old)
    waits = Job(world, new[0].group)
    assert (waits.reserved, waits.reason) == ({}, Reason.ROLE_MEMBERS_MISSING)
    for pod in (*old, *new):
        world.tell(PodGone(pod.uid))
    assert world.state.gangs() == []


def test_a_slice_follows_its_set() -> None:
    """A larger group lacks members; without the set nothing says how many start together."""
    world = World()
    world.nodes(6)
    pods = slice_pods(world, (*PREFILL[:2], "d0-0"))
    for event in (GroupSeen(disaggregated(3)), *map(PodSeen, pods)):
        world.tell(event)
    world.judge()
    job = Job(world, pods[0].group)
    assert job.reason is Reason.ROLE_MEMBERS_MISSING
    world.tell(GroupSeen(disaggregated(2)))
    world.judge()
    assert len(job.reserved) == len(pods)
    world.tell(GroupGone(GroupRef(DISAGGREGATED_SET, "default", "llm-0-*"), "u/0"))
    world.judge()
    assert (job.reason, job.reserved) == (Reason.POD_GROUP_MISSING, {})
