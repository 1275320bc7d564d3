"""Reservations: which nodes are promised to the members of a gang, until when, and when to nominate again."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile
from typing import Final

from extender.clock import Clock
from extender.cluster.model import ClusterModel
from extender.ledger.effects import Nomination
from extender.objects.pod import Pod, Shape
from extender.objects.podgroup import GroupRef


class SlotState(StrEnum):
    """How far one member has come: promised a node, arrived at the barrier, its Binding being written."""

    RESERVED = "reserved"
    HELD = "held"
    BINDING = "binding"


@dataclass(slots=True)
class Slot:
    """One pod's promise of one node.

    `state` is changed by its reservation, which counts. `promised_at` is when the node was promised, `nominated_at`
    when its nomination was last ordered (seconds, monotonic), `nudges` how often it was repeated, `losses` how often
    written again when taken off; `stirred` says that it is being cleared to be set again, `asks_for_all` that its node
    was just refused alone. Until `expected_until` a member whose held bind call was answered in vain is expected again.
    """

    pod: Pod
    node: str
    state: SlotState = SlotState.RESERVED
    promised_at: float = math.inf
    nominated_at: float = 0.0
    nudges: int = 0
    losses: int = 0
    stirred: bool = False
    asks_for_all: bool = False
    expected_until: float = -math.inf


@dataclass(slots=True)
class Reservation:
    """All slots of one gang, in one life of it.

    `deadline` is in seconds of the monotonic clock; `decision` names the decision in logs from filter to bind;
    `started` says that its barrier has opened; `progressed_at` is when a member last arrived there (monotonic). `gpus`
    counts those that are promised and not bound yet. `failure` is why the last Binding was not made that was not, ""
    for none, and `overdue` says that the deadline passed while Bindings were under way.
    Who has come how far is kept, not counted: each arrival of each of 1,000 members asks.
    """

    ref: GroupRef
    gang_uid: str
    decision: str
    deadline: float
    started: bool = False
    progressed_at: float = 0.0
    gpus: int = 0
    failure: str = ""
    overdue: bool = False
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

    @property
    def is_binding(self) -> bool:
        """Tell whether any Binding is under way."""
        return bool(self._binding)

    def arrived_roles(self, now: float) -> Counter[str]:
        """Count those that `arrived` counts by their role."""
        self.arrived(now)
        return Counter(self.slots[uid].pod.role for uid in (*self._held, *self._binding, *self._returning))

    def hold(self, uid: str, now: float) -> None:
        """Take in that a member has arrived at the barrier; one that has arrived already stays as it is."""
        slot = self.slots[uid]
        if slot.state is SlotState.RESERVED:
            self._leave_state(uid)
            slot.state, slot.expected_until = SlotState.HELD, -math.inf
            self._held[uid] = None
            self.progressed_at = now

    def release_held(self, kept: Collection[str] = ()) -> list[str]:
        """Let the members at the barrier go on to their Bindings whose roles are not `kept`; return their UIDs."""
        released = [uid for uid in self._held if not kept or self.slots[uid].pod.role not in kept]
        self._held = {uid: None for uid in self._held if self.slots[uid].pod.role in kept} if kept else {}
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
        """Take in that a member's Binding was not made, as far as is known: it comes again."""
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
    reservation has moved its deadline is skipped.

    Attributes:
        expected: how many nodes are promised to pods that do not exist yet.
    """

    def __init__(self, model: ClusterModel) -> None:
        self._gangs = model.gangs
        self._table = model.table
        self._managed = model.workloads.managed
        self._by_gang: dict[str, Reservation] = {}
        self._by_pod: dict[str, Reservation] = {}
        self._by_node: dict[str, dict[str, Reservation]] = {}
        self._deadlines: list[tuple[float, str]] = []
        self.expected = 0

    def __iter__(self) -> Iterator[Reservation]:
        """Iterate over the gangs' reservations in the order in which they were made."""
        return iter(list(self._by_gang.values()))

    def of_gang(self, gang_uid: str) -> Reservation | None:
        """Return the reservation of a gang, or None."""
        return self._by_gang.get(gang_uid)

    def of_pod(self, uid: str) -> tuple[Reservation, Slot] | None:
        """Return the reservation and the slot of a pod, or None."""
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

    def promise(self, reservation: Reservation, places: Iterable[tuple[Pod, str]], now: float) -> None:
        """Promise each pod its node, in place of whatever it was promised before, and take it to be nominated there.

        What is the same for pods of one shape on one node is done once: a microsecond for each of 10,000 members is a
        turn of the event loop of 10 ms.
        """
        alike: dict[Shape, dict[str, list[str]]] = {}
        slots: dict[str, Slot] = {}
        for pod, node in places:
            uid = pod.uid
            if uid in self._by_pod:
                self._drop(uid)
            slots[uid] = Slot(pod, node, promised_at=now, nominated_at=now)
            if self._table.claim_of(uid) is None:
                alike.setdefault(pod.shape, {}).setdefault(node, []).append(uid)
            else:
                self._table.claim(uid, node, pod.shape)
            self._by_node.setdefault(node, {})[uid] = reservation
        self._by_gang[reservation.gang_uid] = reservation
        reservation.slots |= slots
        if self._managed:  # in most clusters no pod is expected
            self.expected += sum(slot.pod.is_expected for slot in slots.values())
        self._by_pod |= dict.fromkeys(slots, reservation)
        reservation.gpus += sum(slot.pod.shape.gpus for slot in slots.values())
        for shape, nodes in alike.items():
            self._table.claim_alike(shape, nodes)
        self._gangs.promise(reservation.ref, slots)

    def follow(self, slot: Slot, pod: Pod) -> None:
        """Keep a slot for its pod, which asks for no more than before; the node is looked at again."""
        self._by_pod[pod.uid].gpus += pod.shape.gpus - slot.pod.shape.gpus
        slot.pod = pod
        self._table.claim(pod.uid, slot.node, pod.shape)
        self._table.touch(slot.node)

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
        for uid in list(self._by_pod):
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

    def next_deadline(self) -> float | None:
        """Return the earliest deadline (seconds, monotonic), or None."""
        return self._deadlines[0][0] if self._deadlines else None

    def _drop(self, uid: str) -> Slot | None:
        reservation = self._by_pod.pop(uid, None)
        if reservation is None:
            return None
        slot = reservation.remove(uid)
        if not reservation.slots:
            self._by_gang.pop(reservation.gang_uid, None)
        if slot is not None:
            there = self._by_node[slot.node]
            del there[uid]
            if not there:
                del self._by_node[slot.node]
            self._gangs.withdraw(reservation.ref, uid)
            self.expected -= slot.pod.is_expected
            reservation.gpus -= slot.pod.shape.gpus
        return slot


