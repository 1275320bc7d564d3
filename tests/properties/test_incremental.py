"""A pass that judges only whom a change can affect decides the same as one that judges everybody every time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from extender.admission.admission import Admission
from extender.admission.cycle import Entry
from extender.admission.events import (
    A,
    Arrive,
    BindingFailed,
    BindVerdict,
    Decide,
    Event,
    Filter,
    GroupGone,
    GroupSeen,
    HoldOff,
    Leave,
    NamespaceSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    QueueGone,
    QueueSeen,
    Rebuild,
    StandDown,
    Tick,
)
from extender.admission.standing import StandingVerdicts
from extender.admission.verdicts import Changes, VerdictKey
from extender.clock import ManualClock
from extender.cluster.model import GangRegistry
from extender.cluster.table import NodeTable
from extender.ledger.effects import CollectedEffects
from extender.ledger.slots import SlotState
from extender.objects.keys import GROUP, USER, Options, Packing
from extender.objects.meta import LabelSelector, Requirement
from extender.objects.node import UNSCHEDULABLE_TAINT, Node
from extender.objects.pod import Phase as PodPhase
from extender.objects.pod import Pod, Rejection, RejectionReason, Shape
from extender.objects.podgroup import NO_GROUP, GroupRef, PodGroup
from extender.objects.queue import (
    Flavor,
    PreemptionPolicy,
    Queue,
    QueueingStrategy,
    Quota,
    Reclaim,
    RunningLimit,
    StopPolicy,
    WithinQueue,
)
from extender.objects.reason import Problem, Reason, Wait
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.sources.table import LABEL
from extender.placement.capacityview import PodSet
from extender.queues.charges import Charges
from extender.queues.sharing import Sharing
from extender.settings import Settings
from tests.examples import share_of
from tests.state import forget_verdicts
from tests.worlds import CollectingEngine

GPU = "nvidia.com/gpu"
GPUS = 4

#: Passes in a row after which it is taken that they would go on for ever.
MOST_PASSES = 50

#: Seconds after which victims are searched for again, whatever came of the last search.
LONGEST_PAUSE = 61


class JudgesEverybody(Admission):
    """An admission that keeps no verdict from one pass to the next, nor from one gang to those that are alike."""

    def decide(self) -> bool:
        """Run the pass as if nothing were known."""
        if self.pending:
            forget_verdicts(self)
        setattr(self.tenure.decider, "_is_for_all", lambda *_: False)  # noqa: B010 - a private method
        return super().decide()


class KeepsVerdicts(Admission):
    """An admission that keeps verdicts, but moves what is kept for a gang as one does that evaluates it every time.

    Where room was given back that is too little for it, its place stands; another one may be as good by then.
    """

    def decide(self) -> bool:
        """Run the pass, and evaluate whom something is kept for before others where anything was given back."""
        standing: StandingVerdicts = vars(self.tenure.decider)["_standing"]
        cannot_be_better = partial(getattr(StandingVerdicts, "_cannot_be_better"), standing)  # noqa: B009 - private

        def stays(entry: Entry, core: PodSet, before: VerdictKey, key: VerdictKey) -> bool:
            if entry.head is not None and standing.freed.any_since(before.generation):
                return False
            return bool(cannot_be_better(entry, core, before, key))

        setattr(standing, "_cannot_be_better", stays)  # noqa: B010 - a private method
        return super().decide()


class Twins(RuleBasedStateMachine):
    """One cluster and one kube-scheduler, with two Musters that hear and are asked the same; `kept` keeps verdicts."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.engines = (CollectingEngine(Settings(), self.clock), CollectingEngine(Settings(), self.clock))
        self.twins = (self.kept, self.anew) = (self.engines[0].admission, self.engines[1].admission)
        self.kept.__class__, self.anew.__class__ = KeepsVerdicts, JudgesEverybody
        self.nodes: dict[str, Node] = {}
        self.groups: dict[GroupRef, PodGroup] = {}
        self.pods: dict[str, Pod] = {}
        self.told: dict[str, Wait] = {}
        self.serial = 0

    # What both hear.

    def tell(self, event: Event[A]) -> A:
        """Let both take in the same; assert that they answer the same, and return that."""
        kept, anew = (engine.tell(event) for engine in self.engines)
        assert kept == anew
        return kept

    def settle(self) -> None:
        """Let the passes run, and carry out what they ask for, as the API server would."""
        for _ in range(20):
            self.tell(Tick())
            self.decide()
            effects = self.effects()
            for uid, nomination in effects.nominations.items():
                if uid in self.pods and not self.pods[uid].node_name:
                    self.see(replace(self.pods[uid], nominated_node=nomination.node))
            if not (effects.nominations or effects.refused):
                return

    def decide(self) -> None:
        """Let each run passes until nothing asks for one: whether one runs is pace, what comes of it is compared.

        One that has run more of them has judged again who came before others that were placed, and may have searched
        for victims a moment before there were any: then both run one more, and another one after the longest pause.
        """
        self.run_passes()
        for pause in (0, LONGEST_PAUSE):
            if self.kept.reservations.waits == self.anew.reservations.waits:
                return
            self.clock.advance(pause)
            for engine in self.engines:
                engine.tell(Tick())
                engine.admission.reconsider()
            self.run_passes()

    def run_passes(self) -> None:
        """Let each run passes until nothing asks for one."""
        for engine in self.engines:
            assert any(not engine.tell(Decide()) for _ in range(MOST_PASSES))

    def effects(self) -> CollectedEffects:
        """Take what both want done; assert that it is the same, and that whose reason changed is reported."""
        kept, anew = (engine.effects() for engine in self.engines)
        assert kept.nominations == anew.nominations
        assert (kept.refused, kept.expired) == (anew.refused, anew.expired)
        assert sorted(map(str, kept.notes)) == sorted(map(str, anew.notes))  # when each searches for victims is pace
        assert kept.rejections == anew.rejections
        assert sorted(kept.released) == sorted(anew.released)
        assert sorted(map(str, kept.milestones)) == sorted(map(str, anew.milestones))
        for gang in self.kept.model.gangs:
            if self.told.get(gang.uid) != self.kept.reservations.waits.get(gang.uid):
                assert gang.ref in kept.changed
        self.told = dict(self.kept.reservations.waits)
        return kept

    def see(self, pod: Pod) -> None:
        """Let the API server have a pod as it is now."""
        self.pods[pod.uid] = pod
        self.tell(PodSeen(pod))

    def see_node(self, node: Node) -> None:
        """Let the API server have a node as it is now."""
        self.nodes[node.name] = node
        self.tell(NodeSeen(node))

    def see_group(self, group: PodGroup) -> None:
        """Let the API server have a PodGroup as it is now."""
        self.groups[group.ref] = group
        self.tell(GroupSeen(group))

    def create_pod(self, ref: GroupRef | None, gpus: int, **fields: Any) -> Pod:
        """Create a pod."""
        self.serial += 1
        requests = {"cpu": 1000, "pods": 1} | ({GPU: gpus} if gpus else {})
        values: dict[str, Any] = {"created": f"{self.serial:08d}", "group": ref or NO_GROUP, "scheduler_name": "muster"}
        name = f"pod-{self.serial}"
        self.see(
            Pod(f"uid-{self.serial}", "default", name, Shape(tuple(sorted(requests.items()))), **(values | fields))
        )
        return self.pods[f"uid-{self.serial}"]

    # What happens in the cluster.

    @initialize(nodes=st.integers(1, 4), sizes=st.lists(st.integers(1, 3), max_size=3))
    def start(self, nodes: int, sizes: list[int]) -> None:
        """Begin with a few nodes and gangs."""
        for index in range(nodes):
            self.see_node(Node(f"node-{index}", allocatable={"cpu": 8_000, "memory": 0, "pods": 20, GPU: GPUS}))
        self.tell(Rebuild())
        for size in sizes:
            self.create_group_of(size, [2], 0, min_member=size)
        self.settle()

    @rule(
        members=st.integers(0, 4),
        min_member=st.integers(1, 4),
        gpus=st.lists(st.sampled_from([0, 1, 2, 4]), min_size=1, max_size=2),
        priority=st.integers(0, 2),
        options=st.sampled_from([Options(), Options(packing=Packing.SPREAD)]),
        min_resources=st.sampled_from([{}, {}, {GPU: 6}]),
    )
    def create_gang(self, members: int, gpus: list[int], priority: int, **group: Any) -> None:
        """Create a PodGroup with some pods, alike or of two shapes."""
        self.create_group_of(members, gpus, priority, **group)
        self.settle()

    def create_group_of(self, members: int, gpus: list[int], priority: int, **group: Any) -> None:
        """Create a PodGroup and its pods."""
        self.serial += 1
        ref = GroupRef(COSCHEDULING, "default", f"gang-{self.serial}")
        self.see_group(PodGroup(ref, f"group-{self.serial}", created=f"{self.serial:08d}", **group))
        for index in range(members):
            self.create_pod(ref, gpus[index % len(gpus)], priority=priority)

    @rule(gpus=st.sampled_from([1, 4]), minimum=st.sampled_from([None, 1, 3]))
    def create_labelled_member(self, gpus: int, minimum: int | None) -> None:
        """Create a member of one of two gangs without object."""
        ref = GroupRef(LABEL, "default", f"label-{self.serial % 2}")
        self.create_pod(ref, gpus, options=Options(min_member=minimum))
        self.settle()

    @rule(gpus=st.integers(0, GPUS), priority=st.integers(0, 2))
    def create_single(self, gpus: int, priority: int) -> None:
        """Create a pod without gang, and schedule it as kube-scheduler would."""
        pod = self.create_pod(None, gpus, priority=priority)
        if self.bring_to_bind(pod) is BindVerdict.WRITE:
            node = self.kept.model.table.claim_of(pod.uid)
            assert node is not None
            self.see(replace(pod, node_name=node.node, phase=PodPhase.RUNNING))
        self.settle()

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), gpus=st.integers(1, GPUS))
    def create_foreign(self, data: st.DataObject, gpus: int) -> None:
        """Let another scheduler bind a pod, room or not."""
        node = self.some_node(data)
        self.create_pod(None, gpus, scheduler_name="other", node_name=node, phase=PodPhase.RUNNING)
        self.settle()

    @precondition(lambda self: self.groups)
    @rule(data=st.data(), gpus=st.sampled_from([0, 1, 4]), priority=st.integers(0, 1))
    def add_member(self, data: st.DataObject, gpus: int, priority: int) -> None:
        """Create one more member, perhaps of another priority than the others."""
        ref = data.draw(st.sampled_from(sorted(self.groups, key=str)))
        self.create_pod(ref, gpus, priority=priority)
        self.settle()

    @precondition(lambda self: self.pods)
    @rule(
        data=st.data(),
        changes=st.sampled_from(
            [
                {"gated": True},
                {"gated": False},
                {"deleting": True},
                {"nominated_node": ""},
                {"scheduler_name": "other"},
                {"scheduler_name": "muster"},
                {"priority": 1},
                {"problem": Problem("spec", "odd")},
                {"refusal": "0/1 nodes: volumes"},
            ]
        ),
    )
    def change_pod(self, data: st.DataObject, changes: dict[str, Any]) -> None:
        """Change something about a pod."""
        pod = self.pods[data.draw(st.sampled_from(sorted(self.pods)))]
        self.see(replace(pod, **changes))
        self.settle()

    @precondition(lambda self: self.pods and self.groups)
    @rule(data=st.data())
    def relabel(self, data: st.DataObject) -> None:
        """Let a pod leave its gang for another."""
        pod = self.pods[data.draw(st.sampled_from(sorted(self.pods)))]
        self.see(replace(pod, group=data.draw(st.sampled_from(sorted(self.groups, key=str)))))
        self.settle()

    @precondition(lambda self: self.alive())
    @rule(data=st.data(), phase=st.sampled_from([PodPhase.SUCCEEDED, PodPhase.FAILED]))
    def end_pod(self, data: st.DataObject, phase: PodPhase) -> None:
        """Let a pod end; how it ended does not change after that."""
        self.see(replace(data.draw(st.sampled_from(self.alive())), phase=phase))
        self.settle()

    @precondition(lambda self: self.bound())
    @rule(data=st.data())
    def reject_pod(self, data: st.DataObject) -> None:
        """Let a kubelet turn a pod away."""
        rejection = Rejection(RejectionReason.TOPOLOGY_AFFINITY, "no locality")
        pod = data.draw(st.sampled_from(self.bound()))
        self.see(replace(pod, phase=PodPhase.FAILED, rejection=rejection))
        self.settle()

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def delete_pod(self, data: st.DataObject) -> None:
        """Delete a pod."""
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        del self.pods[uid]
        self.tell(PodGone(uid))
        self.settle()

    @precondition(lambda self: self.groups)
    @rule(data=st.data(), minimum=st.integers(1, 4), odd=st.booleans(), priority=st.sampled_from([None, None, 2]))
    def edit_group(self, data: st.DataObject, minimum: int, odd: bool, priority: int | None) -> None:
        """Change a PodGroup."""
        group = self.groups[data.draw(st.sampled_from(sorted(self.groups, key=str)))]
        problem = Problem("spec", "odd") if odd else None
        self.see_group(replace(group, min_member=minimum, problem=problem, priority=priority))
        self.settle()

    @precondition(lambda self: self.groups)
    @rule(data=st.data(), again=st.booleans())
    def delete_group(self, data: st.DataObject, again: bool) -> None:
        """Delete a PodGroup, and perhaps create it anew under its name."""
        group = self.groups.pop(data.draw(st.sampled_from(sorted(self.groups, key=str))))
        self.tell(GroupGone(group.ref, group.uid))
        self.serial += 1
        if again:
            self.see_group(replace(group, uid=f"group-{self.serial}"))
        self.settle()

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), what=st.sampled_from(["cordon", "shrink", "grow", "delete"]))
    def change_node(self, data: st.DataObject, what: str) -> None:
        """Close a node or open it again, take away from what it has or give it back, or delete it."""
        node = self.nodes[self.some_node(data)]
        if what == "delete":
            del self.nodes[node.name]
            self.tell(NodeGone(node.name))
        elif what == "cordon":
            self.see_node(replace(node, taints=() if node.taints else (UNSCHEDULABLE_TAINT,)))
        else:
            gpus = node.allocatable[GPU] + (1 if what == "grow" else -1)
            self.see_node(replace(node, allocatable={**node.allocatable, GPU: max(gpus, 0)}))
        self.settle()

    @rule()
    def add_node(self) -> None:
        """Add a node, perhaps under a name that was there before."""
        self.see_node(Node(f"node-{len(self.nodes)}", allocatable={"cpu": 8_000, "memory": 0, "pods": 20, GPU: GPUS}))
        self.settle()

    # What kube-scheduler does.

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), steps=st.integers(1, 4))
    def attempt(self, data: st.DataObject, steps: int) -> None:
        """Let kube-scheduler try some pending members, through filter to bind."""
        for _ in range(steps):
            self.bring_to_bind(data.draw(st.sampled_from(self.waiting())))
        self.settle()

    def bring_to_bind(self, pod: Pod) -> BindVerdict | None:
        """Take a pod through filter to bind; return what becomes of its bind call, None if no node is accepted."""
        accepted = self.tell(Filter(pod, sorted(self.nodes))).accepted
        return self.tell(Arrive(pod.uid, accepted[0])).verdict if accepted else None

    @precondition(lambda self: self.waiting())
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        """Let kube-scheduler refuse the planned node of a pending member."""
        pod = data.draw(st.sampled_from(self.waiting()))
        others = sorted(self.nodes.keys() - {pod.nominated_node})
        self.tell(Filter(pod, others))
        self.settle()

    @precondition(lambda self: self.slots())
    @rule(data=st.data(), what=st.sampled_from(["bound", "bound", "bound", "lost", "refused", "left"]))
    def answer_bind(self, data: st.DataObject, what: str) -> None:
        """Answer a bind call: the Binding was made, nobody knows, it was refused; or it was held for too long."""
        uid, node, state = data.draw(st.sampled_from(self.slots()))
        if what == "left":
            self.tell(Leave(uid))
        elif state is SlotState.BINDING and what == "bound":
            self.see(replace(self.pods[uid], node_name=node, phase=PodPhase.RUNNING))
        elif state is SlotState.BINDING:
            self.tell(BindingFailed(uid, "no", final=what == "refused"))
        self.settle()

    @rule(seconds=st.sampled_from([0.3, 1, 10, 16, 31, 61]))
    def wait(self, seconds: float) -> None:
        """Let time pass, and perhaps ask for a pass before the clockwork does."""
        self.clock.advance(seconds)
        self.settle()

    @rule(seconds=st.sampled_from([1, 16, 31]))
    def ask_late(self, seconds: float) -> None:
        """Let time pass, and a pass run before the clockwork."""
        self.clock.advance(seconds)
        for admission in self.twins:
            admission.reconsider()
        self.decide()
        self.settle()

    @rule(on=st.booleans())
    def hold_off(self, on: bool) -> None:
        """Let nominations get through, or not."""
        self.tell(HoldOff(Wait(Reason.WRITES_BACKLOGGED) if on else None))
        self.settle()

    @rule()
    def stand_down(self) -> None:
        """Give up deciding, hear a little, and take it up again."""
        self.tell(StandDown())
        self.create_pod(None, 0)
        self.tell(Rebuild())
        self.settle()

    # What must be the same.

    @invariant()
    def the_same_is_decided(self) -> None:
        """Assert that reservations, reasons and what is kept for whom are the same."""
        if not self.kept.rebuilt:
            return
        kept, anew = self.kept.reservations, self.anew.reservations
        assert _slots(self.kept) == _slots(self.anew)
        assert kept.waits == anew.waits
        keeps = [
            [(keep.gang.ref, keep.position, keep.firm, keep.kept.tolist()) for keep in admission.tenure.keeps]
            for admission in (self.kept, self.anew)
        ]
        assert keeps[0] == keeps[1]
        assert self.kept.model.table.used.tolist() == self.anew.model.table.used.tolist()

    @invariant()
    def what_is_counted_is_there(self) -> None:
        """Assert that what gangs count of their members is what one finds by looking at each of them."""
        ledger = self.kept.reservations.ledger
        for gang in self.kept.model.gangs:
            wanting = {p.uid for p in gang.members.values() if p.placeable and ledger.of_pod(p.uid) is None}
            assert {pod.uid for pod in gang.unplaced()} == wanting
            assert sum(gang.wanted.values()) == gang.unplaced_count == len(wanting)
            assert sum(gang.held.values()) == sum(pod.bound for pod in gang.members.values())
            assert sum(gang.kinds.values()) == len(gang.members)

    def some_node(self, data: st.DataObject) -> str:
        """Draw a node, one that is promised to somebody if there is any and it is to be."""
        promised = sorted({node for _, node, _ in self.slots() if node in self.nodes})
        any_promised = bool(promised) and bool(data.draw(st.booleans()))
        return data.draw(st.sampled_from(promised if any_promised else sorted(self.nodes)))

    def waiting(self) -> list[Pod]:
        """Return the pending members of gangs."""
        return [pod for _, pod in sorted(self.pods.items()) if pod.placeable]

    def alive(self) -> list[Pod]:
        """Return the pods that have not ended."""
        return [pod for _, pod in sorted(self.pods.items()) if not pod.done]

    def bound(self) -> list[Pod]:
        """Return the pods that hold something on a node."""
        return [pod for _, pod in sorted(self.pods.items()) if pod.bound]

    def slots(self) -> list[tuple[str, str, SlotState]]:
        """Return UID, node and state of each slot."""
        return [(uid, node, state) for uid, node, state, _ in _slots(self.kept)]


