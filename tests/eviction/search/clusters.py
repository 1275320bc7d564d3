"""Clusters full of gangs, drawn from a seed, and what every search on them must find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extender.cluster.gangs import Gang
from extender.cluster.table import NodeTable
from extender.cluster.tree import build
from extender.cluster.whatif import WhatIf
from extender.eviction.search.choosing import Trial
from extender.eviction.search.search import FoundPreemption, search
from extender.eviction.search.units import Units, Victim, VictimEviction
from extender.judge import Case
from extender.ledger.earmark import Earmark
from extender.objects.levels import Level, Levels
from extender.objects.nodetopology import TopologyPolicy
from extender.objects.pod import Pod
from extender.objects.topology import TopologyRequest
from extender.placement.candidates import Candidates, Eligibility, PlacementTerms
from extender.placement.capacityview import CapacityViews, PodSet, PodSetRequest
from extender.placement.plan import Plan, plan
from extender.queues.order import position
from extender.queues.sharing import FlavorOffer, Option
from extender.queues.tree import QuotaShortage
from tests.cluster.conftest import group_ref, node, pod
from tests.hardware.nodes import topology

LEVELS = Levels((Level("block", "block"), Level("rack", "rack")), "tests")


@dataclass(frozen=True)
class Everything:
    """A budget that allows whatever is asked."""

    def allows(self, _: Sequence[Pod]) -> bool:
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
    victims: Sequence[Victim] = ()

    def offer(self, option: Option, leaving: Iterable[str] = ()) -> FlavorOffer:
        """Count them."""
        gone, theirs = set(leaving), (victim for victim in self.victims if victim.queue == self.queue)
        found = gpus(pod for victim in theirs for pod in (*victim.core, *victim.extras) if pod.uid in gone)
        shortage = QuotaShortage(self.queue, "", "nvidia.com/gpu", self.gpus, found, ever=False, most=0)
        return FlavorOffer(option, None if found >= self.gpus else shortage)

    def given_back(self, uid: str) -> Iterator[tuple[tuple[str, str, str], int]]:
        """Yield the GPUs of a pod of the queue."""
        for victim in self.victims:
            if victim.queue == self.queue:
                for each in (*victim.core, *victim.extras):
                    if each.uid == uid:
                        yield (self.queue, "", "nvidia.com/gpu"), gpus([each])


@dataclass
class Site:
    """Nodes, who runs on them, and what a search is given."""

    table: NodeTable
    victims: list[Victim] = field(default_factory=list)
    quota: ShortQuota | None = None
    budgets: Everything | PodBudget = field(default_factory=Everything)
    settled: dict[int, int] = field(default_factory=dict)

    @property
    def candidates(self) -> Candidates:
        """Return the ground that the nodes are."""
        return Candidates(build(self.table, LEVELS), Eligibility(self.table).mask, self.settled)

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

    def case(
        self, pods: Sequence[Pod], terms: PlacementTerms | None = None, kept: NDArray[np.int64] | None = None
    ) -> Case:
        """Return the case of a gang of `pods` that waits; `kept`, (resources, rows), is for another one."""
        terms = terms or PlacementTerms()
        waits, other = Gang(group_ref("head"), "head", 0.0), Gang(group_ref("other"), "other", 0.0)
        request = PodSetRequest.of_pods(pods, terms)
        views = CapacityViews(self.table, self.candidates.tree, Eligibility(self.table))
        earmarks = () if kept is None else (Earmark(other, position(other), kept),)
        pod_set = PodSet(waits, request, self.settled, _pods=list(pods))
        return Case(pod_set, "", views, earmarks=earmarks, quota=self._quota())  # type: ignore[arg-type] # it counts GPUs

    def search(self, pods: Sequence[Pod], terms: PlacementTerms | None = None) -> FoundPreemption | None:
        """Search whom to evict for `pods`."""
        return search(self.case(pods, terms), Option(), self.victims, self.budgets)

    def trial(self, pods: Sequence[Pod], terms: PlacementTerms | None = None) -> tuple[Trial, Units]:
        """Return what a search for `pods` works with."""
        case = self.case(pods, terms)
        found = Trial(case, Option(), case.view(Option()), self.budgets, ())
        return found, Units(self.victims, self.table, found.columns)

    def within_quota(self, gone: Iterable[Pod]) -> bool:
        """Tell whether quota is enough once these pods have left."""
        quota = self._quota()
        return quota is None or quota.offer(Option(), [pod.uid for pod in gone]).shortage is None

    def _quota(self) -> ShortQuota | None:
        return None if self.quota is None else replace(self.quota, victims=self.victims)

    def suffices(self, pods: Sequence[Pod], terms: PlacementTerms, evicted: Sequence[VictimEviction]) -> bool:
        """Tell by planning, quota and budgets whether evictions do what they are for."""
        gone = [pod for eviction in evicted for pod in eviction.pods]
        whatif = WhatIf(self.table)
        whatif.vacate(pod.uid for pod in gone)
        return (
            self.within_quota(gone)
            and self.budgets.allows(gone)
            and isinstance(plan(pods, whatif, self.candidates, terms), Plan)
        )


def gpus(pods: Iterable[Pod]) -> int:
    """Count the GPUs of pods."""
    return sum(pod.shape.request("nvidia.com/gpu") for pod in pods)


def gang(count: int, each: int, name: str = "head", **fields: Any) -> list[Pod]:
    """Return the pods of a gang that waits."""
    return [pod(f"{name}-{number:03}", each, **fields) for number in range(count)]


def required(level: str) -> PlacementTerms:
    """Return the terms of a gang that has to be in one domain of a level."""
    return PlacementTerms(topology=TopologyRequest(required=level))


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
        table.occupancy.put_topology(replace(topology(TopologyPolicy.SINGLE_NUMA_NODE), node=each.name))


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
            fields = {"priority": priority, "queue": queue, "preempts": random.random() < 0.7}
            site.run(f"job{number:02}", placed, extras=spare, seconds=float(seconds), **fields)
    return site


def lost_by_others(victim: Victim, victims: Sequence[Victim], has_room: Callable[[Victim], bool]) -> float:
    """Return what gangs of lower priority lose that a victim has evicted in turn: one after the other until it fits."""
    if not victim.preempts or has_room(victim):
        return 0.0
    lower = [each for each in victims if each.queue == victim.queue and each.priority < victim.priority]
    missing, lost = gpus(victim.core), 0.0
    for each in sorted(lower, key=lambda each: (each.priority, each.unsaved, each.uid)):
        if missing > 0:
            held = gpus((*each.core, *each.extras))
            missing, lost = missing - held, lost + each.unsaved * held
    return 0.0 if missing > 0 else lost


def cost(
    evictions: Sequence[VictimEviction], victims: Sequence[Victim] = (), has_room: Callable[[Victim], bool] = bool
) -> tuple[int, float, int, float]:
    """Return the cost of evictions as the search is to compare it: by another way of counting than its own.

    Of all `victims` those count that leave in turn for one that has no room elsewhere.
    """
    whole = [each for each in evictions if not each.victim.core or set(each.victim.core) <= set(each.pods)]
    whole = [each for each in whole if each.victim.core]
    alone = [each for each in evictions if each not in whole]
    return (
        max((each.victim.priority for each in evictions), default=0),
        sum(each.victim.unsaved * gpus(each.pods) + lost_by_others(each.victim, victims, has_room) for each in whole),
        len(whole),
        sum(each.victim.unsaved * gpus(each.pods) for each in alone),
    )


def every_choice(victims: Sequence[Victim]) -> Iterator[list[VictimEviction]]:
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
            yield [VictimEviction(first, pods), *others] if pods else others
