"""Who stands in the way of a gang by right of priority: whom a higher one would go before, or have evicted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from extender.admission.admission import Admission
from extender.admission.charges import Charge, Holder
from extender.admission.explaining.material import Material
from extender.admission.explaining.scene import Scene
from extender.admission.sharing import NAMELESS
from extender.admission.site import Party
from extender.cluster.gangs import Gang
from extender.cluster.registry import GangRegistry
from extender.cluster.table import is_extended
from extender.domain.membership import GroupRef
from extender.domain.queue import Preemption, WithinQueue
from extender.domain.reason import Reason

#: Pods without gang in one queue that are looked at: of more of them none is taken into account.
_MOST_SINGLES: Final = 2000
#: How many times what a gang asks for is looked for among those that may be evicted for it, and on how many pods.
_ENOUGH: Final = 2
_MOST_PODS: Final = 2048


@dataclass(frozen=True, slots=True)
class Rivals:
    """What of others decides about a gang beside the nodes that they hold.

    Attributes:
        priority: the gang's own.
        gangs: every gang, as it is now and not as it was: for looking up one at a time.
        holders: who holds nodes in its queue with which pods, by UID; as it is now, too. Empty where nobody may be
            evicted for the gang.
        charge_of: returns what is charged for a pod with some UID.
        ahead: who is before it in its queue where nobody may pass, "" if nobody keeps it waiting so.
        available: flavor -> resource -> how much more its queue may use, None for any amount.
    """

    priority: int
    gangs: GangRegistry
    holders: Mapping[Holder, Iterable[str]]
    charge_of: Callable[[str], Charge | None]
    ahead: str = ""
    available: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)

    def covers(self, flavor: str, amounts: Mapping[str, int]) -> bool:
        """Tell whether the queue has quota for `amounts` in a flavor."""
        limits = self.available.get(flavor, {})
        return all((most := limits.get(resource)) is None or amount <= most for resource, amount in amounts.items())


def rivals_of(admission: Admission, gang: Gang, material: Material) -> Rivals:
    """Gather on the event loop who stands in the way of a gang, known to the admission or not.

    Complexity: O(resources), and O(gangs) where nobody may pass in its queue.
    """
    queue, sharing = material.queue, admission.sharing
    policy = Preemption()
    if queue != NAMELESS and queue in sharing.tree:
        policy = sharing.tree.queue(queue).preemption
    may_evict = policy.within_queue is not WithinQueue.NEVER and not gang.never_preempts
    return Rivals(
        gang.priority,
        admission.model.gangs,
        sharing.charges.holders(queue) if may_evict else {},
        sharing.charges.of,
        _ahead(admission, gang, material),
        {each.option.flavor: _available(admission, material, each.option.flavor) for each in material.options},
    )


def lower_priority(scene: Scene, rivals: Rivals, party: Party) -> Mapping[int, list[str]]:
    """Return, by priority, the UIDs of pods that may be evicted for a gang if that has a higher one.

    The lowest priorities come first, until these hold twice of what the party asks for; if it asks for devices, those
    that hold some. Policies that protect running gangs for a while, and disruption budgets, are not asked.
    Complexity: O(holders), in steps of microseconds.
    """
    devices = {resource for resource in party.amounts if is_extended(resource)}
    ranked = sorted(_ranked(scene, rivals, devices), key=lambda each: (each.priority, -len(each.uids), each.uids))
    missing = {resource: amount * _ENOUGH for resource, amount in party.amounts.items()}
    found: dict[int, list[str]] = {}
    pods = 0
    for each in ranked:
        if pods > _MOST_PODS or all(amount <= 0 for amount in missing.values()):
            break
        found.setdefault(each.priority, []).extend(each.uids)
        pods += len(each.uids)
        for resource in missing:
            missing[resource] -= each.amounts.get(resource, 0) * len(each.uids)
    return found


class _Evictable(NamedTuple):
    """Pods that may be evicted together, what each of them holds, and the priority that protects them."""

    priority: int
    uids: tuple[str, ...]
    amounts: Mapping[str, int]


def _ranked(scene: Scene, rivals: Rivals, devices: AbstractSet[str]) -> Iterator[_Evictable]:
    """Yield who may be evicted, and has some of `devices` if there are any."""
    holders = list(rivals.holders)  # in one step of the interpreter, as the event loop goes on meanwhile
    gangs: list[Holder] = [holder for holder in holders if isinstance(holder, GroupRef)]
    if len(holders) - len(gangs) > _MOST_SINGLES:
        holders = gangs
    for holder in holders:
        if holder == scene.gang.ref:
            continue
        uids = tuple(rivals.holders.get(holder, ()))
        pod = scene.material.pods.get(uids[0]) if uids else None
        charge = rivals.charge_of(uids[0]) if uids else None
        if pod is None or charge is None or not pod.bound or pod.options.preemptible is False:
            continue
        if devices and devices.isdisjoint(charge.amounts):
            continue
        gang = rivals.gangs.get(holder) if isinstance(holder, GroupRef) else None
        group = None if gang is None else gang.group
        if group is not None and group.options.preemptible is False:
            continue
        stated = None if group is None else group.priority
        yield _Evictable(charge.priority if stated is None else stated, uids, charge.amounts)


def _ahead(admission: Admission, gang: Gang, material: Material) -> str:
    """Return the first in a gang's queue that keeps it waiting whatever is free, as `AdmissionPass` has it."""
    sharing, queue = admission.sharing, material.queue
    if not sharing.is_strict(queue):
        return ""
    queues, waits = admission.term.decider.queues, admission.reservations.waits
    own = queues.get(gang.ref) if material.place is None else material.place
    passed = {Reason.AWAITING_MEMBERS, Reason.BEHIND_IN_QUEUE}
    first = None
    for other in admission.model.gangs:
        wait = waits.get(other.uid)
        if wait is None or other is gang or wait.reason in passed or other.has_minimum:
            continue
        theirs = queues.get(other.ref)
        if theirs is None or theirs.queue != queue or own is None or theirs.position > own.position:
            continue
        if first is None or theirs.position < first.position:
            first = theirs
    return "" if first is None else str(first.gang.ref)


def _available(admission: Admission, material: Material, flavor: str) -> Mapping[str, int | None]:
    """Return how much more the queue may use of each resource that the gang asks for."""
    demand, tree = material.demand, admission.sharing.tree
    if demand is None or material.queue not in tree:
        return {}
    resources = {resource for shape, _ in demand.shapes for resource, _ in shape.requests}
    return {resource: tree.available(material.queue, flavor, resource) for resource in resources}
