"""Playing a scenario from its start to its end, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from extender.cluster.membership import Census
from extender.control.ports import WatchedKind
from extender.explain.drawing.tree import Survey, TreePicture, draw
from extender.explain.explanation import headline, remarks
from extender.explain.views import phase_of
from extender.objects.levels import Level, Levels
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Wait
from extender.objects.sources.coscheduling import COSCHEDULING
from muster_lab.simulation.accounting import GpuSeconds
from muster_lab.simulation.evictions import causes
from muster_lab.simulation.notation import format_duration
from muster_lab.simulation.queueuse import queue_uses
from muster_lab.simulation.results import (
    AutoscalingResult,
    EvictionResult,
    GangResult,
    PodResult,
    ReasonResult,
    Result,
    summarize,
)
from muster_lab.simulation.scenario import Scenario, ScenarioMember
from muster_lab.simulation.timeline import Timeline, TimelinePoint, gpu_capacity, state_of
from muster_lab.simulation.virtual_time import LoopClock, VirtualTimeLoop
from muster_lab.simulation.workload import GangRun
from muster_lab.simulation.world import Connect, World

Told: TypeAlias = Callable[[float], None]

#: How often progress is told.
_STEPS = 100
_NEEDS_VIRTUAL_TIME = "a simulation needs virtual time, not a {}"


@dataclass(frozen=True, slots=True)
class Playback:
    """A simulation's result with what led there; `capacity` is how many GPUs each node has that was there."""

    result: Result
    moments: tuple[TimelinePoint, ...]
    capacity: dict[str, int]


def simulate(scenario: Scenario, connect: Connect | None, told: Told | None = None) -> Result:
    """Play a scenario and return what it came to.

    Args:
        scenario: what to play.
        connect: puts Muster's application in front of its controller; None plays it with kube-scheduler alone.
        told: is called a hundred times on the way, with the seconds that have passed.

    Equal scenarios give equal results: time is virtual, and nothing is left to chance.
    """
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_play(scenario, connect, told)).result


