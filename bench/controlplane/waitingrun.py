"""Runs in which gangs have to wait: what they cost meanwhile, alone and beside others, and how soon the next starts."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.controlplane.meter import Spent
from bench.controlplane.stage import CONCURRENCY, Stage
from bench.controlplane.workload import GPUS_PER_NODE, Workload
from bench.options import Say
from localcluster.client import POD_GROUPS

#: A call is counted once it is answered, a moment after its effect was seen: how long to wait for it, in seconds.
_COUNTED_SECONDS = 0.3
#: How long kube-scheduler may go on trying pods that cannot be placed, in seconds, before it is measured anyway. By
#: itself it never stops trying native PodGroups.
_SETTLE_SECONDS = 20.0
#: How long the next gang may take to start, in seconds.
_NEXT_SECONDS = 60.0
_OCCUPANTS = "running"
#: Gangs that start beside those that wait: how many seconds after each other, and how many of them run at a time.
_EVERY_SECONDS, _RUNNING = 2.0, 2


@dataclass(frozen=True, slots=True)
class Rest:
    """What waiting pods cost while nothing happens.

    `first_calls` are the filter calls between the creation of the pods and the beginning of that time.
    """

    pods: int
    first_calls: float
    spent: Spent

    @property
    def filter_calls_per_pod_minute(self) -> float:
        """Return how often a minute kube-scheduler asks about one waiting pod."""
        return self.spent.work.filter_calls / self.pods / self.spent.seconds * 60


@dataclass(frozen=True, slots=True)
class Succession:
    """One running gang that ended on a full cluster: seconds until the next was all bound, and what that took."""

    seconds: float
    spent: Spent


@dataclass(frozen=True, slots=True)
class Beside:
    """Gangs of two that started one after the other beside `pods` that wait: seconds from creation until bound.

    `behind` is of the one that was created right after those that wait; `first_attempts` is how often kube-scheduler
    tried pods until all of them were put aside. `spent` is of the time thereafter, in which the others started.
    """

    pods: int
    behind: float
    first_attempts: float
    starts: Sequence[float]
    spent: Spent


async def beside(stage: Stage, waiting: Workload, running: int, seconds: float, say: Say) -> Beside:
    """Have gangs wait beside `running` pods of five GPUs, and let others start and end for so many seconds."""
    await _occupy(stage, Workload(1, running, gpus=5, prefix=_OCCUPANTS))
    first = stage.meter()
    await stage.create(waiting)
    gangs = [Workload(1, 2, prefix="beside-0")]
    behind = await _start(stage, gangs[0])
    await _settle(stage, waiting, say)
    first_attempts = first.read().attempts
    meter, began = stage.meter(), time.monotonic()
    starts: list[float] = []
    while time.monotonic() < began + seconds:
        gangs.append(Workload(1, 2, prefix=f"beside-{len(gangs)}"))
        starts.append(await _start(stage, gangs[-1]))
        if len(gangs) > _RUNNING:
            await stage.client.send_all(gangs[-1 - _RUNNING].completions(0), CONCURRENCY)
        await asyncio.sleep(max(0.0, _EVERY_SECONDS - starts[-1]))
    return Beside(waiting.pods, behind, first_attempts, starts, meter.read())


async def _start(stage: Stage, gang: Workload) -> float:
    """Create a gang, wait until it is bound, and return how long that took (seconds)."""
    began = time.monotonic()
    await stage.create(gang)
    await stage.watch.until(
        lambda: bool(_whole(stage, gang)),
        timeout_seconds=_NEXT_SECONDS,
        description=lambda: f"{gang.prefix} bound beside pods that wait",
    )
    return time.monotonic() - began


async def rest(stage: Stage, waiting: Workload, occupied: int, seconds: float, say: Say) -> Rest:
    """Have gangs wait while `occupied` nodes are full, let that come to rest, and watch for so many seconds."""
    await _occupy(stage, Workload(1, occupied, gpus=GPUS_PER_NODE, prefix=_OCCUPANTS))
    first = stage.meter()
    await stage.create(waiting)
    await _settle(stage, waiting, say)
    first_calls, meter = first.read().work.filter_calls, stage.meter()
    await asyncio.sleep(seconds)
    return Rest(waiting.pods, first_calls, meter.read())


async def successions(stage: Stage, waiting: Workload, count: int, say: Say) -> list[Succession]:
    """Fill all nodes with running gangs, have others wait, and let `count` running ones end, one after the other."""
    running = Workload(len(stage.nodes), GPUS_PER_NODE, prefix=_OCCUPANTS)
    await _occupy(stage, running)
    await stage.create(waiting)
    found = []
    for number in range(count):
        await _settle(stage, waiting, say)
        found.append(await _succession(stage, running, number, waiting))
    return found


async def _succession(stage: Stage, running: Workload, number: int, waiting: Workload) -> Succession:
    """Let the running gang of that number end, the first being 0, and wait until one more waiting gang is whole."""
    meter, began = stage.meter(), time.monotonic()
    await stage.client.send_all(running.completions(number), CONCURRENCY)
    await stage.watch.until(
        lambda: len(_whole(stage, waiting)) > number,
        timeout_seconds=_NEXT_SECONDS,
        description=lambda: f"{number + 1} waiting gangs all bound; whole are {_whole(stage, waiting)}",
    )
    ended = time.monotonic()
    await asyncio.sleep(_COUNTED_SECONDS)
    return Succession(ended - began, meter.read())


def _whole(stage: Stage, waiting: Workload) -> list[str]:
    """Return the waiting gangs whose pods are all bound by now."""
    bound = Counter(name.rpartition("-")[0] for name in stage.watch.bound if name.startswith(f"{waiting.prefix}-"))
    return [gang for gang, pods in bound.items() if pods == waiting.size]


async def _occupy(stage: Stage, running: Workload) -> None:
    """Create pods that are placed already, and give the contender a moment to hear of them."""
    if not running.pods:
        return
    groups = stage.team.contender.groups or POD_GROUPS
    await stage.client.send_all(running.running(groups, stage.nodes), CONCURRENCY)
    await stage.until_bound(running.pods)
    await asyncio.sleep(_COUNTED_SECONDS)


async def _settle(stage: Stage, waiting: Workload, say: Say) -> None:
    """Wait until kube-scheduler leaves the waiting pods alone; some of them may have been bound meanwhile."""
    bound = sum(name.startswith(f"{waiting.prefix}-") for name in stage.watch.bound)
    if not await stage.settled(waiting.pods - bound, _SETTLE_SECONDS):
        say(f"  {stage.team.contender} still tries to place waiting pods after {_SETTLE_SECONDS:g} s; measured anyway")
