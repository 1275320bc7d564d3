"""What is counted of each decision, what time is lost to, and the gauges that `/metrics` reads off the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from prometheus_client import Gauge

from extender.admission.admission import Admission
from extender.cluster.gangs import Gang
from extender.cluster.table import NodeTable
from extender.control.metrics import Metrics
from extender.explain.demand import unmet_demand
from extender.explain.documents import QueueRow
from extender.explain.views import GangView, QueueReport
from extender.ledger.effects import Effects, Fact
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason
from extender.objects.requests import GPU_RESOURCES, SLICE_GPUS, count_gpus, is_asked_for

#: The label of all that is asked for that no node lists: a tenant may ask for resources of any name.
OTHER = "other"


class Area:
    """The area under a step function of time."""

    __slots__ = ("_area", "_since", "value")

    def __init__(self, now: float) -> None:
        self.value = 0
        self._since = now
        self._area = 0.0

    def add(self, change: int, now: float) -> None:
        """Change the value by so much from `now` on; until then it was what it was."""
        self._area += self.value * (now - self._since)
        self._since = now
        self.value += change

    def take(self, now: float) -> float:
        """Return the area since this was last asked, up to `now`."""
        self.add(0, now)
        area, self._area = self._area, 0.0
        return area


@dataclass(frozen=True, slots=True)
class LostSeconds:
    """What was lost in a stretch of time.

    `gang_seconds` and `gpu_seconds` are what gangs waited, by reason: each gang counts once in the first, and in the
    second with the GPUs that its members without a promised node ask for.
    """

    gang_seconds: Mapping[Reason, float]
    gpu_seconds: Mapping[Reason, float]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A gang that waits: why, for how many GPUs, and since when without a break (seconds, monotonic)."""

    reason: Reason
    gpus: int
    since: float


class LostTime:
    """Charge the time that gangs wait to the reason that holds meanwhile.

    Times are in seconds of the monotonic clock, and never go back. Each change costs the same, however many gangs wait.
    """

    def __init__(self) -> None:
        """Start with nothing that waits."""
        self._waiting: dict[GroupRef, _Waiting] = {}  # who began to wait first is first
        self._gangs: dict[Reason, Area] = {}
        self._gpus: dict[Reason, Area] = {}

    def wait(self, gang: GroupRef, reason: Reason | None, gpus: int, now: float) -> None:
        """Take in why a gang waits from `now` on, and for how many GPUs; None: it does not wait."""
        before = self._waiting.get(gang)
        if before is not None:
            if (before.reason, before.gpus) == (reason, gpus):
                return
            self._charge(before.reason, -1, -before.gpus, now)
        if reason is None:
            self._waiting.pop(gang, None)
            return
        self._waiting[gang] = _Waiting(reason, gpus, now if before is None else before.since)
        self._charge(reason, 1, gpus, now)

    def clear(self, now: float) -> None:
        """Take in that from `now` on no gang is known to wait: another replica decides."""
        for gang in list(self._waiting):
            self.wait(gang, None, 0, now)

    def take(self, now: float) -> LostSeconds:
        """Return what was lost since this was last asked, up to `now`. Complexity: O(reasons)."""
        return LostSeconds(
            {reason: area.take(now) for reason, area in self._gangs.items()},
            {reason: area.take(now) for reason, area in self._gpus.items()},
        )

    def longest(self, now: float) -> dict[Reason, float]:
        """Return how long the gang has waited (seconds) that has waited longest, of those with each reason.

        That is its whole wait without a break, whatever the reasons before this one were. Complexity: O(waiting gangs),
        and mostly far less: they are kept in the order in which they began to wait.
        """
        reasons = sum(area.value > 0 for area in self._gangs.values())
        oldest: dict[Reason, float] = {}
        for waiting in self._waiting.values():
            if len(oldest) == reasons:
                break
            oldest.setdefault(waiting.reason, now - waiting.since)
        return oldest

    def _charge(self, reason: Reason, gangs: int, gpus: int, now: float) -> None:
        if reason not in self._gangs:
            self._gangs[reason], self._gpus[reason] = Area(now), Area(now)
        self._gangs[reason].add(gangs, now)
        self._gpus[reason].add(gpus, now)


def follow(lost: LostTime, admission: Admission, changed: Iterable[GroupRef], now: float) -> None:
    """Take in how the gangs stand that changed, from `now` on (seconds, monotonic)."""
    waits = admission.reservations.waits
    for ref in changed:
        gang = admission.model.gangs.get(ref)
        wait = None if gang is None else waits.get(gang.uid)
        if gang is None or wait is None or not gang.members:
            lost.wait(ref, None, 0, now)
        else:
            lost.wait(ref, wait.reason, wanted_gpus(gang), now)


def wanted_gpus(gang: Gang) -> int:
    """Count the GPUs that the members ask for which have no node promised, gated ones included.

    Complexity: O(shapes), whatever the number of members: every event of every pod asks.
    """
    members = chain(gang.wanted.items(), gang.gated.items())
    return sum(count * shape.gpus for shape, count in members)


#: Gangs and promised slots that are counted in one step: a millisecond at most, where a gang takes 10 to 20 us.
_GANGS_PER_STEP = 50
_SLOTS_PER_STEP = 1000
#: Queues whose gauges are set in one step: 2 ms.
_QUEUES_PER_STEP = 25
#: Gangs of which it is worked out in one step what they lack: a millisecond at most.
_DEMANDS_PER_STEP = 40