def _slots(admission: Admission) -> list[tuple[str, str, SlotState, float]]:
    reservations = admission.reservations.ledger
    return sorted(
        (uid, slot.node, slot.state, reservation.deadline)
        for reservation in reservations
        for uid, slot in reservation.slots.items()
    )


TestTwins = Twins.TestCase
TestTwins.settings = share_of(0.4, stateful_step_count=40)

#: Queues that may exist, and two that never do.
QUEUES = ("a", "b", "c")
ANY_QUEUE = st.sampled_from([*QUEUES, "nobody", ""])
#: Nobody is evicted: the twins search for victims at other times, which is for `Preemptions` to pace.
KEEPING = PreemptionPolicy(within_queue=WithinQueue.NEVER, reclaim_within_cohort=Reclaim.NEVER)
TEAM = LabelSelector((Requirement("team", "In", ("one",)),))


class Sharers(Twins):
    """The same with Queues that come, go, move and change while gangs wait and run in them."""

    @rule(
        name=st.sampled_from(QUEUES),
        parent=st.sampled_from(["", "", "nobody", *QUEUES]),
        gpus=st.sampled_from([None, 0, 2, 4, 8]),
        limit=st.sampled_from([None, 0, 4]),
        others=st.fixed_dictionaries(
            {
                "weight": st.sampled_from([1.0, 2.0]),
                "default": st.booleans(),
                "namespaces": st.sampled_from([None, TEAM]),
                "strategy": st.sampled_from(QueueingStrategy),
                "stop_policy": st.sampled_from([StopPolicy.NONE, StopPolicy.NONE, StopPolicy.HOLD]),
                "max_running_gangs": st.sampled_from([None, None, 1]),
                "limits": st.sampled_from([(), (), (RunningLimit(USER, gangs=1),), (RunningLimit(GROUP, gpus=3),)]),
            }
        ),
    )
    def put_queue(self, name: str, parent: str, gpus: int | None, limit: int | None, others: dict[str, Any]) -> None:
        """Create a Queue or edit it."""
        quota = {} if gpus is None else {GPU: Quota(gpus, limit, limit)}
        flavors = (Flavor("any", quota),)
        self.tell(QueueSeen(Queue(name, uid=name, parent=parent, flavors=flavors, preemption=KEEPING, **others)))
        self.settle()

    @rule(name=st.sampled_from(QUEUES))
    def drop_queue(self, name: str) -> None:
        """Delete a Queue."""
        self.tell(QueueGone(name))
        self.settle()

    @rule(team=st.sampled_from(["one", "two"]))
    def label_namespace(self, team: str) -> None:
        """Let the namespace be of another team."""
        self.tell(NamespaceSeen("default", {"team": team}))
        self.settle()

    @rule(
        queue=ANY_QUEUE,
        peer=ANY_QUEUE,
        members=st.integers(1, 3),
        gpus=st.sampled_from([0, 1, 4]),
        minimum=st.sampled_from([1, 1, 2]),
    )
    def create_sharing_gang(self, queue: str, peer: str, members: int, gpus: int, minimum: int) -> None:
        """Create a gang that names a queue, or whose owner names one to another scheduler."""
        self.serial += 1
        ref, options = GroupRef(LABEL, "default", f"shares-{self.serial}"), Options(min_member=minimum)
        for _ in range(members):
            self.create_pod(ref, gpus, options=replace(options, queue=queue, peer_queue=peer))
        self.settle()

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), queue=ANY_QUEUE)
    def move_gang(self, data: st.DataObject, queue: str) -> None:
        """Let all pods of a gang name another queue."""
        group = self.pods[data.draw(st.sampled_from(sorted(self.pods)))].group
        for pod in [pod for pod in self.pods.values() if pod.group == group]:
            self.see(replace(pod, options=replace(pod.options, queue=queue)))
        self.settle()

    @invariant()
    def the_same_is_charged(self) -> None:
        """Assert that the queues are charged the same, and what those are that decide afresh."""
        charged = [
            {name: (tree.usage(name), tree.gangs(name)) for name in tree}
            for tree in (admission.sharing.tree for admission in self.twins)
        ]
        assert charged[0] == charged[1]
        sharing = self.kept.sharing
        for name in sharing.tree:
            held = [self.pods[uid] for uids in sharing.charges.holders(name).values() for uid in uids]
            assert {sharing.queue_of_pod(pod)[0] for pod in held} <= {name}


