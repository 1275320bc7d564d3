"""Gangs with more pods than their minimum: any that do may start it, not only the first in member order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from random import Random

import pytest

from extender.admission.events import Decide, NodeSeen, PodSeen
from extender.objects.keys import Options
from extender.objects.pod import Phase, Pod, Shape
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason
from extender.objects.sources.volcano import VOLCANO
from extender.objects.topology import TopologyTerms
from tests.placement.exhaustive import LEVELS, Placeable, TooManyWaysError, drawn
from tests.queues.test_sharing import queue, tell
from tests.worlds import Job, World

#: Clusters of one test, and those by which mistakes were found.
SEEDS, FOUND = 300, (2362, 2425)

REF = GroupRef(VOLCANO, "default", "gang")


@dataclass(frozen=True)
class Beginning:
    """A question: may `minimum` of the pods be placed, with so many of each role at least?"""

    of: Placeable
    minimum: int
    role_minimums: Mapping[str, int]

    @classmethod
    def drawn(cls, seed: int) -> Beginning:
        """Return the question of a seed: a random cluster, and a gang that needs some of its pods."""
        question, random = drawn(seed), Random(f"any {seed}")
        roles = Counter(pod.role for pod in question.pods)
        minimums = {role: random.randint(1, count) for role, count in roles.items() if random.random() < 0.3}
        minimum = random.randint(max(1, sum(minimums.values())), len(question.pods))
        return cls(replace(question, settled={}, vetoes=frozenset()), minimum, minimums)

    def exists(self) -> bool:
        """Tell whether there is a placement of any choice, by trying all."""
        return any(replace(self.of, pods=pods).exists() for pods in self._choices())

    def _choices(self) -> Iterator[tuple[Pod, ...]]:
        kinds: dict[tuple[str, Shape], list[Pod]] = {}
        for pod in self.of.pods:
            kinds.setdefault((pod.role, pod.shape), []).append(pod)
        for counts in product(*(range(len(own) + 1) for own in kinds.values())):
            chosen = [pod for own, count in zip(kinds.values(), counts, strict=True) for pod in own[:count]]
            if self.has_minimums(chosen) and len(chosen) == self.minimum:
                yield tuple(pod for pod in self.of.pods if pod in chosen)

    def has_minimums(self, pods: Iterable[Pod]) -> bool:
        """Tell whether some pods are as many as the gang needs, in all and of each role."""
        found = Counter(pod.role for pod in pods)
        return found.total() >= self.minimum and all(found[role] >= own for role, own in self.role_minimums.items())

    def played(self) -> Job:
        """Return the gang once Muster has decided about it, and has gone on as long as there was something to do."""
        levels = [{"name": each.name, "nodeLabel": each.label} for each in LEVELS.levels]
        world, table, number = World(topology_levels=levels), self.of.table, 0
        for node in table.nodes():
            world.tell(NodeSeen(node))
            for _, claim in table.claims_on(node.name):
                other = world.pod(f"other-{number}", node_name=node.name, phase=Phase.RUNNING)
                world.tell(PodSeen(replace(other, shape=claim.shape, scheduler_name="default-scheduler")))
                number += 1
        asked = self.of.terms.topology
        topology = TopologyTerms(
            asked.required, asked.preferred, asked.slices, asked.role_groups, objective=asked.objective
        )
        options = Options(topology=topology, packing=self.of.terms.packing)
        world.group(REF, self.minimum, role_minimums=tuple(sorted(self.role_minimums.items())), options=options)
        job = Job(world, REF, [replace(pod, group=REF, created="2026-01-01T00:00:00Z") for pod in self.of.pods])
        for pod in job.pods:
            world.tell(PodSeen(pod))
        decide(job)
        return job


def decide(job: Job) -> None:
    """Let pass follow pass until a gang has its places, or nothing more is tried."""
    job.world.tell(Decide())
    for _ in range(100):
        if job.reason is not Reason.SEARCH_GAVE_UP:
            break
        job.world.tell(Decide())


def check(seeds: Iterable[int]) -> int:
    """Compare what Muster does with trying every choice on every node; return how many gangs have a place."""
    feasible = 0
    for seed in seeds:
        question = Beginning.drawn(seed)
        try:
            exists = question.exists()
        except TooManyWaysError:
            continue
        job = question.played()
        reserved = [pod for pod in job.pods if pod.name in job.reserved]
        assert bool(reserved) == exists, f"seed {seed}: {job.wait}"
        assert not reserved or question.has_minimums(reserved), seed
        feasible += exists
    return feasible


def test_no_gang_is_missed_that_can_start_with_any_of_its_pods() -> None:
    """On small random clusters a gang starts if any choice of its pods that makes up its minimums has a place."""
    assert check((*range(SEEDS), *FOUND)) > SEEDS // 3


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(1_000, 11_000, 1_000))
def test_no_gang_is_missed_at_length(first: int) -> None:
    """The same of 10,000 clusters."""
    assert check(range(first, first + 1_000)) > 300


def mixed(world: World, minimum: int, **roles: tuple[int, int]) -> Job:
    """Create a gang of so many pods of so many GPUs for each role, and let it be decided about."""
    world.group(REF, minimum, options=Options(queue="team"))
    job = Job(world, REF)
    for role, (count, gpus) in roles.items():
        job.pods += [world.pod(f"{role}-{index}", gpus, group=REF, role=role) for index in range(count)]
    for pod in job.pods:
        world.tell(PodSeen(pod))
    decide(job)
    return job


def test_members_that_the_quota_allows_start(world: World) -> None:
    """The first member asks for more than its Queue can ever have; two others are within that, which is enough."""
    world.nodes(2)
    tell(world, queue("team", 4))
    job = mixed(world, 2, a=(1, 8), b=(2, 1))
    assert set(job.reserved) == {"b-0", "b-1"}


def test_never_is_said_of_a_quota_only_if_no_choice_is_within_it(world: World) -> None:
    """What some members ask for is more than can ever be had; what others do is not, it is only taken now."""
    world.nodes(2)
    tell(world, queue("team", 4))
    other = world.gang("other", 1, 3, options=Options(queue="team"))
    other.run()
    job = mixed(world, 2, a=(1, 8), b=(2, 1))
    assert job.reason is Reason.QUOTA_EXCEEDED
    other.finish()
    decide(job)
    assert set(job.reserved) == {"b-0", "b-1"}


def test_never_is_said_of_a_quota_that_no_choice_is_within(world: World) -> None:
    """Whichever members it would start with."""
    world.nodes(2)
    tell(world, queue("team", 1))
    job = mixed(world, 2, a=(2, 8), b=(2, 1))
    assert job.reason is Reason.EXCEEDS_QUOTA