def record(scenario: Scenario, connect: Connect | None, told: Told | None = None) -> Playback:
    """Play a scenario as `simulate` does, and keep who held which GPUs when."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_play(scenario, connect, told, recorded=True))


def portray(scenario: Scenario, connect: Connect | None, gang: str, at: float) -> TreePicture:
    """Play a scenario as `simulate` does up to `at` (seconds), and return the picture of its cluster then.

    `gang` is the `namespace/name` of one of its gangs, which the picture is about.
    """
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_portray(scenario, connect, gang, at))


async def _portray(scenario: Scenario, connect: Connect | None, gang: str, at: float) -> TreePicture:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        raise TypeError(_NEEDS_VIRTUAL_TIME.format(type(loop).__name__))
    world = World(scenario, LoopClock(loop), connect)
    running = asyncio.create_task(world.run())
    try:
        reached = asyncio.create_task(loop.reach(at))
        await asyncio.wait([running, reached], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
        return picture_of(world, gang)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def picture_of(world: World, gang: str) -> TreePicture:
    """Return the picture of a world as it stands now, with the gang called `namespace/name` on it."""
    namespace, _, name = gang.partition("/")
    moment = f"after {format_duration(world.clock.elapsed())}"
    if world.muster is not None:
        inspection = world.muster.controller.inspection
        ref = inspection.find(namespace, name)
        if ref is None:
            unseen = GroupRef(COSCHEDULING, namespace, name)
            return draw(inspection.survey(unseen), gang, f"{gang}: not there yet", (moment,))
        explained = inspection.explain(ref)
        return draw(inspection.survey(ref), gang, f"{gang}: {headline(explained)}", (moment, *remarks(explained)))
    levels = world.scenario.facts.levels or ()
    survey = Survey(
        Levels(tuple(Level(level.name, level.node_label) for level in levels)),
        tuple(version.node for version in world.cluster.list(WatchedKind.NODE)),
        tuple(version.pod for version in world.cluster.list(WatchedKind.POD)),
    )
    state = state_of(world.workload.gang(namespace, name))
    return draw(survey, gang, f"{gang}: {state}", (moment, "placed by kube-scheduler alone"))


async def _play(
    scenario: Scenario, connect: Connect | None, told: Told | None = None, *, recorded: bool = False
) -> Playback:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        raise TypeError(_NEEDS_VIRTUAL_TIME.format(type(loop).__name__))
    world = World(scenario, LoopClock(loop), connect)
    running = asyncio.create_task(world.run())
    ends = [asyncio.create_task(loop.reach(scenario.until)), asyncio.create_task(world.workload.finished.wait())]
    telling = [] if told is None else [asyncio.create_task(_tell(loop, scenario.until, told))]
    try:
        await asyncio.sleep(0)  # the nodes are there now
        timeline = Timeline(world.cluster, world.workload, world.clock) if recorded else None
        done, _ = await asyncio.wait([running, *ends], return_when=asyncio.FIRST_COMPLETED)
        if running in done:
            await running
        moments = () if timeline is None else tuple(timeline.moments)
        capacity = {stay.name: stay.gpus for stay in world.autoscaler.stays} | gpu_capacity(world.cluster)
        return Playback(collect(world), moments, capacity)
    finally:
        for task in (running, *ends, *telling):
            task.cancel()
        await asyncio.gather(running, *ends, *telling, return_exceptions=True)


async def _tell(loop: VirtualTimeLoop, until: float, told: Told) -> None:
    for step in range(1, _STEPS):
        await loop.reach(until * step / _STEPS)
        told(until * step / _STEPS)


def collect(world: World) -> Result:
    """Return how everything stands in a world now."""
    waits: dict[GroupRef, Wait | None] = {}
    if world.muster is not None:
        waits = {view.ref: view.wait for view in world.muster.controller.inspection.gangs()}
    gangs = tuple(_gang_result(world, run, waits) for run in world.workload.gangs)
    spent = sum((run.meter.read() for run in world.workload.gangs), GpuSeconds())
    submitted = sum(run.arrived for run in world.workload.gangs)
    return Result(
        gangs=gangs,
        evictions=_evictions(world),
        summary=summarize(gangs, submitted, spent, world.scenario.gpu_hour_price),
        queues=queue_uses(world.cluster, world.workload),
        warnings=world.scenario.sharing.warnings,
        autoscaling=_autoscaling(world),
    )


def _autoscaling(world: World) -> AutoscalingResult | None:
    if not world.scenario.autoscaling.groups:
        return None
    others = [node for node in world.scenario.nodes if not world.autoscaler.makes(node.name)]
    node_hours, gpu_hours = world.autoscaler.node_hours(others)
    stays = tuple(replace(stay) for stay in world.autoscaler.stays)
    return AutoscalingResult(stays, node_hours, gpu_hours, gpu_hours * world.scenario.gpu_hour_price)


def _evictions(world: World) -> tuple[EvictionResult, ...]:
    preempted = {
        eviction.pod.uid: _gang_of(world, eviction.preemptor) or eviction.preemptor.key
        for eviction in world.scheduler.evictions
    }
    evicted = world.evicted.evictions
    why = causes(world.cluster.events, preempted, (eviction.pod.uid for eviction in evicted))
    return tuple(
        EvictionResult(
            gang=_gang_of(world, eviction.pod),
            pod=eviction.pod.key,
            node=eviction.pod.node_name,
            at=eviction.at,
            by=why[eviction.pod.uid].by or None,
            reason=why[eviction.pod.uid].reason,
        )
        for eviction in evicted
    )


def _gang_of(world: World, pod: Pod) -> str | None:
    run = world.workload.find(pod.namespace, pod.name)
    return None if run is None else run.spec.key


def _gang_result(world: World, run: GangRun, waits: dict[GroupRef, Wait | None]) -> GangResult:
    spec = run.spec
    census = _census(run)
    wait = waits.get(run.ref)
    reason = None
    if wait is not None:
        reason = ReasonResult(wait.reason.value, wait.message, wait.numbers)
    elif world.muster is None and census.secured < spec.min_member and run.finished_at is None:
        reason = _refusal(world, run, census)
    return GangResult(
        name=spec.name,
        namespace=spec.namespace,
        phase=phase_of(census, spec.min_member, 0),
        reason=reason,
        admitted_at=run.admitted_at,
        finished_at=run.finished_at,
        pods=tuple(_pod_result(world, run, member) for member in spec.members),
        placement=None if world.placements is None else world.placements.of(run),
    )


def _pod_result(world: World, run: GangRun, member: ScenarioMember) -> PodResult:
    held = None if world.placements is None else world.placements.held_by(run, member.name)
    return PodResult(
        name=member.name,
        role=member.role or None,
        node=run.members[member.name].node,
        gpus=None if held is None else held.gpus or None,
        zones=None if held is None else held.zones or None,
    )


def _census(run: GangRun) -> Census:
    """Count the members as they stand on the API server; all members are free of gates here."""
    pods = [member.pod for member in run.members.values() if member.pod is not None]
    bound = [pod for pod in pods if pod.bound]
    return Census(
        placeable=sum(not (pod.node_name or pod.done) for pod in pods),
        bound=len(bound),
        running=sum(pod.phase is Phase.RUNNING for pod in bound),
        succeeded=sum(pod.phase is Phase.SUCCEEDED for pod in pods),
        failed=sum(pod.phase is Phase.FAILED for pod in pods),
    )


def _refusal(world: World, run: GangRun, census: Census) -> ReasonResult | None:
    """Return kube-scheduler's own words about the first member that it has no node for."""
    for member in run.members.values():
        if member.pod is not None and not member.pod.node_name and member.pod.refusal:
            version = world.cluster.get(WatchedKind.POD, member.pod.namespace, member.pod.name)
            conditions = version.json["status"]["conditions"]
            code = next(c["reason"] for c in conditions if c["type"] == "PodScheduled")
            numbers = {"bound": census.bound, "minMember": run.spec.min_member}
            return ReasonResult(code, member.pod.refusal, numbers)
    return None