TestSharers = Sharers.TestCase
TestSharers.settings = share_of(0.4, stateful_step_count=40)


class SettledSharers(Sharers):
    """The same, with bound pods at first that go to Queues which come later: what concerns these is met sooner."""

    @initialize(nodes=st.integers(2, 4), sizes=st.lists(st.integers(1, 3), max_size=1))
    def start(self, nodes: int, sizes: list[int]) -> None:
        """Begin with a few nodes, and a gang for each Queue, which another scheduler's key names."""
        super().start(nodes=nodes, sizes=sizes)
        for name in QUEUES:
            self.create_sharing_gang("", name, 1, 1, 1)
            (pod,) = (pod for pod in self.pods.values() if pod.options.peer_queue == name)
            self.bring_to_bind(pod)
            self.see(replace(self.pods[pod.uid], node_name=self.pods[pod.uid].nominated_node, phase=PodPhase.RUNNING))
            self.settle()


@dataclass(frozen=True, slots=True)
class Omission:
    """Something that changes a verdict and is not taken in: what it is, and how it is left out.

    `histories` is how many are played at most until it is found.
    """

    name: str
    leave_out: Callable[[pytest.MonkeyPatch], None]
    machine: type[Twins] = Twins
    histories: int = 1_500

    def __str__(self) -> str:
        """Name it in the report of tests."""
        return self.name