def count(metrics: Metrics, effects: Effects[Any]) -> None:
    """Count what has happened since last time."""
    for seconds in effects.plan_seconds:
        metrics.plan_seconds.observe(seconds)
    for seconds in effects.repair_seconds:
        metrics.repair_seconds.observe(seconds)
    if effects.expired:
        metrics.reservations_expired.inc(effects.expired)
    for outcome in effects.notices_ended:
        metrics.eviction_notices.labels(outcome).inc()
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
        if seen.managed and seen.has_pods:
            phases[seen.phase] += 1
            if seen.wait is not None:
                reasons[seen.wait.reason] += 1
        if number % _GANGS_PER_STEP == 0:
            yield
    lacking: Counter[str] = Counter()
    pods = 0
    demands = unmet_demand(admission.model.gangs.of(admission.reservations.waits), admission.reservations.waits)
    for number, row in enumerate(demands, start=1):
        lacking.update(row.requests)
        pods += row.pods
        if number % _DEMANDS_PER_STEP == 0:
            yield
    promised = [slot for reservation in admission.reservations.ledger for slot in reservation.slots.values()]
    reserved: Counter[str] = Counter()
    for number, slot in enumerate(promised, start=1):
        for resource, value in slot.pod.shape.requests:
            reserved[resource] += value
        if number % _SLOTS_PER_STEP == 0:
            yield
    _show(metrics.gangs, phases)
    _show(metrics.gangs_waiting, reasons)
    _show(metrics.reserved, _told(reserved))
    _show(metrics.unmet_demand, _told(_bounded(lacking, frozenset(admission.model.table.resources))))
    metrics.unmet_demand_pods.set(pods)
    metrics.vetoes.set(len(admission.vetoes))
    losses = admission.tenure.losses
    metrics.lost_nodes.set(len(admission.health.lost))
    _show(
        metrics.lost_members, {"none": losses.unplaced, "kept": sum(len(each.since) for each in losses.open.values())}
    )
    _show(metrics.gpus, gpus_by_state(admission.model.table, count_gpus(reserved.items())))


def _bounded(amounts: Mapping[str, int], listed: frozenset[str]) -> Mapping[str, int]:
    """Return amounts of resources that nodes have, and of GPUs; others, of which pods may name any number, as one."""
    found: Counter[str] = Counter()
    for resource, amount in amounts.items():
        found[resource if resource in listed or resource in GPU_RESOURCES else OTHER] += amount
    return found


def _told(amounts: Mapping[str, int]) -> Mapping[str, float]:
    """Return amounts of what can be asked for, and of GPUs, in base units; not what is only counted with these."""
    return {
        resource: _in_base_units(resource, amount)
        for resource, amount in amounts.items()
        if is_asked_for(resource) or resource == SLICE_GPUS
    }


def _in_base_units(resource: str, amount: float) -> float:
    """Return an amount as Prometheus has it: cores where the model has milli-CPU; bytes and counts as they are."""
    return amount / 1000 if resource == "cpu" else amount


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


class QueueGauges:
    """The gauges about Queues: one that is gone is in none of them any more."""

    def __init__(self, metrics: Metrics) -> None:
        """Show no Queue yet."""
        self._by_quota = (metrics.queue_nominal, metrics.queue_used, metrics.queue_borrowed, metrics.queue_lent)
        self._by_queue = (metrics.queue_share, metrics.queue_pending, metrics.queue_admitted)
        self._spares = metrics.spare_nodes
        self._shown: set[tuple[Gauge, tuple[str, ...]]] = set()

    def show(self, queues: Iterable[QueueReport]) -> Iterator[None]:
        """Set them, in steps between which others may have the event loop."""
        shown: set[tuple[Gauge, tuple[str, ...]]] = set()
        for number, report in enumerate(queues, start=1):
            for gauge, labels, value in chain(self._values(report.row), self._of_spares(report)):
                gauge.labels(*labels).set(value)
                shown.add((gauge, labels))
            if number % _QUEUES_PER_STEP == 0:
                yield
        for gauge, labels in self._shown - shown:
            gauge.remove(*labels)
        self._shown = shown

    def _of_spares(self, report: QueueReport) -> Iterator[tuple[Gauge, tuple[str, ...], float]]:
        spares = report.spares
        if spares is not None:
            for state, nodes in (("free", spares.free), ("lent", spares.lent), ("missing", spares.missing)):
                yield self._spares, (report.name, state), nodes

    def _values(self, row: QueueRow) -> Iterator[tuple[Gauge, tuple[str, ...], float]]:
        for use in row.flavors:
            values = (use.nominal, use.used, use.borrowed, use.lent)
            for gauge, value in zip(self._by_quota, values, strict=True):
                yield gauge, (row.name, use.name, use.resource), _in_base_units(use.resource, value)
        for gauge, figure in zip(self._by_queue, (row.share, row.pending_gangs, row.admitted_gangs), strict=True):
            yield gauge, (row.name,), figure


def expose_lost_time(metrics: Metrics, lost: LostTime, now: float) -> None:
    """Count what was lost since last time, up to `now` (seconds, monotonic), and show who has waited longest."""
    taken = lost.take(now)
    for reason, seconds in taken.gang_seconds.items():
        metrics.gang_waiting_seconds.labels(reason).inc(seconds)
    for reason, seconds in taken.gpu_seconds.items():
        metrics.gang_waiting_gpu_seconds.labels(reason).inc(seconds)
    _show(metrics.longest_wait, lost.longest(now))


def _show(gauge: Gauge, values: Mapping[str, float] | Mapping[Reason, float]) -> None:
    """Let a gauge have these values by label, and no others."""
    gauge.clear()
    for label, value in values.items():
        gauge.labels(label).set(value)
