"""What the scheduler knows of devices: slices, classes and claims, and what it has given to claims in memory.

Source: k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources dra_manager.go, release 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from extender.control.ports import WatchedKind
from extender.devices.inuse import DevicesInUse
from extender.devices.inventory import Inventory
from extender.objects.meta import Requirement, SelectorTerm
from extender.objects.pod import Pod
from extender.objects.resourceclaim import ClaimAllocation, GivenDevice, ResourceClaim
from muster_lab.simulation.objects import Json, ObjectChange, Stored
from muster_lab.simulation.scheduler.events import EventKind, SchedulerEvent


class ClaimCache:
    """Keep devices and claims; a claim that the scheduler wrote counts at once, before it hears of its own write.

    Attributes:
        inventory: which devices each node has.
        in_use: which devices are allocated, or in flight: between Reserve and the write of PreBind.
    """

    def __init__(self) -> None:
        self.inventory = Inventory()
        self.in_use = DevicesInUse()
        there = self.inventory
        self._read: dict[str, tuple[Callable[[Any], object], Callable[[str], object]]] = {
            WatchedKind.RESOURCE_SLICE: (there.put_slice, there.drop_slice),
            WatchedKind.DEVICE_CLASS: (there.put_class, there.drop_class),
            WatchedKind.DEVICE_TAINT_RULE: (there.put_rule, there.drop_rule),
        }
        self._claims: dict[str, Stored] = {}  # by namespace/name
        self._in_flight: dict[str, ClaimAllocation] = {}  # by UID, as are the next
        self._counted: dict[str, ClaimAllocation] = {}

    def __len__(self) -> int:
        return len(self._claims)

    def find(self, key: str) -> ResourceClaim | None:
        """Return the claim called `namespace/name`, or None."""
        version = self._claims.get(key)
        return None if version is None else version.claim

    def missing(self, pod: Pod) -> str:
        """Say which claim of a pod does not exist, "" if all do. Source: foreachPodResourceClaim."""
        for awaited in pod.claims.awaited:
            return f'pod "{pod.key}": ResourceClaim not created yet for {awaited.name}'
        for name in pod.claims.names:
            claim = self.find(f"{pod.namespace}/{name}")
            if claim is None:
                return f'resourceclaim "{name}" not found'
            if claim.deleting:
                return f'resourceclaim "{name}" is being deleted'
        return ""

    def of(self, pod: Pod) -> list[ResourceClaim]:
        """Return the claims of a pod that exist, in its order."""
        found = (self.find(f"{pod.namespace}/{name}") for name in pod.claims.names)
        return [claim for claim in found if claim is not None]

    # What was heard, and what was written.

    def take_in(self, change: ObjectChange) -> SchedulerEvent | None:
        """Hear of a change; return what that is for pods that wait, None where it is nothing for them."""
        kind, name = change.object.key.kind, change.object.key.name
        if kind is WatchedKind.RESOURCE_CLAIM:
            return self._claim(change)
        if kind not in self._read:
            return None
        put, drop = self._read[kind]
        if change.after is None:
            drop(name)
            return None
        value = change.after.value
        put(value)
        same = change.before is not None and change.before.value == value
        return None if same else SchedulerEvent(EventKind.DEVICES_CHANGED)

    def wrote(self, version: Stored) -> None:
        """Take a claim for what the scheduler has just written of it."""
        self._put(version)

    def start_flight(self, claim: ResourceClaim, allocation: ClaimAllocation) -> None:
        """Keep what a claim is about to be given."""
        self._in_flight[claim.uid] = allocation
        self._count(claim.uid, claim.allocation)

    def end_flight(self, claim: ResourceClaim) -> None:
        """Forget what a claim was about to be given: it has it now, or will not get it."""
        self._in_flight.pop(claim.uid, None)
        current = self.find(claim.key)
        self._count(claim.uid, current.allocation if current is not None and current.uid == claim.uid else None)

    def is_in_flight(self, claim: ResourceClaim) -> bool:
        """Tell whether a claim is about to be given devices."""
        return claim.uid in self._in_flight

    def _claim(self, change: ObjectChange) -> SchedulerEvent | None:
        told = change.object
        known = self._claims.get(told.claim.key)
        if known is not None and known.uid == told.uid and _version(told) < _version(known):
            return None  # older than what the scheduler wrote itself
        before = None if known is None else known.claim
        if change.after is None:
            self._claims.pop(told.claim.key, None)
            self._count(told.uid, None)
            freed = before is not None and before.allocation is not None
            return SchedulerEvent(EventKind.DEVICES_FREED) if freed else None
        self._put(change.after)
        now = change.after.claim
        if change.before is not None and change.before.claim.allocation is not None and now.allocation is None:
            return SchedulerEvent(EventKind.DEVICES_FREED)
        return SchedulerEvent(EventKind.CLAIM_CHANGED, claim=now.key)

    def _put(self, version: Stored) -> None:
        self._claims[version.claim.key] = version
        self._count(version.uid, version.claim.allocation)

    def _count(self, uid: str, allocated: ClaimAllocation | None) -> None:
        """Count what a claim has, or is about to have."""
        holds = allocated if allocated is not None else self._in_flight.get(uid)
        counted = self._counted.pop(uid, None)
        if counted is not None:
            self.in_use.give_back(counted)
        if holds is not None:
            self._counted[uid] = holds
            self.in_use.take(holds)


def allocation_json(allocation: ClaimAllocation) -> Json:
    """Write an allocation as the status of a claim has it; shares have the number of their device as their ID."""
    document: Json = {"devices": {"results": [_given(number, each) for number, each in enumerate(allocation.devices)]}}
    if allocation.nodes is not None:
        document["nodeSelector"] = {"nodeSelectorTerms": [_term(term) for term in allocation.nodes]}
    return document


def _given(number: int, given: GivenDevice) -> Json:
    document: Json = {"request": given.request, **given.device._asdict()}
    if given.admin:
        document["adminAccess"] = True
    if given.share:
        document["shareID"] = f"00000000-0000-4000-8000-{number:012x}"
        document["consumedCapacity"] = {name: f"{amount}n" for name, amount in given.consumed}
    return document


def _term(term: SelectorTerm) -> Mapping[str, object]:
    parts = {"matchExpressions": term.labels, "matchFields": term.fields}
    return {key: [_requirement(each) for each in those] for key, those in parts.items() if those}


def _requirement(requirement: Requirement) -> Json:
    values = {"values": list(requirement.values)} if requirement.values else {}
    return {"key": requirement.key, "operator": requirement.operator, **values}


def _version(version: Stored) -> int:
    return int(version.json["metadata"]["resourceVersion"])
