"""Reservations: what was promised to whom, until when."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile

from extender.cluster.model import ClusterModel
from extender.domain.membership import GroupRef
from extender.domain.pod import Pod
from extender.domain.requests import count_gpus


class SlotState(StrEnum):
    """How far one member has come: promised a node, arrived at the barrier, its Binding being written."""

    RESERVED = "reserved"
    HELD = "held"
    BINDING = "binding"


@dataclass(slots=True)
class Slot:
    """One pod's promise of one node.

    `state` is changed by its reservation, which counts. `nominated_at` is when its nomination was last ordered
    (seconds, monotonic), `nudges` how often it was repeated, `losses` how often it was taken off and written again at
    once. `deadline` bounds the promise to a pod without gang (monotonic); a member's is that of its reservation. Until
    `expected_until` (monotonic) a member whose held bind call was answered in vain is expected to come again.
    """

    pod: Pod
    node: str
    state: SlotState = SlotState.RESERVED
    nominated_at: float = 0.0
    nudges: int = 0
    losses: int = 0
    deadline: float = math.inf
    expected_until: float = -math.inf


@dataclass(slots=True)
class Reservation:
    """All slots of one gang, in one life of it.

    `deadline` is in seconds of the monotonic clock; `decision` names the decision in logs from filter to bind;
    `started` says that its barrier has opened; `progressed_at` is when a member last arrived there (monotonic).
    Who has come how far is kept, not counted: each arrival of each of 1,000 members asks.
    """

    ref: GroupRef
    gang_uid: str
    decision: str
    deadline: float
    started: bool = False
    progressed_at: float = 0.0
    slots: dict[str, Slot] = field(default_factory=dict)
    _held: dict[str, None] = field(init=False, repr=False, default_factory=dict)
    _binding: set[str] = field(init=False, repr=False, default_factory=set)
    _returning: dict[str, float] = field(init=False, repr=False, default_factory=dict)

    def arrived(self, now: float) -> int:
        """Count the members that have reached the barrier or passed it, those included that will be back in a moment.

        A large gang, or one whose members were kept in kube-scheduler's backoff, comes together over a longer time than
        a call can be held: without counting those that are on their way back, it would never be there all at once.
        """
        late = list(takewhile(lambda uid: self._returning[uid] <= now, self._returning))
        for uid in late:
            del self._returning[uid]
        return len(self._held) + len(self._binding) + len(self._returning)

    def arrived_roles(self, now: float) -> Counter[str]:
        """Count those that `arrived` counts by their role."""
        self.arrived(now)
        return Counter(self.slots[uid].pod.role for uid in (*self._held, *self._binding, *self._returning))

    def hold(self, uid: str, now: float) -> None:
        """Take in that a member has arrived at the barrier; whoever has arrived already stays as it is."""
        slot = self.slots[uid]
        if slot.state is SlotState.RESERVED:
            self._leave_state(uid)
            slot.state, slot.expected_until = SlotState.HELD, -math.inf
            self._held[uid] = None
            self.progressed_at = now

    def release_held(self) -> list[str]:
        """Let everybody at the barrier go on to its Binding; return their UIDs."""
        released, self._held = list(self._held), {}
        for uid in released:
            self.slots[uid].state = SlotState.BINDING
        self._binding.update(released)
        return released

    def send_back(self, uid: str, expected_until: float) -> None:
        """Take in that a member left the barrier in vain, and will be back; not before others that were sent back."""
        self._leave_state(uid)
        slot = self.slots[uid]
        slot.state, slot.expected_until = SlotState.RESERVED, expected_until
        self._returning[uid] = expected_until

    def retry(self, uid: str) -> None:
        """Take in that a member's Binding was not made, or not that anybody knew of: it comes again."""
        self._leave_state(uid)
        self.slots[uid].state = SlotState.RESERVED

    def remove(self, uid: str) -> Slot | None:
        """Drop the slot of one member; return it, or None if there was none."""
        self._leave_state(uid)
        return self.slots.pop(uid, None)

    def _leave_state(self, uid: str) -> None:
        self._held.pop(uid, None)
        self._binding.discard(uid)
        self._returning.pop(uid, None)


