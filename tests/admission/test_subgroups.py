"""Subgroups of a Volcano PodGroup, told apart by the values of a label: each is in one domain, or the gang waits."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations, product
from typing import Any

import pytest

from extender.admission.events import Decide, GroupSeen, NodeSeen, PodGone, PodSeen
from extender.objects.node import Node
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.reason import Reason
from extender.objects.sources.volcano import VOLCANO, decode_volcano_pod_group, read_volcano
from tests.builders import volcano_json, written
from tests.worlds import GPU, Job, World

RING = "example.com/ring"


def racks(*sizes: int) -> World:
    """Return a world of racks with so many nodes of 8 GPUs each: `r0-0`, `r0-1` and so on."""
    world = World(topology_levels=[{"name": "tier-1", "nodeLabel": "rack"}])
    for rack, size in enumerate(sizes):
        for index in range(size):
            name = f"r{rack}-{index}"
            allocatable = {"cpu": 64_000, "memory": 2**40, "pods": 110, GPU: 8}
            world.tell(NodeSeen(Node(name, uid=name, allocatable=allocatable, labels={"rack": f"r{rack}"})))
    return world


REF = GroupRef(VOLCANO, "default", "train")


def described(least: int, mode: str = "hard", **policy: Any) -> PodGroup:
    """Return a PodGroup of Volcano's whose rings are subgroups, each in one rack."""
    limit = {"mode": mode, "highestTierAllowed": 1}
    policy = {"matchLabelKeys": [RING], "networkTopology": limit} | policy
    spec: dict[str, Any] = {"minMember": least, "subGroupPolicy": [policy]}
    return read_volcano(decode_volcano_pod_group(written(volcano_json("train", **spec))))


def gang(world: World, rings: str, mode: str = "hard", **policy: Any) -> Job:
    """Create a gang of one pod of a whole node for each letter, which is its ring; `-` is none."""
    job = Job(world, REF)
    world.tell(GroupSeen(described(1 if "minSubGroups" in policy else len(rings), mode, **policy)))
    add(job, rings)
    world.tell(Decide())
    return job


def add(job: Job, rings: str) -> None:
    """Create a pod for each letter."""
    for ring in rings:
        labels = {} if ring == "-" else {RING: ring}
        job.pods.append(job.world.pod(f"train-{len(job.pods)}", 8, group=REF, labels=labels))
        job.world.tell(PodSeen(job.pods[-1]))


def placed(job: Job) -> str:
    """Return the ring of each member with a node promised."""
    return "".join(sorted(pod.labels.get(RING, "-") for pod in job.pods if pod.name in job.reserved))


def can_be(rings: str, sizes: tuple[int, ...]) -> bool:
    """Try every way to give racks to rings, the others anywhere."""
    named = sorted(set(rings) - {"-"})
    for chosen in product(range(len(sizes)), repeat=len(named)):
        left = list(sizes)
        for ring, rack in zip(named, chosen, strict=True):
            left[rack] -= rings.count(ring)
        if min(left) >= 0 and sum(left) >= rings.count("-"):
            return True
    return False


@pytest.mark.parametrize("sizes", [(2, 2), (3, 1), (2, 1, 1)])
def test_each_ring_is_in_one_rack(sizes: tuple[int, ...]) -> None:
    """For all rings of four pods: placed if and only if there is a way, each ring in one rack, whatever the order."""
    for letters in product("ab-", repeat=4):
        rings = "".join(letters)
        job = gang(racks(*sizes), rings)
        assert bool(job.reserved) is can_be(rings, sizes), rings
        for ring in set(rings) - {"-"} if job.reserved else ():
            at = [index for index, letter in enumerate(rings) if letter == ring]
            assert len({job.reserved[f"train-{index}"][:2] for index in at}) == 1, rings


def test_a_ring_that_no_rack_holds_is_named() -> None:
    """The reason says which one, and how many of it would fit."""
    job = gang(racks(2, 2), "aaab")
    assert job.reason is Reason.EXCEEDS_DOMAIN
    assert job.wait is not None
    assert "[example.com/ring=a]" in job.wait.message
    assert job.wait.numbers == {"fits": 2, "minMember": 3}


