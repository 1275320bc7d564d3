"""How gangs and Queues stand, for people, for the metrics, and for the status of their objects."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from heapq import nsmallest
from typing import Any, Final

from msgspec import structs, to_builtins

from extender.admission.admission import Admission
from extender.cluster.gangs import Gang
from extender.cluster.membership import Census
from extender.eviction.spares import SpareCount
from extender.explain.documents import GangPhase, PartCounts, PayerUse, QueueRow, QuotaUse
from extender.objects.keys import PREFIX
from extender.objects.podgroup import GroupRef
from extender.objects.queue import RunningLimit, format_usage
from extender.objects.reason import Wait
from extender.objects.requests import format_amount
from extender.queues.charges import Running
from extender.queues.sharing import Sharing


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The status of a coscheduling PodGroup.

    The counters are pods. `condition_status` is the status of the `Scheduled` condition (`True` or `False`), `reason`
    and `message` its explanation. `preempted` says for whom and why the gang was evicted, where that explains why it
    does not run; empty, a `Preempted` condition that stands stays until the gang is scheduled again.
    """

    phase: str
    scheduled: int
    running: int
    succeeded: int
    failed: int
    condition_status: str
    reason: str
    message: str
    observed_generation: int
    preempted: str = ""


_NOBODY: Final = Census()


@dataclass(frozen=True, slots=True)
class GangView:
    """How a gang stands.

    `reserved` counts members that have a reservation and are not bound yet; `wait` is None unless the gang waits.
    `managed` is false for gangs that another scheduler looks after. `lacks_role` says that enough members are bound or
    have succeeded, but too few of a role with a minimum of its own. `evicted` says for whom and why the gang was
    evicted, as long as that is why it does not run. `parts` is None of a gang that has none.
    """

    ref: GroupRef
    uid: str
    phase: GangPhase
    min_member: int
    census: Census
    reserved: int
    wait: Wait | None
    managed: bool
    lacks_role: bool = False
    evicted: str = ""
    parts: PartCounts | None = None

    @property
    def has_pods(self) -> bool:
        """Tell whether any pod of it is there, in whatever state."""
        return self.census != _NOBODY

    @property
    def has_minimum(self) -> bool:
        """Tell whether minMember members, and those that must of each role, are bound or have succeeded."""
        return self.census.secured >= self.min_member and not self.lacks_role


def phase_of(census: Census, min_member: int, reserved: int) -> GangPhase:
    """Return the phase that the counts amount to, in the words of the coscheduling API."""
    open_members = census.placeable + census.gated + census.bound
    if census.succeeded >= min_member and not open_members:
        return GangPhase.FINISHED
    if census.running + census.succeeded >= min_member:
        return GangPhase.RUNNING
    if census.failed and census.exist < min_member and not census.placeable and not census.gated:
        return GangPhase.FAILED
    if census.bound or reserved:
        return GangPhase.SCHEDULING
    return GangPhase.PENDING


def view(gang: Gang, reserved: int, wait: Wait | None, *, managed: bool, evicted: str = "") -> GangView:
    """Put together how a gang stands."""
    census = gang.census()
    phase = GangPhase.FINISHED if gang.has_ended else phase_of(census, gang.min_member, reserved)
    lacks_role = census.secured >= gang.min_member and not gang.has_minimum
    if lacks_role and phase is GangPhase.RUNNING:
        phase = GangPhase.SCHEDULING
    least, parts = gang.min_member, _counted(gang)
    return GangView(gang.ref, gang.uid, phase, least, census, reserved, wait, managed, lacks_role, evicted, parts)


def _counted(gang: Gang) -> PartCounts | None:
    """Count the outermost parts of a gang that have their minimum bound; None of one that has no parts."""
    tree = gang.tree
    if tree is None:
        return None
    have = gang.have({})
    return PartCounts(sum(part.holds(have) for part in tree.parts), tree.least, len(tree.parts))


