"""Making, repairing and giving up reservations: every change of the ledger and what follows from it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from extender.admission.backoff import Backoff
from extender.admission.effects import Effects, Milestone, Nomination, Note
from extender.admission.ledger import Ledger, Reservation, Slot, SlotState
from extender.admission.queue import position
from extender.admission.vetoes import Vetoed, leave_out
from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.cluster.whatif import WhatIf
from extender.domain.pod import Pod
from extender.domain.reason import Reason, Wait
from extender.placement.plan import Eligible
from extender.settings import Settings

#: How often the pause between two nudges of one member doubles: from half a second to 16 s by default.
_LONGEST_NUDGE_DOUBLINGS = 5

#: How often a nomination that was taken off is written again at once. A lost wake-up is rare; three in a row are
#: something else.
_MOST_LOSSES = 3

#: After so many first pauses without a question kube-scheduler is taken to be idle: two seconds by default.
_IDLE_PAUSES = 4

#: How long kube-scheduler may take to bring a pod again whose bind call failed: its backoff is 10 s at most by default
#: (podMaxBackoffSeconds), and then the pod queues.
_RETURN_SECONDS = 15.0

#: How every reason begins that Muster gives kube-scheduler for a gang member.
OWN_WORDS = "gang waits: "


class Reservations:
    """Keep the ledger in step with the cluster, and order the nominations and answers that each change calls for.

    Attributes:
        ledger: what is promised to whom.
        waits: gang UID -> why it waits; gangs that are running, or that nobody has judged yet, have none.
        effects: what is to be written or answered; the owner replaces it when it takes it.
    """

    def __init__(self, model: ClusterModel, settings: Settings, clock: Clock) -> None:
        """Start with an empty ledger."""
        self._model = model
        self._settings = settings
        self._clock = clock
        self._decisions = itertools.count(1)
        self.ledger = Ledger(model.table)
        self.backoff = Backoff(settings.backoff_initial_seconds, settings.backoff_max_seconds)
        self.waits: dict[str, Wait] = {}
        self.effects = Effects()
        self._asked_at = self._stirred_at = -math.inf

    def reserve(self, gang: Gang, pods: Mapping[str, Pod], nodes: Mapping[str, str]) -> Reservation:
        """Promise each pod its node (both by pod UID), and nominate it there.

        A reservation that has not started keeps its deadline when a member is placed anew: nobody can put it off for
        ever by replacing members. Members that join a started gang get the time that a new one gets.
        """
        now = self._clock.monotonic()
        before = self.ledger.of_gang(gang.uid)
        if before is not None and not gang.has_minimum:
            deadline = before.deadline
        else:
            timeout = None if gang.group is None else gang.group.schedule_timeout
            deadline = now + (timeout or self._settings.reservation_timeout_seconds)
        decision = f"{gang.uid.removeprefix('pod:')[:8]}-{next(self._decisions)}"
        reservation = self.ledger.open(gang.ref, gang.uid, decision, deadline)
        for uid, node in nodes.items():
            slot = self.ledger.promise(reservation, pods[uid], node)
            slot.nominated_at = now
            if pods[uid].nominated_node != node:
                self.effects.nominations[uid] = Nomination(pods[uid], node)
        self.effects.milestones.append(Milestone("gang placed", gang.ref, reservation.decision, len(nodes)))
        self.effects.changed[gang.ref] = None
        return reservation

    def promise_single(self, pod: Pod, node: str) -> None:
        """Promise a node to a pod without gang whose Binding is about to be written."""
        timeout = self._settings.reservation_timeout_seconds
        self.ledger.promise_single(pod, node, self._clock.monotonic() + timeout)

    def hold(self, reservation: Reservation, slot: Slot) -> None:
        """Take in that a member has arrived at the barrier."""
        if slot.state is SlotState.RESERVED:
            slot.state = SlotState.HELD
            slot.expected_until = -math.inf
            reservation.progressed_at = self._clock.monotonic()

    def send_back(self, slot: Slot) -> None:
        """Take in that a member's held bind call was answered in vain: it keeps its slot, and comes again."""
        slot.state = SlotState.RESERVED
        slot.expected_until = self._clock.monotonic() + _RETURN_SECONDS

    def open_barrier(self, gang: Gang) -> bool:
        """Let all held members go if minMember of them have arrived, are bound or have succeeded; return whether so."""
        reservation = self.ledger.of_gang(gang.uid)
        now = self._clock.monotonic()
        if reservation is None or gang.census().secured + reservation.arrived(now) < gang.min_member:
            return False
        held = [uid for uid, slot in reservation.slots.items() if slot.state is SlotState.HELD]
        for uid in held:
            reservation.slots[uid].state = SlotState.BINDING
        self.effects.released += held
        if not reservation.started:
            reservation.started = True
            waited = now - gang.first_seen
            self.effects.milestones.append(
                Milestone("gang started", gang.ref, reservation.decision, len(held), waited=waited)
            )
        self.backoff.forget(gang.uid)
        self.waits.pop(gang.uid, None)
        self.effects.changed[gang.ref] = None
        return True

    def drop(self, uid: str, why: str) -> Slot | None:
        """Take back one pod's slot; its held bind call fails with `why`, its nomination is cleared."""
        slot = self.ledger.release(uid)
        if slot is not None:
            self._after_drop(slot, why)
        return slot

    def drop_gang(self, gang_uid: str, why: str) -> int:
        """Take back all slots of a gang whose Binding is not under way; return how many."""
        reservation = self.ledger.of_gang(gang_uid)
        slots = self.ledger.release_gang(gang_uid)
        if reservation is not None and slots:
            self.effects.milestones.append(
                Milestone("gang released", reservation.ref, reservation.decision, len(slots), why=why)
            )
        for slot in slots:
            self._after_drop(slot, why)
        return len(slots)

    def end_life(self, gang_uid: str, why: str) -> None:
        """Forget everything about a gang's past life."""
        self.drop_gang(gang_uid, why)
        self.backoff.forget(gang_uid)
        self.waits.pop(gang_uid, None)

    def expire(self) -> bool:
        """Give up promises whose deadline has passed, a gang's as a whole; return whether there were any."""
        now = self._clock.monotonic()
        due = self.ledger.expire(now)
        for reservation in due:
            late = [slot for slot in reservation.slots.values() if slot.state is SlotState.RESERVED]
            if not late:  # all have arrived; should a Binding fail, its member has this much time again
                timeout = self._settings.reservation_timeout_seconds
                self.ledger.open(reservation.ref, reservation.gang_uid, reservation.decision, now + timeout)
                continue
            self.effects.expired += 1
            arrived, total = reservation.arrived(now), len(reservation.slots)
            message = f"{arrived} of {total} placed members reached bind in time"
            refusal = next((own for slot in late if (own := self._refusal(slot))), "")
            self.drop_gang(reservation.gang_uid, f"reservation expired: {message}")
            attempts = self.backoff.fail(reservation.gang_uid, now).attempts
            self.waits[reservation.gang_uid] = (
                Wait(Reason.REFUSED_BY_SCHEDULER, {"attempts": attempts}, {"detail": refusal})
                if refusal
                else Wait(Reason.BACKING_OFF, {"attempts": attempts})
            )
            text = f"{message}; released all of them. {refusal}".rstrip()
            self.effects.notes.append(Note(reservation.ref, warning=True, reason="ReservationExpired", message=text))
        lapsed = self.ledger.expire_singles(now)
        for slot in lapsed:  # its Binding failed, and kube-scheduler did not try that node again
            self.ledger.release(slot.pod.uid)
        return bool(due or lapsed)

    def renominate(self, pod: Pod, slot: Slot) -> None:
        """Nominate again a member whose nomination was taken off; after a few times leave that to `nudge`.

        kube-scheduler takes it off when the attempt fails during which it arrived: once more is enough. Where its own
        filters leave the pod no node, it takes off every one, and wakes the gang's other members with that: written
        again at once each time, it would go round as fast as both can write.
        """
        if slot.losses >= _MOST_LOSSES:
            return
        slot.losses += 1
        slot.nominated_at = self._clock.monotonic()
        self.effects.nominations[pod.uid] = Nomination(pod, slot.node)

    def asked(self) -> None:
        """Take in that kube-scheduler has asked about a pod: it is awake, and on its way through its queue."""
        self._asked_at = self._clock.monotonic()

    def nudge(self) -> None:
        """Nominate again the members that should have come back to filter and did not.

        kube-scheduler clears a nomination that lands while an attempt for the pod is in flight, and nothing wakes the
        pod again; a nomination that still stands is cleared and set, which wakes it too. While others of the gang
        arrive, kube-scheduler is on its way through them, and nobody is nudged.

        Clearing has a price: kube-scheduler then tries every pod again whose priority is not higher, as if room had
        become free (updatePodInSchedulingQueue). With hundreds of them before a nominated pod in the queue, nudges
        would only keep it from ever being tried. So nominations that stand are left alone while kube-scheduler asks
        about any pod at all, except once in a longest pause.
        """
        now = self._clock.monotonic()
        stir = now >= self._may_stir_at()
        for reservation in self.ledger:
            for uid, slot in reservation.slots.items():
                if slot.state is not SlotState.RESERVED or now < self._nudge_due(reservation, slot):
                    continue
                pod = self._model.pods.get(uid, slot.pod)
                again = self._stands(slot)
                if again and not stir:
                    continue
                slot.nudges += 1
                slot.nominated_at = now
                self.effects.nominations[uid] = Nomination(pod, slot.node, again=again)
                if again:
                    self._stirred_at = now

    def next_nudge(self) -> float | None:
        """Return when the next member is due to be nominated again (seconds, monotonic), or None."""
        stir_at = self._may_stir_at()
        return min(
            (
                max(self._nudge_due(reservation, slot), stir_at if self._stands(slot) else -math.inf)
                for reservation in self.ledger
                for slot in reservation.slots.values()
                if slot.state is SlotState.RESERVED
            ),
            default=None,
        )

    def _stands(self, slot: Slot) -> bool:
        """Tell whether the pod shows the nomination that its slot calls for."""
        return self._model.pods.get(slot.pod.uid, slot.pod).nominated_node == slot.node

    def _may_stir_at(self) -> float:
        """Return from when on nominations that stand may be cleared and set (seconds, monotonic)."""
        pause = self._settings.nudge_seconds
        return min(self._asked_at + _IDLE_PAUSES * pause, self._stirred_at + pause * (1 << _LONGEST_NUDGE_DOUBLINGS))

    def _nudge_due(self, reservation: Reservation, slot: Slot) -> float:
        pause = self._settings.nudge_seconds * (1 << min(slot.nudges, _LONGEST_NUDGE_DOUBLINGS))
        return max(slot.nominated_at + pause, reservation.progressed_at + pause, slot.expected_until)

    def drop_invalid(self, admitted: Eligible, vetoed: Vetoed) -> None:
        """Take back slots on nodes that went, closed, shrank or were filled by others, and those of gangs that went.

        A veto moves members that are still on their way. One that has arrived passed kube-scheduler's filters on that
        very node: what was refused is one more of its kind.
        """
        table = self._model.table
        over = table.overcommitted()
        for reservation in self.ledger:
            gang = self._model.gangs.get(reservation.ref)
            if gang is None or gang.uid != reservation.gang_uid:
                self.end_life(reservation.gang_uid, "the PodGroup is gone")
                continue
            eligible = leave_out(admitted, vetoed.get(reservation.gang_uid))
            for uid, slot in list(reservation.slots.items()):
                if slot.state is SlotState.BINDING:
                    continue
                row = table.row(slot.node)
                nodes = admitted if slot.state is SlotState.HELD else eligible
                # Only who asks for what is short moves: the others would come back to the same node.
                short = not over.get(slot.node, frozenset()).isdisjoint(name for name, _ in slot.pod.shape.requests)
                if row is None or short or not nodes(slot.pod.shape)[row]:
                    self.drop(uid, f"node {slot.node} is no longer available")

    def rebuild(self, eligible: Eligible) -> None:
        """Read the ledger back from the nominations on the pods, gangs that hold nodes already first.

        Where too few nominations survive to start a gang, they are withdrawn and the gang is placed afresh.
        """
        table = self._model.table
        for gang in sorted((gang for gang in self._model.gangs if gang.members), key=position):
            nominated = [pod for pod in gang.ordered() if pod.placeable and pod.nominated_node]
            if not nominated:
                continue
            whatif = WhatIf(table)
            nodes: dict[str, str] = {}
            for pod in nominated:
                row = table.row(pod.nominated_node)
                vector = table.vector(pod.shape.requests)
                if row is not None and whatif.counts(vector, eligible(pod.shape))[row] > 0:
                    whatif.take(row, vector)
                    nodes[pod.uid] = pod.nominated_node
            enough = gang.census().secured + len(nodes) >= gang.min_member
            managed = all(self._model.manages(pod) for pod in nominated)
            if nodes and enough and managed:
                self.reserve(gang, {pod.uid: pod for pod in nominated}, nodes)
            for pod in nominated:
                if managed and self.ledger.of_pod(pod.uid) is None:
                    self.effects.nominations[pod.uid] = Nomination(pod, "")

    def _after_drop(self, slot: Slot, why: str) -> None:
        uid = slot.pod.uid
        if slot.state is SlotState.HELD:
            self.effects.refused[uid] = why
        pending = self.effects.nominations.pop(uid, None)
        pod = self._model.pods.get(uid)
        if pod is None:
            return
        if pod.group is not None:
            self.effects.changed[pod.group] = None
        if pod.placeable and (pending is None or pod.nominated_node):
            self.effects.nominations[uid] = Nomination(pod, "")

    def _refusal(self, slot: Slot) -> str:
        """Return kube-scheduler's own words about a pod it never offered, or "" when they only repeat Muster's."""
        pod = self._model.pods.get(slot.pod.uid, slot.pod)
        return "" if OWN_WORDS in pod.refusal else pod.refusal
