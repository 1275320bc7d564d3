"""What is counted of each decision, and the gauges that are read off the state when `/metrics` is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import Gauge

from extender.admission.admission import Admission
from extender.admission.demand import unmet_demand
from extender.admission.effects import Effects, Fact
from extender.admission.queueview import QueueView
from extender.cluster.table import NodeTable
from extender.control.metrics import Metrics
from extender.control.views import GangView
from extender.control.waste import LostTime
from extender.domain.reason import Reason
from extender.domain.requests import count_gpus

#: Gangs and promised slots that are counted in one step: a millisecond at most.
_GANGS_PER_STEP = 100
_SLOTS_PER_STEP = 1000
#: Gangs of which it is worked out in one step what they lack: a millisecond at most.
_DEMANDS_PER_STEP = 40


def count(metrics: Metrics, effects: Effects) -> None:
    """Count what has happened since last time."""
    for seconds in effects.plan_seconds:
        metrics.plan_seconds.observe(seconds)
    metrics.reservations_expired.inc(effects.expired)
    for reason in effects.rejections:
        metrics.kubelet_refusals.labels(reason).inc()
    for seen in effects.observations:
        counter = metrics.predicted_gpus if seen.fact is Fact.GPUS else metrics.predicted_zones
        counter.labels("match" if seen.match else "mismatch").inc()


def expose(metrics: Metrics, admission: Admission, gangs: Iterable[GangView]) -> Iterator[None]:
    """Set the gauges about gangs, reservations and vetoes, in steps between which others may have the event loop.

    What changes between two steps may be missing from the counts; a step is shorter than the way of a scrape.
    """
    phases: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for number, seen in enumerate(gangs, start=1):
        if seen.managed:
            phases[seen.phase] += 1
            if seen.wait is not None:
                reasons[seen.wait.reason] += 1
        if number % _GANGS_PER_STEP == 0:
            yield
    lacking: Counter[str] = Counter()
    pods = 0
    demands = unmet_demand(list(admission.model.gangs), admission.reservations.waits)
    for number, row in enumerate(demands, start=1):
        lacking.update(row.requests)
        pods += row.pods
        if number % _DEMANDS_PER_STEP == 0:
            yield
    ledger = admission.reservations.ledger
    promised = [slot for reservation in ledger for slot in reservation.slots.values()]
    reserved: Counter[str] = Counter()
    for number, slot in enumerate((*promised, *ledger.singles()), start=1):
        for resource, value in slot.pod.shape.requests:
            reserved[resource] += value
        if number % _SLOTS_PER_STEP == 0:
            yield
    _show(metrics.gangs, phases)
    _show(metrics.gangs_waiting, reasons)
    _show(metrics.reserved, reserved)
    _show(metrics.unmet_demand, lacking)
    metrics.unmet_demand_pods.set(pods)
    metrics.vetoes.set(len(admission.vetoes))
    _show(metrics.gpus, gpus_by_state(admission.model.table, count_gpus(reserved.items())))


def gpus_by_state(table: NodeTable, reserved: int) -> dict[str, float]:
    """Return how many GPUs of the nodes are `allocatable`, and of those how many `used`, `reserved` and `free`.

    `reserved` are those that are promised and not bound: the table takes them for used. Cordoned nodes count.
    Complexity: O(nodes).
    """
    gpus = [index for index, resource in enumerate(table.resources) if count_gpus([(resource, 1)])]
    allocatable = int(table.allocatable[gpus].sum(where=table.present))
    taken = int(table.used[gpus].sum(where=table.present))
    states = {"allocatable": allocatable, "used": taken - reserved, "reserved": reserved}
    return {**states, "free": max(allocatable - taken, 0)}


def expose_queues(metrics: Metrics, queues: Iterable[QueueView]) -> None:
    """Set the gauges about queues; one that is gone is in none of them any more."""
    by_quota = (metrics.queue_nominal, metrics.queue_used, metrics.queue_borrowed, metrics.queue_lent)
    by_queue = (metrics.queue_share, metrics.queue_pending, metrics.queue_admitted)
    for gauge in (*by_quota, *by_queue):
        gauge.clear()
    for seen in queues:
        for use in seen.flavors:
            values = (use.nominal, use.used, use.borrowed, use.lent)
            for gauge, value in zip(by_quota, values, strict=True):
                gauge.labels(seen.name, use.flavor, use.resource).set(value)
        for gauge, figure in zip(by_queue, (seen.share, seen.pending, seen.admitted), strict=True):
            gauge.labels(seen.name).set(figure)


def expose_lost_time(metrics: Metrics, lost: LostTime, now: float) -> None:
    """Count what was lost since last time, up to `now` (seconds, monotonic), and show who has waited longest."""
    taken = lost.take(now)
    for reason, seconds in taken.gang_seconds.items():
        metrics.gang_waiting_seconds.labels(reason).inc(seconds)
    for reason, seconds in taken.gpu_seconds.items():
        metrics.gang_waiting_gpu_seconds.labels(reason).inc(seconds)
    metrics.reserved_gpu_seconds.inc(taken.reserved_gpu_seconds)
    _show(metrics.longest_wait, lost.longest(now))


def _show(gauge: Gauge, values: Mapping[str, float] | Mapping[Reason, float]) -> None:
    """Let a gauge have these values by label, and no others."""
    gauge.clear()
    for label, value in values.items():
        gauge.labels(label).set(value)
