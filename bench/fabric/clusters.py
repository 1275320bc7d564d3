"""Random clusters, partly filled, and the gangs that come to them; drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from random import Random
from types import MappingProxyType

from bench.placement import GPU, worker
from extender.hardware.products import PRODUCT_LABELS
from extender.objects.keys import GPU_LINKS
from extender.objects.levels import Level, Levels
from extender.objects.meta import Selector
from extender.objects.node import CLIQUE_LABEL, Node
from extender.objects.pod import Pod, Shape

PRODUCT = PRODUCT_LABELS[0]

#: NVLink bridges join neighbours: 0 with 1, 2 with 3, and so on.
_BRIDGES = "; ".join(
    " ".join("X" if one == other else "NV12" if one // 2 == other // 2 else "SYS" for other in range(8))
    for one in range(8)
)


@dataclass(frozen=True, slots=True)
class Machine:
    """A kind of node: what its product label says, its GPUs, and its link matrix if it needs one.

    `nvlink_rack` is how many nodes one multi-node NVLink domain has, 0 for nodes without any; the domain is the rack.
    """

    product: str
    gpus: int = 8
    links: str = ""
    nvlink_rack: int = 0


MACHINES: Mapping[str, Machine] = MappingProxyType(
    {
        "h100": Machine("NVIDIA-H100-80GB-HBM3"),
        "b200": Machine("NVIDIA-B200"),
        "a100": Machine("NVIDIA-A100-SXM4-80GB"),
        "gb200": Machine("NVIDIA-GB200", gpus=4, nvlink_rack=18),
        "v100": Machine("Tesla-V100-SXM2-32GB"),
        "bridge": Machine("NVIDIA-H100-PCIe", links=_BRIDGES),
        "l40s": Machine("NVIDIA-L40S"),
    }
)

#: Tiers, outermost first; a cluster has the innermost one, two or three of them.
_TIERS = (Level("zone", "zone"), Level("block", "block"), Level("rack", "rack"))

#: Sizes that are drawn alike often: pods of a gang, and GPUs of a pod.
_PODS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_GPUS = (1, 2, 4, 8)

#: How often a gang is drawn anew that asks for too much.
_ATTEMPTS = 20

#: Milli-CPU of one GPU's share of a pod: never what a node runs out of.
_CPU_OF_GPU = 8_000


@dataclass(frozen=True, slots=True)
class Job:
    """A gang: so many pods of so many GPUs each, on one kind of machine, as people name it in a node selector."""

    name: str
    machine: str
    pods: int
    gpus: int

    @property
    def shape(self) -> Shape:
        """Return what each of its pods asks for."""
        asked = worker(self.gpus, _CPU_OF_GPU * self.gpus)
        return Shape(asked.requests, selector=Selector(equals=((PRODUCT, MACHINES[self.machine].product),)))

    def members(self) -> list[Pod]:
        """Return its pods in member order."""
        shape, names = self.shape, (f"{self.name}-{number}" for number in range(self.pods))
        return [Pod(name, "bench", name, shape, scheduler_name="muster") for name in names]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes and tiers, gangs that run (each with the nodes of its pods), and gangs that come one after another."""

    nodes: Sequence[Node]
    levels: Levels
    running: Sequence[tuple[Job, Sequence[str]]]
    arriving: Sequence[Job]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Between what is drawn: nodes of a cluster, gangs that come, and the most pods of one."""

    nodes: tuple[int, int] = (4, 128)
    jobs: tuple[int, int] = (4, 16)
    most_pods: int = 64


def draw_cluster(seed: int, sizes: Sizes) -> Cluster:
    """Draw a cluster.

    It has one or two kinds of machine, in racks of their own, and one to three tiers. Its number of nodes is as likely
    to be between 4 and 8 as between 64 and 128. It was filled by gangs one after another, node by node, of which some
    have ended since: 30 to 90 % of the GPUs are taken. The gangs that come would all fit if only GPUs were counted.
    """
    random = Random(seed)
    least, most = sizes.nodes
    count = round(exp(random.uniform(log(least), log(most))))
    kinds = random.sample(sorted(MACHINES), random.choice((1, 1, 2)))
    tiers = random.randint(1, len(_TIERS))
    nodes = list(_draw_nodes(random, count, kinds))
    machine_of = {node.name: node.name.split("-")[0] for node in nodes}
    free = {node.name: node.allocatable[GPU] for node in nodes}
    totals = {kind: sum(free[name] for name, of in machine_of.items() if of == kind) for kind in kinds}
    running = [
        placed
        for kind in kinds
        for placed in _fill(
            random, kind, {name: gpus for name, gpus in free.items() if machine_of[name] == kind}, sizes
        )
    ]
    left = {
        kind: totals[kind] - sum(job.pods * job.gpus for job, _ in running if job.machine == kind) for kind in kinds
    }
    arriving = list(_draw_arrivals(random, left, sizes))
    return Cluster(nodes, Levels(_TIERS[-tiers:], "bench"), running, arriving)


def _draw_arrivals(random: Random, left: dict[str, int], sizes: Sizes) -> Iterator[Job]:
    """Yield gangs that ask together for no more than there is left of the GPUs of each kind."""
    for number in range(random.randint(*sizes.jobs)):
        kind = random.choice(sorted(left))
        if left[kind]:
            job = _draw_job(random, f"job-{number}", kind, left, sizes)
            left[kind] -= job.pods * job.gpus
            yield job


def _draw_nodes(random: Random, count: int, kinds: Sequence[str]) -> Iterator[Node]:
    """Yield nodes in racks of one kind each, racks in blocks, blocks in zones."""
    share = random.uniform(0.3, 0.7)
    counts = [count] if len(kinds) == 1 else [max(1, round(count * share)), max(1, count - round(count * share))]
    racks_of_block, blocks_of_zone = random.randint(2, 4), random.randint(2, 4)
    rack = 0
    for kind, nodes in zip(kinds, counts, strict=True):
        machine = MACHINES[kind]
        size = machine.nvlink_rack or random.choice((4, 8, 16))
        for number in range(nodes):
            here = rack + number // size
            block = here // racks_of_block
            labels = {
                PRODUCT: machine.product,
                "rack": f"rack-{here}",
                "block": f"block-{block}",
                "zone": f"zone-{block // blocks_of_zone}",
            }
            if machine.nvlink_rack:
                labels[CLIQUE_LABEL] = f"5a7e0000-0000-4000-8000-{here:012}.1"
            allocatable = {"cpu": 128_000, "memory": 2 << 40, "pods": 110, GPU: machine.gpus}
            annotations = {GPU_LINKS: machine.links} if machine.links else {}
            yield Node(f"{kind}-{number}", allocatable=allocatable, labels=labels, annotations=annotations)
        rack += -(-nodes // size)


def _fill(random: Random, kind: str, free: dict[str, int], sizes: Sizes) -> list[tuple[Job, Sequence[str]]]:
    """Return gangs that run on the nodes of one kind, given what each has: first fit until full, then some end."""
    total = sum(free.values())
    wanted = random.uniform(0.3, 0.9)
    gangs: list[tuple[Job, Sequence[str]]] = []
    failures = 0
    while failures < _ATTEMPTS and any(free.values()):
        job = _draw_job(random, f"{kind}-running-{len(gangs)}", kind, {kind: total}, sizes)
        rooms = [name for name, gpus in free.items() for _ in range(gpus // job.gpus)][: job.pods]
        if len(rooms) < job.pods:
            failures += 1
            continue
        for name in rooms:
            free[name] -= job.gpus
        gangs.append((job, rooms))
    random.shuffle(gangs)
    taken = sum(job.pods * job.gpus for job, _ in gangs)
    while gangs and taken - gangs[-1][0].pods * gangs[-1][0].gpus >= wanted * total:
        job, _ = gangs.pop()
        taken -= job.pods * job.gpus
    return gangs


def _draw_job(random: Random, name: str, kind: str, totals: Mapping[str, int], sizes: Sizes) -> Job:
    """Draw a gang that takes at most half of so many GPUs of its kind, a single one of them if that fails."""
    for _ in range(_ATTEMPTS):
        pods, gpus = random.choice(_PODS), random.choice(_GPUS)
        if pods <= sizes.most_pods and gpus <= MACHINES[kind].gpus and 2 * pods * gpus <= totals[kind]:
            return Job(name, kind, pods, gpus)
    return Job(name, kind, 1, 1)
