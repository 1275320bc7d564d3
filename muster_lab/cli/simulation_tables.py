"""What `muster simulate` prints for people."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.text import Text

from extender.cli.printing import show_titled
from extender.objects.text import natural_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rich.console import Console

    from extender.placement.placement import Placement
    from muster_lab.simulation.queueuse import QueueUse
    from muster_lab.simulation.results import EvictionResult, GangResult, Result
    from muster_lab.simulation.timeline import TimelinePoint


def show_result(console: Console, result: Result) -> None:
    """Print a result for people."""
    headings = ("gang", "phase", "admitted", "finished", "nodes", "predicted")
    show_titled(console, "Gangs", headings, map(_gang_row, result.gangs))
    said = [
        f"{gang.namespace}/{gang.name} waits: {gang.reason.code}: {gang.reason.message}"
        for gang in result.gangs
        if gang.reason is not None
    ]
    said += [f"warning: {warning}" for warning in result.warnings]
    for line in said:
        console.print(Text(line))
    if said:
        console.print()
    _show_rest(console, result)


def _show_rest(console: Console, result: Result) -> None:
    """Print everything but the gangs."""
    if result.queues:
        headings = ("queue", "used", "borrowed", "lent", ">share")
        show_titled(console, "Queues", headings, map(_queue_row, result.queues))
    if result.evictions:
        headings = ("at", "pod", "node", "reason", "by")
        show_titled(console, "Evictions", headings, map(_eviction_row, result.evictions))
    if result.autoscaling is not None:
        rows = [(node.name, *map(_time, (node.asked, node.ready, node.removed))) for node in result.autoscaling.nodes]
        show_titled(console, "Nodes that came and went", ("node", "asked for", "ready", "removed"), rows)
    show_titled(console, "Summary", ("", ""), _summary_rows(result))


def _summary_rows(result: Result) -> Iterator[tuple[str, str]]:
    from muster_lab.simulation.results import summary_json

    totals = summary_json(result.summary)
    yield "jobs done", f"{totals['jobsCompleted']} of {totals['jobsSubmitted']}"
    yield "productive", f"{totals['productiveGpuHours']:.2f} GPU-hours"
    yield "rendezvous", f"{totals['initGpuHours']:.2f} GPU-hours, ${totals['initCost']:.2f}"
    yield "idle", f"{totals['idleGpuHours']:.2f} GPU-hours"
    yield "lost", f"{totals['lostGpuHours']:.2f} GPU-hours of training"
    yield "wasted", f"{totals['wastedGpuHours']:.2f} GPU-hours, ${totals['wastedCost']:.2f}"
    if (paid := result.autoscaling) is not None:
        yield "paid", f"{paid.gpu_hours:.2f} GPU-hours of {paid.node_hours:.2f} node-hours, ${paid.cost:.2f}"


def show_timeline(console: Console, moments: Iterable[TimelinePoint]) -> None:
    """Print a line for every moment of change: what gangs began to do, and what each queue used."""
    show_titled(console, "Timeline", ("at", "gangs", "queues"), _timeline_rows(moments))


def _timeline_rows(moments: Iterable[TimelinePoint]) -> Iterator[tuple[str, str, str]]:
    before: dict[str, str] = {}
    for moment in moments:
        doing = {
            gang: state if not moment.holds(gang) else f"{state} on {moment.holds(gang)} GPUs"
            for gang, state in moment.doing.items()
        }
        gangs = [f"{gang} {words}" for gang, words in doing.items() if words != before.get(gang)]
        before = doing
        queues = [f"{queue.name} {_amounts(queue.used)}{_shared(queue)}" for queue in moment.queues]
        yield from zip_longest([_time(moment.at)], gangs, queues, fillvalue="")


def _queue_row(queue: QueueUse) -> tuple[str, ...]:
    amounts = (_amounts(amounts) for amounts in (queue.used, queue.borrowed, queue.lent))
    return (queue.name, *amounts, f"{queue.share:.3g}")


def _eviction_row(eviction: EvictionResult) -> tuple[str, ...]:
    return _time(eviction.at), eviction.pod, eviction.node, eviction.reason, eviction.by or ""


def _shared(queue: QueueUse) -> str:
    """Say what a queue borrows and lends, where it does."""
    text = ""
    for verb, amounts in (("borrows", queue.borrowed), ("lends", queue.lent)):
        some = {resource: amount for resource, amount in amounts.items() if amount}
        text += f", {verb} {_amounts(some)}" if some else ""
    return text


def _amounts(amounts: Mapping[str, int]) -> str:
    """Write amounts with their units: `16 nvidia.com/gpu, 4 cpu`."""
    from extender.objects.requests import format_amount

    return ", ".join(f"{format_amount(resource, amount)} {resource}" for resource, amount in sorted(amounts.items()))


def _gang_row(gang: GangResult) -> tuple[str, ...]:
    placed = sorted({pod.node for pod in gang.pods if pod.node is not None}, key=natural_key)
    most = 4
    nodes = ", ".join(placed[:most]) + (f" and {len(placed) - most} more" if len(placed) > most else "")
    return (
        f"{gang.namespace}/{gang.name}",
        gang.phase.value,
        _time(gang.admitted_at),
        _time(gang.finished_at),
        nodes,
        "" if gang.placement is None else _prediction(gang.placement),
    )


def _prediction(placement: Placement) -> str:
    """Return bandwidth and place: `376 GB/s within rack r2`."""
    from extender.explain.explanation import gbps, whereabouts

    speed = "" if placement.bus_bandwidth is None else f"{gbps(placement.bus_bandwidth)} "
    return speed + whereabouts(placement)


def _time(seconds: float | None) -> str:
    from muster_lab.simulation.notation import format_duration

    return "-" if seconds is None else format_duration(seconds)
