"""Who holds which GPUs over time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from extender.control.ports import WatchedKind
from extender.objects.requests import count_gpus
from muster_lab.simulation.accounting import Activity, GpuSeconds, published_gpus
from muster_lab.simulation.cluster import Cluster
from muster_lab.simulation.queueuse import QueueUse, queue_uses
from muster_lab.simulation.virtual_time import LoopClock
from muster_lab.simulation.workload import GangRun, Workload


@dataclass(frozen=True, slots=True)
class TimelinePoint:
    """How things stand at one moment, `at` seconds after the start.

    `held` says per node how many of its GPUs each gang holds, `doing` what each gang does: `waits`, an activity, or
    `finished`; gangs that have not arrived are left out. `spent` is what all of them have spent until then, `queues`
    what the Queues' gangs use.
    """

    at: float
    held: Mapping[str, Mapping[str, int]]
    doing: Mapping[str, str]
    spent: GpuSeconds
    queues: tuple[QueueUse, ...] = ()

    def holds(self, gang: str) -> int:
        """Return how many GPUs a gang holds on all nodes."""
        return sum(gangs.get(gang, 0) for gangs in self.held.values())

    def spent_by(self, when: float) -> GpuSeconds:
        """Return what will have been spent by `when` (seconds since the start) if nothing changes until then."""
        spent = dict.fromkeys(Activity, 0.0)
        for gang, state in self.doing.items():
            if state in spent:
                spent[Activity(state)] += self.holds(gang) * (when - self.at)
        return self.spent + GpuSeconds(**{activity.value: seconds for activity, seconds in spent.items()})


class Timeline:
    """Record a moment whenever a gang holds other GPUs than before, or does something else with them.

    Attributes:
        moments: what was recorded, in order of time; of several moments at one time the last.
    """

    def __init__(self, cluster: Cluster, workload: Workload, clock: LoopClock) -> None:
        self._cluster = cluster
        self._workload = workload
        self._clock = clock
        self._armed = False
        self.moments: list[TimelinePoint] = [picture(cluster, workload, clock)]
        workload.watch(self._arm)

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            asyncio.get_running_loop().call_soon(self._record)

    def _record(self) -> None:
        self._armed = False
        moment = picture(self._cluster, self._workload, self._clock)
        if self.moments[-1].at == moment.at:
            self.moments[-1] = moment
        else:
            self.moments.append(moment)


def picture(cluster: Cluster, workload: Workload, clock: LoopClock) -> TimelinePoint:
    """Return how things stand now."""
    held: dict[str, dict[str, int]] = {node.key.name: {} for node in cluster.list(WatchedKind.NODE)}
    doing: dict[str, str] = {}
    spent = GpuSeconds()
    for run in workload.gangs:
        if not run.arrived:
            continue
        doing[run.spec.key] = state_of(run)
        spent += run.meter.read()
        for node, count in _held(run).items():
            held.setdefault(node, {})[run.spec.key] = count
    return TimelinePoint(clock.elapsed(), held, doing, spent, queue_uses(cluster, workload))


def _held(run: GangRun) -> dict[str, int]:
    """Return how many GPUs a gang holds on each node: none once it is done, though it has yet to hear of its pods."""
    return run.held() if run.finished_at is None else {}


def gpu_capacity(cluster: Cluster) -> dict[str, int]:
    """Return how many GPUs each node has."""
    published = published_gpus(cluster)
    return {
        version.key.name: count_gpus(version.node.allocatable.items()) + published[version.key.name]
        for version in cluster.list(WatchedKind.NODE)
    }


def state_of(run: GangRun) -> str:
    """Return what a gang does, in a word: `waits` holds nothing, `idle` holds GPUs that wait for the others."""
    if run.finished_at is not None:
        return "finished"
    return run.activity.value if run.meter.held else "waits"
