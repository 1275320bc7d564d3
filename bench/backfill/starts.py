"""What it costs to say when a gang will start."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from bench.figures import Figure, of_repeats
from bench.options import Say
from extender.cluster.table import NodeTable
from extender.cluster.tree import build
from extender.cluster.whatif import WhatIf
from extender.objects.levels import Levels
from extender.objects.node import Node
from extender.objects.pod import Pod, Shape
from extender.placement.backfill.outlook import Calendar, Release
from extender.placement.backfill.start import Blocked, earliest_start
from extender.placement.candidates import Candidates, Eligibility, PlacementTerms
from extender.placement.earmark import MOST_BLOCKED, CapacityProfile

GPU = "nvidia.com/gpu"
_GPUS = 8

#: Gangs that run, as the budget has it; seconds from the first of them to end to the last.
RUNNING, SPAN = 300, 10_000

#: Milliseconds for one start.
BOUND_MS = 20.0


@dataclass(frozen=True, slots=True)
class Case:
    """A full cluster and a gang that waits: nodes, pods of each running gang, and pods x GPUs of the one that waits.

    `bound` is in milliseconds, None where the budget names none.
    """

    nodes: int
    running_pods: int
    pods: int
    gpus: int
    bound: float | None = BOUND_MS

    @property
    def name(self) -> str:
        """Return what its figures are called after."""
        return f"{self.pods}x{self.gpus}_on_{self.nodes}"


#: Gangs of usual size, within the budget; and what a start costs at worst: a gang that has to wait for most to end.
CASES = (
    Case(1_000, 3, 8, 8),
    Case(1_000, 3, 64, 8),
    Case(5_000, 16, 8, 8),
    Case(5_000, 16, 64, 8),
    Case(5_000, 16, 1_000, 8, None),
    Case(5_000, 16, 4_000, 8, None),
)
SHORT_CASES = (Case(400, 1, 8, 8),)


class Site:
    """The cluster of a case, and when what runs on it ends."""

    def __init__(self, case: Case) -> None:
        """Fill every node, with running gangs first and for the rest with work that does not say how long it runs."""
        random = Random(case.name)
        self.table = NodeTable()
        for index in range(case.nodes):
            allocatable = {"cpu": 128_000, "memory": 2 << 40, "pods": 110, GPU: _GPUS}
            self.table.upsert(Node(f"node-{index}", allocatable=allocatable, labels={"zone": "a"}))
        whole = shape(_GPUS)
        hosts = [f"node-{index}" for index in range(case.nodes)]
        random.shuffle(hosts)
        for index, host in enumerate(hosts):
            self.table.claim(f"pod-{index}", host, whole)
        size = case.running_pods
        members = ([f"pod-{gang * size + index}" for index in range(size)] for gang in range(RUNNING))
        releases = [Release(SPAN * random.random(), tuple(uids), f"gang-{n}") for n, uids in enumerate(members)]
        self.calendar = Calendar(releases, now=0.0)
        self.candidates = Candidates(build(self.table, Levels()), Eligibility(self.table).mask)
        self.table.occupancy.refresh()

    def free(self) -> WhatIf:
        """Return what is free: nothing."""
        return WhatIf(self.table)


def measure_starts(repeats: int, say: Say, *, short: bool) -> list[Figure]:
    """Measure a first start, one that was promised before and still holds, and the profile of several gangs."""
    figures: list[Figure] = []
    for case in SHORT_CASES if short else CASES:
        say(f"starts of {case.pods:,} pods on {case.nodes:,} nodes")
        figures += start_figures(case, repeats)
    say(f"starts of {MOST_BLOCKED} gangs, none of which delays another")
    return [*figures, profile_figure(SHORT_CASES[0] if short else CASES[1], max(repeats // 4, 1))]


def start_figures(case: Case, repeats: int) -> Iterator[Figure]:
    """Time one start, found for the first time and kept."""
    site, gang = Site(case), workers("gang", case.pods, case.gpus)
    found = earliest_start(gang, site.free(), site.candidates, PlacementTerms(), site.calendar)
    if found is None:
        raise AssertionError(f"{case.name}: nothing to time, since the gang never fits")

    def first() -> None:
        earliest_start(gang, site.free(), site.candidates, PlacementTerms(), site.calendar)

    def again() -> None:
        earliest_start(gang, site.free(), site.candidates, PlacementTerms(), site.calendar, promised=found)

    yield of_repeats(f"start_{case.name}", "ms", timed(first, repeats), bound=case.bound, exclusive=True)
    yield of_repeats(f"start_kept_{case.name}", "ms", timed(again, repeats), bound=case.bound, exclusive=True)


def profile_figure(case: Case, repeats: int) -> Figure:
    """Time conservative backfill: starts for as many gangs as get one."""
    site = Site(case)
    blocked = [
        Blocked(f"gang-{n}", workers(f"gang-{n}", case.pods, case.gpus), site.candidates, PlacementTerms(), 1_000.0)
        for n in range(MOST_BLOCKED)
    ]

    def lay() -> None:
        CapacityProfile(blocked, site.free(), site.calendar)

    return of_repeats(f"profile_of_{MOST_BLOCKED}_{case.name}", "ms", timed(lay, repeats))


def shape(gpus: int) -> Shape:
    """Return what a worker asks for."""
    return Shape((("cpu", 1_000 * gpus), ("memory", 64 << 30), (GPU, gpus), ("pods", 1)))


def workers(gang: str, count: int, gpus: int) -> list[Pod]:
    """Return the pods of a gang that are all alike."""
    each = shape(gpus)
    names = (f"{gang}-{number}" for number in range(count))
    return [Pod(name, "bench", name, each, created=gang, scheduler_name="muster") for name in names]


def timed(call: Callable[[], object], repeats: int) -> list[float]:
    """Return how many milliseconds each call took, after one warm-up."""
    call()
    taken = []
    gc.collect()
    gc.disable()  # a collection would hit one call with the garbage of all
    try:
        for _ in range(repeats):
            began = time.perf_counter()
            call()
            taken.append((time.perf_counter() - began) * 1000)
    finally:
        gc.enable()
    return taken