def group_status(seen: GangView, generation: int) -> GroupStatus:
    """Return the status of a gang's PodGroup."""
    census, started, wait = seen.census, seen.has_minimum, seen.wait
    told = ("Started", _started(seen)) if started else ("NothingToPlace", "no member waits for a node")
    reason, message = told if started or wait is None else (str(wait.reason), wait.message)
    return GroupStatus(
        phase=seen.phase,
        scheduled=census.bound,
        running=census.running,
        succeeded=census.succeeded,
        failed=census.failed,
        condition_status="True" if started else "False",
        reason=reason,
        message=message,
        observed_generation=generation,
        preempted="" if started else seen.evicted,
    )


def _started(seen: GangView) -> str:
    members = f"{seen.census.secured} members are bound or have succeeded, minMember is {seen.min_member}"
    if seen.parts is None or seen.parts.minimum == seen.parts.total:
        return members
    return f"{members}; {seen.parts.bound} of {seen.parts.total} parts are whole, {seen.parts.minimum} are needed"


def gang_view(admission: Admission, gang: Gang) -> GangView:
    """Return how one gang stands."""
    reservations = admission.reservations
    reservation = reservations.ledger.of_gang(gang.uid)
    slots = 0 if reservation is None else len(reservation.slots)
    evicted = "" if gang.has_minimum else admission.tenure.pending_evictions.told.get(gang.uid, "")
    managed = admission.model.concerns(gang)
    return view(gang, slots, reservations.waits.get(gang.uid), managed=managed, evicted=evicted)


#: Users, and groups, whose usage is told of each Queue: the status of one is to stay small.
_MOST_PAYERS: Final = 20

#: Fields of a row that a Queue's own name and spec say, or its `Active` condition.
_SAID_ELSEWHERE: Final = frozenset({"name", "parent", "active", "reason", "message"})


@dataclass(frozen=True, slots=True)
class QueueReport:
    """How a Queue stands, with what only its status says.

    `history` is the decayed mean usage by resource (milli-CPU, bytes, counts), as of `history_at` (RFC 3339); both are
    empty where usage is not remembered. `spares` are the nodes that it keeps for repairs, None if it keeps none.
    """

    row: QueueRow
    uid: str = ""
    generation: int = 0
    history: tuple[tuple[str, float], ...] = ()
    history_at: str = ""
    spares: SpareCount | None = None

    @property
    def name(self) -> str:
        """Return the name of the Queue."""
        return self.row.name

    @property
    def reason(self) -> str:
        """Return the reason of the `Active` condition, in one word."""
        if self.row.reason or not self.row.active:
            return self.row.reason or "Inactive"
        return "NotAsWritten" if self.row.message else "Ready"

    @property
    def message(self) -> str:
        """Return the message of the `Active` condition."""
        return self.row.message or ("the Queue can be used" if self.row.active else "")

    def condition_json(self) -> dict[str, Any]:
        """Return the `Active` condition, without the time of its last transition."""
        return {
            "type": "Active",
            "status": str(self.row.active),
            "reason": self.reason,
            "message": self.message,
            "observedGeneration": self.generation,
        }

    def status_json(self) -> dict[str, Any]:
        """Return the fields of the status without its conditions: those of the row, with amounts as quantities."""
        counts = {name: told for name, told in to_builtins(self.row).items() if name not in _SAID_ELSEWHERE}
        return {
            **counts,
            "flavors": _quantities(self.row.flavors),
            "share": f"{self.row.share:.6g}",
            "running": [{key: said for key, said in each.items() if said is not None} for each in counts["running"]]
            or None,
            "history": [{"resource": name, "usage": format_usage(name, usage)} for name, usage in self.history],
            "historyAt": self.history_at or None,
            "spares": None if self.spares is None else asdict(self.spares),
            "observedGeneration": self.generation,
        }


def _quantities(uses: Iterable[QuotaUse]) -> list[dict[str, Any]]:
    """Return the amounts, as quantities, by flavor in order of first mention."""
    flavors: dict[str, list[dict[str, str]]] = {}
    for use in uses:
        amounts = to_builtins(use)
        flavor, resource = amounts.pop("name"), amounts.pop("resource")
        quantities = {name: format_amount(resource, amount) for name, amount in amounts.items()}
        flavors.setdefault(flavor, []).append({"name": resource, **quantities})
    return [{"name": name, "resources": resources} for name, resources in flavors.items()]


