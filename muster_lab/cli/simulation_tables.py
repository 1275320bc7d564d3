"""What `muster simulate` prints for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extender.objects.text import natural_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from extender.placement.placement import Placement
    from muster_lab.simulation.autoscaler import NodeStay
    from muster_lab.simulation.queueuse import QueueUse
    from muster_lab.simulation.results import EvictionResult, GangResult, Result
    from muster_lab.simulation.timeline import TimelinePoint


def show_result(console: Console, result: Result) -> None:
    """Print a result for people."""
    from rich.table import Table

    gangs = Table(title="Gangs", title_justify="left", header_style="bold")
    for column in ("gang", "phase", "admitted", "finished", "nodes", "predicted"):
        gangs.add_column(column, overflow="fold")
    for gang in result.gangs:
        gangs.add_row(*_gang_row(gang))
    console.print(gangs)
    for gang in result.gangs:
        if gang.reason is not None:
            waits = f"{gang.namespace}/{gang.name} waits: {gang.reason.code}: {gang.reason.message}"
            console.print(waits, markup=False, highlight=False)
    for warning in result.warnings:
        console.print(f"warning: {warning}", markup=False, highlight=False)
    for table in _tables(result):
        console.print(table)


def _tables(result: Result) -> Iterator[Table]:
    """Iterate over what is shown of everything but the gangs."""
    if result.queues:
        yield _queue_table(result.queues)
    if result.evictions:
        yield _eviction_table(result.evictions)
    if result.autoscaling is not None:
        yield _node_table(result.autoscaling.nodes)
    yield _summary_table(result)


def _summary_table(result: Result) -> Table:
    from rich.table import Table

    from muster_lab.simulation.results import summary_json

    totals = summary_json(result.summary)
    summary = Table(title="Summary", title_justify="left", show_header=False)
    for name, text in (
        ("jobs done", f"{totals['jobsCompleted']} of {totals['jobsSubmitted']}"),
        ("productive", f"{totals['productiveGpuHours']:.2f} GPU-hours"),
        ("rendezvous", f"{totals['initGpuHours']:.2f} GPU-hours, ${totals['initCost']:.2f}"),
        ("idle", f"{totals['idleGpuHours']:.2f} GPU-hours"),
        ("lost", f"{totals['lostGpuHours']:.2f} GPU-hours of training"),
        ("wasted", f"{totals['wastedGpuHours']:.2f} GPU-hours, ${totals['wastedCost']:.2f}"),
    ):
        summary.add_row(name, text)
    if (paid := result.autoscaling) is not None:
        hours = f"{paid.gpu_hours:.2f} GPU-hours of {paid.node_hours:.2f} node-hours"
        summary.add_row("paid", f"{hours}, ${paid.cost:.2f}")
    return summary


def show_timeline(console: Console, moments: Iterable[TimelinePoint]) -> None:
    """Print a line for every moment of change: what gangs began to do, and what each queue used."""
    from rich.table import Table

    table = Table(title="Timeline", title_justify="left", header_style="bold")
    for column in ("at", "gangs", "queues"):
        table.add_column(column, overflow="fold")
    before: dict[str, str] = {}
    for moment in moments:
        doing = {
            gang: state if not moment.holds(gang) else f"{state} on {moment.holds(gang)} GPUs"
            for gang, state in moment.doing.items()
        }
        gangs = [f"{gang} {words}" for gang, words in doing.items() if words != before.get(gang)]
        before = doing
        queues = [f"{queue.name} {_amounts(queue.used)}{_shared(queue)}" for queue in moment.queues]
        table.add_row(_time(moment.at), "\n".join(gangs), "\n".join(queues))
    console.print(table)


def _queue_table(queues: Sequence[QueueUse]) -> Table:
    from rich.table import Table

    table = Table(title="Queues", title_justify="left", header_style="bold")
    for column in ("queue", "used", "borrowed", "lent", "share"):
        table.add_column(column, overflow="fold")
    for queue in queues:
        amounts = (_amounts(amounts) for amounts in (queue.used, queue.borrowed, queue.lent))
        table.add_row(queue.name, *amounts, f"{queue.share:.3g}")
    return table


def _eviction_table(evictions: Sequence[EvictionResult]) -> Table:
    from rich.table import Table

    table = Table(title="Evictions", title_justify="left", header_style="bold")
    for column in ("at", "pod", "node", "reason", "by"):
        table.add_column(column, overflow="fold")
    for eviction in evictions:
        table.add_row(_time(eviction.at), eviction.pod, eviction.node, eviction.reason, eviction.by or "")
    return table


def _node_table(nodes: Sequence[NodeStay]) -> Table:
    from rich.table import Table

    table = Table(title="Nodes that came and went", title_justify="left", header_style="bold")
    for column in ("node", "asked for", "ready", "removed"):
        table.add_column(column, overflow="fold")
    for node in nodes:
        table.add_row(node.name, *map(_time, (node.asked, node.ready, node.removed)))
    return table


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
    from rich.markup import escape

    placed = sorted({pod.node for pod in gang.pods if pod.node is not None}, key=natural_key)
    most = 4
    nodes = ", ".join(placed[:most]) + (f" and {len(placed) - most} more" if len(placed) > most else "")
    return (
        f"{gang.namespace}/{gang.name}",
        gang.phase.value,
        _time(gang.admitted_at),
        _time(gang.finished_at),
        nodes,
        "" if gang.placement is None else escape(_prediction(gang.placement)),
    )


def _prediction(placement: Placement) -> str:
    """Return bandwidth and place: `376 GB/s within rack r2`."""
    from extender.explain.explanation import gbps, whereabouts

    speed = "" if placement.bus_bandwidth is None else f"{gbps(placement.bus_bandwidth)} "
    return speed + whereabouts(placement)


def _time(seconds: float | None) -> str:
    from muster_lab.simulation.notation import format_duration

    return "-" if seconds is None else format_duration(seconds)
