"""Where the members of a gang come closest to finding room, and what is missing there."""

from __future__ import annotations

from dataclasses import replace

from extender.admission.events import NodeSeen, PodGone, PodSeen
from extender.explain.account import MOST_ROWS, NearestMiss
from extender.objects.keys import Options
from extender.objects.podspec import Taint
from extender.objects.reason import Reason
from extender.objects.topology import RoleGroup, Slice, TopologyTerms
from tests.explain.conftest import asking, explained, racked, take
from tests.worlds import GPU, Job, World


def miss(world: World, job: Job) -> NearestMiss:
    """Return the nearest miss of a gang that has one."""
    found = explained(world, job).nearest
    assert found is not None
    return found


def told(world: World, job: Job) -> tuple[str, str, int, int, dict[str, int]]:
    """Return level, domain, how many of how many fit, and what is missing."""
    found = miss(world, job)
    return found.level, found.domain, found.fits, found.needed, dict(found.shortages)


def test_without_a_level_it_is_the_cluster_and_the_nodes_that_lack_least(world: World) -> None:
    """One member more needs six GPUs on the node that has two."""
    world.nodes(3)
    take(world, "node-0", 6)
    take(world, "node-1", 8)
    job = world.gang("train", 2)
    assert told(world, job) == ("cluster", "", 1, 2, {GPU: 6})
    assert list(miss(world, job).rows) == world.state.rows("node-0", "node-1")


def test_of_domains_it_is_the_one_that_holds_most() -> None:
    """With what is missing in it, though other racks have more free in all."""
    world = racked(2, 3)
    for node, gpus in (("r0-0", 4), ("r0-1", 4), ("r0-2", 4), ("r1-0", 7), ("r1-1", 8)):
        take(world, node, gpus)
    assert told(world, asking(world, "train", 2, required="rack")) == ("rack", "r1", 1, 2, {GPU: 7})


def test_of_domains_that_hold_as_many_it_is_the_first_by_name() -> None:
    """So that the answer is the same each time."""
    world = racked(3, 1)
    for rack in range(3):
        take(world, f"r{rack}-0", 1)
    assert told(world, asking(world, "train", 1, required="rack"))[:3] == ("rack", "r0", 0)


def test_what_not_even_empty_nodes_take_lacks_what_is_short_alone(world: World) -> None:
    """Three members of eight GPUs on two nodes: eight GPUs too few, and of CPUs there are plenty."""
    world.nodes(2)
    assert told(world, world.gang("train", 3)) == ("cluster", "", 2, 3, {GPU: 8})


def test_several_members_of_one_node_lack_together_what_it_has_too_little_of(world: World) -> None:
    """Two more members of two GPUs on a node that has one left lack three; CPUs are lacked once they run out."""
    world.nodes(1)
    take(world, "node-0", 7)
    assert told(world, world.gang("train", 2, gpus=2)) == ("cluster", "", 0, 2, {GPU: 3})


def test_a_domain_that_may_not_be_used_lacks_what_its_nodes_are_short_of() -> None:
    """A tainted rack with free GPUs lacks nothing by numbers: which nodes are left for the gang says what it is."""
    world = racked(1, 2)
    for node in list(world.state.nodes()):
        world.tell(NodeSeen(replace(node, taints=(Taint("dedicated", "infra", "NoSchedule"),))))
    assert told(world, asking(world, "train", 2, required="rack")) == ("rack", "r0", 0, 2, {})


def test_of_slices_it_is_the_domain_that_lacks_least_for_one_more() -> None:
    """Every two members share a rack, and of the second slice one finds room."""
    world = racked(2, 2)
    take(world, "r0-0", 3)
    job = asking(world, "train", 4, slices=(Slice(2, "rack"),))
    assert told(world, job) == ("rack", "r0", 1, 2, {GPU: 3})


def test_it_is_what_the_reason_says_is_short() -> None:
    """A block holds all six, and no rack a slice of three: the rack is told, and the third member of the slice."""
    world = racked(3, 1)
    job = asking(world, "train", 6, 4, required="block", slices=(Slice(3, "rack"),))
    assert job.reason is Reason.EXCEEDS_DOMAIN
    assert told(world, job)[:4] == ("rack", "r0", 2, 3)


def test_members_that_run_keep_the_others_near() -> None:
    """A rack that is empty is no help to a gang that is in another one already."""
    world = racked(2, 2)
    job = asking(world, "train", 2, required="rack")
    job.run()
    world.tell(PodGone(job.pods[0].uid))
    node = job.pods[0].node_name
    take(world, node, 8)
    world.tell(PodSeen(world.pod("train-2", 8, group=job.ref)))
    world.judge()
    found = told(world, job)
    assert (found[0], found[1], found[2], found[3]) == ("rack", node.partition("-")[0], 0, 1)


def test_roles_that_share_a_domain_are_looked_for_together() -> None:
    """The level is the group's."""
    world = racked(2, 2)
    take(world, "r0-0", 8)
    take(world, "r1-0", 2)
    roles = (RoleGroup(frozenset({"worker"}), "rack"),)
    options = Options(topology=TopologyTerms(role_groups=roles))
    job = world.gang("train", 0, min_member=2, group={"options": options})
    for index in range(2):
        job.pods.append(world.pod(f"train-{index}", 8, group=job.ref, role="worker"))
        world.tell(PodSeen(job.pods[-1]))
    world.judge()
    assert told(world, job) == ("rack", "r0", 1, 2, {GPU: 8})


def test_there_is_none_for_a_gang_that_lacks_no_node(world: World) -> None:
    """One that is placed, and one whose members do not exist."""
    world.nodes(1)
    assert explained(world, world.gang("placed", 1)).nearest is None
    assert explained(world, world.gang("absent", 0, min_member=2)).nearest is None


def test_there_is_none_where_nobody_knows_the_level() -> None:
    """Nothing can be near to what nobody can find; as many fit as do anywhere."""
    world = racked(1, 1)
    found = explained(world, asking(world, "train", 1, required="pod"))
    assert found.nearest is None
    assert found.waterfalls[0].fits == 1


def test_no_more_nodes_are_named_than_anybody_reads(world: World) -> None:
    """The first that lack least."""
    for name in world.nodes(MOST_ROWS + 10):
        take(world, name, 1)
    assert len(miss(world, world.gang("train", 2)).rows) == MOST_ROWS