def test_soft_rings_keep_no_gang_waiting() -> None:
    """Rings that fit are kept together, others are not."""
    assert len(gang(racks(2, 2), "aaab", mode="soft").reserved) == 4
    kept = gang(racks(2, 2), "abab", mode="soft").reserved
    assert kept["train-0"][:2] == kept["train-2"][:2] != kept["train-1"][:2] == kept["train-3"][:2]


def test_a_replacement_joins_its_ring() -> None:
    """It goes to the rack in which the others of its ring are, and waits while there is no room."""
    world = racks(3, 3)
    job = gang(world, "aabb")
    before = job.reserved
    job.run()
    world.tell(PodGone(job.pods[3].uid))
    other = world.pod("train-4", 8, group=job.ref, labels={RING: "b"})
    world.tell(PodSeen(other))
    world.judge()
    assert job.reserved["train-4"][:2] == before["train-2"][:2]


@pytest.mark.parametrize("sizes", [(2, 2), (3, 2), (2, 1, 1)])
def test_so_many_rings_start_as_are_needed(sizes: tuple[int, ...]) -> None:
    """For all rings of five pods: the gang starts if and only if two whole rings have a rack each, whatever others."""
    for letters in product("abc", repeat=5):
        rings = "".join(letters)
        job = gang(racks(*sizes), rings, minSubGroups=2, subGroupSize=2)
        whole = [ring for ring in "abc" if rings.count(ring) >= 2]
        starts = any(can_be("".join(pair) * 2, sizes) for pair in combinations(whole, 2))
        assert bool(job.reserved) is starts, rings
        if starts:
            assert sum(placed(job).count(ring) >= 2 for ring in whole) >= 2
        elif len(whole) < 2:
            assert job.reason is Reason.ROLE_MEMBERS_MISSING, rings


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_group_and_pods_come_in_any_order(order: tuple[int, ...]) -> None:
    """Which ring a pod is of is known when both are there."""
    world = racks(2, 2)
    job = Job(world, REF)
    steps = [
        lambda: world.tell(GroupSeen(described(1, minSubGroups=2, subGroupSize=2))),
        lambda: add(job, "ab"),
        lambda: add(job, "ba"),
    ]
    for index in order:
        steps[index]()
        world.judge()
    assert placed(job) == "aabb"
    assert {pod.role for pod in job.gang.members.values()} == {"subgroup,ring=a", "subgroup,ring=b"}


def test_a_further_ring_joins_whole_and_leaves_whole() -> None:
    """Its first pod waits for the second; who needs one of their nodes has both evicted."""
    world = racks(2, 2)
    job = gang(world, "aab", minSubGroups=1, subGroupSize=2)
    assert placed(job) == "aa"
    add(job, "b")
    world.judge()
    assert placed(job) == "aabb"
    job.run()
    world.gang("urgent", 1, 8, priority=10)
    world.judge()
    assert [each.pod.labels[RING] for each in world.effects().evictions.values()] == ["b", "b"]


def test_a_policy_that_changes_tells_the_pods_apart_anew() -> None:
    """Members of rings become those of sides, and all of one subgroup at last."""
    world = racks(4)
    job = gang(world, "aabb", minSubGroups=3, subGroupSize=1)
    assert job.reason is Reason.ROLE_MEMBERS_MISSING
    uid = job.gang.uid
    for policy in ({"minSubGroups": 2, "subGroupSize": 2}, {"name": "rings", "minSubGroups": 1, "subGroupSize": 2}):
        world.tell(GroupSeen(replace(described(1, **policy), uid=uid)))
        world.judge()
    assert {pod.role for pod in job.gang.members.values()} == {"rings,ring=a", "rings,ring=b"}
    assert placed(job) == "aabb"


def test_required_subgroups_that_cannot_be_kept_keep_the_gang_waiting() -> None:
    """The reason names the object and the field."""
    job = gang(racks(2, 2), "aabb", matchLabelKeys=[], minSubGroups=2, subGroupSize=2)
    assert job.reason is Reason.INVALID_POD_GROUP
    assert job.wait is not None
    assert "default/train" in job.wait.message
    assert "spec.subGroupPolicy[0].minSubGroups" in job.wait.message
