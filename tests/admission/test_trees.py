"""Gangs whose parts have parts: they start with as many of them as they need, and others join them whole."""

from __future__ import annotations

from typing import Any

import pytest

from extender.admission.events import Decide, PodGone, PodSeen
from extender.objects.branches import Branch
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason
from extender.objects.sources.volcano import VOLCANO
from extender.settings import Settings
from tests.worlds import Job, World

REPLICAS = ("a", "b", "c")
RACKS = [{"name": "rack", "nodeLabel": "rack"}]


def replica(name: str, required: str = "") -> Branch:
    """Return a replica of one member of role NAME.p and two of NAME.d."""
    return Branch(name, 2, (Branch(f"{name}.p", 1), Branch(f"{name}.d", 2)), required)


def serving(
    world: World, least: int = 2, required: str = "", replicas: tuple[str, ...] = REPLICAS, **fields: Any
) -> Job:
    """Create a gang of replicas with three pods of eight GPUs each, and judge it."""
    ref = GroupRef(VOLCANO, "default", "serve")
    tree = Branch("", least, tuple(replica(name, required) for name in replicas))
    world.group(ref, 1, tree=tree, **fields)
    job = Job(world, ref)
    for name in replicas:
        add(job, name)
    world.tell(Decide())
    return job


def add(job: Job, name: str, roles: str = "pdd") -> None:
    """Create pods of a replica."""
    for role in roles:
        pod = job.world.pod(f"{name}-{len(job.pods)}", 8, group=job.ref, role=f"{name}.{role}")
        job.pods.append(pod)
        job.world.tell(PodSeen(pod))


def placed(job: Job) -> list[str]:
    """Return the replica of each member with a node promised."""
    return sorted(name.split("-")[0] for name in job.reserved)


def test_it_starts_with_as_many_parts_as_it_needs(world: World) -> None:
    """Two replicas have a place; the third waits as a whole though two of its pods would fit."""
    world.nodes(8)
    job = serving(world)
    assert placed(job) == ["a"] * 3 + ["b"] * 3
    world.nodes(1, prefix="more")
    world.judge()
    assert placed(job) == ["a"] * 3 + ["b"] * 3 + ["c"] * 3


def test_a_gang_without_room_for_its_parts_holds_nothing(world: World) -> None:
    """Five nodes are no room for two replicas of three."""
    world.nodes(5)
    job = serving(world)
    assert (job.reason, job.reserved) == (Reason.EXCEEDS_CLUSTER, {})


def test_parts_of_which_members_lack_are_passed_over(world: World) -> None:
    """The gang starts with the replicas that are there, and says what lacks where too few are."""
    world.nodes(9)
    job = serving(world, replicas=("a",), least=1)
    assert placed(job) == ["a"] * 3
    other = Job(world, GroupRef(VOLCANO, "default", "other"))
    world.group(other.ref, 1, tree=Branch("", 2, tuple(map(replica, REPLICAS))))
    for name, roles in (("a", "pd"), ("b", "pdd"), ("c", "d")):
        add(other, name, roles)
    world.judge()
    assert other.wait is not None
    assert other.wait.message == "1 of 2 members of role a.d exist"
    add(other, "c", "pd")
    world.judge()
    assert placed(other) == ["b"] * 3 + ["c"] * 3


def test_members_are_bound_part_by_part(world: World) -> None:
    """None goes before all that is needed has come; then a further replica goes when all of it has."""
    world.nodes(9)
    job = serving(world)
    assert placed(job) == ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    world.effects()
    for index in (0, 1, 2, 3, 4, 6, 7):
        job.bind(index)
        assert world.effects().released == []
    job.bind(5)
    assert set(world.effects().released) == {pod.uid for pod in job.pods[:6]}
    job.bind(8)
    assert set(world.effects().released) == {pod.uid for pod in job.pods[6:]}


def test_any_parts_that_come_let_the_gang_start(world: World) -> None:
    """The last two replicas are as good as those that were placed first."""
    world.nodes(9)
    job = serving(world)
    world.effects()
    for index in range(3, 9):
        job.bind(index)
    assert set(world.effects().released) == {pod.uid for pod in job.pods[3:]}


def test_parts_that_fit_nowhere_leave_their_place_to_others() -> None:
    """The first replica's rack would have to be one that is too small; the second fits."""
    world = World(topology_levels=Settings(topology_levels=RACKS).topology_levels)
    for rack, nodes in (("x", 2), ("y", 3), ("z", 2)):
        world.nodes(nodes, prefix=rack, labels={"rack": rack})
    job = serving(world, least=1, required="rack")
    assert placed(job) == ["a"] * 3
    assert {node[0] for node in job.reserved.values()} == {"y"}
    world.nodes(1, prefix="z-more", labels={"rack": "z"})
    world.judge()
    assert placed(job) == ["a"] * 3 + ["b"] * 3


@pytest.mark.parametrize("gpus", [9, 8])
def test_others_start_where_the_first_part_has_no_place(world: World, gpus: int) -> None:
    """A replica whose pod fits no node is passed over."""
    world.nodes(6)
    ref = GroupRef(VOLCANO, "default", "serve")
    world.group(ref, 1, tree=Branch("", 2, tuple(map(replica, REPLICAS))))
    job = Job(world, ref)
    job.pods.append(world.pod("a-large", gpus, group=ref, role="a.p"))
    world.tell(PodSeen(job.pods[0]))
    for name, roles in (("a", "dd"), ("b", "pdd"), ("c", "pdd")):
        add(job, name, roles)
    world.judge()
    assert placed(job) == (["a"] * 3 + ["b"] * 3 if gpus == 8 else ["b"] * 3 + ["c"] * 3)


@pytest.mark.parametrize(("pods", "leave"), [(1, "ccc"), (3, "ccc"), (4, "bbbccc")])
def test_parts_leave_whole_for_others(world: World, pods: int, leave: str) -> None:
    """Who needs a node of a replica that is not needed has all of that replica evicted, the last one first."""
    world.nodes(9)
    job = serving(world, least=1)
    job.run()
    urgent = world.gang("urgent", pods, 8, priority=10)
    world.judge()
    evicted = sorted(each.pod.name[0] for each in world.effects().evictions.values())
    assert (urgent.reason, "".join(evicted)) == (Reason.PREEMPTING, leave)


def test_a_part_that_lacks_members_leaves_before_others(world: World) -> None:
    """Two pods of a replica that lost its third are of no use to the gang."""
    world.nodes(9)
    job = serving(world, least=1)
    job.run()
    world.tell(PodGone(job.pods.pop(3).uid))
    world.nodes(1, 0, prefix="cpus")
    world.gang("urgent", 2, 8, priority=10)
    world.judge()
    world.judge()
    assert sorted(each.pod.name[0] for each in world.effects().evictions.values()) == ["b", "b"]