def queue_reports(admission: Admission) -> Iterator[QueueReport]:
    """Iterate over how each Queue stands, in order of their names, each as of when it is asked for.

    Queues may come and go meanwhile: one that is gone by then is left out. Who waits is counted at the beginning.
    """
    sharing, waits = admission.sharing, admission.reservations.waits
    pending: defaultdict[str, list[str]] = defaultdict(list)  # queue -> when those that wait were created (RFC 3339)
    for gang in admission.model.gangs.of(waits):
        if gang.members and gang.ref not in sharing.charges.holders(queue := sharing.queue_of(gang)):
            pending[queue].append(gang.created)
    reserved = _reserved(admission)
    running = sharing.charges.running_in(name for name, queue in sharing.queues.items() if queue.limits)
    for name in sorted(sharing.queues):
        if name in sharing.queues:
            spares = admission.tenure.spares.counts.get(name)
            report = _report(name, sharing, pending[name], reserved)
            payers = tuple(_payers(sharing.queues[name].limits, running.get(name, {})))
            yield replace(report, row=structs.replace(report.row, running=payers), spares=spares)


def _reserved(admission: Admission) -> Counter[tuple[str, str, str]]:
    """Return what is charged for pods that are not bound yet, by queue, flavor and resource, in parents too.

    Complexity: O(promised pods x depth of the tree), whatever runs already.
    """
    sharing, ledger, found = admission.sharing, admission.reservations.ledger, Counter[tuple[str, str, str]]()
    for uid in (uid for reservation in ledger for uid in reservation.slots):
        charge = sharing.charges.of(uid)
        if charge is not None and charge.queue in sharing.tree:
            for queue in sharing.tree.path(charge.queue):
                for resource, amount in charge.amounts.items():
                    found[queue, charge.flavor, resource] += amount
    return found


def _report(
    name: str, sharing: Sharing, pending: Sequence[str], reserved: Mapping[tuple[str, str, str], int]
) -> QueueReport:
    tree, queue = sharing.tree, sharing.queues[name]
    active = name in tree
    past = {} if sharing.history is None else sharing.history.of(name)
    as_of = None if sharing.history is None else sharing.history.as_of(name)
    row = QueueRow(
        name=name,
        parent=queue.parent,
        active=active,
        reason="" if active else "Invalid",
        message="; ".join(map(str, tree.problems_of(name))),
        share=tree.share(name, sharing.totals(), past).borrowed if active else 0.0,
        pending_gangs=len(pending),
        admitted_gangs=len(sharing.charges.holders(name)),
        flavors=_uses(name, sharing, reserved) if active else (),
        pending_since=min(filter(None, pending), default=None),
    )
    return QueueReport(
        row=row,
        uid=queue.uid,
        generation=queue.generation,
        history=tuple(sorted(past.items())),
        history_at="" if as_of is None or not past else _time(as_of),
    )


def _payers(limits: Iterable[RunningLimit], running: Running) -> Iterator[PayerUse]:
    """Yield what users and groups run that a queue limits, those of each kind that use most first."""
    for limit in limits:
        found = [(-gpus, -len(gangs), name) for (label, name), (gpus, gangs) in running.items() if label == limit.label]
        for gpus, gangs, name in nsmallest(_MOST_PAYERS, found):
            yield PayerUse(limit.label.removeprefix(PREFIX), name, -gpus, -gangs, limit.gpus, limit.gangs)


def _uses(name: str, sharing: Sharing, reserved: Mapping[tuple[str, str, str], int]) -> tuple[QuotaUse, ...]:
    tree = sharing.tree
    return tuple(
        QuotaUse(
            name=flavor,
            resource=resource,
            nominal=tree.nominal(name, flavor, resource),
            used=tree.used(name, flavor, resource),
            borrowed=tree.borrowed(name, flavor, resource),
            lent=tree.lent(name, flavor, resource),
            reserved=reserved.get((name, flavor, resource), 0),
        )
        for flavor in tree.flavors(name)
        for resource in sorted(tree.limited(name, flavor))
    )


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="seconds")
