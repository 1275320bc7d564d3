"""Synthetic traces: sizes and runtimes with the heavy tails of the published ones, at a load of one's choice.

What published traces agree on (Jeon et al., USENIX ATC 2019, Philly; Hu et al., SC 2021, Helios; Weng et al., NSDI
2022, Alibaba PAI): most jobs take one GPU and a small part of all GPU time; a few large ones take most of it; runtimes
spread over five orders of magnitude, from seconds to weeks; larger jobs run longer; sizes are powers of two. The
parameters below are round numbers in that manner, not a fit to one of them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from muster_lab.traces.trace import Trace, TraceError, TraceJob, span_for

#: GPUs of a gang -> how many of 1,000 gangs have that many. The mean is 4.8.
SIZES: Mapping[int, int] = MappingProxyType(
    {1: 620, 2: 80, 4: 90, 8: 140, 16: 35, 32: 20, 64: 10, 128: 4, 256: 1},
)
#: Runtime of a gang with one GPU: log-normal with this median (seconds) and this spread of the logarithm.
MEDIAN_RUNTIME, RUNTIME_SPREAD = 1_380.0, 1.9
#: The median grows with the number of GPUs to this power.
SIZE_EXPONENT = 0.3
#: Nothing runs shorter or longer (seconds): a minute, a day. Longer ones would outlast a trace of 10,000 gangs.
SHORTEST, LONGEST = 60.0, 86_400.0
#: Priority -> how many of 100 gangs have it.
PRIORITIES: Mapping[int, int] = MappingProxyType({0: 70, 100: 20, -100: 10})
#: Share of a step that is communication -> how many of 100 gangs that train have it: models that fit one GPU and add up
#: gradients; language models over many GPUs (Domino, arXiv 2409.15241: up to 1.3 times as fast once it is hidden, so up
#: to a quarter); ranking models and mixtures of experts (Meta, OCP Global Summit 2022: up to half of the time).
COMMUNICATION: Mapping[float, int] = MappingProxyType({0.1: 40, 0.25: 40, 0.4: 20})
#: What comes with each GPU: milli-CPU and bytes. An eighth of a common server of 128 cores and 1 TiB, less a margin.
CPU_PER_GPU, MEMORY_PER_GPU = 12_000, 96 * 2**30


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a synthetic trace is made of.

    `load` is how many GPUs the gangs would use on average if no gang waited, as a share of those of the cluster,
    `nodes` with `gpus` each. Owners declare their runtime times a factor between 1 and `overestimate`, drawn evenly.
    Queues get shares of the gangs that halve from one pair to the next, as users' shares do: two large ones, two of
    half that. With `training` gangs communicate, have pods of one GPU as often as of two, four or a whole node, and a
    third of those of 4 to 64 GPUs have only three quarters of them, which fill no whole nodes.
    """

    gangs: int = 10_000
    nodes: int = 512
    gpus: int = 8
    load: float = 1.0
    queues: int = 8
    overestimate: float = 1.0
    seed: int = 1
    training: bool = False

    @property
    def capacity(self) -> int:
        """Return the GPUs of the cluster."""
        return self.nodes * self.gpus


def generate(recipe: Recipe) -> Trace:
    """Make the trace of a recipe: equal recipes give equal traces. Raises TraceError for one that makes no sense.

    The cluster is not empty when it begins: the first gangs are what would be running then, as long as they still have
    to run, so that the load is there from the first second to the last.
    """
    _check(recipe)
    drawn = random.Random(recipe.seed)
    first = _underway(recipe, drawn)
    bodies = [_draw(recipe, drawn) for _ in range(recipe.gangs - len(first))]
    # Given their number, the arrivals of a Poisson process are spread evenly; the last one is when it ends.
    arrivals = sorted(drawn.random() for _ in bodies)
    positions = [0.0] * len(first) + [at / arrivals[-1] for at in arrivals]
    jobs, width = [*first, *bodies], len(str(recipe.gangs - 1))
    span = span_for(jobs, positions, recipe.capacity, recipe.load)
    return Trace.of(
        replace(job, name=f"job-{index:0{width}d}", submitted=round(at * span, 3))
        for index, (at, job) in enumerate(zip(positions, jobs, strict=True))
    )


def _underway(recipe: Recipe, drawn: random.Random) -> list[TraceJob]:
    """Draw what runs when the trace begins: long gangs are met more often, at any moment of their run."""
    jobs: list[TraceJob] = []
    wanted, held = recipe.capacity * min(recipe.load, 1.0), 0
    while len(jobs) < recipe.gangs - 1:
        job = _draw(recipe, drawn)
        if drawn.random() * LONGEST >= job.runtime:
            continue
        held += job.all_gpus
        if held > wanted:
            break
        passed = drawn.random()
        left = max(round(job.runtime * (1 - passed)), 1)
        declared = None if job.declared is None else max(job.declared - (job.runtime - left), left)
        jobs.append(replace(job, runtime=float(left), declared=declared))
    return jobs


def _draw(recipe: Recipe, drawn: random.Random) -> TraceJob:
    """Draw a gang without name and arrival."""
    sizes = {size: weight for size, weight in SIZES.items() if size <= recipe.capacity}
    size = drawn.choices([*sizes], [*sizes.values()])[0]
    median = MEDIAN_RUNTIME * size**SIZE_EXPONENT
    runtime = float(round(min(max(drawn.lognormvariate(math.log(median), RUNTIME_SPREAD), SHORTEST), LONGEST)))
    gpus = min(size, recipe.gpus)  # as many in each pod as a node has, for a gang that takes more than one node
    communication = 0.0
    if recipe.training and size > 1:
        size = size * 3 // 4 if 4 <= size <= 64 and drawn.random() < 1 / 3 else size  # noqa: PLR2004 - as said
        gpus = drawn.choice([each for each in (1, 2, 4, recipe.gpus) if each <= gpus and size % each == 0])
        communication = drawn.choices([*COMMUNICATION], [*COMMUNICATION.values()])[0]
    queue = drawn.choices(range(recipe.queues), [0.5 ** (index // 2) for index in range(recipe.queues)])[0]
    return TraceJob(
        name="",
        submitted=0.0,
        runtime=runtime,
        pods=-(-size // gpus),
        gpus=gpus,
        cpu=gpus * CPU_PER_GPU,
        memory=gpus * MEMORY_PER_GPU,
        queue=f"team-{queue}",
        priority=drawn.choices([*PRIORITIES], [*PRIORITIES.values()])[0],
        declared=float(math.ceil(runtime * drawn.uniform(1.0, recipe.overestimate))),
        communication=communication,
    )


def _check(recipe: Recipe) -> None:
    for name, value, least in (
        ("gangs", recipe.gangs, 1),
        ("nodes", recipe.nodes, 1),
        ("gpus", recipe.gpus, 1),
        ("queues", recipe.queues, 1),
        ("overestimate", recipe.overestimate, 1),
    ):
        if not value >= least:
            raise TraceError(f"synthetic trace: {name} is {value}, but {least} is the least")
    if not (recipe.load > 0 and math.isfinite(recipe.load)):
        raise TraceError(
            f"synthetic trace: load is {recipe.load}, but has to be above 0 (1 is what the cluster can do)"
        )
