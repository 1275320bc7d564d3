"""What a simulation came to, as values and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import to_builtins

from extender.explain.documents import GangPhase
from extender.explain.explanation import predicted_placement
from extender.placement.placement import Placement
from muster_lab.simulation.accounting import SECONDS_PER_HOUR, GpuSeconds
from muster_lab.simulation.autoscaler import NodeStay
from muster_lab.simulation.queueuse import QueueUse
from muster_lab.simulation.timeline import TimelinePoint

#: Decimals: microseconds, and money in cents.
_TIME_DECIMALS = 6
_MONEY_DECIMALS = 2
_MILLI = 1000


@dataclass(frozen=True, slots=True)
class ReasonResult:
    """Why a gang waits at the end."""

    code: str
    message: str
    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PodResult:
    """Where a member is or was at last; `role` and `node` are None where it has none.

    `gpus` and `zones` are those of its node that it holds or held, as predicted; None where nothing is known of them.
    """

    name: str
    role: str | None
    node: str | None
    gpus: tuple[int, ...] | None = None
    zones: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class GangResult:
    """How a gang fared; times are in seconds since the start, None for what has not happened.

    `placement` is that of its members now, the last one of a gang that has finished; None while it holds no node.
    """

    name: str
    namespace: str
    phase: GangPhase
    reason: ReasonResult | None
    admitted_at: float | None
    finished_at: float | None
    pods: tuple[PodResult, ...]
    placement: Placement | None = None


@dataclass(frozen=True, slots=True)
class EvictionResult:
    """A pod that was evicted, `at` seconds after the start: for whom, and why in a word.

    `gang`, `pod` and `by` are `namespace/name`; `gang` is None for a pod of none, `by` where it is unknown.
    """

    gang: str | None
    pod: str
    node: str
    at: float
    by: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class AutoscalingResult:
    """The nodes that an autoscaler made, and the hours of all nodes of the cluster and of their GPUs, until the end."""

    nodes: tuple[NodeStay, ...]
    node_hours: float
    gpu_hours: float
    cost: float


@dataclass(frozen=True, slots=True)
class Summary:
    """What it all amounts to: hours of GPUs, and dollars."""

    jobs_submitted: int
    jobs_completed: int
    productive_gpu_hours: float
    idle_gpu_hours: float
    init_gpu_hours: float
    lost_gpu_hours: float
    wasted_gpu_hours: float
    wasted_cost: float
    init_cost: float


@dataclass(frozen=True, slots=True)
class Result:
    """A whole simulation. `warnings` say what of the scenario Muster has to cope with.

    `autoscaling` is None where nodes neither come nor go.
    """

    gangs: tuple[GangResult, ...]
    evictions: tuple[EvictionResult, ...]
    summary: Summary
    queues: tuple[QueueUse, ...] = ()
    warnings: tuple[str, ...] = ()
    autoscaling: AutoscalingResult | None = None


def summarize(gangs: Iterable[GangResult], submitted: int, spent: GpuSeconds, price: float) -> Summary:
    """Put totals together.

    Args:
        gangs: how each gang fared.
        submitted: how many of them have arrived.
        spent: what all of them spent.
        price: what an hour of one GPU costs (dollars).
    """
    idle, init, lost = (seconds / SECONDS_PER_HOUR for seconds in (spent.idle, spent.init, spent.lost))
    return Summary(
        jobs_submitted=submitted,
        jobs_completed=sum(gang.finished_at is not None for gang in gangs),
        productive_gpu_hours=round(spent.productive / SECONDS_PER_HOUR, _TIME_DECIMALS),
        idle_gpu_hours=round(idle, _TIME_DECIMALS),
        init_gpu_hours=round(init, _TIME_DECIMALS),
        lost_gpu_hours=round(lost, _TIME_DECIMALS),
        wasted_gpu_hours=round(idle + lost, _TIME_DECIMALS),
        wasted_cost=round((idle + lost) * price, _MONEY_DECIMALS),
        init_cost=round(init * price, _MONEY_DECIMALS),
    )


def result_json(result: Result) -> dict[str, Any]:
    """Return a result as JSON; equal results give equal documents."""
    return {
        "gangs": [_gang_json(gang) for gang in result.gangs],
        "evictions": [
            {
                "gang": eviction.gang,
                "pod": eviction.pod,
                "node": eviction.node,
                "at": _seconds(eviction.at),
                "by": eviction.by,
                "reason": eviction.reason,
            }
            for eviction in result.evictions
        ],
        "queues": [_queue_json(queue) for queue in result.queues],
        "autoscaling": None if result.autoscaling is None else _autoscaling_json(result.autoscaling),
        "summary": summary_json(result.summary),
        "warnings": list(result.warnings),
    }


def timeline_json(moments: Iterable[TimelinePoint]) -> list[dict[str, Any]]:
    """Return the moments of a simulation as JSON: who did what with how many GPUs, and what the queues used."""
    return [
        {
            "at": _seconds(moment.at),
            "gangs": [
                {"name": gang, "state": state, "gpus": moment.holds(gang)} for gang, state in moment.doing.items()
            ],
            "queues": [_queue_json(queue) for queue in moment.queues],
        }
        for moment in moments
    ]


def summary_json(summary: Summary) -> dict[str, int | float]:
    """Return a summary as JSON."""
    return {
        "jobsSubmitted": summary.jobs_submitted,
        "jobsCompleted": summary.jobs_completed,
        "productiveGpuHours": summary.productive_gpu_hours,
        "idleGpuHours": summary.idle_gpu_hours,
        "initGpuHours": summary.init_gpu_hours,
        "lostGpuHours": summary.lost_gpu_hours,
        "wastedGpuHours": summary.wasted_gpu_hours,
        "wastedCost": summary.wasted_cost,
        "initCost": summary.init_cost,
    }


def _autoscaling_json(found: AutoscalingResult) -> dict[str, Any]:
    return {
        "nodes": [
            {
                "name": node.name,
                "group": node.group,
                "askedAt": _seconds(node.asked),
                "readyAt": _seconds(node.ready),
                "removedAt": _seconds(node.removed),
            }
            for node in found.nodes
        ],
        "nodeHours": round(found.node_hours, _TIME_DECIMALS),
        "gpuHours": round(found.gpu_hours, _TIME_DECIMALS),
        "cost": round(found.cost, _MONEY_DECIMALS),
    }


def _queue_json(queue: QueueUse) -> dict[str, Any]:
    return {
        "name": queue.name,
        "used": _amounts_json(queue.used),
        "borrowed": _amounts_json(queue.borrowed),
        "lent": _amounts_json(queue.lent),
        "share": round(queue.share, _TIME_DECIMALS),
        "flavors": [
            {
                "name": flavor.name,
                "used": _amounts_json(flavor.used),
                "borrowed": _amounts_json(flavor.borrowed),
                "lent": _amounts_json(flavor.lent),
            }
            for flavor in queue.flavors
        ],
    }


def _amounts_json(amounts: Mapping[str, int]) -> dict[str, int | float]:
    """Return amounts as numbers: cores, bytes, counts."""
    cores = {resource: amount / _MILLI for resource, amount in amounts.items() if resource == "cpu"}
    return dict(sorted({**amounts, **cores}.items()))


def _gang_json(gang: GangResult) -> dict[str, Any]:
    reason = gang.reason
    return {
        "name": gang.name,
        "namespace": gang.namespace,
        "phase": gang.phase.value,
        "reason": None
        if reason is None
        else {"code": reason.code, "message": reason.message, "numbers": dict(sorted(reason.numbers.items()))},
        "admittedAt": _seconds(gang.admitted_at),
        "finishedAt": _seconds(gang.finished_at),
        "placement": None if gang.placement is None else to_builtins(predicted_placement(gang.placement)),
        "pods": [
            {
                "name": pod.name,
                "role": pod.role,
                "node": pod.node,
                "predictedGpus": None if pod.gpus is None else list(pod.gpus),
                "predictedZones": None if pod.zones is None else list(pod.zones),
            }
            for pod in gang.pods
        ],
    }


def _seconds(time: float | None) -> float | None:
    return None if time is None else round(time, _TIME_DECIMALS)