def _unmarked(owner: type, method: str, store: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Return how to have `method` mark nothing more in `store` than was there before."""
    honest = getattr(owner, method)

    def silent(self: object, *args: object, **named: object) -> object:
        before = dict(getattr(self, store))
        result = honest(self, *args, **named)
        setattr(self, store, before)
        return result

    return lambda patch: patch.setattr(owner, method, silent)


def _without(part: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Return how to have footings compare as equal that differ in `part`."""

    def equal(self: VerdictKey, other: object) -> bool:
        return isinstance(other, VerdictKey) and all(
            mine == theirs for name, mine, theirs in zip(self._fields, self, other, strict=True) if name != part
        )

    return lambda patch: patch.setattr(VerdictKey, "__eq__", equal)


def _time_stands_still(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Changes, "pass_time", lambda _self: True)


OMISSIONS = (
    Omission("a pod that changed", _unmarked(GangRegistry, "put_pod", "changed")),
    Omission("a pod that went", _unmarked(GangRegistry, "drop_pod", "changed")),
    Omission("a PodGroup that changed", _unmarked(GangRegistry, "put_group", "changed")),
    Omission("a PodGroup that went", _unmarked(GangRegistry, "drop_group", "changed")),
    Omission("a node that changed", _unmarked(NodeTable, "upsert", "touched")),
    Omission("a node that went", _unmarked(NodeTable, "remove", "touched")),
    Omission("room that was taken", _unmarked(NodeTable, "claim", "touched")),
    Omission("what is remembered of a node", _unmarked(NodeTable, "touch", "touched")),
    Omission("what a kubelet refused", _unmarked(NodeTable, "reassess", "touched")),
    Omission("a slot that was given up", _unmarked(GangRegistry, "withdraw", "changed")),
    Omission("what is remembered of a gang", _unmarked(GangRegistry, "touch", "changed")),
    Omission("capacity", _without("generation")),
    Omission("what is kept for others", _without("earmarks")),
    Omission("the obstacle", _without("obstacle")),
    Omission("time", _time_stands_still),
    Omission("a tree of queues", lambda patch: patch.setattr(Sharing, "take_concerned", lambda _: []), Sharers),
    Omission(
        "gangs whose queue moves", lambda patch: patch.setattr(Sharing, "_touch", lambda *_: None), SettledSharers
    ),
    Omission("defaults", lambda patch: patch.setattr(Sharing, "_follow_default", lambda *_: None), Sharers),
)

#: One that few histories show, which takes many minutes to find.
RARE = Omission(
    "pods of a queue that moves",
    lambda patch: patch.setattr(Charges, "look_at_queues", lambda *_: None),
    SettledSharers,
    histories=20_000,
)


def test_gang_that_can_never_fit_is_told_so_again_once_writes_get_through() -> None:
    """What held all gangs off does not stay its reason."""
    twins = Twins()
    twins.start(nodes=1, sizes=[1, 3])
    for on in (True, False):
        twins.hold_off(on=on)
        twins.the_same_is_decided()
    assert twins.kept.reservations.waits["group-3"].reason is Reason.EXCEEDS_CLUSTER


def test_room_is_kept_for_a_gang_as_soon_as_a_pod_of_another_scheduler_ends() -> None:
    """That nothing could be kept for it before does not count any more."""
    twins = Twins()
    twins.start(nodes=3, sizes=[3, 2, 2])
    twins.see_node(replace(twins.nodes["node-0"], taints=(UNSCHEDULABLE_TAINT,)))
    twins.settle()
    foreign = twins.create_pod(None, 3, scheduler_name="other", node_name="node-2", phase=PodPhase.RUNNING)
    twins.settle()
    twins.stand_down()
    twins.see(replace(foreign, phase=PodPhase.SUCCEEDED))
    twins.settle()
    twins.the_same_is_decided()
    assert [head.gang.uid for head in twins.kept.heads] == ["group-1"]


def test_room_that_is_about_to_be_free_counts_as_soon_as_a_pod_is_being_deleted() -> None:
    """Also where the pod is of no gang that waits, nor gives its node back yet."""
    twins = Twins()
    twins.start(nodes=3, sizes=[1, 3, 2])
    foreign = twins.create_pod(None, 3, scheduler_name="other", node_name="node-2", phase=PodPhase.RUNNING)
    twins.settle()
    twins.create_pod(None, 1, scheduler_name="other", node_name="node-0", phase=PodPhase.RUNNING)
    twins.settle()
    (ref,) = (ref for ref in twins.groups if ref.name == "gang-1")
    twins.see(replace(foreign, group=ref))
    twins.settle()
    twins.see(replace(twins.pods[foreign.uid], deleting=True))
    twins.settle()
    twins.the_same_is_decided()
    assert twins.kept.reservations.waits["group-3"].reason is Reason.PREEMPTING


def test_a_running_pod_that_changes_its_gang_is_charged_to_the_queue_of_that() -> None:
    """Where neither gang changes its queue and the pod keeps its node."""
    twins = SettledSharers()
    twins.start(nodes=3, sizes=[3])
    twins.tell(QueueSeen(Queue("a", uid="a", default=True, flavors=(Flavor("any", {}),), preemption=KEEPING)))
    twins.settle()
    for pod in [pod for pod in twins.pods.values() if pod.group.name == "gang-1"]:
        twins.see(replace(pod, options=replace(pod.options, queue="b")))
    twins.settle()
    (running,) = (pod for pod in twins.pods.values() if pod.options.peer_queue == "c")
    (ref,) = (ref for ref in twins.groups if ref.name == "gang-1")
    twins.see(replace(running, group=ref))
    twins.settle()
    twins.the_same_is_charged()
    twins.the_same_is_decided()


def test_what_is_asked_to_be_free_is_told_also_where_a_gang_could_never_fit() -> None:
    """Its minResources are compared with what is free now, whatever is known of the empty cluster."""
    twins = Twins()
    twins.start(nodes=1, sizes=[])
    twins.create_group_of(2, [4], 0, min_member=2, min_resources={GPU: 4})
    twins.settle()
    assert [wait.reason for wait in twins.kept.reservations.waits.values()] == [Reason.EXCEEDS_CLUSTER]
    twins.create_pod(None, 1, scheduler_name="other", node_name="node-0", phase=PodPhase.RUNNING)
    twins.settle()
    twins.the_same_is_decided()
    assert [wait.reason for wait in twins.kept.reservations.waits.values()] == [Reason.MIN_RESOURCES_UNMET]


@pytest.mark.parametrize("omission", [*OMISSIONS, pytest.param(RARE, marks=pytest.mark.nightly)], ids=str)
def test_whatever_is_not_taken_in_is_found(omission: Omission, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that overlooks one kind of change decides differently in some history, or cannot go on."""
    omission.leave_out(monkeypatch)
    hunt = settings(
        max_examples=omission.histories,
        stateful_step_count=40,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        derandomize=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises((AssertionError, ValueError)):  # arrays of a table that has grown do not fit those of before
        run_state_machine_as_test(omission.machine, settings=hunt)
