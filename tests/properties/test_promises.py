"""Promises P1 to P6 under random histories: arrivals, deletions, failures, closed nodes, time, restarts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from extender.admission.events import (
    Arrive,
    BindingFailed,
    BindVerdict,
    Decide,
    Filter,
    GroupSeen,
    NodeSeen,
    PodGone,
    PodSeen,
    Rebuild,
    Tick,
)
from extender.clock import ManualClock
from extender.ledger.slots import SlotState
from extender.objects.node import UNSCHEDULABLE_TAINT, Node
from extender.objects.pod import Phase, Pod, Shape
from extender.objects.podgroup import NO_GROUP, GroupRef, PodGroup
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.settings import Settings
from tests.examples import share_of
from tests.state import State
from tests.worlds import CollectingEngine

GPU = "nvidia.com/gpu"
GPUS = 8


class Cluster(RuleBasedStateMachine):
    """A cluster of a few GPU nodes, its API server's truth in `pods`, and one Muster in front of it."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.nodes: dict[str, Node] = {}
        self.groups: dict[GroupRef, PodGroup] = {}
        self.sizes: dict[GroupRef, int] = {}
        self.pods: dict[str, Pod] = {}
        self.in_flight: dict[str, str] = {}  # pod UID -> node of a bind call that has not been answered
        self.serial = 0
        self.boot()

    def boot(self) -> None:
        """Start a Muster that knows nothing, and let it list the cluster."""
        self.engine = CollectingEngine(Settings(), self.clock)
        self.admission = self.engine.admission
        self.tell = self.engine.tell
        self.state = State(self)
        for node in self.nodes.values():
            self.tell(NodeSeen(node))
        for group in self.groups.values():
            self.tell(GroupSeen(group))
        for pod in self.pods.values():
            self.tell(PodSeen(pod))
        self.tell(Rebuild())
        self.in_flight = {}
        self.settle()

    def settle(self) -> None:
        """Let the pass run and carry out what it asks for, as the API server would."""
        for _ in range(20):
            self.tell(Tick())
            self.tell(Decide())
            effects = self.engine.effects()
            for uid, nomination in effects.nominations.items():
                if uid in self.pods and not self.pods[uid].node_name:
                    self.change(uid, nominated_node=nomination.node)
            for uid in effects.refused:
                self.in_flight.pop(uid, None)
            for uid in effects.released:
                self.check_may_start(uid)
            if not (effects.nominations or effects.released or effects.refused or self.admission.pending):
                return

    def check_may_start(self, uid: str) -> None:
        """Assert P1: a member is let go only when minMember members have arrived, are bound or have succeeded."""
        pod = self.pods[uid]
        members = [p for p in self.pods.values() if p.group == pod.group]
        there = [p for p in members if p.bound or p.phase is Phase.SUCCEEDED]
        arrived = [p for p in members if not p.node_name and not p.done and self.has_arrived(p)]
        assert len(there) + len(arrived) >= self.minimum(pod.group)

    def minimum(self, ref: GroupRef) -> int:
        """Return how many members of a gang must start together; a pod that names no group is a gang of one."""
        return 1 if ref.is_pod else self.groups[ref].min_member

    def has_arrived(self, pod: Pod) -> bool:
        """Tell whether the ledger has seen the pod at bind."""
        slot = self.state.slot(pod)
        return slot is not None and slot.state is not SlotState.RESERVED

    def is_let_go(self, pod: Pod) -> bool:
        """Tell whether the pod has passed the barrier, so that only its Binding is outstanding."""
        slot = self.state.slot(pod)
        return slot is not None and slot.state is SlotState.BINDING

    def change(self, uid: str, **changes: object) -> None:
        """Change a pod at the API server, and let Muster see it."""
        self.pods[uid] = replace(self.pods[uid], **changes)  # type: ignore[arg-type]  # keywords of Pod
        self.tell(PodSeen(self.pods[uid]))

    def create_pod(self, ref: GroupRef, gpus: int, priority: int) -> Pod:
        """Create a pod at the API server, and let Muster see it."""
        self.serial += 1
        shape = Shape(tuple(sorted(({"cpu": 1000, "pods": 1} | ({GPU: gpus} if gpus else {})).items())))
        created = f"{self.serial:08d}"
        pod = Pod(
            f"uid-{self.serial}",
            "default",
            f"pod-{self.serial}",
            shape,
            created=created,
            group=ref,
            priority=priority,
            scheduler_name="muster",
        )
        self.pods[pod.uid] = pod
        self.tell(PodSeen(pod))
        return pod

    @initialize(nodes=st.integers(1, 4))
    def start(self, nodes: int) -> None:
        """Begin with a few nodes."""
        for index in range(nodes):
            name = f"node-{index}"
            self.nodes[name] = Node(name, allocatable={"cpu": 16_000, "memory": 0, "pods": 20, GPU: GPUS})
            self.tell(NodeSeen(self.nodes[name]))
        self.settle()

    @rule(
        members=st.integers(1, 4),
        gpus=st.sampled_from([0, 1, 3, 8]),
        extra=st.integers(0, 2),
        priority=st.integers(0, 1),
    )
    def create_gang(self, members: int, gpus: int, extra: int, priority: int) -> None:
        """Create a PodGroup with all its pods."""
        self.serial += 1
        ref = GroupRef(COSCHEDULING, "default", f"gang-{self.serial}")
        self.groups[ref] = PodGroup(ref, uid=f"group-{self.serial}", min_member=members, created=f"{self.serial:08d}")
        self.sizes[ref] = gpus
        self.tell(GroupSeen(self.groups[ref]))
        for _ in range(members + extra):
            self.create_pod(ref, gpus, priority)
        self.settle()

    @rule(gpus=st.integers(0, 8))
    def create_single(self, gpus: int) -> None:
        """Create a pod that names no group: a gang of one, planned in the filter call that asks for it."""
        pod = self.create_pod(NO_GROUP, gpus, 0)
        self.sizes[pod.group] = gpus
        self.serve_member(pod.uid)
        self.settle()

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def attempt(self, data: st.DataObject) -> None:
        """Let kube-scheduler try one pending member, through filter to bind."""
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        self.serve_member(uid)
        self.settle()

    def serve_member(self, uid: str) -> None:
        """Take one pending member of a gang through filter to bind."""
        pod = self.pods[uid]
        if not pod.placeable:
            return
        accepted = self.tell(Filter(pod, sorted(self.nodes))).accepted
        assert accepted == self.tell(Filter(pod, sorted(self.nodes))).accepted, "P5: filter is idempotent"
        if accepted:
            arrival = self.tell(Arrive(uid, accepted[0]))
            if arrival.verdict in {BindVerdict.HOLD, BindVerdict.WRITE}:
                self.in_flight[uid] = accepted[0]

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), ok=st.booleans(), final=st.booleans())
    def write_binding(self, data: st.DataObject, ok: bool, final: bool) -> None:
        """Let the API server answer one Binding that may be written."""
        uid = data.draw(st.sampled_from(sorted(self.in_flight)))
        if not self.is_let_go(self.pods[uid]):
            return
        node = self.in_flight.pop(uid)
        if ok:
            self.change(uid, node_name=node, phase=Phase.RUNNING)
        else:
            self.tell(BindingFailed(uid, "conflict", final=final))
        self.settle()

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), phase=st.sampled_from([Phase.SUCCEEDED, Phase.FAILED]))
    def end(self, data: st.DataObject, phase: Phase) -> None:
        """Let a bound pod end."""
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        if self.pods[uid].bound:
            self.change(uid, phase=phase)
            self.settle()

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), again=st.booleans())
    def delete(self, data: st.DataObject, again: bool) -> None:
        """Delete a pod, and perhaps let its controller replace it."""
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        pod = self.pods.pop(uid)
        self.in_flight.pop(uid, None)
        self.tell(PodGone(uid))
        if again:
            gpus = pod.shape.request(GPU)
            self.sizes[self.create_pod(pod.group, gpus, pod.priority).group] = gpus
        self.settle()

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def cordon(self, data: st.DataObject) -> None:
        """Cordon a node, or open it again."""
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        taints = () if self.nodes[name].taints else (UNSCHEDULABLE_TAINT,)
        self.nodes[name] = replace(self.nodes[name], taints=taints)
        self.tell(NodeSeen(self.nodes[name]))
        self.settle()

    @rule(seconds=st.sampled_from([1, 25, 70]))
    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.clock.advance(seconds)
        self.settle()

    @rule()
    def kill(self) -> None:
        """Kill Muster and start it again: everything it knew is in the cluster."""
        self.boot()

    @invariant()
    def never_more_promised_than_there_is(self) -> None:
        """Assert P2 from the API server's pods and the ledger, not from the table that is under test."""
        used: Counter[tuple[str, str]] = Counter()
        for pod in self.pods.values():
            if pod.bound:
                used.update({(pod.node_name, resource): value for resource, value in pod.shape.requests})
        for reservation in self.state.reservations():
            for uid, slot in reservation.slots.items():
                assert not self.pods[uid].bound
                used.update({(slot.node, resource): value for resource, value in slot.pod.shape.requests})
        for (node, resource), value in used.items():
            assert value <= self.nodes[node].allocatable[resource]

    @invariant()
    def ledger_knows_how_many_gpus_are_promised(self) -> None:
        """Assert that what is kept in step is what the slots add up to."""
        promised = [slot for reservation in self.state.reservations() for slot in reservation.slots.values()]
        assert self.state.promised_gpus() == sum(slot.pod.shape.request(GPU) for slot in promised)

    @invariant()
    def every_waiting_gang_has_a_reason(self) -> None:
        """Assert P8: members without a slot belong to a gang with a reason, or wait as extras."""
        if not self.admission.rebuilt or self.admission.pending:
            return
        for gang in self.state.gangs():
            let_go = sum(self.is_let_go(pod) for pod in gang.members.values())
            census = gang.census()
            if census.placeable > let_go and census.secured + let_go < gang.min_member:
                assert self.state.wait(gang.uid) is not None

    def serve_everybody(self) -> None:
        """Take every pending member through filter and bind, and let every Binding that may be written succeed."""
        for uid in sorted(self.pods):
            self.serve_member(uid)
        self.settle()
        for uid, node in list(self.in_flight.items()):
            if self.is_let_go(self.pods[uid]):
                self.in_flight.pop(uid)
                self.change(uid, node_name=node, phase=Phase.RUNNING)
        self.settle()

    def finish_what_runs(self) -> None:
        """Let every pod succeed that has no gang, or one that has its minimum."""
        for uid, pod in list(self.pods.items()):
            gang = self.state.gang(pod.group)
            if pod.bound and (gang is None or gang.census().secured >= gang.min_member):
                self.change(uid, phase=Phase.SUCCEEDED)
        self.settle()

    def teardown(self) -> None:
        """Assert P4 and P6: left in peace, every gang that fits alone runs, whatever happened before."""
        for name, node in self.nodes.items():
            self.nodes[name] = replace(node, taints=())
            self.tell(NodeSeen(self.nodes[name]))
        for _ in range(len(self.state.gangs()) * 3 + 10):
            self.clock.advance(130)  # beyond every pause and deadline: nothing may depend on luck
            self.settle()
            self.serve_everybody()
            self.finish_what_runs()
        for gang in self.state.gangs():
            census = gang.census()
            if (gang.group is None and not gang.ref.is_pod) or census.exist < gang.min_member:
                continue
            size = self.sizes[gang.ref]
            room = sum(20 if size == 0 else GPUS // size for _ in self.nodes)
            if size and room < gang.min_member:
                continue
            assert census.placeable == 0, f"{gang.ref} never ran: {self.state.wait(gang.uid)}"


TestPromises = Cluster.TestCase
TestPromises.settings = share_of(0.4, stateful_step_count=40)