#: How often the pause between two nudges of one member doubles: from half a second to 16 s by default.
_LONGEST_NUDGE_DOUBLINGS: Final = 5

#: How often a nomination that was taken off is written again at once. A lost wake-up is rare; three in a row are
#: something else.
_MOST_LOSSES: Final = 3

#: After so many first pauses without a question kube-scheduler is taken to be idle: two seconds by default.
_IDLE_PAUSES: Final = 4

#: How many members are looked at before others have the event loop: 2 ms.
_LOOKS_PER_TURN: Final = 250

#: How long a member that came up too early is left alone at least, for each member of its gang (seconds): looking at
#: all of 10,000 takes 60 ms, and kube-scheduler brings 400 of them a second at best.
_REST_PER_MEMBER: Final = 0.0002


class Nudges:
    """Nominate again the members that should have come back to filter and did not.

    kube-scheduler clears a nomination that lands while an attempt for the pod is in flight, and nothing wakes the pod
    again; a nomination that still stands is cleared and set, which wakes it too. While others of the gang arrive,
    kube-scheduler is on its way through them, and none is nudged.

    Clearing has a price: kube-scheduler then tries every pod again whose priority is not higher, as if room had become
    free (updatePodInSchedulingQueue). With hundreds of them before a nominated pod in the queue, nudges would only keep
    it from ever being tried. So nominations that stand are left alone while kube-scheduler asks about any pod at all,
    or says of any why it does not place it, except once in a longest pause. A member of which it has said nothing yet
    is still in its queue, and not set aside: that is believed for a longest pause at least, and until it is idle.

    A member that shows its nomination, and an older refusal that room alone may not end, is not nudged: if
    kube-scheduler was idle, it does not try the member again.

    Members are looked at in a heap by the earliest time at which they could be due. What puts a nudge off (an arrival,
    a question) does not touch the heap: a member that comes up too early is put back, for longer in a large gang, of
    which all members come up together after each arrival.
    """

    def __init__(
        self,
        model: ClusterModel,
        ledger: Ledger,
        pause_seconds: float,
        clock: Clock,
        may_be_stuck: Callable[[Pod], bool] = lambda _: False,
    ) -> None:
        """Watch no member yet; `pause_seconds` is the first pause before a member is nudged."""
        self._model = model
        self._ledger = ledger
        self._may_be_stuck = may_be_stuck
        self._stuck: list[Pod] = []
        self._pause = pause_seconds
        self._longest = pause_seconds * (1 << _LONGEST_NUDGE_DOUBLINGS)
        self._clock = clock
        self._asked_at = self._stirred_at = -math.inf
        self._wakes: dict[str, float] = {}  # pod UID -> its entry of the heap that counts
        self._heap: list[tuple[float, str]] = []

    def asked(self) -> None:
        """Take in that kube-scheduler has asked about a pod: it is awake, and on its way through its queue."""
        self._asked_at = self._clock.monotonic()

    def follow(self, pod: Pod, before: Pod | None) -> None:
        """Take in a pod that was `before`: where kube-scheduler says why it does not place it, it has tried it."""
        if pod.refusal and before is not None and before.refusal != pod.refusal and self._model.manages(pod):
            self.asked()
            entry = self._ledger.of_pod(pod.uid)
            if entry is not None:
                self.watch(*entry)

    def watch(self, reservation: Reservation, slot: Slot) -> None:
        """Look at a member when it is due; to be called when its slot is made or it could be due earlier."""
        if slot.state is SlotState.RESERVED:
            self._push(slot.pod.uid, self._due(reservation, slot, self._may_stir_at()))

    def lost(self, pod: Pod, slot: Slot) -> Nomination | None:
        """Return what to write when a nomination was taken off: the same again, after a few times nothing.

        kube-scheduler takes it off when the attempt fails during which it arrived: once more is enough. Where its own
        filters leave the pod no node, it takes off every one, and wakes the gang's other members with that: written
        again at once each time, it would go round as fast as both can write.
        """
        if slot.losses >= _MOST_LOSSES:
            return None
        slot.losses += 1
        slot.nominated_at = self._clock.monotonic()
        return Nomination(pod, slot.node)

    def due(self) -> list[Nomination]:
        """Return the nominations that are to be written again now; where many members come up, those of some.

        Then `next` is not later than now.
        """
        now, stir_at = self._clock.monotonic(), self._may_stir_at()
        nominations = []
        looks = 0
        while self._heap and self._heap[0][0] <= now and looks < _LOOKS_PER_TURN:
            at, uid = heapq.heappop(self._heap)
            if self._wakes.get(uid) != at:
                continue
            looks += 1
            del self._wakes[uid]
            entry = self._ledger.of_pod(uid)
            if entry is None or entry[1].state is not SlotState.RESERVED:
                continue
            reservation, slot = entry
            due = self._due(reservation, slot, stir_at)
            if now < due:
                self._push(uid, max(due, now + len(reservation.slots) * _REST_PER_MEMBER))
                continue
            again = self._stands(slot)
            if again and self._is_idle(now) and self._may_be_stuck(pod := self._model.pods.get(uid, slot.pod)):
                self._stuck.append(pod)
                continue
            slot.nudges += 1
            slot.nominated_at = now
            slot.stirred = again
            if again:
                self._stirred_at = now
            pod = self._model.pods.get(uid, slot.pod)
            nominations.append(Nomination(pod, slot.node, again=again, overdue=True))
            self._push(uid, self._due(reservation, slot, self._may_stir_at()))
        return nominations

    def is_settled(self, slot: Slot) -> bool:
        """Tell whether a node was promised so long ago that kube-scheduler must have seen the same room there."""
        return self._clock.monotonic() >= slot.promised_at + _IDLE_PAUSES * self._pause

    def take_stuck(self) -> list[Pod]:
        """Hand over the members that `due` found to be refused for good, as far as can be told."""
        stuck, self._stuck = self._stuck, []
        return stuck

    def next(self) -> float | None:
        """Return when a member may be due next (seconds, monotonic), or None; never later than one is."""
        while self._heap and self._wakes.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _push(self, uid: str, at: float) -> None:
        self._wakes[uid] = at
        heapq.heappush(self._heap, (at, uid))

    def _due(self, reservation: Reservation, slot: Slot, stir_at: float) -> float:
        """Return when to nominate the member again (seconds, monotonic) if nothing happens until then."""
        pause = self._pause * (1 << min(slot.nudges, _LONGEST_NUDGE_DOUBLINGS))
        pod = self._model.pods.get(slot.pod.uid, slot.pod)
        stands = self._stands(slot)
        if not pod.refusal:
            pause, stir_at = self._longest if stands else pause, self._idle_at()
        elif stands and self._may_be_stuck(pod):
            pause = max(pause, _IDLE_PAUSES * self._pause)
        due = max(slot.nominated_at + pause, reservation.progressed_at + pause, slot.expected_until)
        return max(due, stir_at) if stands or not pod.refusal else due

    def _stands(self, slot: Slot) -> bool:
        """Tell whether the pod shows the nomination that its slot calls for."""
        return self._model.pods.get(slot.pod.uid, slot.pod).nominated_node == slot.node

    def _is_idle(self, now: float) -> bool:
        """Tell whether kube-scheduler has not asked about any pod for a while."""
        return now >= self._idle_at()

    def _idle_at(self) -> float:
        """Return when kube-scheduler is taken to be idle unless it asks before (seconds, monotonic)."""
        return self._asked_at + _IDLE_PAUSES * self._pause

    def _may_stir_at(self) -> float:
        """Return from when on nominations that stand may be cleared and set (seconds, monotonic)."""
        return min(self._idle_at(), self._stirred_at + self._longest)
