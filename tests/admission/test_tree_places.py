"""Trees against exhaustive search: a gang starts if any of its choices has a place, and only as its parts ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest

from extender.admission.events import Decide, PodSeen
from extender.objects.branches import Branch, Standing
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason
from extender.objects.sources.volcano import VOLCANO
from extender.objects.topology import TopologyRequest
from extender.placement.candidates import PlacementTerms
from tests.placement.exhaustive import Placeable
from tests.worlds import Job, World

SHARE = 40
TIERS = [{"name": "block", "nodeLabel": "block"}, {"name": "rack", "nodeLabel": "rack"}]
LEVELS = ("block", "rack", "node")


def drawn(random: Random) -> Branch:
    """Return a tree of two parts with two leaves each, and levels at two of its inner nodes."""
    where = random.sample(range(3), 2)
    level = {at: random.choice(LEVELS) for at in where}
    firm = {at: random.random() < 0.8 for at in where}

    def part(at: int, name: str, parts: Iterable[Branch]) -> Branch:
        own, inner = level.get(at, ""), tuple(parts)
        levels = (own, "") if firm.get(at) else ("", own)
        return Branch(name, random.randint(1, len(inner)), inner, *levels)

    leaves = {name: [Branch(f"{name}{at}", random.randint(1, 2)) for at in range(2)] for name in "xy"}
    return part(0, "all", (part(at, name, leaves[name]) for at, name in enumerate("xy", start=1)))


def played(seed: int) -> tuple[World, Job, Branch]:
    """Return a gang with such a tree on a small cluster, judged."""
    random = Random(seed)
    tree = drawn(random)
    world = World(topology_levels=TIERS)
    for index in range(random.randint(2, 6)):
        labels = {"block": f"b{random.randrange(2)}", "rack": f"r{random.randrange(2)}"}
        world.nodes(1, random.choice([1, 2, 4]), prefix=f"n{index}", labels=labels)
    job = Job(world, GroupRef(VOLCANO, "default", "gang"))
    world.group(job.ref, 1, tree=tree)
    for role in sorted(tree.roles):
        gpus = random.choice([1, 1, 2, 3])
        for number in range(random.choice([0, 1, 2, 2, 3])):
            pod = world.pod(f"{role}-{number}", gpus, group=job.ref, role=role)
            job.pods.append(pod)
            world.tell(PodSeen(pod))
    return world, job, tree


def question(world: World, job: Job, tree: Branch, roles: Counter[str]) -> Placeable:
    """Return the question whether so many members of each role have a place as the tree asks."""
    terms, pods = tree.terms, []
    for role, count in sorted(roles.items()):
        pods += [pod for pod in job.pods if pod.role == role][:count]
    topology = TopologyRequest(terms.required, "", terms.slices, terms.role_groups)
    return Placeable(world.state.table, tuple(pods), PlacementTerms(topology=topology), {}, frozenset())


@pytest.mark.parametrize("first", range(0, 5 * SHARE, SHARE))
def test_a_tree_starts_if_any_choice_of_its_parts_has_a_place(first: int) -> None:
    """Depth 3, four leaves, levels at two nodes: the engine says what trying every node for every choice says."""
    started = 0
    for seed in range(first, first + SHARE):
        world, job, tree = played(seed)
        there = Counter(pod.role for pod in job.pods)
        standing = {role: Standing(there[role], 0) for role in tree.roles}
        choices = [each for each in tree.choices(standing.__getitem__) if all(there[r] >= n for r, n in each.items())]
        exists = any(question(world, job, tree, Counter(each)).exists() for each in choices)
        for _ in range(4):
            world.tell(Decide())
        held = {pod.uid: node for pod in job.pods if (node := job.reserved.get(pod.name))}
        counts = Counter(pod.role for pod in job.pods if pod.uid in held)
        assert tree.holds(counts.__getitem__) is exists, seed
        assert bool(held) is exists, seed
        if not choices and job.pods:
            assert job.reason in {Reason.ROLE_MEMBERS_MISSING, Reason.MEMBERS_MISSING}, seed
        if exists:
            started += 1
            assert not any(counts[role] for role in tree.torn(counts.__getitem__)), seed
            asked = question(world, job, tree, counts)
            placed = [pod for pod in job.pods if pod.uid in held]
            asked = Placeable(asked.table, tuple(placed), asked.terms, {}, frozenset())
            problems = [each for each in asked.problems(held) if "share no" in each or "admitted" in each]
            assert not problems, (seed, problems)
    assert started > SHARE // 5
