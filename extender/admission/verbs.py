"""The scheduler's four questions, answered from what the pass has decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from extender.admission.admission import Admission
from extender.admission.answers import Arrival, BindVerdict, Filtered, Outcome, Refusal
from extender.admission.ledger import Reservation, Slot, SlotState
from extender.admission.reservations import OWN_WORDS
from extender.admission.singles import Singles
from extender.domain.holdings import prediction
from extender.domain.keys import Packing
from extender.domain.membership import GroupRef
from extender.domain.pod import Pod
from extender.domain.topology import Objective
from extender.numa.scores import Strategy
from extender.placement.scoring import Wish, score

_NO_ROOM_BEYOND = "no room for members beyond minMember"


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
        self._singles = Singles(admission)
        scoring = admission.settings.numa_scoring
        self._numa = None if scoring == "none" else Strategy(scoring)

    def filter(self, pod: Pod, names: list[str]) -> Filtered:
        """Say which of the offered nodes the pod may go to.

        Args:
            pod: the pod as kube-scheduler sent it.
            names: the offered nodes; one alone when kube-scheduler tries the nominated node first.
        """
        if not self._model.manages(pod):
            return Filtered(Outcome.PASSED, names)
        self._admission.reservations.nudges.asked()
        if pod.group is None:
            return self._singles.filter(pod, names)
        known = self._model.pods.get(pod.uid)
        if known is None:
            return self._refuse(names, "this pod has not been observed yet")
        self._admission.decide_on(pod.group)
        entry = self._admission.reservations.ledger.of_pod(pod.uid)
        if entry is None:
            return self._refuse(names, self._why(known))
        reservation, slot = entry
        if slot.node in names:
            return self._pin(reservation, slot)
        if pod.nominated_node != slot.node:
            # This attempt began before kube-scheduler learned of the plan, from a snapshot that may be older than what
            # the plan relies on, or it tries an outdated nomination: it says nothing about the planned node.
            return self._refuse(names, "planned on a node that this attempt does not offer")
        return self._learn(known, reservation, slot, names)

    def prioritize(self, pod: Pod, names: list[str]) -> list[int]:
        """Return a score of 0 to 10 for each offered node."""
        entry = self._admission.reservations.ledger.of_pod(pod.uid)
        if entry is not None:
            return [10 * (name == entry[1].node) for name in names]
        table = self._model.table
        if not self._model.manages(pod):
            return [0] * len(names)
        options = pod.options
        objective = options.topology.objective or Objective.ALLREDUCE
        wish = Wish(options.packing or Packing.BINPACK, objective, self._numa)
        result: list[int] = score(table, table.rows_of(names), pod.shape, wish).tolist()
        return result

    def mistaken(self, uid: str, namespace: str, name: str) -> str:
        """Return why a bind call contradicts itself, its UID being another pod's, or ""."""
        pod = self._model.pods.get(uid)
        if pod is None or (pod.namespace, pod.name) == (namespace, name):
            return ""
        return f"the pod with UID {uid} is {pod.key}, not {namespace}/{name}"

    def arrive(self, uid: str, node: str) -> Arrival:
        """Take in a bind call: write the Binding, hold the call at the barrier, or refuse it."""
        pod = self._model.pods.get(uid)
        if pod is None:
            return Arrival(BindVerdict.REFUSE, f"no pod with UID {uid} is known; it was deleted or not observed yet")
        if pod.node_name:
            if pod.node_name == node:
                return Arrival(BindVerdict.ALREADY)
            return Arrival(BindVerdict.REFUSE, f"pod {pod.key} is bound to {pod.node_name} already")
        if pod.group is None or not self._model.manages(pod):
            return self._singles.arrive(pod, node)
        entry = self._admission.reservations.ledger.of_pod(uid)
        if entry is None:
            return Arrival(BindVerdict.REFUSE, OWN_WORDS + self._why(pod))
        reservation, slot = entry
        if slot.node != node:
            return Arrival(BindVerdict.REFUSE, f"{OWN_WORDS}pod {pod.key} is planned on {slot.node}, not on {node}")
        return self._hold(pod, reservation, slot)

    def prediction(self, uid: str) -> Mapping[str, str]:
        """Return the annotations that say which GPUs and zones a pod will hold: none where that is not predicted."""
        held = self._model.table.occupancy.held(uid)
        return {} if held is None or held.observed else prediction(held.gpus, held.zones)

    def leave(self, uid: str) -> None:
        """Take in that a held bind call has been answered without a Binding: the member must arrive again."""
        reservations = self._admission.reservations
        entry = reservations.ledger.of_pod(uid)
        if entry is not None and entry[1].state is SlotState.HELD:
            reservations.send_back(*entry)

    def binding_failed(self, uid: str, why: str, *, final: bool) -> None:
        """Take in that a Binding was not made.

        A final failure gives the slot back and has the member placed anew; otherwise the Binding may yet turn out to
        have been made, so that the slot keeps its room and waits for another attempt.
        """
        reservations = self._admission.reservations
        entry = reservations.ledger.of_pod(uid)
        if final:
            reservations.drop(uid, why)
        elif entry is not None:
            reservations.retry(*entry)
        self._admission.reconsider(None if entry is None else entry[0].ref)

    def preempt(self, pod: Pod, victims: Mapping[str, Sequence[str]]) -> list[str]:
        """Return which candidate nodes may be preempted on, given the UIDs of the victims of each.

        None for a gang member: Muster evicts for gangs as a whole or not at all. For a single pod, none where a
        running gang would drop below minMember, and none where it would not fit beside what is reserved. None for a pod
        that does not wait, as far as is known.
        """
        if self._model.manages(pod):
            self._admission.reservations.nudges.asked()
            known = self._model.pods.get(pod.uid)
            if pod.group is not None or known is None or known.node_name:
                return []
        fitting = self._singles.fitting_after(pod, victims)
        expected = frozenset(self._admission.evictions.expected())
        lost = Counter(map(self._loses, expected))
        allowed = [
            node
            for node in fitting
            if victims[node] and not self._breaks_gang(frozenset(victims[node]), expected, lost)
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
        """Tell whether evicting `uids`, and those whose eviction is expected, would take a gang's minimum away.

        `lost` counts by gang and role what the expected evictions take.
        """
        losses = Counter(lost) + Counter(map(self._loses, uids - expected))
        for ref in {loss.gang for uid in uids if (loss := self._loses(uid)) is not None}:
            gang = self._model.gangs.get(ref)
            less = {loss.role: -count for loss, count in losses.items() if loss is not None and loss.gang == ref}
            if gang is not None and gang.has_minimum and not gang.would_have_minimum(less):
                return True
        return False

    def _loses(self, uid: str) -> _Loss | None:
        """Return which gang would have a member less without this pod; None if there is nothing (more) to lose."""
        victim = self._model.pods.get(uid)
        if victim is None or victim.group is None or not victim.bound or victim.deleting:
            return None
        return _Loss(victim.group, victim.role)

    def _pin(self, reservation: Reservation, slot: Slot) -> Filtered:
        """Let the member go to its planned node, which kube-scheduler's own filters have passed."""
        self._admission.passed(reservation)
        return Filtered(Outcome.PINNED, [slot.node], decision=reservation.decision)

    def _learn(self, pod: Pod, reservation: Reservation, slot: Slot, names: list[str]) -> Filtered:
        """Veto the planned node, which kube-scheduler refuses for reasons of its own, and place the member anew."""
        self._admission.refused(reservation, slot)
        self._admission.decide()
        entry = self._admission.reservations.ledger.of_pod(pod.uid)
        if entry is not None and entry[1].node in names:
            return self._pin(*entry)
        why = f"kube-scheduler refused the planned node {slot.node}" if entry is None else self._why(pod)
        return self._refuse(names, why)

    def _why(self, pod: Pod) -> str:
        """Return the one sentence about the pod's gang."""
        gang = self._model.gang_of(pod)
        wait = None if gang is None else self._admission.reservations.waits.get(gang.uid)
        return _NO_ROOM_BEYOND if wait is None else wait.message

    @staticmethod
    def _refuse(names: list[str], text: str) -> Filtered:
        return Filtered(Outcome.REFUSED, [], (Refusal(names, OWN_WORDS + text),))
