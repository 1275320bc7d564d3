"""Plans and admission passes at full scale where the network has three tiers, against the budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from bench.fabric.clusters import MACHINES, PRODUCT
from bench.figures import Figure, of_repeats
from bench.options import Options, Say
from bench.placement import GPU, PLAN_BOUND_MS, running, timed, worker, workers
from extender.admission.admission import Admission
from extender.clock import ManualClock
from extender.cluster.occupancy import Holding
from extender.cluster.table import NodeTable
from extender.cluster.tree import build
from extender.cluster.whatif import WhatIf
from extender.domain.keys import Options as Keys
from extender.domain.levels import Level, Levels
from extender.domain.membership import GroupApi, GroupRef
from extender.domain.node import Node
from extender.domain.pod import Pod
from extender.domain.podgroup import PodGroup
from extender.domain.topology import TopologyRequest, TopologyTerms
from extender.placement.eligibility import Eligibility
from extender.placement.ground import Ground, Terms
from extender.placement.plan import Shortfall, plan
from extender.settings import Settings, TopologyLevel

NODES, SHORT_NODES = 5_000, 1_000

#: Gangs as pods x GPUs of each: those of the budget.
GANGS = ((8, 8), (16, 4), (1_000, 1), (1_000, 8))
SHORT_GANGS = ((8, 8), (16, 4), (1_000, 1))
#: What the gangs ask of the topology: nothing, or one domain of a level; 64 nodes of a block hold no gang of 1,000 x 8.
_TERMS = {"": TopologyRequest(), "_preferred_block": TopologyRequest(preferred="block")}

#: Gangs that wait, half of which ask for a level.
PASS_GANGS, SHORT_PASS_GANGS = 1_000, 100
_WAITING_MEMBERS, _OF_A_RACK = 8, 4
#: Free nodes, each in another rack: enough for those that ask for a rack, but for the rack; too few for the others.
_SCATTERED = 7

_NODES_OF_RACK, _RACKS_OF_BLOCK, _BLOCKS_OF_ZONE = 8, 8, 8
_TIERS = ("zone", "block", "rack")
_GPUS, _CPU = 8, 8_000

_REPEATS, _SHORT_REPEATS = 20, 3


def measure(options: Options, say: Say) -> list[Figure]:
    """Measure plans and passes; times in milliseconds."""
    repeats = options.repeats or (_SHORT_REPEATS if options.short else _REPEATS)
    nodes = SHORT_NODES if options.short else NODES
    figures: list[Figure] = []
    if "plan" in options.cases:
        say(f"planning gangs on {nodes:,} busy nodes in three tiers")
        figures += measure_plans(nodes, SHORT_GANGS if options.short else GANGS, repeats)
    if "pass" in options.cases:
        gangs = SHORT_PASS_GANGS if options.short else PASS_GANGS
        for free in (0, _SCATTERED):
            say(f"judging {gangs:,} waiting gangs, half of which ask for a rack; {free} of {nodes:,} nodes are free")
            figures.append(pass_figure(f"pass_levels_{gangs}_gangs_{free}_free", gangs, nodes, repeats, scattered=free))
    return figures


def measure_plans(nodes: int, gangs: tuple[tuple[int, int], ...], repeats: int) -> list[Figure]:
    """Measure plans on a busy cluster, with what was worked out for former plans at hand, as when Muster runs."""
    table = busy_table(nodes)
    levels = Levels(tuple(Level(name, name) for name in _TIERS), "bench")
    ground = Ground(build(table, levels), Eligibility(table).mask)
    table.occupancy.states(Holding.ALL)
    figures = []
    for suffix, topology in _TERMS.items():
        for pods, gpus in gangs:
            gang = workers("gang", pods, worker(gpus, _CPU))

            def place(gang: list[Pod] = gang, topology: TopologyRequest = topology) -> None:
                found = plan(gang, WhatIf(table), ground, Terms(topology=topology))
                if isinstance(found, Shortfall):
                    raise AssertionError(  # noqa: TRY004 - no type is wrong: the cluster is
                        f"no room for {len(gang)} pods, so that there is nothing to time"
                    )

            times = timed(place, lambda _: None, repeats)
            name = f"plan_{pods}x{gpus}{suffix}"
            figures.append(of_repeats(name, "ms", times, bound=PLAN_BOUND_MS, exclusive=True))
    return figures


def tiered_nodes(count: int) -> Iterator[Node]:
    """Yield nodes of H100 in racks, blocks and zones."""
    for index in range(count):
        rack = index // _NODES_OF_RACK
        block = rack // _RACKS_OF_BLOCK
        labels = {
            PRODUCT: MACHINES["h100"].product,
            "rack": f"rack-{rack}",
            "block": f"block-{block}",
            "zone": f"zone-{block // _BLOCKS_OF_ZONE}",
        }
        allocatable = {"cpu": 128_000, "memory": 2 << 40, "pods": 110, GPU: _GPUS}
        yield Node(f"node-{index}", allocatable=allocatable, labels=labels)


def busy_table(count: int) -> NodeTable:
    """Return nodes of which two in five are empty, two in five full, and the rest filled by one GPU to seven."""
    random = Random(1)
    table = NodeTable()
    for index, node in enumerate(tiered_nodes(count)):
        table.upsert(node)
        left = random.choice((0, 0, 8, 8, random.randint(1, 7)))
        while left:
            gpus = random.choice([size for size in (1, 2, 4, 8) if size <= left])
            table.claim(f"running-{index}-{left}", node.name, worker(gpus, _CPU))
            left -= gpus
    return table


def pass_figure(name: str, gangs: int, nodes: int, repeats: int, *, scattered: int) -> Figure:
    """Time passes over gangs that all wait, half of them for a rack; so many nodes are free, each in another rack."""
    admission = waiting_cluster(gangs, nodes, scattered)

    def prepare(_: int) -> None:
        admission.rebuild()
        admission.take_effects()

    def judge() -> None:
        if not admission.decide():
            raise AssertionError("no pass was asked for, so that there is nothing to time")

    return of_repeats(name, "ms", timed(judge, prepare, repeats))


def waiting_cluster(gangs: int, nodes: int, scattered: int) -> Admission:
    """Return the admission of a cluster in which pods run and gangs wait.

    Every second gang asks for four nodes of one rack, the others for eight nodes, wherever they are; `scattered` nodes
    are free, each in another rack. No two gangs ask for the same, so that no verdict holds for two of them.
    """
    levels = tuple(TopologyLevel(name=level, nodeLabel=level) for level in _TIERS)
    admission = Admission(Settings(topology_levels=levels), ManualClock())
    free = range(0, scattered * _NODES_OF_RACK, _NODES_OF_RACK)
    for number, node in enumerate(tiered_nodes(nodes)):
        admission.node_seen(node)
        if number not in free:
            admission.pod_seen(replace(running(number), scheduler_name="muster"))
    admission.rebuild()
    for number in range(gangs):
        name, gathers = f"waiting-{number:06}", number % 2 == 0
        options = Keys(topology=TopologyTerms(required="rack")) if gathers else Keys()
        pods = workers(name, _OF_A_RACK if gathers else _WAITING_MEMBERS, worker(_GPUS, _CPU + number))
        ref = GroupRef(GroupApi.COSCHEDULING, "bench", name)
        admission.group_seen(PodGroup(ref, uid=f"uid-{name}", min_member=len(pods), created=name, options=options))
        for pod in pods:
            admission.pod_seen(pod)
    admission.decide()
    started = admission.take_effects()
    if started.nominations:
        raise AssertionError(f"{len(started.nominations)} pods were placed, where all gangs are to wait")
    return admission
