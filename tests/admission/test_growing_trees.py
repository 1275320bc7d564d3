"""Gangs of parts that grow and shrink: which parts join, where, and which leave."""

from __future__ import annotations

import pytest

from extender.admission.events import PodGone, PodSeen
from extender.explain.inquiry import inquire
from extender.ledger.effects import EvictionReason
from extender.objects.branches import Branch
from extender.objects.keys import Options
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason
from extender.objects.sources.volcano import VOLCANO
from tests.queues.test_sharing import queue, tell
from tests.worlds import Job, World

TIERS = [{"name": "block", "nodeLabel": "block"}, {"name": "rack", "nodeLabel": "rack"}]


def racks(**gpus: int) -> World:
    """Return a world of racks with nodes of two GPUs, so many in all: `ax=4` is rack x in block a."""
    world = World(topology_levels=TIERS)
    for rack, count in gpus.items():
        build(world, rack, count)
    return world


def build(world: World, rack: str, gpus: int) -> None:
    """Add a rack."""
    world.nodes(gpus // 2, 2, prefix=rack, labels={"block": rack[0], "rack": rack})


def of(
    world: World, *parts: Branch, least: int = 1, preferred: str = "", most: int = 0, options: Options | None = None
) -> Job:
    """Create the PodGroup of a gang with these parts."""
    job = Job(world, GroupRef(VOLCANO, "default", "serve"))
    fields = {} if options is None else {"options": options}
    world.group(job.ref, 1, tree=Branch("all", least, parts, preferred=preferred, most=most), **fields)
    return job


def replica(name: str, required: str = "", preferred: str = "", most: int = 0) -> Branch:
    """Return a part of one member of role NAME.p and at least one of NAME.d."""
    leaves = (Branch(f"{name}.p", 1), Branch(f"{name}.d", 1, most=most))
    return Branch(name, 2, leaves, required, preferred)


def add(job: Job, roles: str, gpus: int = 2) -> None:
    """Create members, and judge: `a.p a.d`."""
    for role in roles.split():
        job.pods.append(job.world.pod(f"{role}-{len(job.pods)}", gpus, group=job.ref, role=role))
        job.world.tell(PodSeen(job.pods[-1]))
    job.world.judge()


def run(job: Job, roles: str, gpus: int = 2) -> None:
    """Create members that are placed, and let them run."""
    add(job, roles, gpus)
    job.run()
    job.world.judge()
    assert not job.gang.unplaced_count


def where(job: Job) -> dict[str, str]:
    """Return the rack of each member that has a place, by role and number."""
    places = {pod.name: pod.node_name for pod in job.pods if pod.node_name} | job.reserved
    return {name: node.partition("-")[0] for name, node in places.items()}


def evicted(world: World) -> list[str]:
    """Return the roles of members that are evicted."""
    return sorted(each.pod.role for each in world.effects().evictions.values())


def test_any_choice_of_what_a_part_needs_lets_it_join(world: World) -> None:
    """The first of two does not fit; the other is as good."""
    world.nodes(2, 4)
    job = of(world, Branch("a", 1), Branch("b", 1, (Branch("b.p", 1), Branch("b.q", 1))))
    run(job, "a", 1)
    add(job, "b.p", 8)
    add(job, "b.q", 4)
    assert sorted(job.reserved) == ["b.q-2"]


@pytest.mark.parametrize("name", ["a", "b"])
def test_members_join_their_part_where_it_prefers_to_be(name: str) -> None:
    """With room in every rack, a part that prefers one grows in its own."""
    world = racks(xa=6, xb=6, xc=6)
    job = of(world, replica("a", preferred="rack"), replica("b", preferred="rack"), least=2)
    run(job, "a.p a.d b.p b.d")
    add(job, f"{name}.d")
    found = where(job)
    assert found[f"{name}.d-4"] == found[f"{name}.p-{0 if name == 'a' else 2}"]


def test_a_part_with_a_full_rack_grows_near_it() -> None:
    """Of levels that are preferred the narrowest with room counts: first the rack, then the block around it."""
    world = racks(ya=4)
    job = of(world, Branch("outer", 1, (replica("a", preferred="rack"),), preferred="block"), replica("b"))
    run(job, "a.p a.d")
    for rack in ("xa", "yb", "za"):
        build(world, rack, 4)
    add(job, "a.d")
    assert where(job)["a.d-2"] == "yb"


def test_a_part_joins_in_the_block_of_the_gang_while_there_is_room() -> None:
    """Each replica has a rack of its own; the third finds none in the block that the gang prefers, and goes on."""
    world = racks(ya=4)
    job = of(world, *(replica(name, required="rack") for name in "abc"), preferred="block")
    run(job, "a.p a.d")
    for rack in ("xa", "yb", "za"):
        build(world, rack, 4)
    run(job, "b.p b.d")
    assert set(where(job).values()) == {"ya", "yb"}
    run(job, "c.p c.d")
    assert len(set(where(job).values())) == 3


def test_a_part_waits_with_the_reason_that_its_domain_has_no_room() -> None:
    """Three nodes are free, no two of them in one rack: kube-scheduler and an explanation hear why."""
    world = racks(xa=4, xb=2, xc=2)
    job = of(world, replica("a", "rack"), replica("b", "rack"))
    run(job, "a.p a.d")
    add(job, "b.p b.d")
    assert not job.reserved
    wait = world.admission.wait_of(job.gang)
    assert wait is not None
    assert wait.message == "no rack has room for all of role b.d and b.p now: at most 1 of 2 members fit"
    text = world.filter(job.pods[-1]).refusals[0].text
    said = "TopologyDomainFull: no rack has room for all of role b.d and b.p now"
    assert text == f"gang waits: no room for members beyond minMember: {said}"
    assert [pod.role for pod in inquire(world.admission, job.gang, world.now).case.pod_set.pods] == ["b.d", "b.p"]


def test_a_part_joins_only_with_quota_for_all_of_it(world: World) -> None:
    """Four GPUs are left in the Queue for a replica of six: none of it starts, and the reason says so."""
    world.nodes(4)
    tell(world, queue("team", 8))
    job = of(world, replica("a"), replica("b"), options=Options(queue="team"))
    run(job, "a.p a.d")
    add(job, "b.p b.d", 3)
    wait = world.admission.wait_of(job.gang)
    assert wait is not None
    assert (job.reserved, wait.reason, wait.numbers) == ({}, Reason.QUOTA_EXCEEDED, {"asked": 6, "available": 4})


def test_no_more_parts_join_than_there_may_be(world: World) -> None:
    """Two of three replicas, each with up to two members of the second role; one that ends leaves its place."""
    world.nodes(9)
    job = of(world, *(replica(name, most=2) for name in "abc"), most=2)
    add(job, " ".join(f"{name}.p {name}.d {name}.d {name}.d" for name in "abc"), 8)
    job.run()
    world.judge()
    assert sorted(pod.role for pod in job.pods if pod.node_name) == ["a.d", "a.d", "a.p", "b.d", "b.d", "b.p"]
    wait = world.admission.wait_of(job.gang)
    assert wait is not None
    assert (wait.reason, wait.numbers) == (Reason.MAX_MEMBER_REACHED, {"beyond": 6})
    gone = next(at for at, pod in enumerate(job.pods) if pod.role == "a.d" and pod.node_name)
    world.tell(PodGone(job.pods.pop(gone).uid))
    world.judge()
    assert [slot.pod.role for slot in job.slots.values() if not slot.pod.node_name] == ["a.d"]


def test_no_more_is_evicted_for_a_part_than_it_takes(world: World) -> None:
    """A further replica of two has two evicted, though members of other replicas would like places too."""
    world.nodes(7)
    job = of(world, Branch("z", 1), replica("a"), replica("b"))
    run(job, "z", 8)
    low = world.gang("low", 6, 8, min_member=1, priority=-1)
    low.run()
    world.effects()
    add(job, "a.p a.d b.p", 8)
    assert evicted(world) == ["", ""]


@pytest.mark.parametrize(("gpus", "leave"), [(1, ["s"]), (2, ["s", "s", "s"])])
def test_what_a_part_has_beyond_its_minimum_leaves_first_or_with_it(world: World, gpus: int, leave: list[str]) -> None:
    """One leaves alone; who needs the node of two has all three leave, as the third alone is of no use."""
    for index in (2, 2, 1):
        world.nodes(1, index, prefix=f"of-{index}-{len(world.state.nodes())}")
    job = of(world, Branch("r", 1), Branch("s", 2))
    run(job, "r", 2)
    run(job, "s s s", 1)
    world.effects()
    world.gang("urgent", 1, gpus, priority=10)
    assert evicted(world) == leave


def test_a_part_that_finds_no_place_beside_its_own_is_evicted_after_grace() -> None:
    """The place of a lost member is kept for as long; then the rest leaves, and joins whole where there is room."""
    world = racks(xa=4, xb=4)
    job = of(world, replica("a", "rack"), replica("b", "rack"))
    run(job, "a.p a.d b.p b.d")
    lost = job.pods.pop(3)
    world.tell(PodGone(lost.uid))
    other = world.gang("other", 1, 2)
    assert not other.reserved
    world.later(301)
    found = list(world.effects().evictions.values())
    assert [(each.pod.role, each.reason) for each in found] == [("b.p", EvictionReason.BELOW_MINIMUM)]
    world.judge()
    assert other.reserved


def test_each_torn_part_has_a_grace_of_its_own() -> None:
    """One that loses a member as the grace of another ends is not evicted with that."""
    world = racks(xa=40)
    job = of(world, replica("a"), replica("b"), replica("c"))
    run(job, "a.p a.d b.p b.d c.p c.d")
    world.effects()

    def lose(name: str) -> None:
        pod = next(pod for pod in job.pods if pod.name == name)
        job.pods.remove(pod)
        world.tell(PodGone(pod.uid))
        world.judge()

    lose("b.d-3")
    world.later(299)
    lose("c.d-5")
    world.later(1.5)
    assert evicted(world) == ["b.p"]
    world.later(297)
    assert evicted(world) == []
    world.later(2)
    assert evicted(world) == ["c.p"]


def test_a_gang_that_loses_its_minimum_later_has_all_of_its_grace() -> None:
    """However long one of its parts has been torn by then; nor is that part evicted by itself meanwhile."""
    world = racks(xa=40)
    job = of(world, replica("a"), replica("b"))
    run(job, "a.p a.d b.p b.d")
    world.effects()
    for name, seconds in (("b.d-3", 200.0), ("a.d-1", 299.0)):
        pod = next(pod for pod in job.pods if pod.name == name)
        job.pods.remove(pod)
        world.tell(PodGone(pod.uid))
        world.judge()
        world.later(seconds)
    assert evicted(world) == []
    world.later(2)
    assert evicted(world) == ["a.p", "b.p"]


def test_members_that_join_together_leave_together(world: World) -> None:
    """Of replicas of two hosts: half of one waits, and who needs one more node has both hosts of another evicted."""
    world.nodes(6)
    job = Job(world, GroupRef(VOLCANO, "default", "ray"))
    world.group(job.ref, 3, tree=Branch("", 2, (Branch("head", 1), Branch("workers", 2, by=2))))
    run(job, "head workers workers workers workers", 8)
    add(job, "workers", 8)
    assert not job.reserved
    world.effects()
    for name in ("first", "second"):
        world.gang(name, 1, 8, priority=10)
    assert evicted(world) == ["workers", "workers"]


def test_a_member_beyond_the_minimum_says_that_its_gang_backs_off() -> None:
    """What is promised to it, and not bound in time, is taken back: it has a reason then, and stands in no line."""
    world = racks(ax=10)
    job = of(world, replica("r0"), replica("r1"))
    run(job, "r1.p r1.d")
    add(job, "r1.d")
    world.later(3000)
    wait = world.admission.wait_of(job.gang)
    assert wait is not None
    assert (wait.reason, dict(wait.numbers)) == (Reason.BACKING_OFF, {"attempts": 1})
    assert in_line(job) == []
    assert world.admission.said_of(job.gang).startswith("BackingOff: ")
    world.later(1)
    assert world.admission.wait_of(job.gang) is None
    assert "r1.d-2" in job.reserved


def test_a_member_beyond_the_minimum_says_that_its_gang_is_held() -> None:
    """No room is looked for as long as it is, so it stands in no line."""
    world = racks(ax=10)
    job = of(world, replica("r0"), replica("r1"))
    run(job, "r1.p r1.d")
    world.group(job.ref, 1, tree=job.gang.tree, options=Options(hold=True))
    add(job, "r1.d")
    wait = world.admission.wait_of(job.gang)
    assert wait is not None
    assert wait.reason is Reason.HELD
    assert in_line(job) == []
    assert world.admission.said_of(job.gang).startswith("Held: ")


def in_line(job: Job) -> list[str]:
    """Return the gangs that an explanation of this one has in line."""
    found = inquire(job.world.admission, job.gang, job.world.clock.now().timestamp())
    return [str(each.gang.ref) for each in found.line.entries]
