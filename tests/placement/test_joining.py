"""Replacements of members that were lost: they go where the rest of their slice is, or of their roles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from random import Random

import pytest

from extender.admission.events import PodSeen
from extender.cluster.gangs import Gang
from extender.cluster.whatif import WhatIf
from extender.judge import HOPELESS, joined
from extender.objects.keys import Options
from extender.objects.levels import Level, Levels
from extender.objects.meta import Requirement, Selector, SelectorTerm
from extender.objects.pod import Phase, Pod, Shape
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.topology import RoleGroup, Slice, TopologyRequest, TopologyTerms
from extender.placement.capacityview import PodSet, PodSetRequest, settled_on
from extender.placement.plan import Plan, plan
from tests.cluster.conftest import node, pod, table_of
from tests.placement.conftest import ground_of
from tests.placement.exhaustive import LEVELS, Placeable, TooManyWaysError, drawn
from tests.worlds import Job, World

RACKS = Levels((Level("rack", "rack"),))


def gang_of(pods: Sequence[Pod], topology: TopologyRequest) -> Gang:
    """Return a gang that asks for this of the topology."""
    ref = GroupRef("scheduling.x-k8s.io", "default", "g")
    terms = TopologyTerms(topology.required, topology.preferred, topology.slices, topology.role_groups)
    group = PodGroup(ref, "uid", min_member=len(pods), options=Options(topology=terms))
    return Gang(ref, "uid", 0.0, group, {each.uid: each for each in pods})


def repaired(question: Placeable, kept: dict[str, str]) -> dict[str, str] | None:
    """Return the node of each pod (by UID) once those without one in `kept` are placed; None if they wait."""
    table, terms = question.table, question.terms
    for each in question.pods:
        if each.uid in kept:
            table.claim(each.uid, kept[each.uid], each.shape)
    gang = gang_of([replace(p, node_name=kept.get(p.uid, "")) for p in question.pods], terms.topology)
    lost = [each for each in gang.ordered() if each.uid not in kept]
    ground = ground_of(table, LEVELS)
    pod_set = PodSet(gang, PodSetRequest.of_pods(lost, terms), settled_on(gang, table), _pods=lost)
    pod_set = joined(pod_set, table, ground.tree)
    found = plan(pod_set.pods, WhatIf(table), replace(ground, settled=pod_set.settled), pod_set.demand.terms)
    for uid in kept:
        table.release(uid)
    return kept | found.nodes if isinstance(found, Plan) else None


def pinned(each: Pod, name: str) -> Pod:
    """Return a pod that may be on one node alone."""
    only = SelectorTerm(fields=(Requirement("metadata.name", "In", (name,)),))
    return replace(each, shape=replace(each.shape, selector=Selector(terms=(only,))))


def asked(seed: int) -> Placeable | None:
    """Return a question about slices or roles of which nothing has a place yet, None if that of the seed is none."""
    question = replace(drawn(seed), settled={}, vetoes=frozenset())
    topology = question.terms.topology
    parts = topology.slices or topology.role_groups
    return question if parts and all(group.required for group in topology.role_groups) else None


def after_a_loss(question: Placeable, random: Random) -> dict[str, str] | None:
    """Return where members still are (UID -> node) of a gang that was placed whole, with others on nodes since."""
    before = question.planned()
    if not isinstance(before, Plan):
        return None
    kept = {uid: name for uid, name in before.nodes.items() if random.random() < 0.6}
    cpu = {each.uid: each.shape.request("cpu") for each in question.pods}
    for each in list(question.table.nodes()):
        left = question.free(each.name).get("cpu", 0) - sum(cpu[uid] for uid, name in kept.items() if name == each.name)
        if random.random() < 0.4 and left >= 1000:
            question.table.claim(f"late-{each.name}", each.name, Shape((("cpu", 1000),)))
    return kept


@pytest.mark.parametrize("first", range(0, 800, 100))
def test_a_replacement_has_the_place_that_there_is(first: int) -> None:
    """On small random clusters lost members are placed if every slice and role can still be whole, and only so."""
    tried = 0
    for seed in range(first, first + 100):
        question, random = asked(seed), Random(seed)
        kept = None if question is None else after_a_loss(question, random)
        if question is None or not kept or len(kept) == len(question.pods):
            continue
        whole = replace(question, pods=tuple(pinned(p, kept[p.uid]) if p.uid in kept else p for p in question.pods))
        try:
            exists = whole.exists()
        except TooManyWaysError:
            continue
        tried += 1
        found = repaired(question, kept)
        assert (found is not None) == exists, seed
        assert found is None or not whole.problems(found), seed
    assert tried > 5


class TestSlices:
    """Which slice a replacement is of."""

    def placed(self, kept: dict[str, str], lost: list[str], topology: TopologyRequest) -> dict[str, str] | None:
        """Return where replacements go beside those kept, by name; three nodes of a rack with two CPUs each."""
        nodes = [node(f"n{index}", cpu=2000, labels={"rack": f"r{index // 2}"}) for index in range(4)]
        table, pods = table_of(nodes), [replace(pod(name), node_name=kept.get(name, "")) for name in (*kept, *lost)]
        for each in pods:
            if each.node_name:
                table.claim(each.uid, each.node_name, each.shape)
        gang, ground = gang_of(pods, topology), ground_of(table, RACKS)
        pod_set = PodSet.of_core(gang, len(lost), settled_on(gang, table))
        pod_set = joined(pod_set, table, ground.tree)
        found = plan(pod_set.pods, WhatIf(table), replace(ground, settled=pod_set.settled), pod_set.demand.terms)
        names = {each.uid: each.name for each in pods}
        return {names[uid]: name for uid, name in found.nodes.items()} if isinstance(found, Plan) else None

    def test_its_number_says_which(self) -> None:
        """The second of a slice joins the first, whichever other slice lacks one, too."""
        pairs = TopologyRequest(slices=(Slice(2, "node"),))
        assert self.placed({"g-0": "n0", "g-2": "n1"}, ["g-1", "g-3"], pairs) == {"g-1": "n0", "g-3": "n1"}
        assert self.placed({"g-0": "n0", "g-3": "n1"}, ["g-2"], pairs) == {"g-2": "n1"}

    def test_workers_numbered_from_one(self) -> None:
        """Where slices begin is seen from those that stand."""
        pairs = TopologyRequest(slices=(Slice(2, "node"),))
        kept = {"g-1": "n0", "g-3": "n1", "g-4": "n1", "g-6": "n2"}
        assert self.placed(kept, ["g-2", "g-5"], pairs) == {"g-2": "n0", "g-5": "n2"}

    def test_without_numbers_they_fill_up(self) -> None:
        """Pods with random names are not anyone's in particular: they go where members lack, then begin a slice."""
        pairs = TopologyRequest(slices=(Slice(2, "node"),))
        found = self.placed({"g-b": "n0", "g-d": "n1"}, ["g-a", "g-c", "g-e", "g-f"], pairs)
        assert found is not None
        assert (found["g-a"], found["g-c"]) == ("n0", "n1")
        assert found["g-e"] == found["g-f"]

    def test_slices_within_slices(self) -> None:
        """A slice by node that was lost whole is placed in the rack of the slice around it."""
        layers = TopologyRequest(slices=(Slice(4, "rack"), Slice(2, "node")))
        found = self.placed({"g-0": "n2", "g-1": "n2"}, ["g-2", "g-3"], layers)
        assert found == {"g-2": "n3", "g-3": "n3"}

    def test_a_role_stays_in_its_domain(self) -> None:
        """A replacement goes to the rack in which the others of its role have to be with it."""
        group = RoleGroup(frozenset({""}), "rack")
        assert self.placed({"g-0": "n3", "g-1": "n3"}, ["g-2"], TopologyRequest(role_groups=(group,))) == {"g-2": "n2"}

    def test_a_full_domain_is_waited_for(self) -> None:
        """There is room elsewhere, and not beside the others."""
        pairs = TopologyRequest(slices=(Slice(2, "node"),))
        assert self.placed({"g-0": "n0", "g-2": "n0"}, ["g-1", "g-3"], pairs) is None


