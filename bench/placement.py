"""Placing gangs, in one process: a plan by the size of the gang, an admission pass by how many gangs wait."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from bench.figures import Figure, of_repeats, ratio
from bench.options import Options, Say
from extender.admission.engine import Engine
from extender.admission.events import Decide, GroupSeen, NodeSeen, PodGone, PodSeen, Rebuild
from extender.clock import ManualClock
from extender.cluster.table import NodeTable
from extender.cluster.tree import build
from extender.cluster.whatif import WhatIf
from extender.objects import keys
from extender.objects.levels import Levels
from extender.objects.node import Node
from extender.objects.pod import Phase, Pod, Shape
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.placement.candidates import Candidates, Eligibility, PlacementTerms
from extender.placement.plan import plan
from extender.settings import Settings

CASES: Mapping[str, str] = {
    "plan": "what a plan takes, by pods and nodes",
    "pass": "what a pass over waiting gangs takes, by gangs and nodes",
}

GPU = "nvidia.com/gpu"
#: GPUs of a node; milli-CPU of a worker; members of a gang that waits.
_GPUS, _CPU, _WAITING_MEMBERS = 8, 8_000, 8
#: Pods of a plan, nodes of a cluster, gangs that wait.
PLAN_PODS, PLAN_NODES, FEWER_NODES = (8, 100, 1_000, 5_000), 5_000, 500
PASS_GANGS, PASS_NODES = (1, 100, 1_000), (500, 5_000)
SHORT_PASS_GANGS, SHORT_PASS_NODES = (1, 100), (500,)
#: Members of the gang that has its nodes and has not started: a pass has to leave it alone.
RESERVED = 1_000
#: Milliseconds: the budget for a gang of 1,000.
PLAN_BOUND_MS = 20.0

_REPEATS, _SHORT_REPEATS = 20, 5


def measure(options: Options, say: Say) -> list[Figure]:
    """Measure plans and passes; times in milliseconds."""
    repeats = options.repeats or (_SHORT_REPEATS if options.short else _REPEATS)
    figures: list[Figure] = []
    if "plan" in (options.cases or CASES):
        say("planning gangs")
        figures += measure_plans(repeats)
    if "pass" in (options.cases or CASES):
        gangs, nodes = (SHORT_PASS_GANGS, SHORT_PASS_NODES) if options.short else (PASS_GANGS, PASS_NODES)
        figures += measure_passes(gangs, nodes, repeats, say)
    return figures


def measure_plans(repeats: int) -> list[Figure]:
    """Measure the plan of a gang of workers that are all alike, on empty nodes."""
    by_pods = {
        pods: plan_figure(f"plan_{pods}", PLAN_NODES, pods, repeats, PLAN_BOUND_MS if pods == 1_000 else None)  # noqa: PLR2004 - the gang of the budget
        for pods in PLAN_PODS
    }
    fewer = plan_figure(f"plan_1000_on_{FEWER_NODES}", FEWER_NODES, 1_000, repeats)
    return [
        ratio("plan_growth_1000_to_5000_pods", by_pods[5_000], by_pods[1_000]),
        ratio(f"plan_growth_{FEWER_NODES}_to_{PLAN_NODES}_nodes", by_pods[1_000], fewer),
        *by_pods.values(),
        fewer,
    ]


def plan_figure(name: str, nodes: int, pods: int, repeats: int, bound: float | None = None) -> Figure:
    """Time the plan of one gang on so many nodes."""
    table = NodeTable()
    for node in gpu_nodes(nodes):
        table.upsert(node)
    candidates = Candidates(build(table, Levels()), Eligibility(table).mask)
    gang = workers("gang", pods, worker(1, _CPU))

    def place() -> None:
        plan(gang, WhatIf(table), candidates, PlacementTerms())

    return of_repeats(name, "ms", timed(place, lambda _: None, repeats), bound=bound, exclusive=True)


def measure_passes(gangs: Sequence[int], nodes: Sequence[int], repeats: int, say: Say) -> list[Figure]:
    """Measure the first pass over all gangs, and the one after a single gang has changed."""
    figures = []
    for node_count in nodes:
        for gang_count in gangs:
            say(f"judging {gang_count:,} waiting gangs on {node_count:,} nodes")
            full, changed = pass_figures(gang_count, node_count, repeats)
            name = f"pass_changed_vs_full_{gang_count}_gangs_{node_count}_nodes"
            figures += [ratio(name, changed, full), full, changed]
    return figures


def pass_figures(gangs: int, nodes: int, repeats: int) -> tuple[Figure, Figure]:
    """Time passes over so many gangs that wait for room: one over all of them, and one after one has changed."""
    engine = full_cluster(gangs, nodes)
    name = f"{gangs}_gangs_{nodes}_nodes"

    def prepare_all(_: int) -> None:
        engine.apply(Rebuild())

    def prepare_one(number: int) -> None:
        """Let a member come, or go again."""
        gang = number // 2 % gangs
        *_, joining = workers(f"waiting-{gang:06}", _WAITING_MEMBERS + 1, worker(_GPUS, cpu=_CPU + gang))
        if number % 2:
            engine.apply(PodGone(joining.uid))
        else:
            engine.apply(PodSeen(joining))

    def judge() -> None:
        if not engine.apply(Decide()).answer:
            raise AssertionError("no pass was asked for, so that there is nothing to time")

    full = of_repeats(f"pass_full_{name}", "ms", timed(judge, prepare_all, repeats))
    changed = of_repeats(f"pass_changed_{name}", "ms", timed(judge, prepare_one, 2 * repeats))
    return full, changed


def full_cluster(gangs: int, nodes: int) -> Engine:
    """Return the engine of a full cluster: pods that run, one gang that has been placed, and gangs that wait.

    The gangs that wait differ in what their pods ask for, so that no verdict holds for two of them.
    """
    engine = Engine(Settings(), ManualClock())
    for node in gpu_nodes(nodes):
        engine.apply(NodeSeen(node))
    for number in range(nodes - RESERVED // _GPUS):
        engine.apply(PodSeen(running(number)))
    engine.apply(Rebuild())
    add_gang(engine, "placed", workers("placed", RESERVED, worker(1, _CPU)))
    engine.apply(Decide())
    for number in range(gangs):
        name = f"waiting-{number:06}"
        add_gang(engine, name, workers(name, _WAITING_MEMBERS, worker(_GPUS, cpu=_CPU + number)))
    engine.apply(Decide())
    return engine


def add_gang(engine: Engine, name: str, pods: Sequence[Pod], options: keys.Options = keys.NO_OPTIONS) -> None:
    """Let a PodGroup and its pods come, all of which are its minimum; the names say which gang is older."""
    ref = GroupRef(COSCHEDULING, "bench", name)
    engine.apply(GroupSeen(PodGroup(ref, uid=f"uid-{name}", min_member=len(pods), created=name, options=options)))
    for pod in pods:
        engine.apply(PodSeen(pod))


def gpu_nodes(count: int) -> Iterator[Node]:
    """Yield nodes of eight GPUs."""
    for index in range(count):
        yield Node(
            f"node-{index}",
            allocatable={"cpu": 128_000, "memory": 2 << 40, "pods": 110, GPU: _GPUS},
            labels={"zone": "a"},
        )


def worker(gpus: int, cpu: int) -> Shape:
    """Return what a worker asks for; `cpu` in milli-CPU."""
    return Shape((("cpu", cpu), ("memory", 64 << 30), (GPU, gpus), ("pods", 1)))


def workers(gang: str, count: int, shape: Shape) -> list[Pod]:
    """Return the pods of a gang that are all alike."""
    ref = GroupRef(COSCHEDULING, "bench", gang)
    names = (f"{gang}-{number}" for number in range(count))
    return [Pod(name, "bench", name, shape, created=gang, group=ref, scheduler_name="muster") for name in names]


def running(number: int) -> Pod:
    """Return a pod without gang that runs and has all GPUs of its node."""
    name, shape = f"running-{number}", worker(_GPUS, _CPU)
    return Pod(name, "bench", name, shape, created="0", node_name=f"node-{number}", phase=Phase.RUNNING)


def timed(call: Callable[[], object], prepare: Callable[[int], None], repeats: int) -> list[float]:
    """Return how many milliseconds of the processor each call took, after one warm-up: a busy machine adds none.

    `prepare` gets each call's number, untimed.
    """
    taken = []
    gc.collect()
    gc.disable()  # a collection would hit one call with the garbage of all
    try:
        for number in range(repeats + 1):
            prepare(number)
            began = time.process_time()
            call()
            taken.append((time.process_time() - began) * 1000)
    finally:
        gc.enable()
    return taken[1:]
