"""Gangs that ask for the topology: where they go, why they wait, and that nobody starves for it."""

from __future__ import annotations

from typing import Any

import pytest

from extender.admission.events import GroupGone, NodeSeen, NodeTopologySeen, PodGone, PodSeen
from extender.objects.keys import Options
from extender.objects.node import Node
from extender.objects.nodetopology import NodeTopology, TopologyPolicy, Zone
from extender.objects.reason import Reason
from extender.objects.topology import RoleGroup, Slice, TopologyTerms
from tests.worlds import GPU, Job, World

LEVELS = [{"name": "block", "nodeLabel": "block"}, {"name": "rack", "nodeLabel": "rack"}]


@pytest.fixture
def site() -> World:
    """Return a world of two blocks, each with two racks of two nodes: `b0-r0-0` to `b1-r1-1`."""
    world = World(topology_levels=LEVELS)
    for block in range(2):
        for rack in range(2):
            for index in range(2):
                add(world, f"b{block}-r{rack}-{index}", block, rack)
    return world


def add(world: World, name: str, block: int, rack: int) -> None:
    """Add a node of 8 H100 GPUs in a rack."""
    labels = {"block": f"b{block}", "rack": f"r{rack}", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    allocatable = {"cpu": 64_000, "memory": 2**40, "pods": 110, GPU: 8}
    world.tell(NodeSeen(Node(name, uid=name, allocatable=allocatable, labels=labels)))


def asking(world: World, name: str, members: int, gpus: int = 8, **terms: Any) -> Job:
    """Create a gang that asks for this of the topology."""
    return world.gang(name, members, gpus, group={"options": Options(topology=TopologyTerms(**terms))})


def numbers(job: Job) -> dict[str, int]:
    """Return the numbers of why a gang waits."""
    assert job.wait is not None
    return dict(job.wait.numbers)


class TestWhy:
    """Why a gang waits, with the constraint and the largest size that would fit."""

    def test_groups_of_roles_that_overlap(self, site: World) -> None:
        """Groups that share a role, none inside the other, cannot all be kept: the gang waits and names them."""
        groups = (RoleGroup(frozenset({"a", "b"}), "block"), RoleGroup(frozenset({"b", "c"}), "rack"))
        job = asking(site, "torn", 2, role_groups=groups)
        assert job.reason is Reason.INVALID_POD_GROUP
        assert job.wait is not None
        assert "a+b=block and b+c=rack overlap" in job.wait.message

    def test_never(self, site: World) -> None:
        """A gang that no rack could hold is told so at once, on an empty cluster or a full one."""
        job = asking(site, "wide", 3, required="rack")
        assert job.reason is Reason.EXCEEDS_DOMAIN
        assert numbers(job) == {"fits": 2, "minMember": 3}
        for index in range(8):
            site.gang(f"filler-{index}", 1).run()
        site.judge()
        assert job.reason is Reason.EXCEEDS_DOMAIN

    def test_now(self, site: World) -> None:
        """A gang that no rack has room for now waits for one, though the cluster has room enough."""
        for rack in ("b0-r0-0", "b0-r1-0", "b1-r0-0", "b1-r1-0"):
            one(site, rack)
        job = asking(site, "pair", 2, required="rack")
        assert job.reason is Reason.DOMAIN_FULL
        assert numbers(job) == {"fits": 1, "minMember": 2}

    def test_slices(self, site: World) -> None:
        """Slices that fit nowhere are counted in whole slices."""
        job = asking(site, "sliced", 9, 8, slices=(Slice(3, "rack"),))
        assert job.reason is Reason.EXCEEDS_CLUSTER
        other = asking(site, "smaller", 6, 8, slices=(Slice(3, "rack"),))
        assert other.reason is Reason.EXCEEDS_DOMAIN
        assert numbers(other) == {"fits": 0, "minMember": 6}

    @pytest.mark.parametrize(
        "terms",
        [
            {"required": "pod"},
            {"slices": (Slice(2, "pod"),)},
            {"role_groups": (RoleGroup(frozenset({"worker"}), "pod"),)},
        ],
    )
    def test_unknown_level(self, site: World, terms: dict[str, Any]) -> None:
        """A level that nobody knows is named, with those that are known."""
        job = asking(site, "lost", 2, **terms)
        assert job.reason is Reason.UNKNOWN_LEVEL
        assert job.wait is not None
        assert job.wait.message == "no topology level is called pod; known: block, rack, node"

    def test_preferred_level_is_unknown(self, site: World) -> None:
        """A preference for a level that nobody knows keeps nobody waiting."""
        assert len(asking(site, "free", 2, preferred="pod").reserved) == 2
        (note,) = site.effects().notes
        assert (note.warning, note.reason) == (True, "UnknownTopologyLevel")
        assert "pod" in note.message


class TestZones:
    """Gangs on nodes whose kubelet aligns to NUMA zones."""

    def align(self, world: World, name: str) -> None:
        """Let the kubelet of a node refuse what would span more zones than it must: two of four GPUs."""
        zones = tuple(Zone(index, f"node-{index}", {GPU: 4}, {GPU: 4}, {GPU: 4}) for index in range(2))
        world.tell(NodeTopologySeen(NodeTopology(name, TopologyPolicy.RESTRICTED, zones=zones)))
        world.admission.reconsider()

    def test_full(self) -> None:
        """A pod of four GPUs is not sent where four are free as 2 + 2, and is told why."""
        world = World()
        world.nodes(1)
        self.align(world, "node-0")
        jobs = [world.gang(f"filler-{index}", 1, gpus) for index, gpus in enumerate((2, 4, 2))]
        for job in jobs:
            job.run()
        jobs[1].finish()
        world.gang("two", 1, 2).run()
        jobs[0].finish()
        waiting = world.gang("four", 1, 4)
        assert waiting.reason is Reason.ZONES_FULL
        assert numbers(waiting) == {"fits": 0, "counted": 1, "minMember": 1}

    def test_never(self) -> None:
        """Six GPUs and a CPU for each container are more than the policy can ever grant in one zone."""
        world = World()
        world.nodes(1)
        zones = tuple(Zone(index, f"node-{index}", {GPU: 4}, {GPU: 4}, {GPU: 4}) for index in range(2))
        world.tell(NodeTopologySeen(NodeTopology("node-0", TopologyPolicy.SINGLE_NUMA_NODE, zones=zones)))
        job = world.gang("six", 1, 6)
        assert job.reason is Reason.NEVER_ALIGNED
        assert job.wait is not None
        assert "6 nvidia.com/gpu" in job.wait.message


class TestWhere:
    """Where gangs go."""

    def test_replacement(self, site: World) -> None:
        """A member that is lost is replaced in the same rack while there is room, else in the same block."""
        job = asking(site, "job", 3, 4, preferred="rack")
        job.run()
        rack = next(iter(job.pods)).node_name.rsplit("-", 1)[0]
        assert {pod.node_name.rsplit("-", 1)[0] for pod in job.pods} == {rack}
        lost = job.pods[2]
        site.tell(PodGone(lost.uid))
        job.pods[2] = site.pod("job-2", 4, group=job.ref)
        site.tell(PodSeen(job.pods[2]))
        site.judge()
        assert job.reserved["job-2"].rsplit("-", 1)[0] == rack

    def test_extras(self, site: World) -> None:
        """Members beyond minMember come as near to the others as there is room, or wait if they must be with them."""
        job = site.gang(
            "elastic", 5, 8, min_member=2, group={"options": Options(topology=TopologyTerms(required="block"))}
        )
        blocks = {node.split("-")[0] for node in job.reserved.values()}
        assert len(job.reserved) == 4
        assert len(blocks) == 1

    def test_described(self, site: World) -> None:
        """What is predicted of a gang is known as soon as it has a reservation, and gone with it."""
        job = asking(site, "job", 2, required="rack")
        placement = site.admission.placement_of(job.ref)
        assert placement is not None
        assert (placement.level, placement.bus_bandwidth) == ("rack", 475.0)
        site.tell(GroupGone(job.ref, job.gang.uid))
        assert site.admission.placement_of(job.ref) is None


def test_small_gangs_cannot_starve_a_rack(site: World) -> None:
    """A gang that needs a whole rack gets one, though single pods keep coming: its rack is kept free for it."""
    running = [one(site, f"b{block}-r{rack}-{index}") for block in range(2) for rack in range(2) for index in range(2)]
    job = asking(site, "rack", 2, required="rack")
    assert job.reason is Reason.DOMAIN_FULL or job.reason is Reason.INSUFFICIENT_CAPACITY
    for turn in range(8):
        site.gang(f"small-{turn}", 1)
        running[turn].finish()
        site.judge()
        if job.reserved:
            break
    assert len({node.rsplit("-", 1)[0] for node in job.reserved.values()}) == 1
    assert len(job.reserved) == 2


def one(world: World, node: str) -> Job:
    """Run a pod that takes a whole node."""
    job = world.gang(f"on-{node}", 1)
    job.see(0, node_name=node)
    return job
