"""The scheduler's four questions, answered from what the pass has decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np

from extender.admission.admission import NO_ROOM_BEYOND, Admission
from extender.admission.events import Arrival, BindVerdict, Filtered, Outcome, Refusal
from extender.admission.protection import Protection
from extender.ledger.reservations import own_words
from extender.ledger.slots import Reservation, Slot, SlotState
from extender.objects.holdings import prediction
from extender.objects.pod import Pod
from extender.objects.podgroup import GroupRef

_NOT_PLANNED = "it has not been planned yet"
_NOT_OFFERED = "planned on a node that this attempt does not offer"


class _Loss(NamedTuple):
    """A gang that has a member less, and of which role."""

    gang: GroupRef
    role: str


class Verbs:
    """Answer filter, prioritize, bind and preempt; none of them decides what the pass has not.

    Every answer is idempotent per pod UID until the plan changes.
    """

    def __init__(self, admission: Admission) -> None:
        """Answer from `admission`."""
        self._admission = admission
        self._model = admission.model
        self._ranked = admission.settings.single_pods == "ranked"
        self._protection = Protection(admission.settings.protect_members)

    def filter(self, pod: Pod, names: list[str]) -> Filtered:
        """Say which of the offered nodes the pod may go to.

        Args:
            pod: the pod as kube-scheduler sent it.
            names: the offered nodes; one alone when kube-scheduler tries the nominated node first.
        """
        reservations = self._admission.reservations
        if reservations.ledger.of_pod(pod.uid) is None and not self._model.manages(pod):
            return Filtered(Outcome.PASSED, names)
        reservations.nudges.asked()
        known = self._model.pods.get(pod.uid)
        if known is None:
            return self._refuse(pod, names, "this pod has not been observed yet")
        self._admission.asked(known)
        self._admission.decide_on(known)
        entry = reservations.ledger.of_pod(pod.uid)
        if entry is None:
            return self._refuse(pod, names, self._why(known))
        reservation, slot = entry
        if slot.node in names and self._admission.refusals.turned_back(known, slot.node):
            return self._learn(known, reservation, slot, names)
        if (answer := self._admit(pod, reservation, slot, names)) is not None:
            return answer
        if pod.nominated_node != slot.node:
            # This attempt began before kube-scheduler learned of the plan, from a snapshot that may be older than what
            # the plan relies on, or it tries an outdated nomination: it says nothing about the planned node.
            return self._refuse(pod, names, _NOT_OFFERED)
        return self._learn(known, reservation, slot, names)

    def prioritize(self, pod: Pod, names: list[str]) -> list[int]:
        """Return a score of 0 to 10 for each offered node: for a gang of one by what its plan was made by.

        Of a larger gang each member has one node: what another is worth depends on where the others are.
        """
        entry = self._admission.reservations.ledger.of_pod(pod.uid)
        if entry is None:
            return [0] * len(names)
        reservation, slot = entry
        ranking = self._admission.rank(slot.pod) if reservation.ref.is_pod else None
        if ranking is None:
            return [10 * (name == slot.node) for name in names]
        table = self._model.table
        scores = np.zeros(table.rows + 1, dtype=np.int64)  # the last is for names of no node, whose row is -1
        scores[ranking.nodes] = ranking.scores()
        found: list[int] = scores[table.rows_of(names)].tolist()
        return found

    def mistaken(self, uid: str, namespace: str, name: str) -> str:
        """Return why a bind call contradicts itself, its UID being another pod's, or ""."""
        pod = self._model.pods.get(uid)
        if pod is None or (pod.namespace, pod.name) == (namespace, name):
            return ""
        return f"the pod with UID {uid} is {pod.key}, not {namespace}/{name}"

    def arrive(self, uid: str, node: str) -> Arrival:
        """Take in a bind call: write the Binding, hold the call at the barrier, or refuse it."""
        self._admission.refusals.arrived(uid)
        pod = self._model.pods.get(uid)
        if pod is None:
            return Arrival(BindVerdict.REFUSE, f"no pod with UID {uid} is known; it was deleted or not observed yet")
        if not self._model.manages(pod):
            text = f"pod {pod.key} has schedulerName {pod.scheduler_name}, which is not in the setting scheduler_names"
            return Arrival(BindVerdict.REFUSE, text)
        if pod.node_name:
            if pod.node_name == node:
                return Arrival(BindVerdict.ALREADY)
            return Arrival(BindVerdict.REFUSE, f"pod {pod.key} is bound to {pod.node_name} already")
        entry = self._admission.reservations.ledger.of_pod(uid)
        if entry is None:
            return Arrival(BindVerdict.REFUSE, own_words(pod.group) + self._why(pod))
        reservation, slot = entry
        if slot.node != node:
            if not self._offers_others(reservation):
                text = f"pod {pod.key} is planned on {slot.node}, not on {node}"
                return Arrival(BindVerdict.REFUSE, own_words(pod.group) + text)
            if not self._has_room(pod, node):
                text = f"pod {pod.key} is planned on {slot.node}, and {node} has no room for it any more"
                return Arrival(BindVerdict.REFUSE, own_words(pod.group) + text)
            slot = self._admission.reservations.move(reservation, pod, node)
        return self._hold(pod, reservation, slot)

    def annotations(self, uid: str, node: str) -> Mapping[str, str]:
        """Return the annotations that a pod gets with its node.

        They say which GPUs and zones it will hold, where that is predicted, and that a gang cannot lose it.
        """
        held, there = self._model.table.occupancy.held(uid), self._model.table.find(node)
        predicted = {} if held is None or held.observed else prediction(held.gpus, held.zones)
        pod = self._model.pods.get(uid)
        gang = None if pod is None else self._model.gang_of(pod)
        if pod is None or gang is None or there is None:
            return predicted
        return {**predicted, **self._protection.annotations(pod, gang, there)}

    def leave(self, uid: str) -> None:
        """Take in that a held bind call has been answered without a Binding: the member must arrive again."""
        reservations = self._admission.reservations
        entry = reservations.ledger.of_pod(uid)
        if entry is not None and entry[1].state is SlotState.HELD:
            reservations.send_back(*entry)

    def binding_failed(self, uid: str, why: str, *, final: bool, refused: bool) -> None:
        """Take in that a Binding was not made.

        A final failure gives the slot back and has the member placed again; otherwise the Binding may yet turn out to
        have been made, so that the slot keeps its room and waits for another attempt.
        """
        reservations = self._admission.reservations
        entry = reservations.ledger.of_pod(uid)
        if entry is not None and (refused or not final):
            reservations.not_bound(*entry, why, refused=refused)
        elif entry is not None:
            reservations.drop(uid, why)
        self._admission.reconsider(None if entry is None else entry[0].ref)

    def preempt(self, pod: Pod, victims: Mapping[str, Sequence[str]]) -> list[str]:
        """Return which candidate nodes may be preempted on, given the UIDs of the victims of each.

        None for a managed pod: Muster itself decides who is evicted for it. For a pod of another scheduler, none where
        a victim is not to be evicted, or its gang is still being bound, is below its minimum, or would drop below it.
        """
        if self._model.manages(pod):
            self._admission.reservations.nudges.asked()
            return []
        expected = frozenset(self._admission.evictions.expected())
        lost = Counter(map(self._loses, expected))
        allowed = [
            node for node, uids in victims.items() if uids and not self._breaks_gang(frozenset(uids), expected, lost)
        ]
        self._admission.evictions.allow(uid for node in allowed for uid in victims[node])
        return allowed

    def _hold(self, pod: Pod, reservation: Reservation, slot: Slot) -> Arrival:
        """Let the member wait at the barrier, which opens if it was the last one."""
        gang = self._model.gang_of(pod)
        self._admission.reservations.hold(reservation, slot)
        if slot.state is SlotState.HELD and gang is not None:
            self._admission.reservations.open_barrier(gang)
        verdict = BindVerdict.WRITE if slot.state is SlotState.BINDING else BindVerdict.HOLD
        return Arrival(verdict, decision=reservation.decision)

    def _breaks_gang(self, uids: frozenset[str], expected: frozenset[str], lost: Mapping[_Loss | None, int]) -> bool:
        """Tell whether a gang would be left without its minimum if `uids`, and those expected to go, were evicted.

        A gang that only leaves whole loses none, nor does one that has less than its minimum already, because it is
        being bound or has lost members. `lost` counts by gang and role what the expected evictions take.
        """
        losses = Counter(lost) + Counter(map(self._loses, uids - expected))
        if any(map(self._is_kept, uids)):
            return True
        for ref in {loss.gang for uid in uids if (loss := self._loses(uid)) is not None}:
            gang = self._model.gangs.get(ref)
            less = {loss.role: -count for loss, count in losses.items() if loss is not None and loss.gang == ref}
            if gang is not None and (gang.goes_whole or not gang.would_have_minimum(less)):
                return True
        return False

    def _is_kept(self, uid: str) -> bool:
        """Tell whether a pod of Muster's is not to be evicted."""
        victim = self._model.pods.get(uid)
        gang = None if victim is None or not self._model.manages(victim) else self._model.gang_of(victim)
        return victim is not None and gang is not None and gang.keeps(victim)

    def _loses(self, uid: str) -> _Loss | None:
        """Return which gang would have a member less without this pod; None if there is nothing (more) to lose.

        A gang of one has nothing that would be left behind.
        """
        victim = self._model.pods.get(uid)
        if victim is None or victim.group.is_pod or not victim.bound or victim.deleting:
            return None
        return _Loss(victim.group, victim.role)

    def _offers_others(self, reservation: Reservation) -> bool:
        """Tell whether kube-scheduler may choose among all nodes with room, by the setting `single_pods`."""
        return self._ranked and reservation.ref.is_pod

    def _has_room(self, pod: Pod, node: str) -> bool:
        """Tell whether a pod may have another node than the one that it is promised."""
        row, ranking = self._model.table.row(node), self._admission.rank(pod)
        return ranking is not None and row is not None and row in ranking.nodes

    def _admit(self, pod: Pod, reservation: Reservation, slot: Slot, names: list[str]) -> Filtered | None:
        """Return which of the offered nodes the pod may go to, None if it may go to none of them.

        A nomination has kube-scheduler offer one node alone. Where there are others that one is refused, so that all
        follow at once in the same attempt. If it is alone again, kube-scheduler's own filters leave the others out.
        """
        if not self._offers_others(reservation):
            return self._pin(reservation, slot) if slot.node in names else None
        ranking = self._admission.rank(slot.pod)
        others = ranking is not None and ranking.nodes.shape[0] > 1
        slot.asks_for_all = others and not slot.asks_for_all and names == [pod.nominated_node]
        if slot.asks_for_all:
            return self._refuse(pod, names, "all nodes with room are ranked")
        table = self._model.table
        takes = np.zeros(table.rows + 1, dtype=np.bool_)
        if ranking is not None:
            takes[ranking.nodes] = True
        if (planned := table.row(slot.node)) is not None:
            takes[planned] = True
        accepted = list(compress(names, takes[table.rows_of(names)].tolist()))
        if slot.node in accepted:
            self._admission.passed(reservation, slot)
        return Filtered(Outcome.RANKED, accepted, decision=reservation.decision) if accepted else None

    def _pin(self, reservation: Reservation, slot: Slot) -> Filtered:
        """Let the member go to its planned node, which kube-scheduler's own filters have passed."""
        self._admission.passed(reservation, slot)
        return Filtered(Outcome.PINNED, [slot.node], decision=reservation.decision)

    def _learn(self, pod: Pod, reservation: Reservation, slot: Slot, names: list[str]) -> Filtered:
        """Give the member another node: kube-scheduler refuses the planned one for reasons of its own."""
        self._admission.refused(reservation, slot, names)
        self._admission.give_turn(pod)
        entry = self._admission.reservations.ledger.of_pod(pod.uid)
        if entry is None:
            return self._refuse(pod, names, f"kube-scheduler refused the planned node {slot.node}")
        return self._admit(pod, *entry, names) or self._refuse(pod, names, _NOT_OFFERED)

    def _why(self, pod: Pod) -> str:
        """Return the one sentence about the pod's gang."""
        gang = self._model.gang_of(pod)
        said = NO_ROOM_BEYOND if gang is None else self._admission.said_of(gang)
        return _NOT_PLANNED if pod.group.is_pod and said == NO_ROOM_BEYOND else said

    @staticmethod
    def _refuse(pod: Pod, names: list[str], text: str) -> Filtered:
        return Filtered(Outcome.REFUSED, [], (Refusal(names, own_words(pod.group) + text),))
