"""One run of one contender: what is done, and what is read off it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.controlplane.accounts import load_average
from bench.controlplane.contenders import Contender
from bench.controlplane.meter import Spent
from bench.controlplane.stage import CONCURRENCY, Stage
from bench.controlplane.workload import Workload


@dataclass(frozen=True, slots=True)
class Run:
    """A workload from the first request that creates it until all its pods are bound.

    `seconds` is that time; `phases` say when something was reached first and last, in seconds after the first request:
    pods created, nominated and bound as the watch saw them, and Muster's decisions about gangs (placed, started) as it
    logged them. `spent` goes on until what is left to be written then is written; `load` is the load average before.
    """

    contender: Contender
    pods: int
    seconds: float
    phases: Mapping[str, float]
    spent: Spent
    load: float


async def place(stage: Stage, workload: Workload) -> Run:
    """Create a workload and wait until it is bound; the floor's pods are nominated by hand in between."""
    contender = stage.team.contender
    requests = workload.creations(contender.scheduler_name, contender.groups)
    nominations = workload.nominations(stage.nodes) if contender is Contender.FLOOR else []

    async def create() -> None:
        if nominations:
            stage.team.scheduler.pause()  # or it would place pods before they are nominated
        await stage.client.send_all(requests, CONCURRENCY)

    async def nominate() -> None:
        if nominations:
            await stage.client.send_all(nominations, CONCURRENCY)
            stage.team.scheduler.resume()

    return await observed(stage, workload.pods, create, nominate)


async def observed(
    stage: Stage, pods: int, create: Callable[[], Awaitable[None]], then: Callable[[], Awaitable[None]] | None = None
) -> Run:
    """Create so many pods as `create` does, do what comes `then`, wait until all are bound, and say what that took."""
    load, meter = load_average(), stage.meter()
    epoch, began = time.time(), time.monotonic()
    await create()
    created = time.monotonic()
    if then is not None:
        await then()
    await stage.until_bound(pods)
    await stage.rests()
    spent = meter.read()
    reached = {"created": [created], "bound": [*stage.watch.bound.values()]}
    if stage.watch.nominated:
        reached["nominated"] = [*stage.watch.nominated.values()]
    for what, at in stage.milestones(since=epoch):
        reached.setdefault(what.replace(" ", "_"), []).append(at - epoch + began)
    seconds = max(reached["bound"]) - began
    return Run(stage.team.contender, pods, seconds, _phases(reached, began), spent, load)


def _phases(reached: Mapping[str, Sequence[float]], began: float) -> dict[str, float]:
    """Return when each thing was reached first and last; only the latter if it was reached once."""
    phases = {f"last_{what}": max(times) - began for what, times in reached.items()}
    return phases | {f"first_{what}": min(times) - began for what, times in reached.items() if len(times) > 1}
