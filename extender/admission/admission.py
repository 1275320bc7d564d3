"""The admission as a whole: what happened goes in, decisions and effects come out."""

from __future__ import annotations

from collections.abc import Mapping

from extender.admission.budgets import Budgets
from extender.admission.complaints import Complaints
from extender.admission.defragment import Defragmentation, Defragmenter
from extender.admission.effects import Effects, Nomination
from extender.admission.evictions import AllowedEvictions
from extender.admission.keep import Keep
from extender.admission.kubelets import Kubelets
from extender.admission.ledger import Reservation, Slot, SlotState
from extender.admission.line import line_up
from extender.admission.rejections import Rejections
from extender.admission.reservations import Reservations
from extender.admission.sharing import Sharing
from extender.admission.term import Surroundings, Term
from extender.admission.vetoes import Vetoes
from extender.clock import Clock
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.domain.budget import DisruptionBudget
from extender.domain.levels import Level
from extender.domain.membership import GroupRef
from extender.domain.node import Node
from extender.domain.pod import Pod
from extender.domain.podgroup import PodGroup
from extender.domain.queue import Queue
from extender.domain.reason import Wait
from extender.placement.better import Better, next_better
from extender.placement.eligibility import Eligibility
from extender.placement.placement import Placement, describe
from extender.settings import Settings