class Ledger:
    """Keep every reservation, and let each slot claim its share of the node until it is bound or released.

    Gangs are told which of their members have a slot. A slot's claim stands in the node table under the pod's UID, so
    that the claim of the bound pod takes its place without a gap. Deadlines are kept in a heap; an entry whose
    reservation has moved its deadline is skipped. Promises to pods without gang are kept in the order of their
    deadlines, which are all equally far ahead.

    Attributes:
        gpus: how many GPUs are promised and not bound yet.
    """

    def __init__(self, model: ClusterModel) -> None:
        """Claim in the node table of `model`."""
        self._gangs = model.gangs
        self._table = model.table
        self._by_gang: dict[str, Reservation] = {}
        self._by_pod: dict[str, Reservation] = {}
        self._by_node: dict[str, dict[str, Reservation]] = {}
        self._singles: dict[str, Slot] = {}
        self._deadlines: list[tuple[float, str]] = []
        self.gpus = 0

    def __iter__(self) -> Iterator[Reservation]:
        """Iterate over the gangs' reservations in the order in which they were made."""
        return iter(list(self._by_gang.values()))

    def of_gang(self, gang_uid: str) -> Reservation | None:
        """Return the reservation of a gang, or None."""
        return self._by_gang.get(gang_uid)

    def of_pod(self, uid: str) -> tuple[Reservation, Slot] | None:
        """Return the reservation and the slot of a gang's member, or None."""
        reservation = self._by_pod.get(uid)
        return None if reservation is None else (reservation, reservation.slots[uid])

    def on_node(self, node: str) -> list[tuple[Reservation, Slot]]:
        """Return the slots of gang members on one node, oldest first."""
        return [(reservation, reservation.slots[uid]) for uid, reservation in self._by_node.get(node, {}).items()]

    def open(self, ref: GroupRef, gang_uid: str, decision: str, deadline: float) -> Reservation:
        """Return the gang's reservation, making an empty one if there is none; its deadline becomes `deadline`."""
        reservation = self._by_gang.get(gang_uid)
        if reservation is None:
            reservation = self._by_gang[gang_uid] = Reservation(ref, gang_uid, decision, deadline)
        elif reservation.deadline == deadline:
            return reservation
        reservation.deadline = deadline
        heapq.heappush(self._deadlines, (deadline, gang_uid))
        return reservation

    def promise(self, reservation: Reservation, pod: Pod, node: str) -> Slot:
        """Promise `node` to `pod`, in place of whatever it was promised before."""
        self._drop(pod.uid)
        slot = Slot(pod, node)
        self._by_gang[reservation.gang_uid] = reservation
        reservation.slots[pod.uid] = slot
        self._by_pod[pod.uid] = reservation
        self._by_node.setdefault(node, {})[pod.uid] = reservation
        self.gpus += count_gpus(pod.shape.requests)
        self._table.claim(pod.uid, node, pod.shape)
        self._gangs.promise(reservation.ref, pod.uid)
        return slot

    def promise_single(self, pod: Pod, node: str, deadline: float) -> Slot:
        """Promise `node` until `deadline` to a pod without gang whose Binding is about to be written."""
        self._drop_single(pod.uid)
        slot = self._singles[pod.uid] = Slot(pod, node, SlotState.BINDING, deadline=deadline)
        self.gpus += count_gpus(pod.shape.requests)
        self._table.claim(pod.uid, node, pod.shape)
        return slot

    def singles(self) -> Iterator[Slot]:
        """Iterate over the promises to pods without gang, earliest deadline first."""
        return iter(list(self._singles.values()))

    def single(self, uid: str) -> Slot | None:
        """Return the slot of a pod without gang, or None."""
        return self._singles.get(uid)

    def fulfil(self, pod: Pod) -> Slot | None:
        """Drop the slot of a pod that the API server shows as bound; its claim is the bound pod's now."""
        return self._drop(pod.uid)

    def release(self, uid: str) -> Slot | None:
        """Drop the slot of one pod and give back what it claimed; return it, or None if there was none."""
        slot = self._drop(uid)
        if slot is not None:
            self._table.release(uid)
        return slot

    def release_gang(self, gang_uid: str) -> list[Slot]:
        """Drop a whole reservation except Bindings under way, whose outcome decides; return what was dropped."""
        reservation = self._by_gang.get(gang_uid)
        if reservation is None:
            return []
        loose = [uid for uid, slot in reservation.slots.items() if slot.state is not SlotState.BINDING]
        return [slot for uid in loose if (slot := self.release(uid)) is not None]

    def clear(self) -> None:
        """Drop every slot and give back what they claimed."""
        for uid in [*self._by_pod, *self._singles]:
            self.release(uid)

    def expire(self, now: float) -> list[Reservation]:
        """Return the reservations whose deadline has passed; the caller releases them."""
        due: dict[str, Reservation] = {}
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, gang_uid = heapq.heappop(self._deadlines)
            reservation = self._by_gang.get(gang_uid)
            if reservation is not None and reservation.deadline == deadline:
                due[gang_uid] = reservation
        return list(due.values())

    def expire_singles(self, now: float) -> list[Slot]:
        """Return the promises to pods without gang whose deadline has passed; the caller releases them."""
        return list(takewhile(lambda slot: slot.deadline <= now, self._singles.values()))

    def next_deadline(self) -> float | None:
        """Return the earliest deadline (seconds, monotonic), or None."""
        single = next(iter(self._singles.values()), None)
        times = [self._deadlines[0][0]] if self._deadlines else []
        return min(times if single is None else [*times, single.deadline], default=None)

    def _drop(self, uid: str) -> Slot | None:
        reservation = self._by_pod.pop(uid, None)
        if reservation is None:
            return self._drop_single(uid)
        slot = reservation.remove(uid)
        if not reservation.slots:
            self._by_gang.pop(reservation.gang_uid, None)
        if slot is not None:
            there = self._by_node[slot.node]
            del there[uid]
            if not there:
                del self._by_node[slot.node]
            self._gangs.withdraw(reservation.ref, uid)
            self.gpus -= count_gpus(slot.pod.shape.requests)
        return slot

    def _drop_single(self, uid: str) -> Slot | None:
        slot = self._singles.pop(uid, None)
        if slot is not None:
            self.gpus -= count_gpus(slot.pod.shape.requests)
        return slot
