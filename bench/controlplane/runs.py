"""One run of one contender: what is done, and what is read off it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.controlplane.contenders import Contender
from bench.controlplane.stage import CONCURRENCY, Stage
from bench.controlplane.workload import Workload
from bench.soak.sampling import Page

#: Muster counts a call once it is answered, a moment after its effect was seen.
SETTLE_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Work:
    """What Muster did in a run, counted by itself.

    `filter_seconds`, `bind_seconds` and `pass_seconds` are the times of all calls and passes together.
    """

    filter_calls: float = 0.0
    filter_seconds: float = 0.0
    bind_seconds: float = 0.0
    nominations: float = 0.0
    renominations: float = 0.0
    bindings: float = 0.0
    passes: float = 0.0
    pass_seconds: float = 0.0

    @classmethod
    def between(cls, before: Page, after: Page) -> Work:
        """Return what was added from one page of metrics to the next."""

        def added(name: str, **labels: str) -> float:
            return after.sum(name, **labels) - before.sum(name, **labels)

        return cls(
            filter_calls=added("muster_verb_seconds_count", verb="filter"),
            filter_seconds=added("muster_verb_seconds_sum", verb="filter"),
            bind_seconds=added("muster_verb_seconds_sum", verb="bind"),
            nominations=added("muster_writes_total", kind="nomination", result="ok"),
            renominations=added("muster_renominations_total"),
            bindings=added("muster_writes_total", kind="binding", result="ok"),
            passes=added("muster_pass_seconds_count"),
            pass_seconds=added("muster_pass_seconds_sum"),
        )


@dataclass(frozen=True, slots=True)
class Run:
    """A workload from the first request that creates it until all its pods are bound.

    `seconds` is that time; `phases` say when something was reached first and last, in seconds after the first request:
    pods created, nominated and bound as the watch saw them, and Muster's decisions about gangs (placed, started) as it
    logged them. `cpu` is processor time by process in between, `attempts` is how often kube-scheduler tried to place
    a pod. `work` is all zeros without Muster.
    """

    contender: Contender
    pods: int
    seconds: float
    phases: Mapping[str, float]
    cpu: Mapping[str, float]
    attempts: float
    work: Work = field(default_factory=Work)


async def place(stage: Stage, workload: Workload) -> Run:
    """Create a workload and wait until it is bound; the floor's pods are nominated by hand in between."""
    contender = stage.team.contender
    requests = workload.creations(contender.scheduler_name, contender.groups)
    nominations = workload.nominations(stage.nodes) if contender is Contender.FLOOR else []
    before = stage.account()
    if nominations:
        stage.team.scheduler.pause()  # or it would place pods before they are nominated
    epoch, began = time.time(), time.monotonic()
    await stage.client.send_all(requests, CONCURRENCY)
    created = time.monotonic()
    if nominations:
        await stage.client.send_all(nominations, CONCURRENCY)
        stage.team.scheduler.resume()
    await stage.until_bound(workload.pods)
    cpu = stage.cpu()
    await asyncio.sleep(SETTLE_SECONDS)
    after = stage.account()
    reached = {"created": [created], "bound": [*stage.watch.bound.values()]}
    if stage.watch.nominated:
        reached["nominated"] = [*stage.watch.nominated.values()]
    for what, at in stage.milestones(since=epoch):
        reached.setdefault(what.replace(" ", "_"), []).append(at - epoch + began)
    return Run(
        contender,
        workload.pods,
        max(reached["bound"]) - began,
        _phases(reached, began),
        spent(before.cpu, cpu),
        after.attempts - before.attempts,
        Work.between(before.muster, after.muster),
    )


def _phases(reached: Mapping[str, Sequence[float]], began: float) -> dict[str, float]:
    """Return when each thing was reached first and last; only the latter if it was reached once."""
    phases = {f"last_{what}": max(times) - began for what, times in reached.items()}
    return phases | {f"first_{what}": min(times) - began for what, times in reached.items() if len(times) > 1}


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return the difference of two readings of processor time, by process."""
    return {name: seconds - before[name] for name, seconds in after.items()}
