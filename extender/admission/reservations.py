"""Making, repairing and giving up reservations: every change of the ledger and what follows from it."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Iterable, Mapping

from extender.admission.backoff import Backoff
from extender.admission.effects import Effects, Milestone, Nomination, Note, Step
from extender.admission.ledger import Ledger, Reservation, Slot, SlotState
from extender.admission.nudges import Nudges
from extender.admission.queue import position
from extender.admission.vetoes import Vetoes, leave_out
from extender.clock import Clock
from extender.cluster.gangs import Gang, member_order
from extender.cluster.model import ClusterModel
from extender.cluster.whatif import WhatIf
from extender.domain.pod import Pod
from extender.domain.reason import Reason, Wait
from extender.placement.ground import Eligible
from extender.settings import Settings

#: How long kube-scheduler may take to bring a pod again whose bind call failed: its backoff is 10 s at most by default
#: (podMaxBackoffSeconds), and then the pod queues.
_RETURN_SECONDS = 15.0

#: How every reason begins that Muster gives kube-scheduler for a gang member.
OWN_WORDS = "gang waits: "


class Reservations:
    """Keep the ledger in step with the cluster, and order the nominations and answers that each change calls for.

    Attributes:
        ledger: what is promised to whom.
        nudges: whose nomination is to be written again, and when.
        waits: gang UID -> why it waits; gangs that are running, or that nobody has judged yet, have none.
        effects: what is to be written or answered; the owner replaces it when it takes it.
    """

    def __init__(self, model: ClusterModel, settings: Settings, clock: Clock) -> None:
        """Start with an empty ledger."""
        self._model = model
        self._settings = settings
        self._clock = clock
        self._decisions = itertools.count(1)
        self._returns: deque[tuple[float, str]] = deque()  # until when members of which gang are expected back
        self.ledger = Ledger(model)
        self.nudges = Nudges(model, self.ledger, settings.nudge_seconds, clock)
        self.backoff = Backoff(settings.backoff_initial_seconds, settings.backoff_max_seconds)
        self.waits: dict[str, Wait] = {}
        self.effects = Effects()

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
            self.nudges.watch(uid)
            if pods[uid].nominated_node != node:
                self.effects.nominations[uid] = Nomination(pods[uid], node)
        self.effects.milestones.append(Milestone(Step.PLACED, gang.ref, reservation.decision, len(nodes)))
        self.effects.changed[gang.ref] = None
        return reservation

    def promise_single(self, pod: Pod, node: str) -> None:
        """Promise a node to a pod without gang whose Binding is about to be written."""
        timeout = self._settings.reservation_timeout_seconds
        self.ledger.promise_single(pod, node, self._clock.monotonic() + timeout)

    def hold(self, reservation: Reservation, slot: Slot) -> None:
        """Take in that a member has arrived at the barrier."""
        reservation.hold(slot.pod.uid, self._clock.monotonic())

    def send_back(self, reservation: Reservation, slot: Slot) -> None:
        """Take in that a member's held bind call was answered in vain: it keeps its slot, and comes again."""
        until = self._clock.monotonic() + _RETURN_SECONDS
        reservation.send_back(slot.pod.uid, until)
        self._returns.append((until, reservation.gang_uid))
        self._underway_again(reservation, slot)

    def retry(self, reservation: Reservation, slot: Slot) -> None:
        """Take in that a member's Binding may not have been made: it keeps its slot, and comes again."""
        reservation.retry(slot.pod.uid)
        self._underway_again(reservation, slot)

    def missed(self, now: float) -> list[str]:
        """Return the UIDs of gangs of which members were expected back until a moment that has passed, each once."""
        missed = []
        while self._returns and self._returns[0][0] <= now:
            missed.append(self._returns.popleft()[1])
        return missed

    def open_barrier(self, gang: Gang) -> bool:
        """Let all held members go if those that must start together are there; return whether so.

        These are minMember members, and of each role its own minimum: arrived, bound or succeeded.
        """
        reservation = self.ledger.of_gang(gang.uid)
        now = self._clock.monotonic()
        if reservation is None or gang.census().secured + reservation.arrived(now) < gang.min_member:
            return False
        if gang.role_minimums and not gang.would_have_minimum(reservation.arrived_roles(now)):
            return False
        held = reservation.release_held()
        self.effects.released += held
        if not reservation.started:
            reservation.started = True
            waited = now - gang.first_seen
            self.effects.milestones.append(
                Milestone(Step.STARTED, gang.ref, reservation.decision, len(held), waited=waited)
            )
        self._end_pause(gang.uid)
        self.waits.pop(gang.uid, None)
        self.effects.changed[gang.ref] = None
        return True

    def await_members(self, gang: Gang) -> None:
        """Open the barrier if it may be, or say that the gang is placed and waits for its members to arrive there."""
        if not self.open_barrier(gang):
            self.wait(gang, Wait(Reason.AWAITING_MEMBERS, {"minMember": gang.min_member}))

    def wait(self, gang: Gang, wait: Wait | None) -> None:
        """Record a gang's reason (None: it does not wait) and note when it changed."""
        waits = self.waits
        before = waits.get(gang.uid)
        if before is wait or before == wait:
            return
        if wait is None:
            waits.pop(gang.uid, None)
        else:
            waits[gang.uid] = wait
        self.effects.changed[gang.ref] = None

    def drop(self, uid: str, why: str) -> Slot | None:
        """Take back one pod's slot; its held bind call fails with `why`, its nomination is cleared."""
        slot = self.ledger.release(uid)
        if slot is not None:
            self._after_drop(slot, why)
        return slot

    def drop_gang(self, gang_uid: str, why: str, step: Step = Step.RELEASED) -> int:
        """Take back all slots of a gang whose Binding is not under way; return how many. `step` is what that is."""
        reservation = self.ledger.of_gang(gang_uid)
        slots = self.ledger.release_gang(gang_uid)
        if reservation is not None and slots:
            self.effects.milestones.append(Milestone(step, reservation.ref, reservation.decision, len(slots), why=why))
        for slot in slots:
            self._after_drop(slot, why)
        return len(slots)

    def end_life(self, gang_uid: str, why: str) -> None:
        """Forget everything about a gang's past life."""
        self.drop_gang(gang_uid, why)
        self._end_pause(gang_uid)
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
            self.drop_gang(reservation.gang_uid, f"reservation expired: {message}", Step.EXPIRED)
            attempts = self.backoff.fail(reservation.gang_uid, now).attempts
            self._model.gangs.touch(reservation.gang_uid)
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
        """Nominate again a member whose nomination was taken off, as often as that can help."""
        nomination = self.nudges.lost(pod, slot)
        if nomination is not None:
            self.effects.nominations[pod.uid] = nomination

    def nudge(self) -> None:
        """Nominate again the members that should have come back to filter and did not."""
        for nomination in self.nudges.due():
            self.effects.nominations[nomination.pod.uid] = nomination

    def drop_invalid(self, nodes: Iterable[str], admitted: Eligible, vetoes: Vetoes) -> None:
        """Take back slots on `nodes` that went, closed, shrank or were filled by others, and those of gangs that went.

        A veto moves members that are still on their way. One that has arrived passed kube-scheduler's filters on that
        very node: what was refused is one more of its kind.
        """
        table = self._model.table
        for node in nodes:
            row, short = table.row(node), table.short_of(node)
            for reservation, slot in self.ledger.on_node(node):
                gang = self._model.gangs.get(reservation.ref)
                if gang is None or gang.uid != reservation.gang_uid:
                    self.end_life(reservation.gang_uid, "the PodGroup is gone")
                    continue
                if slot.state is SlotState.BINDING:
                    continue
                shape = slot.pod.shape
                vetoed = {} if slot.state is SlotState.HELD else vetoes.of_gang(gang.uid, table)
                # Only who asks for what is short moves: the others would come back to the same node.
                lacks = not short.isdisjoint(name for name, _ in shape.requests)
                if row is None or lacks or not leave_out(admitted, vetoed)(shape)[row]:
                    self.drop(slot.pod.uid, f"node {node} is no longer available")

    def rebuild(self, eligible: Eligible) -> None:
        """Read the ledger back from the nominations on the pods, gangs that hold nodes already first.

        Where too few nominations survive to start a gang, they are withdrawn and the gang is placed afresh.
        """
        table = self._model.table
        with_nominations = [gang for gang in self._model.gangs if _nominated(gang)]
        for gang in sorted(with_nominations, key=position):
            nominated = sorted(_nominated(gang), key=member_order)
            whatif = WhatIf(table)
            nodes: dict[str, str] = {}
            for pod in nominated:
                row = table.row(pod.nominated_node)
                vector = table.vector(pod.shape.requests)
                if row is not None and whatif.counts(vector, eligible(pod.shape))[row] > 0:
                    whatif.take(row, vector)
                    nodes[pod.uid] = pod.nominated_node
            enough = gang.would_have_minimum(Counter(pod.role for pod in nominated if pod.uid in nodes))
            managed = all(self._model.manages(pod) for pod in nominated)
            if nodes and enough and managed:
                self.reserve(gang, {pod.uid: pod for pod in nominated}, nodes)
            for pod in nominated:
                if managed and self.ledger.of_pod(pod.uid) is None:
                    self.effects.nominations[pod.uid] = Nomination(pod, "")

    def _underway_again(self, reservation: Reservation, slot: Slot) -> None:
        """Look anew at what was settled when the member had arrived: its node, its nomination, and the barrier."""
        self._model.table.touch(slot.node)
        self._model.gangs.touch(reservation.gang_uid)
        self.nudges.watch(slot.pod.uid)

    def _end_pause(self, gang_uid: str) -> None:
        if self.backoff.forget(gang_uid):
            self._model.gangs.touch(gang_uid)

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


def _nominated(gang: Gang) -> list[Pod]:
    """Return the members that wait with a nomination."""
    return [pod for pod in gang.members.values() if pod.nominated_node and pod.placeable]
