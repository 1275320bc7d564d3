"""The engine: events go in, answers and effects come out. Nothing else changes a decision.

What is observed of the cluster changes the model, and what it may change is evaluated again: `events.Decide` runs the
cycle, whose six phases are `AdmissionPass.run`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from msgspec.structs import fields

from extender.admission import events
from extender.admission.admission import Admission
from extender.admission.events import A, Event
from extender.admission.starts import Starts
from extender.admission.verbs import Verbs
from extender.clock import Clock
from extender.cluster.devicebooks import Touched
from extender.cluster.gangs import Gang
from extender.ledger.effects import CollectedEffects, Effects, Nomination
from extender.ledger.rejections import KubeletRejections
from extender.ledger.slots import SlotState
from extender.objects.budget import DisruptionBudget
from extender.objects.computedomain import ComputeDomain
from extender.objects.jobsigns import NO_SIGNS
from extender.objects.node import Node
from extender.objects.noderequest import NodeRequest
from extender.objects.nodetopology import NodeTopology
from extender.objects.pod import Pod
from extender.objects.podgroup import ANY_NAME, GroupRef, PodGroup
from extender.objects.queue import Queue
from extender.objects.sources.native import COMPOSITE, NATIVE
from extender.settings import Settings


class Observations:
    """Keep the model, the ledger and the queues in step with what the watches tell."""

    def __init__(self, admission: Admission, effects: CollectedEffects) -> None:
        """Tell `admission`; what has to be carried out goes to `effects`."""
        self._admission = admission
        self._effects = effects
        self._model = admission.model
        self._kubelets = KubeletRejections(admission.model, admission.rejections)
        self.starts = Starts(admission, effects, self.group_seen, self.group_gone, self.pod_seen)

    def pod_seen(self, pod: Pod) -> None:
        """Take in a pod that was added or changed."""
        pod = self._model.as_asked(pod)
        admission, deciding = self._admission, self._admission.rebuilt
        change = self._model.put_pod(pod, admission.clock.monotonic())
        before = change.before
        if before is not None and (before.options, before.group) != (pod.options, pod.group):
            self._model.table.claimed[pod.uid] = None  # it may be in another queue now
        if before is None or _decisive(before) != _decisive(pod):
            admission.reconsider(pod.group)
        if pod.refusal or (before is not None and before.refusal):
            self._follow_refusal(pod, before)
        self._follow_slot(pod, before)
        news = before is not None or pod.rejection is not None
        if news and self._kubelets.follow(pod, before, self._effects if deciding else None):
            admission.reconsider()
        if change.gang is not None:
            self._describe(change.gang)
            if pod.controller and self._model.workloads.managed:
                self.starts.pod_seen(pod, before)
            self._follow_member(pod, before, change.gang)
            self._effects.changed[change.gang.ref] = None
            if pod.node_name and deciding:
                admission.reservations.open_barrier(change.gang)
            group = change.gang.group
            if deciding and group is not None and (group.options.problems or group.options.signs.last_checkpoint):
                admission.problems.about_group(change.gang)
        if deciding and (
            pod.options.problems or pod.problem is not None or pod.claims.claims or pod.signs.last_checkpoint
        ):
            admission.problems.about_pod(pod)

    def _describe(self, gang: Gang) -> None:
        """Let a gang that no object names be what is said of all that are called alike."""
        compositions = self._model.compositions
        if not compositions.of_any_name or gang.group is not None or gang.ref in compositions.groups:
            return
        said = compositions.described(gang.ref)
        if said is not None:
            self.group_seen(said)

    def pod_gone(self, uid: str) -> None:
        """Forget a pod that was deleted."""
        admission, pod = self._admission, self._model.pods.get(uid)
        admission.reservations.drop(uid, "the pod was deleted")
        change = self._model.drop_pod(uid)
        self._effects.nominations.pop(uid, None)
        admission.problems.forget(uid)
        admission.refusals.forget(uid)
        if pod is not None:
            admission.reconsider(pod.group)
            if self._model.workloads.managed:
                self.starts.pod_gone(pod)
            if pod.bound:
                admission.rejections.eased(pod.node_name)
        if change.gang is not None:
            if pod is not None and pod.bound:
                admission.tenure.repairs.lost(pod, change.gang)
            self._effects.changed[change.gang.ref] = None
            if not change.gang.members and self._model.compositions.described(change.gang.ref) == change.gang.group:
                self.group_gone(change.gang.ref, change.gang.uid)
            if self._model.gangs.get(change.gang.ref) is None:
                admission.reservations.end_life(change.gang.uid, "the gang is gone")

    def group_seen(self, group: PodGroup) -> None:
        """Take in a PodGroup that was added or changed; a new UID starts a new life that inherits nothing."""
        compositions = self._model.compositions
        if self._model.workloads.is_part(group.uid):
            return  # the object that has made it is the gang
        if group.ref.name.endswith(ANY_NAME):
            self._follow_alike(group.ref, group)
            return
        if compositions.concern(group):
            self._recompose(group.ref, lambda: compositions.put(group))
        if group.ref not in compositions.groups:
            self._gang_seen(group)

    def _follow_alike(self, ref: GroupRef, group: PodGroup | None) -> None:
        """Take in what an object says of all gangs that are called alike but for a hash; None if it is gone."""
        compositions, gangs = self._model.compositions, self._model.gangs
        prefix = ref.name.removesuffix(ANY_NAME)
        like = [each for each in gangs.named if each.api == ref.api and each.namespace == ref.namespace]
        compositions.put_any_name(ref, group)
        for each in [each for each in like if each.name.rpartition("-")[0] == prefix.removesuffix("-")]:
            gang, said = gangs.get(each), compositions.described(each)
            if said is not None:
                self.group_seen(said)
            elif gang is not None and gang.group is not None:
                self.group_gone(each, gang.group.uid)

    def _recompose(self, ref: GroupRef, change: Callable[[], object]) -> None:
        """Take in that a group is part of another one, or consists of others: pods are of the outermost one's gang."""
        compositions, gangs = self._model.compositions, self._model.gangs
        before, known = compositions.root(ref), compositions.groups.get(ref)
        change()
        after, group = compositions.root(ref), compositions.groups.get(ref)
        for old in {before, ref} - {after}:
            gang = gangs.get(old)
            for pod in list(gang.members.values()) if gang is not None else ():
                named = GroupRef(NATIVE, pod.namespace, pod.role) if old.api == COMPOSITE else old
                self.pod_seen(replace(pod, group=named))
            if gang is not None and gang.group is not None and compositions.root(old) != old:
                self._gang_gone(old, gang.group.uid)
        if group is not None and group.label_parts != (() if known is None else known.label_parts):
            gang = gangs.get(ref)
            for pod in list(gang.members.values()) if gang is not None else ():
                self.pod_seen(pod)  # it may be of another part now
        for root in dict.fromkeys((after, before)):
            if compositions.root(root) == root and (described := compositions.gang(root)) is not None:
                self._gang_seen(described)

    def _gang_seen(self, group: PodGroup) -> None:
        admission, known = self._admission, self._model.gangs.get(group.ref)
        unchanged = known is not None and known.group == group
        gang, ended = self._model.gangs.put_group(group, admission.clock.monotonic())
        if unchanged:
            return
        if ended is not None:
            admission.reservations.end_life(ended, f"PodGroup {group.ref} was created again")
        admission.reconsider(group.ref)
        self._effects.changed[gang.ref] = None
        if admission.rebuilt:
            admission.problems.about_group(gang)

    def group_gone(self, ref: GroupRef, uid: str) -> None:
        """Forget a PodGroup that was deleted; what it had reserved is released, what runs runs on."""
        compositions = self._model.compositions
        if ref.name.endswith(ANY_NAME):
            self._follow_alike(ref, None)
            return
        if ref in compositions.groups:
            self._recompose(ref, lambda: compositions.drop(ref, uid))
        self._gang_gone(ref, uid)

    def _gang_gone(self, ref: GroupRef, uid: str) -> None:
        gang = self._model.gangs.drop_group(ref, uid)
        if gang is not None:
            self._admission.reservations.end_life(uid, f"PodGroup {ref} was deleted")
            self._admission.problems.forget(uid)
            self._admission.reconsider(ref)
            self._effects.changed[gang.ref] = None

    # What shares the cluster, and what protects running pods.

    def queue_seen(self, queue: Queue) -> None:
        """Take in a Queue; if that decides anything, the gangs of its tree are evaluated again."""
        if self._admission.sharing.put_queue(queue):
            self._admission.reconsider()

    def queue_gone(self, name: str) -> None:
        """Forget a Queue that was deleted; its gangs wait from now on, those that run go on."""
        if self._admission.sharing.drop_queue(name):
            self._admission.reconsider()

    def namespace_seen(self, name: str, labels: Mapping[str, str]) -> None:
        """Take in a namespace that was added or changed."""
        self.starts.namespace_seen(name, labels)
        if self._admission.sharing.put_namespace(name, labels):
            self._admission.reconsider()

    def namespace_gone(self, name: str) -> None:
        """Forget a namespace that was deleted."""
        self.starts.namespace_seen(name, {})
        self._admission.sharing.drop_namespace(name)

    def priority_seen(self, name: str, value: int | None, *, global_default: bool = False) -> None:
        """Take in a PriorityClass that was added or changed, or with None that it was deleted."""
        if value is None:
            self._admission.priorities.drop(name)
        else:
            self._admission.priorities.put(name, value, global_default=global_default)
        self.starts.priorities_seen()

    def budget_seen(self, budget: DisruptionBudget) -> None:
        """Take in a PodDisruptionBudget that was added or changed."""
        if self._admission.budgets.put(budget):
            self._admission.reconsider()

    def budget_gone(self, namespace: str, name: str) -> None:
        """Forget a PodDisruptionBudget that was deleted."""
        if self._admission.budgets.drop(namespace, name):
            self._admission.reconsider()

    def eviction_sent(self, uid: str) -> None:
        """Take in that the eviction of a pod is being written."""
        self._admission.tenure.pending_evictions.on_the_way.send(uid)

    def eviction_delayed(self, uid: str) -> None:
        """Take in that the API server has not evicted a pod yet."""
        self._admission.tenure.pending_evictions.on_the_way.turn_back(uid)

    def eviction_refused(self, uid: str, why: str) -> None:
        """Take in that the API server refuses to evict a pod."""
        self._admission.tenure.preemptions.refused(uid, why)
        self._admission.reconsider()

    def node_request_seen(self, request: NodeRequest) -> None:
        """Take in a request for nodes that was added or changed."""
        self._admission.node_requests.put(request)
        self._ask_again(request)

    def node_request_gone(self, uid: str) -> None:
        """Forget a request for nodes that was deleted."""
        request = self._admission.node_requests.drop(uid)
        if request is not None:
            self._ask_again(request)

    def _ask_again(self, request: NodeRequest) -> None:
        """Evaluate a gang again of which something has come of what it asked for."""
        self._model.gangs.touch_called((request.ref,))
        self._admission.reconsider(request.ref)

    # Where there is room, and how it is connected.

    def node_seen(self, node: Node) -> None:
        """Take in a node that was added or changed."""
        known = self._model.table.find(node.name) is not None
        self._node_counts(self._admission.health.seen(node, known=known))

    def time_passed(self) -> None:
        """Take in that time has passed: nodes that do not answer may be lost by now."""
        health = self._admission.health
        for node in health.ended() if health.watched else ():
            if self._model.table.find(node.name) is not None:
                self._node_counts(node)
        self._admission.tick()

    def _node_counts(self, node: Node) -> None:
        """Take in how a node counts."""
        if self._model.put_node(node):
            self._admission.tenure.repairs.node_seen(node)
            self._admission.reconsider()
            self._admission.rejections.eased(node.name)
            for pod in self._model.excessive_on(node.name):
                self.pod_seen(pod)

    def node_gone(self, name: str) -> None:
        """Forget a node that was deleted."""
        self._admission.health.gone(name)
        if self._model.drop_node(name):
            self._admission.reconsider()
        self._admission.tenure.repairs.node_gone(name)
        self._admission.rejections.forget_node(name)

    def node_topology_seen(self, topology: NodeTopology) -> None:
        """Take in a node's NUMA zones; its kubelet may take pods now that it did not take before."""
        if self._model.hardware.put_topology(topology):
            self._admission.rejections.eased(topology.node)
            self._admission.reconsider()

    def devices_touched(self, touched: Touched) -> None:
        """Read nodes and pods again of which devices, or claims on them, make something else than before."""
        for node in touched.nodes:
            self._node_counts(node)
        for pod in touched.pods:
            self.pod_seen(pod)
        if touched.moved:
            self._admission.reconsider()

    def domain_seen(self, domain: ComputeDomain) -> None:
        """Take in a ComputeDomain that was added or changed."""
        for pod in self._model.devices.put_domain(domain):
            if self._admission.rebuilt:
                self._admission.problems.about_domains(pod)

    def learned(self, *, new: bool) -> None:
        """Have everything evaluated again if something of network or hardware is known that was not."""
        if new:
            self._admission.reconsider()

    def _follow_refusal(self, pod: Pod, before: Pod | None) -> None:
        """Take in what kube-scheduler says of a pod that it does not place, or said before."""
        if self._admission.refusals.follow(pod, before):
            self._admission.follow_refusal(pod)
        self._admission.reservations.nudges.follow(pod, before)

    def _follow_member(self, pod: Pod, before: Pod | None, gang: Gang) -> None:
        """Take in what a member says of its job, that a kubelet has taken it on, or that it holds a node no more.

        One that has notice may be ready; of a gang that may only run for so long the time begins.
        """
        told, started = (NO_SIGNS, None) if before is None else (before.signs, before.started_at)
        if pod.signs is not told and pod.signs != told:
            notices = self._admission.tenure.pending_evictions.notices
            notices.follow(pod)
            if notices.standing:
                self._admission.reconsider(pod.group)
        if started != pod.started_at and (gang.max_runtime is not None or self._admission.sharing.timing):
            self._admission.reconsider(pod.group)
        self._follow_losses(pod, before, gang)

    def _follow_losses(self, pod: Pod, before: Pod | None, gang: Gang) -> None:
        """Take in that a member holds a node no more, or holds one now."""
        was_bound, tenure = before is not None and before.bound, self._admission.tenure
        if was_bound and not pod.bound:
            tenure.repairs.lost(pod, gang)
        elif tenure.losses.open and pod.bound and not was_bound:
            tenure.losses.bound(pod, gang)

    def _follow_slot(self, pod: Pod, before: Pod | None) -> None:
        """Keep the ledger in step with one pod."""
        reservations = self._admission.reservations
        if pod.node_name:
            reservations.ledger.fulfil(pod)
            self._admission.refusals.forget(pod.uid)
            return
        entry = None if before is None else reservations.ledger.of_pod(pod.uid)
        if entry is None:
            if self._admission.rebuilt and pod.nominated_node and self._is_ours(pod):
                self._effects.nominations[pod.uid] = Nomination(pod, "")
            return
        reservation, slot = entry
        if pod.done or pod.deleting or pod.gated:
            if slot.state is not SlotState.BINDING:
                reservations.drop(pod.uid, "the member cannot be placed any more")
        elif pod.group != reservation.ref or not pod.shape.is_covered_by(slot.pod.shape):
            reservations.drop(pod.uid, "the member changed")
        elif pod.shape != slot.pod.shape:
            reservations.ledger.follow(slot, pod)
        elif slot.state is SlotState.RESERVED and before is not None and before.nominated_node != pod.nominated_node:
            if before.nominated_node == slot.node and reservations.renominate(pod, slot):
                self._admission.reconsider(pod.group)
            reservations.nudges.watch(reservation, slot)

    def _is_ours(self, pod: Pod) -> bool:
        """Tell whether a nomination on the pod can only be Muster's: no managed pod preempts for itself."""
        return pod.placeable and self._model.manages(pod)


