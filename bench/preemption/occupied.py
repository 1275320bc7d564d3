"""Clusters full of gangs, drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from bench.placement import GPU, worker, workers
from extender.cluster.gangs import Gang
from extender.cluster.table import NodeTable
from extender.cluster.tree import build
from extender.eviction.search.search import FoundPreemption, search
from extender.eviction.search.units import Victim
from extender.judge import Case
from extender.objects.levels import Level, Levels
from extender.objects.node import Node
from extender.objects.pod import Pod
from extender.placement.candidates import Eligibility, PlacementTerms
from extender.placement.capacityview import CapacityViews, PodSet, PodSetRequest
from extender.queues.sharing import Option

GPUS_OF_NODE = 8
_CPU_OF_GPU = 8_000
#: How many gangs of all are on neighbouring nodes, as a packing scheduler leaves them; the others begin somewhere.
_NEIGHBOURS = 0.7
_LEVELS = Levels((Level("block", "block"), Level("rack", "rack")), "bench")


class Everything:
    """A budget that allows whatever is asked."""

    def allows(self, _: Sequence[Pod]) -> bool:
        """Allow it."""
        return True


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large what is drawn is.

    Racks, nodes of each, racks of a block; the numbers of pods that gangs have and of GPUs that pods have, each drawn
    alike often; how often a gang has extras; how many gangs there are at most, None for no limit.
    """

    racks: int
    nodes: int = 8
    block: int = 8
    pods: tuple[int, ...] = tuple(range(1, 65))
    gpus: tuple[int, ...] = (1, 1, 2, 4, 8)
    elastic: float = 0.2
    priorities: tuple[int, ...] = (0, 1, 2, 3)
    gangs: int | None = None


@dataclass
class Occupied:
    """Nodes, and who runs on them."""

    table: NodeTable
    victims: list[Victim] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Work out once what every search needs."""
        self.views = CapacityViews(self.table, build(self.table, _LEVELS), Eligibility(self.table))

    @property
    def pods(self) -> int:
        """Count the pods that may be evicted."""
        return sum(len(victim.core) + len(victim.extras) for victim in self.victims)

    def search(self, pods: Sequence[Pod], terms: PlacementTerms) -> FoundPreemption | None:
        """Search whom to evict for `pods`."""
        pod_set = PodSet(Gang(pods[0].group, "head", 0.0), PodSetRequest.of_pods(pods, terms), _pods=list(pods))
        return search(Case(pod_set, "", self.views), Option(), self.victims, Everything())


def head(count: int, gpus: int) -> list[Pod]:
    """Return the pods of the gang that others are to leave for."""
    return workers("head", count, worker(gpus, _CPU_OF_GPU * gpus))


def heads(shapes: Iterable[tuple[int, int]]) -> list[Pod]:
    """Return the pods of such a gang that has so many pods of so many GPUs of each shape."""
    return [
        replace(pod, uid=f"{pod.uid}-{gpus}", name=f"{pod.name}-{gpus}")
        for count, gpus in shapes
        for pod in head(count, gpus)
    ]


def occupy(seed: int, sizes: Sizes) -> Occupied:
    """Draw a cluster without a free GPU, or with so many gangs."""
    random = Random(seed)
    table = NodeTable()
    names = [f"node-{number}" for number in range(sizes.racks * sizes.nodes)]
    for number, name in enumerate(names):
        rack = number // sizes.nodes
        labels = {"rack": f"rack-{rack}", "block": f"block-{rack // sizes.block}"}
        allocatable = {"cpu": 128_000, "memory": 2 << 40, "pods": 110, GPU: GPUS_OF_NODE}
        table.upsert(Node(name, allocatable=allocatable, labels=labels))
    site = Occupied(table)
    free = dict.fromkeys(names, GPUS_OF_NODE)
    first = 0
    while first < len(names) and (sizes.gangs is None or len(site.victims) < sizes.gangs):
        count, gpus = random.choice(sizes.pods), random.choice(sizes.gpus)
        start = first if random.random() < _NEIGHBOURS else random.randrange(first, len(names))
        rooms = [name for name in (*names[start:], *names[first:start]) for _ in range(free[name] // gpus)][:count]
        for name in rooms:
            free[name] -= gpus
        if rooms:
            victim = _run(random, f"gang-{len(site.victims):04}", rooms, gpus, sizes)
            site.victims.append(victim)
            for pod in (*victim.core, *victim.extras):
                table.claim(pod.uid, pod.node_name, pod.shape)
        while first < len(names) and not free[names[first]]:
            first += 1
    table.occupancy.refresh()
    return site


def _run(random: Random, name: str, nodes: Sequence[str], gpus: int, sizes: Sizes) -> Victim:
    members = workers(name, len(nodes), worker(gpus, _CPU_OF_GPU * gpus))
    pods = [replace(pod, node_name=node) for pod, node in zip(members, nodes, strict=True)]
    spare = len(pods) // 4 if random.random() < sizes.elastic else 0
    core = pods[: len(pods) - spare]
    extras = tuple(reversed(pods[len(core) :]))
    priority, seconds = random.choice(sizes.priorities), float(random.randint(60, 200_000))
    return Victim(f"bench/{name}", name, "", "", priority, name, tuple(core), extras, seconds)
