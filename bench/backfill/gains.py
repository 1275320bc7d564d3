"""What is gained by backfill: utilisation and waits of one line of gangs, with and without."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from statistics import fmean

from bench.backfill.line import Backfilling, Job, Line
from bench.backfill.starts import GPU, workers
from bench.figures import Figure, of_repeats
from bench.options import Say
from extender.cluster.table import NodeTable
from extender.objects.node import Node

#: Nodes of 8 GPUs; gangs in a line; lines, each from other random numbers.
NODES, GANGS, LINES = 32, 150, 3
SHORT_NODES, SHORT_GANGS, SHORT_LINES = 8, 30, 1

#: Nodes of a gang, and how many of a hundred gangs have so many: many small, few large, mostly powers of two, as in
#: traces of parallel machines. The proportions are an assumption.
SIZES = {1: 55, 2: 15, 4: 12, 8: 10, 16: 6, 24: 2}

#: Minutes that a gang runs: between these, uniform on a logarithmic scale. Arrivals are so close that a cluster that is
#: always full would need this much longer than it takes them to come.
SHORTEST, LONGEST, LOAD = 5, 600, 1.05

#: How many times the real runtime is declared at most, uniformly from once, where runtimes are overstated.
OVERSTATED = 3.0


@dataclass(frozen=True, slots=True)
class Gain:
    """What one line came to: share of GPU-time in use until the last arrival's start, and waits in hours."""

    utilisation: float
    wait: float
    wait_of_large: float


def measure_gains(say: Say, *, short: bool) -> list[Figure]:
    """Play the same lines with each kind of backfill, with true runtimes and with overstated ones."""
    nodes, gangs, lines = (SHORT_NODES, SHORT_GANGS, SHORT_LINES) if short else (NODES, GANGS, LINES)
    figures: list[Figure] = []
    for label, overstated in (("true", 1.0), ("overstated", OVERSTATED)):
        for backfilling in Backfilling:
            say(f"{lines} lines of {gangs:,} gangs on {nodes:,} nodes, backfill {backfilling}, {label} runtimes")
            found = [play(nodes, draw(nodes, gangs, seed, overstated), backfilling) for seed in range(lines)]
            name = f"{backfilling}_{label}"
            figures += [
                of_repeats(f"utilisation_{name}", "share", [gain.utilisation for gain in found]),
                of_repeats(f"wait_mean_{name}", "h", [gain.wait for gain in found]),
                of_repeats(f"wait_mean_of_large_{name}", "h", [gain.wait_of_large for gain in found]),
            ]
    return figures


def draw(nodes: int, gangs: int, seed: int, overstated: float) -> list[Job]:
    """Draw gangs that come one after the other, whose pods have whole nodes; runtimes are declared, never too short."""
    random = Random(seed)
    sizes = [min(size, nodes) for size in random.choices(list(SIZES), list(SIZES.values()), k=gangs)]
    runtimes = [60 * SHORTEST * (LONGEST / SHORTEST) ** random.random() for _ in sizes]
    work = sum(size * runtime for size, runtime in zip(sizes, runtimes, strict=True))
    pause = work / nodes / LOAD / gangs
    jobs, now = [], 0.0
    for number, (size, runtime) in enumerate(zip(sizes, runtimes, strict=True)):
        now += random.expovariate(1 / pause)
        declared = runtime * (1 + (overstated - 1) * random.random())
        pods = tuple(workers(f"g{number}", size, 8))
        jobs.append(Job(f"g{number}", pods, now, runtime, declared))
    return jobs


def play(nodes: int, jobs: list[Job], backfilling: Backfilling) -> Gain:
    """Play one line to its end."""
    table = NodeTable()
    for index in range(nodes):
        table.upsert(Node(f"node-{index}", allocatable={"cpu": 128_000, "memory": 2 << 40, "pods": 110, GPU: 8}))
    line = Line(table, jobs, backfilling)
    for _ in line.play():
        pass
    started, ended = line.record.started, line.record.ended
    until = max(job.arrival for job in jobs)
    used = sum(len(job.pods) * max(min(ended[job.name], until) - min(started[job.name], until), 0.0) for job in jobs)
    waits = {job.name: (started[job.name] - job.arrival) / 3600 for job in jobs}
    tenth = sorted(jobs, key=lambda job: len(job.pods))[-max(len(jobs) // 10, 1) :]
    return Gain(used / (nodes * until), fmean(waits.values()), fmean(waits[job.name] for job in tenth))