#: Returns what of a pod can change a decision; conditions, nominations and Running cannot.
_decisive = attrgetter(
    "node_name",
    "done",
    "gated",
    "gates",
    "deleting",
    "group",
    "shape",
    "role",
    "rank",
    "priority",
    "scheduler_name",
    "options",
)

_COLLECTED = tuple(each.name for each in fields(CollectedEffects))
_all_collected = attrgetter(*_COLLECTED)


class Engine:
    """Take in one event after the other; equal events at equal times give equal answers and effects.

    What is read between two events changes nothing: charges and occupancy are up to date after every event.

    Attributes:
        admission: what decisions stand on, and what has been decided: to be read.
        verbs: what answers kube-scheduler from it; questions that change nothing may be asked directly.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Start with an empty cluster; nothing is decided before `events.Rebuild`."""
        self._collected = CollectedEffects()
        self.admission = Admission(settings, clock, self._collected)
        self._nodes, self._devices = self.admission.model.table, self.admission.model.devices
        self.verbs = Verbs(self.admission)
        self._observations = Observations(self.admission, self._collected)
        self._handlers = self._table()

    def apply(self, event: Event[A]) -> Effects[A]:
        """Take in an event; return the answer, where something is asked, and what is to be carried out."""
        try:
            answer = self._handlers[type(event)](event)
        finally:
            self._bring_up_to_date()
        return self._effects(answer)

    def _bring_up_to_date(self) -> None:
        """Compute what follows from claims that were made or given back: nothing is left to those that only read."""
        if self._devices.is_reading:
            self._devices.read_on()
        if self._devices.is_outdated:
            self._observations.devices_touched(self._devices.outdated())
        if self._nodes.moved:
            moved, self._nodes.moved = self._nodes.moved, {}
            if self._devices.is_followed:
                self._observations.devices_touched(self._devices.follow(moved))
        if self._nodes.claimed:
            self.admission.sharing.charges.refresh()
        if self._nodes.occupancy.changed:
            self._nodes.occupancy.refresh()

    def _effects(self, answer: A) -> Effects[A]:
        """Return with `answer` what the event called for, and begin to collect again."""
        collected = self._collected
        changed = collected.changed
        if changed:
            gangs, waits = self.admission.model.gangs, self.admission.reservations.waits
            for ref in changed:
                gang = gangs.get(ref)
                changed[ref] = None if gang is None else waits.get(gang.uid)
        called: dict[str, Any] = {}
        for name, value in zip(_COLLECTED, _all_collected(collected), strict=True):
            if value:
                called[name] = value
                setattr(collected, name, type(value)())
        return Effects(answer, empty=not called, **called)

    def _take_up(self) -> None:
        """Take up deciding: what pods, also expected ones, ask for is known before reservations are read back."""
        self._observations.starts.take_up()
        self._devices.read_on(math.inf)
        self._bring_up_to_date()
        self.admission.rebuild()

    def _stand_down(self) -> None:
        """Give up deciding; what has not been carried out is left to the replica that decides next."""
        self.admission.stand_down()
        self._observations.starts.stand_down()
        self._effects(None)

    def _decide(self) -> bool:
        """Run a step of the pass; what is expected is brought up to date before the first."""
        if self.admission.model.workloads.outdated and self.admission.rebuilt and not self.admission.deciding:
            self._observations.starts.sync()
        ran = self.admission.decide()
        if self.admission.model.workloads.outdated:  # very many were to be made
            self.admission.reconsider()
        return ran

    def _table(self) -> dict[type, Callable[[Any], Any]]:
        """Return what each event does."""
        admission, model, verbs = self.admission, self.admission.model, self.verbs
        observed, learned = self._observations, self._observations.learned
        devices, touched = self._devices, observed.devices_touched
        return {
            events.PodSeen: lambda e: observed.pod_seen(e.pod),
            events.PodGone: lambda e: observed.pod_gone(e.uid),
            events.GroupSeen: lambda e: observed.group_seen(e.group),
            events.GroupGone: lambda e: observed.group_gone(e.ref, e.uid),
            events.QueueSeen: lambda e: observed.queue_seen(e.queue),
            events.QueueGone: lambda e: observed.queue_gone(e.name),
            events.NamespaceSeen: lambda e: observed.namespace_seen(e.name, e.labels),
            events.NamespaceGone: lambda e: observed.namespace_gone(e.name),
            events.WorkloadSeen: lambda e: observed.starts.seen(e.workload),
            events.WorkloadGone: lambda e: observed.starts.gone(e.uid),
            events.PartSeen: lambda e: observed.starts.part_seen(e.uid, e.ref, e.owner),
            events.PartGone: lambda e: observed.starts.part_gone(e.uid),
            events.NodeRequestSeen: lambda e: observed.node_request_seen(e.request),
            events.NodeRequestGone: lambda e: observed.node_request_gone(e.uid),
            events.BudgetSeen: lambda e: observed.budget_seen(e.budget),
            events.BudgetGone: lambda e: observed.budget_gone(e.namespace, e.name),
            events.PriorityClassSeen: lambda e: observed.priority_seen(
                e.name, e.value, global_default=e.global_default
            ),
            events.PriorityClassGone: lambda e: observed.priority_seen(e.name, None),
            events.NodeSeen: lambda e: observed.node_seen(e.node),
            events.NodeGone: lambda e: observed.node_gone(e.name),
            events.NodeTopologySeen: lambda e: observed.node_topology_seen(e.topology),
            events.NodeTopologyGone: lambda e: learned(new=model.hardware.drop_topology(e.name)),
            events.HyperNodeSeen: lambda e: learned(new=model.network.put_hyper_node(e.hyper_node)),
            events.HyperNodeGone: lambda e: learned(new=model.network.drop_hyper_node(e.name)),
            events.LevelsSeen: lambda e: learned(new=model.network.put_list(e.levels)),
            events.LevelsGone: lambda e: learned(new=model.network.drop_list(e.group, e.name)),
            events.DeviceSeen: lambda e: learned(new=model.hardware.put_report(e.report)),
            events.DeviceGone: lambda e: learned(new=model.hardware.drop_report(e.name)),
            events.DeviceClassSeen: lambda e: touched(devices.put_class(e.device_class)),
            events.DeviceClassGone: lambda e: touched(devices.drop_class(e.name)),
            events.SliceSeen: lambda e: touched(devices.put_slice(e.item)),
            events.SliceGone: lambda e: touched(devices.drop_slice(e.name)),
            events.TaintRuleSeen: lambda e: touched(devices.put_rule(e.rule)),
            events.TaintRuleGone: lambda e: touched(devices.drop_rule(e.name)),
            events.ClaimSeen: lambda e: touched(devices.put_claim(e.claim)),
            events.ClaimGone: lambda e: touched(devices.drop_claim(f"{e.namespace}/{e.name}")),
            events.ClaimTemplateSeen: lambda e: touched(devices.put_template(e.template)),
            events.ClaimTemplateGone: lambda e: touched(devices.drop_template(f"{e.namespace}/{e.name}")),
            events.ComputeDomainSeen: lambda e: observed.domain_seen(e.domain),
            events.ComputeDomainGone: lambda e: devices.drop_domain(f"{e.namespace}/{e.name}"),
            events.CalibrationSeen: lambda e: learned(new=model.hardware.put_calibration(e.about, e.data)),
            events.CalibrationGone: lambda _: learned(new=model.hardware.drop_calibration()),
            events.EvictionSent: lambda e: observed.eviction_sent(e.uid),
            events.EvictionDelayed: lambda e: observed.eviction_delayed(e.uid),
            events.EvictionRefused: lambda e: observed.eviction_refused(e.uid, e.why),
            events.Rebuild: lambda _: self._take_up(),
            events.StandDown: lambda _: self._stand_down(),
            events.HoldOff: lambda e: admission.hold_off(e.obstacle),
            events.Tick: lambda _: observed.time_passed(),
            events.Decide: lambda _: self._decide(),
            events.Defragment: lambda e: admission.defragment(e.ref, apply=e.apply),
            events.Filter: lambda e: verbs.filter(e.pod, e.names),
            events.Prioritize: lambda e: verbs.prioritize(e.pod, e.names),
            events.Preempt: lambda e: verbs.preempt(e.pod, e.victims),
            events.Arrive: lambda e: verbs.arrive(e.uid, e.node),
            events.Leave: lambda e: verbs.leave(e.uid),
            events.BindingFailed: lambda e: verbs.binding_failed(e.uid, e.why, final=e.final, refused=e.refused),
        }
