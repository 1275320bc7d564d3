"""A bound by the number of a tier: members are in one HyperNode whose tier is not above it, or anywhere."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from extender.admission.events import HyperNodeSeen, NodeSeen
from extender.objects.hypernodes import HyperNode
from extender.objects.keys import Options
from extender.objects.levels import up_to_tier
from extender.objects.meta import ObjectRef
from extender.objects.node import Node
from extender.objects.reason import Reason
from extender.objects.sources.volcano import VOLCANO, decode_volcano_pod_group, read_volcano
from extender.objects.topology import RoleGroup, Slice, TopologyTerms
from tests.builders import volcano_json, written
from tests.worlds import GPU, Job, World

#: Every forest in which `a` has two nodes, `b` one, `top` one of its own, and one node is in no HyperNode: the parents
#: of the first two, of tier 1. `mid` is of tier 2 and in `top`, which is of tier 4; so no tier 3 exists.
FORESTS = list(product(("", "mid", "top"), repeat=2))
OWN = {"a": {"n0", "n1"}, "b": {"n2"}, "mid": set[str](), "top": {"n3"}}
TIERS = {"a": 1, "b": 1, "mid": 2, "top": 4}
NODES = ["n0", "n1", "n2", "n3", "n4"]
NUMBERS = range(6)


def parents(forest: tuple[str, str]) -> dict[str, str]:
    """Return the parent of each HyperNode that has one."""
    return {name: parent for name, parent in zip("ab", forest, strict=True) if parent} | {"mid": "top"}


def fabric(forest: tuple[str, str]) -> World:
    """Return a world of five nodes of 8 GPUs in a forest of HyperNodes."""
    world, above = World(), parents(forest)
    for name in NODES:
        world.tell(NodeSeen(Node(name, uid=name, allocatable={"cpu": 64_000, "memory": 2**40, "pods": 110, GPU: 8})))
    for name, tier in TIERS.items():
        children = tuple(child for child, parent in above.items() if parent == name)
        about = ObjectRef("topology.volcano.sh/v1alpha1", "HyperNode", "", name, f"uid-{name}")
        world.tell(HyperNodeSeen(HyperNode(about, tier, nodes=frozenset(OWN[name]), children=children)))
    return world


def domains(forest: tuple[str, str], number: int) -> list[set[str]]:
    """Return the sets of nodes of which one has to hold what is bound to tiers up to `number`."""
    above, held = parents(forest), {name: set(nodes) for name, nodes in OWN.items()}
    for name in ("a", "b", "mid"):
        if name in above:
            held[above[name]] |= held[name]
    return [set(NODES)] if number > max(TIERS.values()) else [held[name] for name in TIERS if TIERS[name] <= number]


def asking(world: World, members: int, **terms: Any) -> Job:
    """Create a gang of pods of a whole node each."""
    return world.gang("train", members, 8, group={"options": Options(peers=TopologyTerms(**terms))})


@pytest.mark.parametrize("forest", FORESTS)
def test_a_gang_is_in_one_domain_up_to_the_tier(forest: tuple[str, str]) -> None:
    """For every forest, number and size: placed if and only if one such HyperNode has room, and within one."""
    for number, members in product(NUMBERS, range(1, 6)):
        job = asking(fabric(forest), members, required=up_to_tier(number))
        allowed = domains(forest, number)
        assert bool(job.reserved) is any(len(each) >= members for each in allowed), (number, members)
        assert not job.reserved or any(set(job.reserved.values()) <= each for each in allowed), (number, members)


@pytest.mark.parametrize("forest", FORESTS)
def test_slices_and_roles_are_in_one_domain_up_to_the_tier(forest: tuple[str, str]) -> None:
    """A part of the gang is bound as all of it would be; a bound above every tier binds no part."""
    for number in NUMBERS:
        allowed = domains(forest, number)
        pair = any(len(each) >= 2 for each in allowed)
        sliced = asking(fabric(forest), 2, slices=(Slice(2, up_to_tier(number)),))
        assert bool(sliced.reserved) is pair, number
        world = fabric(forest)
        groups = (RoleGroup(frozenset({"worker"}), up_to_tier(number)),)
        grouped = world.gang(
            "g", 2, 8, role="worker", group={"options": Options(peers=TopologyTerms(role_groups=groups))}
        )
        assert bool(grouped.reserved) is pair, number
        for job in (sliced, grouped):
            assert not job.reserved or any(set(job.reserved.values()) <= each for each in allowed), number


@pytest.mark.parametrize("forest", FORESTS)
def test_a_preferred_tier_keeps_no_gang_waiting(forest: tuple[str, str]) -> None:
    """For every number and size: within one domain up to the tier where one has room, else anywhere."""
    for number, members in product(NUMBERS, range(1, 6)):
        job = asking(fabric(forest), members, preferred=up_to_tier(number))
        roomy = [each for each in domains(forest, number) if len(each) >= members]
        assert len(job.reserved) == members, (number, members)
        assert not roomy or any(set(job.reserved.values()) <= each for each in roomy), (number, members)


def test_groups_of_roles_that_are_not_bound_do_not_overlap() -> None:
    """What may be anywhere in the cluster contradicts nothing."""
    groups = (RoleGroup(frozenset({"a", "worker"}), up_to_tier(9)), RoleGroup(frozenset({"b", "worker"}), "tier-1"))
    options = Options(topology=TopologyTerms(role_groups=groups))
    assert len(fabric(("mid", "mid")).gang("g", 2, 8, role="worker", group={"options": options}).reserved) == 2


def test_a_tier_below_all_keeps_the_gang_waiting() -> None:
    """The reason names the object and the field, and the tiers that there are."""
    world = fabric(("mid", "mid"))
    limit = {"mode": "hard", "highestTierAllowed": 0}
    group = read_volcano(decode_volcano_pod_group(written(volcano_json("train", networkTopology=limit))))
    job = world.gang("train", 2, 8, api=VOLCANO, group={"options": group.options})
    assert job.reason is Reason.UNKNOWN_LEVEL
    assert job.wait is not None
    assert job.wait.message == (
        "no topology level is called tier-0 or lower, to which networkTopology.highestTierAllowed of PodGroup "
        "default/train limits it; known: tier-4, tier-2, tier-1, node"
    )


def test_levels_without_numbers_keep_the_gang_waiting() -> None:
    """Nobody can tell which of them is tier 2; those that are called by numbers can be asked for."""
    for names, placed in ((("block", "rack"), False), (("tier-2", "tier-1"), True)):
        world = World(topology_levels=[{"name": name, "nodeLabel": f"example.com/{name}"} for name in names])
        labels = {f"example.com/{name}": "x" for name in names}
        allocatable = {"cpu": 64_000, "memory": 2**40, "pods": 110, GPU: 8}
        world.tell(NodeSeen(Node("n0", uid="n0", allocatable=allocatable, labels=labels)))
        assert bool(asking(world, 1, required=up_to_tier(2)).reserved) is placed