@dataclass(frozen=True)
class Torn:
    """A gang in slices of `size` by rack, some of whose members are left: a place is a node. All by rack.

    Pods do not say by their names of which slice they are.
    """

    size: int
    members: int
    left: tuple[int, ...]
    free: tuple[int, ...]
    taken: tuple[int, ...]

    @classmethod
    def drawn(cls, seed: int) -> Torn:
        """Draw a gang that was whole, which of its members are left, and how many nodes are free or others' now."""
        random = Random(seed)
        size, members = random.randint(2, 4), random.randint(2, 9)
        left = [0, 0, 0]
        for first in range(0, members, size):
            rack = random.randrange(3)
            left[rack] += sum(random.random() < 0.5 for _ in range(first, min(first + size, members)))
        free, taken = ([random.choice((0, 0, 1, 2, 3, 5)) for _ in range(3)] for _ in range(2))
        return cls(size, members, tuple(left), tuple(free), tuple(taken))

    def has_place(self, free: Sequence[int]) -> bool:
        """Tell whether the members that were lost could go to free nodes so that all slices but one are whole."""
        lost = self.members - sum(self.left)
        for joining in product(*(range(each + 1) for each in free)):
            counts = [left + more for left, more in zip(self.left, joining, strict=True)]
            torn = sorted(count % self.size for count in counts)
            if sum(joining) == lost and torn == [0, 0, self.members % self.size]:
                return True
        return False

    def built(self) -> Job:
        """Return the gang as it stands, and as it is decided."""
        world = World(topology_levels=({"name": "rack", "nodeLabel": "rack"},))
        options = Options(topology=TopologyTerms(slices=(Slice(self.size, "rack"),)))
        ref = GroupRef("scheduling.x-k8s.io", "default", "g")
        job = Job(world, ref)
        kinds = ((self.left, ref, "left"), (self.taken, None, "other"))
        for rack in range(3):
            labels = {"rack": f"r{rack}"}
            world.nodes(self.free[rack], prefix=f"free{rack}", labels=labels)
            for counts, group, called in kinds:
                for name in world.nodes(counts[rack], prefix=f"{called}{rack}", labels=labels):
                    own = world.pod(f"{name}-x", 8, node_name=name, phase=Phase.RUNNING)
                    if group is not None:
                        own = replace(own, group=group)
                        job.pods.append(own)
                    world.tell(PodSeen(own))
        world.group(ref, self.members, options=options)
        job.pods += [world.pod(f"lost{at}-x", 8, group=ref) for at in range(self.members - sum(self.left))]
        for each in job.pods:
            world.tell(PodSeen(each))
        world.judge()
        return job


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_pods_without_numbers_have_the_place_that_there_is(first: int) -> None:
    """Whichever slice is the one with fewer members: if any choice of it has a place, so has the gang."""
    placed = waiting = 0
    for seed in range(first, first + 100):
        torn = Torn.drawn(seed)
        lost = torn.members - sum(torn.left)
        if not lost or not sum(torn.left):
            continue
        job = torn.built()
        if torn.has_place(torn.free):
            placed += 1
            assert len(job.reserved) == lost, (seed, torn, job.wait)
            continue
        waiting += 1
        assert not job.reserved, (seed, torn)
        if torn.has_place([free + taken for free, taken in zip(torn.free, torn.taken, strict=True)]):
            assert job.reason not in HOPELESS, (seed, torn, job.wait)
    assert min(placed, waiting) > 5
