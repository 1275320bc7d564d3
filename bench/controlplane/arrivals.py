"""A mix of single pods and gangs that arrives little by little, whatever the scheduler keeps up with."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.controlplane.client import Request
from bench.controlplane.runs import Run, observed
from bench.controlplane.stage import Stage
from bench.controlplane.workload import Workload
from localcluster.errors import LocalClusterError

#: The same arrivals for everybody.
_SEED = 50


@dataclass(frozen=True, slots=True)
class Arrival:
    """A single pod or a gang, `at` so many seconds after the first could have come."""

    at: float
    workload: Workload

    @property
    def single(self) -> bool:
        """Tell whether it is a pod without a gang."""
        return not self.workload.grouped


@dataclass(frozen=True, slots=True)
class Mix:
    """So many single pods, and so many gangs of `size`, of one GPU each pod, at `pods_per_second` on average.

    They come independently of each other: moments are drawn from a fixed seed, evenly over the time, so that gaps are
    as those of a Poisson process. The pods of a gang come at once.
    """

    singles: int
    gangs: int
    size: int
    pods_per_second: float

    @property
    def pods(self) -> int:
        """Return the number of pods."""
        return self.singles + self.gangs * self.size

    @property
    def seconds(self) -> float:
        """Return within how long they arrive."""
        return self.pods / self.pods_per_second

    @property
    def least_nodes(self) -> int:
        """Return on how many nodes it fits at least."""
        return Workload(1, self.pods).least_nodes

    @property
    def title(self) -> str:
        """Return what people call it."""
        share = 100 * self.singles / self.pods
        return (
            f"{self.pods:,} pods at {self.pods_per_second:g} a second, {share:.0f} % single, else gangs of {self.size}"
        )

    def arrivals(self) -> list[Arrival]:
        """Return what arrives when, the first in front."""
        draw = random.Random(_SEED)
        singles = [Workload(1, 1, grouped=False, prefix=f"single-{number}") for number in range(self.singles)]
        gangs = [Workload(1, self.size, prefix=f"gang-{number}") for number in range(self.gangs)]
        arrivals = [Arrival(draw.uniform(0, self.seconds), workload) for workload in (*singles, *gangs)]
        return sorted(arrivals, key=lambda arrival: arrival.at)


@dataclass(frozen=True, slots=True)
class Stream:
    """A mix that arrived: seconds from the arrival until bound, of each single pod, and of the last pod of each gang.

    `late` is how late the requests that create each were begun, in seconds: what the machine owes the measurement.
    """

    run: Run
    singles: Sequence[float]
    gangs: Sequence[float]
    late: Sequence[float]


async def stream(stage: Stage, mix: Mix) -> Stream:
    """Let a mix arrive and wait until it is bound.

    The time of a gang begins with its arrival: its PodGroup is created first, and its pods as soon as that is there.
    """
    contender = stage.team.contender
    arrivals = mix.arrivals()
    requests = [arrival.workload.creations(contender.scheduler_name, contender.groups) for arrival in arrivals]
    began, late = 0.0, list[float]()

    async def arrive() -> None:
        nonlocal began
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for arrival, needed in zip(arrivals, requests, strict=True):
                await asyncio.sleep(began + arrival.at - time.monotonic())
                late.append(time.monotonic() - began - arrival.at)
                group.create_task(_create(stage, needed, arrival.workload.pods))

    try:
        run = await observed(stage, mix.pods, arrive)
    except* LocalClusterError as failed:
        failure = failed.exceptions[0]
    else:
        return _stream(run, arrivals, began, stage.watch.bound, late)
    raise failure


def _stream(
    run: Run, arrivals: Sequence[Arrival], began: float, bound: Mapping[str, float], late: Sequence[float]
) -> Stream:
    """Return how long each arrival waited; `began` and the times in `bound` are of one clock, in seconds."""
    waits = [
        (arrival.single, max(bound[name] for name in arrival.workload.pod_names()) - began - arrival.at)
        for arrival in arrivals
    ]
    return Stream(run, [wait for single, wait in waits if single], [wait for single, wait in waits if not single], late)


async def _create(stage: Stage, requests: Sequence[Request], pods: int) -> None:
    """Create a PodGroup, if there is one, and then the pods at once."""
    for request in requests[:-pods]:
        await stage.client.send(request)
    await stage.client.send_all(requests[-pods:], pods)