class Admission:
    """Take in what happened to the cluster, and judge the waiting gangs when something changed.

    Nothing is decided before `rebuild` has read the ledger back from the cluster.

    Attributes:
        clock: the time.
        model: the cluster as it was last heard of.
        rejections: nodes whose kubelet turned pods away.
        evictions: whom kube-scheduler was allowed to evict lately, or Muster has.
        sharing: the queues, and what is charged to them.
        budgets: how many pods may be evicted.
        term: what is remembered as long as decisions are made here.
        rebuilt: whether decisions are being made.
        passes: how many passes have run.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Start with an empty cluster."""
        self.clock = clock
        self.settings = settings
        self.model = ClusterModel(settings.scheduler_names, _levels(settings), settings.topology_preset)
        self.rejections = Rejections(settings.veto_seconds, clock.monotonic)
        self.evictions = AllowedEvictions(clock)
        self.sharing = Sharing(self.model, clock, settings.fair_share_half_life_seconds)
        self.budgets = Budgets()
        self._around = Surroundings(self.model, self.sharing, self.budgets, self.evictions, settings, clock)
        self.term = Term(self._around)
        self.rebuilt = False
        self.passes = 0
        self._eligibility = Eligibility(self.model.table)
        self._kubelets = Kubelets(self.model, self.rejections)
        self._pending = False
        self._obstacle: Wait | None = None
        self._unjudged: set[GroupRef] = set()
        self._complaints = Complaints(self.model)

    @property
    def reservations(self) -> Reservations:
        """Return the ledger and what changes it."""
        return self.term.reservations

    @property
    def vetoes(self) -> Vetoes:
        """Return the nodes that kube-scheduler refused."""
        return self.term.vetoes

    @property
    def heads(self) -> tuple[Keep, ...]:
        """Return for whom room is kept because it does not fit yet, first in the queue first, after the last pass."""
        return self.term.heads.keeps

    @property
    def pending(self) -> bool:
        """Tell whether something changed since the last pass that could change a decision."""
        return self._pending and self.rebuilt

    def reconsider(self, ref: GroupRef | None = None) -> None:
        """Ask for a pass, because something about the gang called `ref` changed if one is named."""
        self._pending = True
        if not self.rebuilt:
            self.term.decider.changes.nothing()  # whoever takes up deciding judges everybody
        elif ref is not None:
            self._unjudged.add(ref)

    def waiting_order(self) -> list[GroupRef]:
        """Return the gangs that wait, and have no nodes promised, in the order in which they are judged."""
        decider = self.term.decider
        line = line_up(decider.queues.in_turn(self.sharing.turn), self.reservations.waits)
        return [entry.gang.ref for entry in line]

    def take_effects(self) -> Effects:
        """Hand over what is to be written and answered, and start collecting anew."""
        effects, self.reservations.effects = self.reservations.effects, Effects()
        return effects

    def rebuild(self) -> None:
        """Take up deciding, once everything has been listed: read the ledger back from the cluster, then judge."""
        self.reservations.rebuild(self.rejections.leave_out(self._eligibility.mask, self.model.table))
        self.term.decider.forget()
        self._unjudged = {gang.ref for gang in self.model.gangs}
        self.rebuilt = True
        self._pending = True
        self._complaints.about_everybody(self.reservations.effects)

    def stand_down(self) -> None:
        """Give up deciding: forget every reservation, pause and veto, and what has not been carried out yet.

        Nothing is taken back in the cluster: whoever decides next reads the nominations there.
        """
        self.term.end()
        self.term = Term(self._around)
        self.rebuilt = False
        self._complaints.forget_all()
        self._unjudged.clear()

    def defragment(self, gang: Gang, *, apply: bool) -> Defragmentation:
        """Return which moves of others would make a gang fit; with `apply` have them made."""
        parts = (self.model, self.sharing, self.budgets, self.term.clearances, self.clock)
        possible = self._eligibility.mask
        admitted = self.rejections.leave_out(possible, self.model.table)
        found = Defragmenter(*parts).run(gang, admitted, apply=apply)
        self._pending |= apply
        return found

    def forget_verdicts(self) -> None:
        """Judge everybody anew in the next pass, whether or not anything of theirs has changed; and ask for one."""
        self.term.decider.forget()
        self._pending = True

    def placement_of(self, ref: GroupRef) -> Placement | None:
        """Return where a gang is, or is promised to be, and what is predicted of that; None while it holds no node."""
        gang = self.model.gangs.get(ref)
        if gang is None:
            return None
        return describe(self._places(gang), self.model.table, self.model.tree, gang.topology.objective)

    def next_better(self, gang: Gang, placement: Placement) -> Better | None:
        """Return what a faster placement of a gang than the one it has would take; None if there is none."""
        return next_better(self._places(gang), placement, self.model.table, self.model.tree, gang.topology.objective)

    def _places(self, gang: Gang) -> dict[str, str]:
        """Return pod UID -> node of the members that have a node, or one promised."""
        claim_of = self.model.table.claim_of
        return {uid: claim.node for uid in gang.members if (claim := claim_of(uid)) is not None}

    def hold_off(self, obstacle: Wait | None) -> None:
        """Place nobody from now on: whoever could be placed waits for that reason. None lifts it."""
        self._pending |= obstacle != self._obstacle
        self._obstacle = obstacle

    def decide(self) -> bool:
        """Run the pass if anything asks for it; return whether it ran."""
        if not self.pending:
            return False
        self._pending = False
        self._unjudged.clear()
        self.passes += 1
        possible = self._eligibility.mask
        admitted = self.rejections.leave_out(possible, self.model.table)
        self.term.decider.run(admitted, possible, self._obstacle)
        self._pending = self.term.decider.again
        self._complaints.about_hardware(self.reservations.effects)
        return True

    def decide_on(self, ref: GroupRef) -> None:
        """Run the pass if the gang called `ref` itself has changed since the last one.

        Whatever else has changed is judged when the owner next calls `decide`, a moment later: a refused member is
        asked about again after every change in the cluster, and each answer would cost a pass over all gangs.
        """
        if ref in self._unjudged:
            self.decide()

    def refused(self, reservation: Reservation, slot: Slot) -> None:
        """Take in that kube-scheduler refuses the planned node for reasons of its own: the member is placed anew."""
        self.vetoes.add(reservation.gang_uid, slot.pod.shape, slot.node)
        self.model.table.touch(slot.node)
        self.reservations.drop(slot.pod.uid, f"kube-scheduler refused node {slot.node}")
        self.reconsider()

    def passed(self, reservation: Reservation) -> None:
        """Take in that a member passes kube-scheduler's own filters."""
        if self.vetoes.passed(reservation.gang_uid):
            self.model.gangs.touch(reservation.gang_uid)

    def tick(self) -> None:
        """Do what time alone asks for: deadlines, lost nominations, pauses and vetoes that ended."""
        if not self.rebuilt:
            return
        due = self.term.pass_time()
        tried_again = self.rejections.ended(self.clock.monotonic())
        for node in tried_again:
            self.model.table.reassess(node)
        self._pending |= due or bool(tried_again)
        self.reservations.nudge()

    def next_tick(self) -> float | None:
        """Return when `tick` has something to do next (seconds, monotonic), or None."""
        times = (self.term.next_turn(), self.rejections.next_end())
        return min((time for time in times if time is not None), default=None)

    def pod_seen(self, pod: Pod) -> None:
        """Take in a pod that was added or changed."""
        change = self.model.put_pod(pod, self.clock.monotonic())
        before = change.before
        if before is not None and before.options != pod.options:
            self.model.table.claimed[pod.uid] = None  # it may be in another queue now
        if before is None or _decisive(before) != _decisive(pod):
            self.reconsider(pod.group)
        self._follow_slot(pod, before)
        if self._kubelets.follow(pod, before, self.reservations.effects if self.rebuilt else None):
            self.reconsider()
        if change.gang is not None:
            if before is not None and before.bound and not pod.bound:
                self.term.repairs.lost(pod, change.gang)
            self._changed(change.gang)
            if pod.node_name and self.rebuilt:
                self.reservations.open_barrier(change.gang)
            if self.rebuilt:
                self._complaints.about_group(change.gang, self.reservations.effects)
        if self.rebuilt:
            self._complaints.about_pod(pod, self.reservations.effects)

    def pod_gone(self, uid: str) -> None:
        """Forget a pod that was deleted."""
        pod = self.model.pods.get(uid)
        self.reservations.drop(uid, "the pod was deleted")
        change = self.model.drop_pod(uid)
        self.reservations.effects.nominations.pop(uid, None)
        self._complaints.forget(uid)
        if pod is not None:
            self.reconsider(pod.group)
            if pod.bound:
                self.rejections.eased(pod.node_name)
        if change.gang is not None:
            if pod is not None and pod.bound:
                self.term.repairs.lost(pod, change.gang)
            self._changed(change.gang)
            if self.model.gangs.get(change.gang.ref) is None:
                self.reservations.end_life(change.gang.uid, "the gang is gone")

    def node_seen(self, node: Node) -> None:
        """Take in a node that was added or changed."""
        if self.model.put_node(node):
            self.term.repairs.node_seen(node)
            self._pending = True
            self.rejections.eased(node.name)

    def node_gone(self, name: str) -> None:
        """Forget a node that was deleted."""
        self._pending |= self.model.drop_node(name)
        self.term.repairs.node_gone(name)
        self.rejections.forget_node(name)

    def queue_seen(self, queue: Queue) -> None:
        """Take in a Queue that was added or changed; everybody is judged anew if that decides anything."""
        if self.sharing.put_queue(queue):
            self.forget_verdicts()

    def queue_gone(self, name: str) -> None:
        """Forget a Queue that was deleted; its gangs wait from now on, those that run go on."""
        if self.sharing.drop_queue(name):
            self.forget_verdicts()

    def namespace_seen(self, name: str, labels: Mapping[str, str]) -> None:
        """Take in a namespace that was added or changed."""
        if self.sharing.put_namespace(name, labels):
            self.forget_verdicts()

    def namespace_gone(self, name: str) -> None:
        """Forget a namespace that was deleted."""
        self.sharing.drop_namespace(name)

    def budget_seen(self, budget: DisruptionBudget) -> None:
        """Take in a PodDisruptionBudget that was added or changed."""
        if self.budgets.put(budget):
            self.term.preemptions.look_again()
            self._pending = True

    def budget_gone(self, namespace: str, name: str) -> None:
        """Forget a PodDisruptionBudget that was deleted."""
        if self.budgets.drop(namespace, name):
            self.term.preemptions.look_again()
            self._pending = True

    def eviction_refused(self, uid: str, why: str) -> None:
        """Take in that the API server will not evict a pod."""
        self.term.preemptions.refused(uid, why)
        self._pending = True

    def group_seen(self, group: PodGroup) -> None:
        """Take in a PodGroup that was added or changed; a new UID starts a new life that inherits nothing."""
        known = self.model.gangs.get(group.ref)
        unchanged = known is not None and known.group == group
        gang, ended = self.model.put_group(group, self.clock.monotonic())
        if unchanged:
            return
        if ended is not None:
            self.reservations.end_life(ended, f"PodGroup {group.ref} was created anew")
        self.reconsider(group.ref)
        self._changed(gang)
        if self.rebuilt:
            self._complaints.about_group(gang, self.reservations.effects)

    def group_gone(self, ref: GroupRef, uid: str) -> None:
        """Forget a PodGroup that was deleted; what it had reserved is released, what runs runs on."""
        gang = self.model.drop_group(ref, uid)
        if gang is not None:
            self.reservations.end_life(uid, f"PodGroup {ref} was deleted")
            self._complaints.forget(uid)
            self.reconsider(ref)
            self._changed(gang)

    def _follow_slot(self, pod: Pod, before: Pod | None) -> None:
        """Keep the ledger in step with one pod."""
        ledger = self.reservations.ledger
        entry = ledger.of_pod(pod.uid)
        if pod.node_name:
            ledger.fulfil(pod)
            return
        if entry is None:
            if self.rebuilt and pod.nominated_node and self._ours(pod):
                self.reservations.effects.nominations[pod.uid] = Nomination(pod, "")
            return
        reservation, slot = entry
        if pod.done or pod.deleting or pod.gated:
            if slot.state is not SlotState.BINDING:
                self.reservations.drop(pod.uid, "the member cannot be placed any more")
        elif pod.group != reservation.ref or pod.shape != slot.pod.shape:
            self.reservations.drop(pod.uid, "the member changed")
        elif slot.state is SlotState.RESERVED and before is not None and before.nominated_node != pod.nominated_node:
            if before.nominated_node == slot.node:
                self.reservations.renominate(pod, slot)
            self.reservations.nudges.watch(pod.uid)

    def _ours(self, pod: Pod) -> bool:
        """Tell whether a nomination on the pod can only be Muster's: gang members never preempt for themselves."""
        return pod.group is not None and pod.placeable and self.model.manages(pod)

    def _changed(self, gang: Gang) -> None:
        self.reservations.effects.changed[gang.ref] = None


def _decisive(pod: Pod) -> tuple[object, ...]:
    """Return what of a pod can change a decision; conditions, nominations and Running cannot."""
    return (
        pod.node_name,
        pod.done,
        pod.gated,
        pod.deleting,
        pod.group,
        pod.shape,
        pod.role,
        pod.rank,
        pod.priority,
        pod.scheduler_name,
        pod.options,
    )


def _levels(settings: Settings) -> tuple[Level, ...]:
    return tuple(
        Level(each.name, each.node_label, each.allreduce_factor, each.alltoall_factor)
        for each in settings.topology_levels
    )
