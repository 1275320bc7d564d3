"""Plans and admission passes at full scale where the network has three tiers, against the budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from bench.fabric.clusters import MACHINES, PRODUCT
from bench.figures import Figure, of_repeats
from bench.options import Options, Say
from bench.placement import GPU, PLAN_BOUND_MS, running, timed, worker, workers
from extender.admission.engine import Engine
from extender.admission.events import Decide, GroupSeen, NodeSeen, PodSeen, Rebuild
from extender.clock import ManualClock
from extender.cluster.table import NodeTable
from extender.cluster.tree import build
from extender.cluster.whatif import WhatIf
from extender.objects.keys import Options as Keys
from extender.objects.levels import Level, Levels
from extender.objects.node import Node
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.topology import TopologyRequest, TopologyTerms
from extender.placement.candidates import Candidates, Eligibility, PlacementTerms
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
    candidates = Candidates(build(table, levels), Eligibility(table).mask)
    table.occupancy.refresh()
    figures = []
    for suffix, topology in _TERMS.items():
        for pods, gpus in gangs:
            gang = workers("gang", pods, worker(gpus, _CPU))

            def place(gang: list[Pod] = gang, topology: TopologyRequest = topology) -> None:
                found = plan(gang, WhatIf(table), candidates, PlacementTerms(topology=topology))
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
    engine = waiting_cluster(gangs, nodes, scattered)

    def prepare(_: int) -> None:
        engine.apply(Rebuild())

    def judge() -> None:
        if not engine.apply(Decide()).answer:
            raise AssertionError("no pass was asked for, so that there is nothing to time")

    return of_repeats(name, "ms", timed(judge, prepare, repeats))


def waiting_cluster(gangs: int, nodes: int, scattered: int) -> Engine:
    """Return the engine of a cluster in which pods run and gangs wait.

    Every second gang asks for four nodes of one rack, the others for eight nodes, wherever they are; `scattered` nodes
    are free, each in another rack. No two gangs ask for the same, so that no verdict holds for two of them.
    """
    levels = tuple(TopologyLevel(name=level, nodeLabel=level) for level in _TIERS)
    engine = Engine(Settings(topology_levels=levels), ManualClock())
    free = range(0, scattered * _NODES_OF_RACK, _NODES_OF_RACK)
    for number, node in enumerate(tiered_nodes(nodes)):
        engine.apply(NodeSeen(node))
        if number not in free:
            engine.apply(PodSeen(replace(running(number), scheduler_name="muster")))
    engine.apply(Rebuild())
    for number in range(gangs):
        name, gathers = f"waiting-{number:06}", number % 2 == 0
        options = Keys(topology=TopologyTerms(required="rack")) if gathers else Keys()
        pods = workers(name, _OF_A_RACK if gathers else _WAITING_MEMBERS, worker(_GPUS, _CPU + number))
        ref = GroupRef(COSCHEDULING, "bench", name)
        engine.apply(GroupSeen(PodGroup(ref, uid=f"uid-{name}", min_member=len(pods), created=name, options=options)))
        for pod in pods:
            engine.apply(PodSeen(pod))
    started = engine.apply(Decide())
    if started.nominations:
        raise AssertionError(f"{len(started.nominations)} pods were placed, where all gangs are to wait")
    return engine
