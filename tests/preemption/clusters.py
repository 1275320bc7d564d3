"""Clusters full of gangs, drawn from a seed, and what every search on them must find."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from extender.cluster.table import NodeTable
from extender.cluster.tree import build
from extender.cluster.whatif import WhatIf
from extender.domain.levels import Level, Levels
from extender.domain.pod import Pod
from extender.domain.topology import TopologyRequest
from extender.numa.nodetopology import Policy
from extender.placement.eligibility import Eligibility
from extender.placement.ground import Ground, Terms
from extender.placement.plan import Plan, plan
from extender.preemption.search import Preemption, search
from extender.preemption.victim import Eviction, Victim
from tests.cluster.conftest import node, pod
from tests.numa.nodes import topology

LEVELS = Levels((Level("block", "block"), Level("rack", "rack")), "tests")


@dataclass(frozen=True)
class Everything:
    """A quota, or a budget, that allows whatever is asked."""

    def allows(self, _: Sequence[object]) -> bool:
        """Allow it."""
        return True


@dataclass(frozen=True)
class PodBudget:
    """A disruption budget: of the pods whose names begin with `prefix` so many may be evicted."""

    prefix: str
    allowed: int

    def allows(self, pods: Sequence[Pod]) -> bool:
        """Count them."""
        return sum(pod.name.startswith(self.prefix) for pod in pods) <= self.allowed


@dataclass(frozen=True)
class ShortQuota:
    """A quota that so many GPUs of a queue have to leave for."""

    queue: str
    gpus: int

    def allows(self, evicted: Sequence[tuple[Victim, Sequence[Pod]]]) -> bool:
        """Count them."""
        return gpus(pod for victim, pods in evicted if victim.queue == self.queue for pod in pods) >= self.gpus


@dataclass
class Site:
    """Nodes, who runs on them, and what a search is given."""

    table: NodeTable
    victims: list[Victim] = field(default_factory=list)
    quota: Everything | ShortQuota = field(default_factory=Everything)
    budgets: Everything | PodBudget = field(default_factory=Everything)
    settled: dict[int, int] = field(default_factory=dict)

    @property
    def ground(self) -> Ground:
        """Return the ground that the nodes are."""
        return Ground(build(self.table, LEVELS), Eligibility(self.table).mask, self.settled)

    def run(self, name: str, placed: Sequence[tuple[str, int]], **fields: Any) -> Victim:
        """Let a gang run: (node, GPUs) of its pods. `extras` of them, the last ones, are beyond its minimum."""
        spare = fields.pop("extras", 0)
        pods = [pod(f"{name}-{number}", gpus, node_name=at) for number, (at, gpus) in enumerate(placed)]
        for each in pods:
            self.table.claim(each.uid, each.node_name, each.shape)
        core = pods[: len(pods) - spare]
        values: dict[str, Any] = {
            "name": f"default/{name}",
            "uid": f"uid-{name}",
            "queue": "",
            "flavor": "",
            "priority": 0,
            "created": "",
            "core": tuple(core),
            "extras": tuple(reversed(pods[len(core) :])),
            "seconds": 100.0,
        }
        victim = Victim(**(values | fields))
        self.victims.append(victim)
        return victim

    def search(self, pods: Sequence[Pod], terms: Terms | None = None, free: WhatIf | None = None) -> Preemption | None:
        """Search whom to evict for `pods`."""
        whatif = free or WhatIf(self.table)
        return search(pods, whatif, self.ground, terms or Terms(), self.victims, quota=self.quota, budgets=self.budgets)

    def suffices(self, pods: Sequence[Pod], terms: Terms, evicted: Sequence[Eviction]) -> bool:
        """Tell by planning, quota and budgets whether evictions do what they are for."""
        gone = [pod for eviction in evicted for pod in eviction.pods]
        whatif = WhatIf(self.table)
        whatif.vacate(pod.uid for pod in gone)
        return (
            self.quota.allows([(eviction.victim, eviction.pods) for eviction in evicted])
            and self.budgets.allows(gone)
            and isinstance(plan(pods, whatif, self.ground, terms), Plan)
        )


def gpus(pods: Iterable[Pod]) -> int:
    """Count the GPUs of pods."""
    return sum(pod.shape.request("nvidia.com/gpu") for pod in pods)


def gang(count: int, each: int, name: str = "head", **fields: Any) -> list[Pod]:
    """Return the pods of a gang that waits."""
    return [pod(f"{name}-{number:03}", each, **fields) for number in range(count)]


def required(level: str) -> Terms:
    """Return the terms of a gang that has to be in one domain of a level."""
    return Terms(topology=TopologyRequest(required=level))


def racks(count: int, nodes: int = 4, each: int = 8, **fields: Any) -> NodeTable:
    """Return a table of so many racks, two in a block; node 2 of rack 1 is called r1-2."""
    table = NodeTable()
    for rack in range(count):
        labels = {"rack": f"r{rack}", "block": f"b{rack // 2}"}
        for number in range(nodes):
            table.upsert(node(f"r{rack}-{number}", each, labels=labels, **fields))
    return table


def align(table: NodeTable) -> None:
    """Let the kubelets of all nodes align pods with two zones of four GPUs."""
    for each in table.nodes():
        table.occupancy.put_topology(replace(topology(Policy.SINGLE_NUMA_NODE), node=each.name))


def full(random: Random, table: NodeTable, most: int) -> Site:
    """Return a site on which gangs of one to four pods run wherever there is room, `most` of them at most."""
    site = Site(table)
    free = {each.name: each.allocatable["nvidia.com/gpu"] for each in table.nodes()}
    for number in range(most):
        size, each = random.randint(1, 4), random.choice((1, 2, 4, 4, 8))
        names = random.choice((sorted(free), random.sample(sorted(free), len(free))))
        placed: list[tuple[str, int]] = []
        for name in names:
            while len(placed) < size and free[name] >= each:
                placed.append((name, each))
                free[name] -= each
        if placed:
            spare = random.choice((0, 0, 1)) if len(placed) > 1 else 0
            priority = random.choice((0, 0, 0, 5))
            queue = random.choice(("a", "b"))
            seconds = random.choice((0, 10, 60, 300, 3600))
            site.run(f"job{number:02}", placed, extras=spare, priority=priority, queue=queue, seconds=float(seconds))
    return site


def cost(evictions: Sequence[Eviction]) -> tuple[int, float, int, float]:
    """Return the cost of evictions as the search is to compare it: by another way of counting than its own."""
    whole = [each for each in evictions if not each.victim.core or set(each.victim.core) <= set(each.pods)]
    whole = [each for each in whole if each.victim.core]
    alone = [each for each in evictions if each not in whole]
    return (
        max((each.victim.priority for each in evictions), default=0),
        sum(each.victim.seconds * gpus(each.pods) for each in whole),
        len(whole),
        sum(each.victim.seconds * gpus(each.pods) for each in alone),
    )


def every_choice(victims: Sequence[Victim]) -> Iterator[list[Eviction]]:
    """Iterate over everything that can be evicted."""
    if not victims:
        yield []
        return
    first, rest = victims[0], victims[1:]
    ways = [
        tuple(pod for at, pod in enumerate(first.extras) if bits >> at & 1) for bits in range(1 << len(first.extras))
    ]
    if first.core:
        ways.append((*first.core, *first.extras))
    for others in every_choice(rest):
        for pods in ways:
            yield [Eviction(first, pods), *others] if pods else others
