"""Every number that people are shown is the one that the objects amount to, in random states.

The numbers are recomputed from what the API server has: the objects as they were last told, and the nominations that
Muster wrote. Nothing is asked of Muster's own books. A numeric field that is new fails
`test_every_number_is_recomputed` until it is recomputed here, or stands in `ELSEWHERE` with the test that looks at it.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import Phase as Stage
from hypothesis import strategies as st
from msgspec import inspect
from msgspec.structs import replace as replaced
from rich.console import Console

from extender.admission.events import GroupSeen, NodeGone, NodeSeen, PodGone, PodSeen, QueueSeen
from extender.cli.explain import show_explanation
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.explain.documents import Explanation, GangPhase, MemberState, NearestDomain, QueueRow
from extender.explain.explanation import explanation
from extender.explain.views import GroupStatus
from extender.explain.waterfall import NodeCause
from extender.objects.keys import GROUP, USER, Options
from extender.objects.node import UNSCHEDULABLE_TAINT, Node
from extender.objects.pod import Phase, Pod, Shape
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.queue import Flavor, PreemptionPolicy, Queue, Quota, RunningLimit
from extender.objects.reason import Reason
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.topology import TopologyTerms
from extender.service.board.board import Board, BoardPicture
from extender.service.board.documents import (
    CapacityDocument,
    GangRow,
    LevelCapacity,
    NodesDocument,
    StatusDocument,
)
from extender.service.stream import capacity_document, gang_rows, nodes_document
from extender.settings import Settings
from muster_lab.simulation.virtual_time import LoopClock, VirtualTimeLoop
from tests.control.conftest import Muster, ScriptedApi, Term

GPU = "nvidia.com/gpu"
LEVELS = [{"name": "block", "nodeLabel": "block"}, {"name": "rack", "nodeLabel": "rack"}]
QUOTAS: Final = {"red": 16, "green": 8}
LIMITS: Final = RunningLimit(USER, gangs=3, gpus=12), RunningLimit(GROUP, gangs=4)
USERS: Final = {"jane": {USER: "jane", GROUP: "ml"}, "ali": {USER: "ali", GROUP: "ml"}, "": {}}
UNKNOWN = "none"

#: Numeric fields that are not recomputed here, each with why, and what looks at it instead.
ELSEWHERE: Final = {
    "status.verbs[].calls": "calls are no objects: tests/control/test_recent.py",
    "status.verbs[].p50Ms": "calls are no objects: tests/control/test_recent.py",
    "status.verbs[].p99Ms": "calls are no objects: tests/control/test_recent.py",
    "status.pass.calls": "passes are no objects: tests/control/test_recent.py",
    "status.pass.p50Ms": "passes are no objects: tests/control/test_recent.py",
    "status.pass.p99Ms": "passes are no objects: tests/control/test_recent.py",
    "status.hiddenGangs": "the caller here sees all: tests/service/test_access.py",
    "status.recording.inputs": "the journal's own count: tests/journal",
    "status.recording.bytes": "the journal's own count: tests/journal",
    "gangs[].reason.numbers{}": "of members that exist or are gated here, else what the judge found: tests/admission",
    "gangs[].busBandwidthGBps": "a model's prediction, with an oracle of its own: tests/hardware, tests/placement",
    "queues[].share": "a weighted quotient of what is recomputed: tests/queues",
    "explain.reason.numbers{}": "as the gang's row has it",
    "explain.placement.busBandwidthGBps": "a model's prediction: tests/hardware, tests/placement",
    "explain.placement.fragmentationCost": "a model's prediction: tests/placement",
    "explain.nextBetter.busBandwidthGBps": "a model's prediction: tests/placement",
    "explain.nextBetter.fits": "what the placement's own search found: tests/placement",
    "explain.nextBetter.needed": "what the placement's own search found: tests/placement",
    "explain.choice.considered": "how many nodes would take a member: tests/explain/test_choice.py",
    "explain.choice.weighed.cost.work": "a model's cost as of the choice: tests/placement",
    "explain.choice.weighed.cost.lost": "a model's cost as of the choice: tests/placement",
    "explain.choice.weighed.cost.counted": "a model's cost as of the choice: tests/placement",
    "explain.choice.weighed.passed.gpus[]": "a model's cost as of the choice: tests/placement",
    "explain.choice.weighed.passed.cost.work": "a model's cost as of the choice: tests/placement",
    "explain.choice.weighed.passed.cost.lost": "a model's cost as of the choice: tests/placement",
    "explain.choice.weighed.passed.cost.counted": "a model's cost as of the choice: tests/placement",
    "explain.choice.weighed.passed.speed": "a model's cost as of the choice: tests/placement",
    "explain.choice.weighed.gpus": "GPUs as of the choice: tests/placement",
    "explain.suggestions[].from": "none are searched for here: tests/explain/test_suggestions.py",
    "explain.suggestions[].to": "none are searched for here: tests/explain/test_suggestions.py",
    "explain.holders[].priority": "as the gang's row has it: tests/explain/test_holders.py",
    "explain.pods[].gpus[]": "which GPUs, not how many: tests/cluster/test_occupancy.py",
    "explain.pods[].zones[]": "which zones: tests/cluster/test_occupancy.py",
    **dict.fromkeys(
        [
            *(f"explain.parts.{name}" for name in ("bound", "exist", "lacks", "minimum", "placed", "running")),
            *(f"gangs[].parts.{name}" for name in ("bound", "minimum", "total")),
        ],
        "gangs here have no parts: tests/explain/test_parts.py",
    ),
    **dict.fromkeys(
        [
            *(f"explain.quota.{name}" for name in ("asked", "nominal", "used", "available")),
            *(f"explain.quota.{name}" for name in ("borrowingLimit", "lendingLimit")),
            *(f"explain.quota.holders[].{name}" for name in ("nominal", "used", "borrowed", "others")),
            "explain.quota.holders[].gangs[].amount",
        ],
        "made with suggestions, and none are searched for here: tests/explain/test_quotas.py",
    ),
}

#: Documents, by what their fields are called here.
DOCUMENTS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "status": StatusDocument,
    "gangs[]": GangRow,
    "queues[]": QueueRow,
    "nodes": NodesDocument,
    "capacity": CapacityDocument,
    "explain": Explanation,
}

Amounts = Counter[str]
Step = tuple[str, int, int, int]


@pytest.fixture(autouse=True)
def silence() -> None:
    """Keep what Muster logs about all that to itself."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


class Objects:
    """What the API server has: the objects, and on which node Muster nominated which pod."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}  # by name
        self.groups: dict[GroupRef, PodGroup] = {}
        self.promised: dict[str, str] = {}  # name of a pod without a node -> the node that it is nominated to

    def members(self, ref: GroupRef) -> list[Pod]:
        """Return the pods of a gang."""
        return [pod for pod in self.pods.values() if pod.group == ref]

    def holding(self, node: str, *, promised: bool | None = None) -> list[Pod]:
        """Return the pods that have room on a node: bound ones, or those that it is promised to, or both."""
        bound = [pod for pod in self.pods.values() if pod.node_name == node and not pod.done]
        nominated = [self.pods[name] for name, at in self.promised.items() if at == node]
        return {None: bound + nominated, False: bound, True: nominated}[promised]

    def free(self, node: str, resource: str) -> int:
        """Return what is left of a node."""
        return self.nodes[node].allocatable.get(resource, 0) - taken(self.holding(node), resource)

    def takes_pods(self, node: str) -> bool:
        """Tell whether a node is not cordoned."""
        return UNSCHEDULABLE_TAINT not in self.nodes[node].taints

    def placed(self, ref: GroupRef) -> dict[str, str]:
        """Return the node of each member that has one, or is promised one."""
        bound = {pod.name: pod.node_name for pod in self.members(ref) if pod.node_name and not pod.done}
        return bound | {pod.name: self.promised[pod.name] for pod in self.members(ref) if pod.name in self.promised}


def taken(pods: Iterable[Pod], resource: str = GPU) -> int:
    """Return what pods ask for of a resource, all together."""
    return sum(pod.shape.request(resource) for pod in pods)


def state_of(pod: Pod, promised: Mapping[str, str]) -> MemberState:
    """Return how far a member has come."""
    if pod.done:
        return MemberState.SUCCEEDED if pod.phase is Phase.SUCCEEDED else MemberState.FAILED
    if pod.deleting:
        return MemberState.LEAVING
    if pod.node_name:
        return MemberState.BOUND
    if pod.gated:
        return MemberState.GATED
    return MemberState.RESERVED if pod.name in promised else MemberState.WAITING


class Story:
    """A controller, and an API server and kube-scheduler that do what it asks for at the next step."""

    def __init__(self, muster: Muster) -> None:
        self.muster = muster
        self.objects = Objects()
        self._serial = 0
        self._nominated = self._evicted = 0
        for name, quota in QUOTAS.items():
            flavors = (Flavor("any", {GPU: Quota(quota)}),)
            policy = PreemptionPolicy()
            self.tell(QueueSeen(Queue(name, uid=name, parent="all", flavors=flavors, preemption=policy)))
        self.tell(QueueSeen(Queue("all", uid="all", limits=LIMITS)))

    def tell(self, event: Any) -> None:
        """Let the controller hear of something."""
        self.muster.controller.tell(event)

    async def settle(self) -> None:
        """Let the controller come to rest, and do what it has asked for until it asks for nothing more."""
        for _ in range(20):
            await asyncio.sleep(5)
            if not self._follow():
                return

    def _follow(self) -> bool:
        api, objects = self.muster.api, self.objects
        news = len(api.nominations) > self._nominated or len(api.evictions) > self._evicted
        for name, node in api.nominations[self._nominated :]:
            pod = objects.pods.get(name)
            if pod is not None and not pod.node_name:
                objects.promised[name] = node
                if not node:
                    del objects.promised[name]
                self.see(replace(pod, nominated_node=node))
        for name, dry_run in api.evictions[self._evicted :]:
            if not dry_run and name in objects.pods:
                self.see(replace(objects.pods[name], deleting=True))
        self._nominated, self._evicted = len(api.nominations), len(api.evictions)
        return news

    def see(self, pod: Pod) -> None:
        """Change a pod."""
        self.objects.pods[pod.name] = pod
        if pod.node_name or pod.done or pod.deleting:
            self.objects.promised.pop(pod.name, None)
        self.tell(PodSeen(pod))

    def drop(self, pod: Pod) -> None:
        """Delete a pod."""
        self.objects.promised.pop(pod.name, None)
        del self.objects.pods[pod.name]
        self.tell(PodGone(pod.uid))

    async def take(self, step: Step) -> None:
        """Do one thing, and let the controller come to rest."""
        kind, first, second, third = step
        getattr(self, f"_{kind}")(first, second, third)
        await self.settle()

    def _node(self, first: int, second: int, third: int) -> None:
        self._serial += 1
        name = f"node-{self._serial}"
        labels = {"block": "b0", "rack": f"r{first % 2}"} if third % 4 else {}
        allocatable = {"cpu": 64_000, "memory": 2**40, "pods": 110, GPU: (8, 4, 8, 0)[second % 4]}
        self.objects.nodes[name] = Node(name, uid=name, allocatable=allocatable, labels=labels)
        self.tell(NodeSeen(self.objects.nodes[name]))

    def _cordon(self, first: int, *_: int) -> None:
        if nodes := list(self.objects.nodes.values()):
            node = nodes[first % len(nodes)]
            taints = () if node.taints else (UNSCHEDULABLE_TAINT,)
            self.objects.nodes[node.name] = replace(node, taints=taints)
            self.tell(NodeSeen(self.objects.nodes[node.name]))

    def _lose(self, first: int, *_: int) -> None:
        """Remove a node on which nothing is: what becomes of pods on nodes that are gone is the API server's to say."""
        if nodes := [name for name in self.objects.nodes if not self.objects.holding(name)]:
            name = nodes[first % len(nodes)]
            del self.objects.nodes[name]
            self.tell(NodeGone(name))

    def _gang(self, first: int, second: int, third: int) -> None:
        self._serial += 1
        ref = GroupRef(COSCHEDULING, "default", f"gang-{self._serial}")
        queue = ("", "red", "green", UNKNOWN)[third % 4]
        terms = TopologyTerms(required="rack" if third % 3 == 0 else "")
        members = 1 + first % 4
        group = PodGroup(
            ref,
            uid=f"uid-{ref.name}",
            min_member=max(members - third % 3 + 1, 1) if third % 5 else members,
            created=self._created(),
            options=Options(queue=queue, topology=terms),
        )
        self.objects.groups[ref] = group
        self.tell(GroupSeen(group))
        for index in range(members):
            gpus = (1, 2, 4, 8, 0)[(second + (index == 0)) % 5]
            pod = self._pod(f"{ref.name}-{index}", gpus, group=ref, gated=second % 7 == 0, priority=third % 2)
            self.see(replace(pod, labels=tuple(USERS.values())[(first + second) % 3]))

    def _foreign(self, first: int, second: int, _third: int) -> None:
        gpus = 1 + second % 4
        if nodes := [name for name in self.objects.nodes if self.objects.free(name, GPU) >= gpus]:
            self._serial += 1
            pod = self._pod(f"foreign-{self._serial}", gpus, scheduler_name="default-scheduler")
            self.see(replace(pod, node_name=nodes[first % len(nodes)], phase=Phase.RUNNING))

    def _run(self, first: int, second: int, _third: int) -> None:
        """Bind all members of a gang that are nominated, or all but one."""
        placed = [ref for ref in self.objects.groups if self.objects.placed(ref)]
        if not placed:
            return
        promised = self.objects.promised
        members = [pod for pod in self.objects.members(placed[first % len(placed)]) if pod.name in promised]
        for pod in members[second % 2 :]:
            self.see(replace(pod, node_name=promised[pod.name], phase=(Phase.RUNNING, Phase.PENDING)[second % 3 == 2]))

    def _end(self, first: int, second: int, _third: int) -> None:
        if bound := [pod for pod in self.objects.pods.values() if pod.bound and not pod.deleting]:
            pod = bound[first % len(bound)]
            self.see(replace(pod, phase=(Phase.SUCCEEDED, Phase.SUCCEEDED, Phase.FAILED)[second % 3]))

    def _delete(self, first: int, second: int, _third: int) -> None:
        if pods := list(self.objects.pods.values()):
            pod = pods[first % len(pods)]
            if pod.deleting or second % 2 or pod.done:
                self.drop(pod)
            else:
                self.see(replace(pod, deleting=True))

    def _pod(self, name: str, gpus: int, **fields: Any) -> Pod:
        self._serial += 1
        requests = {"cpu": 1000, "pods": 1} | ({GPU: gpus} if gpus else {})
        shape = Shape(tuple(sorted(requests.items())))
        values: dict[str, Any] = {"scheduler_name": "muster", "created": self._created()}
        return Pod(f"uid-{name}", "default", name, shape, **(values | fields))

    def _created(self) -> str:
        self._serial += 1
        return f"2026-01-01T00:{self._serial // 60:02d}:{self._serial % 60:02d}Z"


#: Random histories; more of them are for a machine that has the time.
EXAMPLES: Final = int(os.environ.get("TRUTH_EXAMPLES", "5"))
KINDS: Final = [*["node"] * 2, *["gang"] * 3, "foreign", *["run"] * 3, *["end"] * 2, "delete", "cordon", "lose"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), *[st.integers(0, 30)] * 3), min_size=4, max_size=25)


class Recomputed:
    """Every number of one moment, from the objects; `seen` are the fields that were compared."""

    def __init__(self, story: Story) -> None:
        self.story, self.objects = story, story.objects
        self.seen: set[str] = set()

    def same(self, field: str, shown: object, true: object) -> None:
        """Assert that a field shows what is true."""
        self.seen.add(field)
        assert shown == true, f"{field}: {shown} is shown, {true} is true"

    def within(self, field: str, shown: int, most: int) -> None:
        """Assert that a number of some of something is no more than there are."""
        self.seen.add(field)
        assert shown <= most, f"{field}: {shown} is shown of {most}"

    # Gangs.

    def gang(self, row: GangRow) -> None:
        """Compare a row of the gangs."""
        ref = next(ref for ref in self.objects.groups if ref.name == row.name)
        members, group = self.objects.members(ref), self.objects.groups[ref]
        states = Counter(state_of(pod, self.objects.promised) for pod in members)
        waiting, gated, bound = states[MemberState.WAITING], states[MemberState.GATED], states[MemberState.BOUND]
        reserved, succeeded = states[MemberState.RESERVED], states[MemberState.SUCCEEDED]
        true = {
            "exist": waiting + gated + bound + reserved + succeeded,
            "gated": gated,
            "waiting": waiting,
            "reserved": reserved,
            "bound": bound,
            "running": sum(pod.bound and not pod.deleting and pod.phase is Phase.RUNNING for pod in members),
            "succeeded": succeeded,
            "failed": states[MemberState.FAILED],
        }
        for name, number in true.items():
            self.same(f"gangs[].members.{name}", getattr(row.members, name), number)
        alive = [pod for pod in members if not pod.done]
        held = [pod for pod in alive if pod.node_name or pod.name in self.objects.promised]
        self.same("gangs[].minMember", row.min_member, group.min_member)
        self.same("gangs[].gpus", row.gpus, taken(alive))
        self.same("gangs[].gpusHeld", row.gpus_held, taken(held))
        self.same("gangs[].priority", row.priority, max((pod.priority for pod in members), default=0))
        self.same("gangs[].phase", row.phase, self.phase(ref, true))
        there = {pod.node_name or self.objects.promised[pod.name] for pod in held}
        self.same("gangs[].nodes", row.nodes, len(there))
        self.reason(row, true, group)

    def phase(self, ref: GroupRef, counts: Mapping[str, int]) -> GangPhase:
        """Return the phase that docs/gangs.md gives a gang with these members."""
        least, done = self.objects.groups[ref].min_member, counts["succeeded"]
        if done >= least and done == counts["exist"]:
            return GangPhase.FINISHED
        if counts["running"] + done >= least:
            return GangPhase.RUNNING
        if counts["failed"] and counts["exist"] < least and counts["exist"] == counts["bound"] + done:
            return GangPhase.FAILED
        return GangPhase.SCHEDULING if counts["bound"] or counts["reserved"] else GangPhase.PENDING

    def reason(self, row: GangRow, counts: Mapping[str, int], group: PodGroup) -> None:
        """Compare the numbers of reasons that count members, and that a gang waits for no other reason then."""
        exist, least = counts["exist"], group.min_member
        if row.reason is None or exist == counts["bound"] + counts["succeeded"]:
            return
        if exist < least:
            assert row.reason.code == Reason.MEMBERS_MISSING
            assert row.reason.numbers == {"exist": exist, "minMember": least}
        elif exist - counts["gated"] < least:
            assert row.reason.code == Reason.MEMBERS_GATED
            assert row.reason.numbers == {"exist": exist, "gated": counts["gated"], "minMember": least}
        elif group.options.queue == UNKNOWN:
            assert row.reason.code == Reason.UNKNOWN_QUEUE
        for number in row.reason.numbers.values():
            assert str(number) in row.reason.message

    def group_status(self, row: GangRow, status: GroupStatus) -> None:
        """Compare the status that was last written to a PodGroup with what the gang's row says."""
        counts = row.members
        assert (status.scheduled, status.running) == (counts.bound, counts.running)
        assert (status.succeeded, status.failed, status.phase) == (counts.succeeded, counts.failed, row.phase)
        started = counts.bound + counts.succeeded >= row.min_member
        assert status.condition_status == str(started)
        if not started:
            code = "NothingToPlace" if row.reason is None else row.reason.code
            assert (status.reason, row.reason is None or status.message == row.reason.message) == (code, True)

    # Nodes.

    def nodes(self, document: NodesDocument) -> None:
        """Compare the rows of nodes."""
        assert {item.name for item in document.nodes} == set(self.objects.nodes)
        for item in document.nodes:
            allocatable = self.objects.nodes[item.name].allocatable
            promised = taken(self.objects.holding(item.name, promised=True))
            self.same("nodes.nodes[].gpus.allocatable", item.gpus.allocatable, allocatable[GPU])
            self.same("nodes.nodes[].gpus.reserved", item.gpus.reserved, promised)
            self.same("nodes.nodes[].gpus.used", item.gpus.used, taken(self.objects.holding(item.name, promised=False)))
            self.same("nodes.nodes[].gpus.free", item.gpus.free, self.objects.free(item.name, GPU))
            assert item.schedulable == self.objects.takes_pods(item.name)
            holders = Counter[str]()
            for pod in self.objects.holding(item.name):
                holders[pod.key if pod.group.is_pod else str(pod.group)] += pod.shape.whole_gpus
            assert Counter(filter(None, item.holders)) == +holders
            for resource, room in item.resources.items():
                where = "nodes.nodes[].resources{}"
                self.same(f"{where}.allocatable", room.allocatable, allocatable[resource])
                self.same(f"{where}.free", room.free, self.objects.free(item.name, resource))

    def capacity(self, document: CapacityDocument) -> None:
        """Compare the islands of free GPUs, and how many pods fit."""
        rooms = {
            name: self.objects.free(name, GPU) if self.objects.takes_pods(name) else 0
            for name, node in self.objects.nodes.items()
            if node.allocatable[GPU]
        }
        for level in document.levels:
            self.level(level, rooms)
        for fitting in document.gangs:
            size = fitting.gpus_per_pod
            self.same("capacity.gangs[].pods", fitting.pods, sum(room // size for room in rooms.values()))
        self.same("capacity.gangs[].gpusPerPod", [each.gpus_per_pod for each in document.gangs], [1, 2, 4, 8])

    def level(self, level: LevelCapacity, rooms: Mapping[str, int]) -> None:
        """Compare the islands of one level."""
        domains: dict[str, int] = defaultdict(int)
        for name, room in rooms.items():
            labels = {"node": name, "cluster": "", **self.objects.nodes[name].labels}
            if level.level in labels:
                domains["b0/" * (level.level == "rack") + labels[level.level]] += room
        sizes = Counter(domains.values())
        where, largest = "capacity.levels[]", sorted(sizes, reverse=True)
        self.same(f"{where}.domains", level.domains, len(domains))
        self.same(f"{where}.islands[].freeGpus", [each.free_gpus for each in level.islands], largest)
        self.same(f"{where}.islands[].domains", [each.domains for each in level.islands], [sizes[n] for n in largest])
        self.same(f"{where}.largest.freeGpus", level.largest.free_gpus, max(sizes))
        assert domains[level.largest.domain] == max(sizes)

    # Queues.

    def queues(self, rows: Iterable[QueueRow], gangs: Iterable[GangRow]) -> None:
        """Compare quota and usage of Queues; what is lent is what others borrow, of what its Queue has left."""
        shown, objects = {row.name: row for row in rows}, self.objects
        lent, borrowed = dict[str, int](), dict[str, int]()
        used_in_all = 0
        for name, nominal in QUOTAS.items():
            own = [ref for ref, group in objects.groups.items() if group.options.queue == name]
            bound = sum(taken(pod for pod in objects.members(ref) if pod.bound) for ref in own)
            promised = sum(taken(pod for pod in objects.members(ref) if pod.name in objects.promised) for ref in own)
            used = bound + promised
            used_in_all += used
            (use,) = shown[name].flavors
            self.same("queues[].flavors[].nominal", use.nominal, nominal)
            self.same("queues[].flavors[].reserved", use.reserved, promised)
            self.same("queues[].flavors[].used", use.used, used)
            self.same("queues[].flavors[].borrowed", use.borrowed, max(used - nominal, 0))
            assert 0 <= use.lent <= max(nominal - used, 0)
            lent[name], borrowed[name] = use.lent, max(used - nominal, 0)
            holders = [ref for ref in own if objects.placed(ref)]
            waiting = [row for row in gangs if row.queue == name and row.reason is not None]
            waiting = [row for row in waiting if row.members.exist and not any(ref.name == row.name for ref in holders)]
            self.same("queues[].admittedGangs", shown[name].admitted_gangs, len(holders))
            self.same("queues[].pendingGangs", shown[name].pending_gangs, len(waiting))
        # There are two: what one has borrowed is the other's.
        self.same("queues[].flavors[].lent", list(lent.values()), list(borrowed.values())[::-1])
        self.running(shown["all"])
        for use in shown["all"].flavors:
            assert (use.used, use.nominal) == (used_in_all, sum(QUOTAS.values()))

    def running(self, row: QueueRow) -> None:
        """Compare what each user and each group runs in the Queue that limits it."""
        gpus, gangs = Counter[tuple[str, str]](), defaultdict[tuple[str, str], set[GroupRef]](set)
        for ref in (ref for ref, group in self.objects.groups.items() if group.options.queue in QUOTAS):
            for pod in (self.objects.pods[name] for name in self.objects.placed(ref)):
                for label in (USER, GROUP):
                    payer = label.partition("/")[2], pod.labels.get(label, "")
                    gpus[payer] += pod.shape.gpus
                    gangs[payer].add(ref)
        where, shown = "queues[].running[]", {(each.kind, each.name): each for each in row.running}
        self.same(
            f"{where}.gpus", {payer: each.gpus for payer, each in shown.items()}, {key: gpus[key] for key in gangs}
        )
        self.same(
            f"{where}.gangs",
            {payer: each.gangs for payer, each in shown.items()},
            {key: len(gangs[key]) for key in gangs},
        )
        most = {"user": (12, 3), "group": (None, 4)}
        for each in row.running:
            self.same(f"{where}.mostGpus", each.most_gpus, most[each.kind][0])
            self.same(f"{where}.mostGangs", each.most_gangs, most[each.kind][1])

    # The whole.

    def status(self, document: StatusDocument, rows: list[GangRow]) -> None:
        """Compare the status."""
        objects = self.objects
        names = list(objects.nodes)
        gpus = {name: objects.nodes[name].allocatable[GPU] for name in names}
        self.same("status.nodes.total", document.nodes.total, len(names))
        self.same("status.nodes.schedulable", document.nodes.schedulable, sum(map(objects.takes_pods, names)))
        self.same("status.nodes.withGpus", document.nodes.with_gpus, sum(count > 0 for count in gpus.values()))
        promised = sum(taken(objects.holding(name, promised=True)) for name in names)
        used = sum(taken(objects.holding(name, promised=False)) for name in names)
        self.same("status.gpus.allocatable", document.gpus.allocatable, sum(gpus.values()))
        self.same("status.gpus.used", document.gpus.used, used)
        self.same("status.gpus.reserved", document.gpus.reserved, promised)
        self.same("status.gpus.free", document.gpus.free, sum(gpus.values()) - used - promised)
        self.same("status.queues", document.queues, len(QUOTAS) + 1)
        phases, reasons = Counter(row.phase for row in rows), Counter(row.reason.code for row in rows if row.reason)
        self.same("status.gangs{}", +Counter(document.gangs), phases)
        self.same("status.waiting{}", document.waiting, dict(reasons))
        oldest = min((row.since or "" for row in rows if row.reason), default=None)
        assert (document.oldest_wait and document.oldest_wait.since) == oldest
        there = [row for row in rows if any(ref.name == row.name for ref in objects.groups if objects.members(ref))]
        self.metrics(there, {"allocatable": sum(gpus.values()), "used": used, "reserved": promised})

    def metrics(self, rows: Iterable[GangRow], gpus: Mapping[str, int]) -> None:
        """Compare the gauges that say the same of gangs that have pods."""
        sample = self.story.muster.sample
        phases, reasons = Counter(row.phase for row in rows), Counter(row.reason.code for row in rows if row.reason)
        for phase in GangPhase:
            assert sample("muster_gangs", phase=phase) == phases[phase], phase
        for reason in Reason:
            assert sample("muster_gangs_waiting", reason=reason) == reasons[reason], reason
        for state, number in gpus.items():
            assert sample("muster_gpus", state=state) == number
        assert sample("muster_reserved_unbound", resource=GPU) == gpus["reserved"]
        for name in QUOTAS:
            bound = [
                pod
                for ref, group in self.objects.groups.items()
                if group.options.queue == name
                for pod in self.objects.members(ref)
                if pod.bound or pod.name in self.objects.promised
            ]
            assert sample("muster_queue_used", queue=name, flavor="any", resource=GPU) == taken(bound)

    # One gang in full.

    def explain(self, shown: Explanation, row: GangRow) -> None:
        """Compare how a gang stands in full."""
        objects = self.objects
        ref = next(ref for ref in objects.groups if ref.name == shown.name)
        self.same("explain.minMember", shown.min_member, row.min_member)
        assert shown.phase == row.phase
        if row.reason is not None or not row.members.waiting:  # else it is why the members beyond the minimum wait
            assert (shown.reason and shown.reason.code) == (row.reason and row.reason.code)
        states = {pod.name: state_of(pod, objects.promised) for pod in objects.members(ref)}
        assert {pod.name: pod.state for pod in shown.pods} == states
        placed = objects.placed(ref)
        if shown.placement is not None:
            gpus = Counter[str]()
            for name, node in placed.items():
                gpus[node] += objects.pods[name].shape.whole_gpus
            self.same("explain.placement.gpusPerNode{}", +Counter(shown.placement.gpus_per_node), +gpus)
        for fall in shown.waterfall:
            self.same("explain.waterfall[].nodes", fall.nodes, len(objects.nodes))
            left = fall.nodes
            for step in fall.steps:
                left -= step.nodes
                self.same("explain.waterfall[].steps[].left", step.left, left)
            self.same("explain.waterfall[].usable", fall.usable, left)
            steps = Counter({step.cause: step.nodes for step in fall.steps})
            cordoned = sum(not objects.takes_pods(name) for name in objects.nodes)
            self.same("explain.waterfall[].steps[].nodes", steps["Unschedulable"], cordoned)
            assert 0 <= fall.fits <= fall.pods
        if shown.waterfall:
            self.wanted(sum(fall.pods for fall in shown.waterfall), row, Counter(states.values()))
            anywhere = not objects.groups[ref].options.topology.required  # else there may be no such domain
            for fall in shown.waterfall if shown.nearest_miss is None and anywhere else ():
                self.same("explain.waterfall[].fits", fall.fits, fall.pods)
        self.nearest(shown, ref)
        within = None if shown.nearest_miss is None else self.inside(shown.nearest_miss)
        assert within is not None or not shown.holders
        assert shown.holders == tuple(sorted(shown.holders, key=lambda each: (-each.gpus, -each.nodes)))
        for holder in shown.holders:
            pods = [pod for pod in objects.pods.values() if holder.gang in {pod.key, str(pod.group)}]
            at = {pod.name: pod.node_name or objects.promised.get(pod.name) for pod in pods if not pod.done}
            there = [pod for pod in pods if at.get(pod.name) in (within or ())]
            self.within("explain.holders[].gpus", holder.gpus, taken(there))
            self.within("explain.holders[].nodes", holder.nodes, len({at[pod.name] for pod in there}))
            assert holder.gpus == taken(there) or len(within or ()) > 1
            assert not any(pod.group == ref for pod in pods)

    def line(self, shown: Explanation, row: GangRow, line: list[GangRow]) -> None:
        """Compare where a gang stands among all that wait, and among those of its Queue."""
        place = shown.queue
        assert place is not None
        own = [each for each in line if each.queue == row.queue]
        self.same("explain.queue.position", place.position, row.position)
        self.same("explain.queue.of", place.of, len(line))
        self.same("explain.queue.ofQueue", place.of_queue, len(own))
        self.same("explain.queue.positionInQueue", place.position_in_queue, own.index(row) + 1 if row in own else None)

    def wanted(self, pods: int, row: GangRow, states: Mapping[MemberState, int]) -> None:
        """Compare how many pods are counted off: those that it needs to start, else the others, else gated ones."""
        lacking = row.min_member - row.members.bound - row.members.succeeded - row.members.reserved
        waiting, gated = states.get(MemberState.WAITING, 0), states.get(MemberState.GATED, 0)
        if lacking > waiting:
            assert pods in {waiting, gated}  # what is gated, or not there, is another reason
        else:
            self.same("explain.waterfall[].pods", pods, lacking if lacking > 0 else waiting or gated)

    def inside(self, miss: NearestDomain) -> list[str]:
        """Return the nodes of the domain where a gang comes closest to finding room."""
        domain, nodes = miss.domain.rpartition("/")[2], self.objects.nodes.items()
        return [name for name, node in nodes if miss.level == "cluster" or node.labels.get(miss.level) == domain]

    def nearest(self, shown: Explanation, ref: GroupRef) -> None:
        """Compare where a gang of one shape comes closest to finding room, and what is short there by itself."""
        miss, objects = shown.nearest_miss, self.objects
        if miss is None:
            return
        assert miss.fits < miss.needed
        waiting = [pod for pod in objects.members(ref) if state_of(pod, objects.promised) is MemberState.WAITING]
        shapes = {pod.shape for pod in waiting}
        bound = any(pod.node_name for pod in objects.members(ref))
        if len(shapes) != 1 or bound or shown.reason is None or shown.reason.code == Reason.BEHIND_HEAD:
            return
        (shape,) = shapes
        usable = [name for name in self.inside(miss) if objects.takes_pods(name)]

        def room(resource: str | None) -> int:
            """Return how many pods have room, by one resource alone or by all."""
            asked = [each for each in shape.requests if each[1] and resource in {None, each[0]}]
            return sum(min(objects.free(name, key) // amount for key, amount in asked) for name in usable)

        self.within("explain.nearestMiss.needed", miss.needed, len(waiting))
        if any(step.cause == NodeCause.KEPT_FOR_HEAD for fall in shown.waterfall for step in fall.steps):
            self.within("explain.nearestMiss.fits", miss.fits, min(room(None), miss.needed))
            return  # how much is kept on which node is not among the objects
        self.same("explain.nearestMiss.fits", miss.fits, min(room(None), miss.needed))
        short = {resource for resource, amount in shape.requests if amount and room(resource) < miss.needed}
        assert set(miss.lacks) - {GPU} <= short, f"{miss.lacks} is said to be short beside {short}"


async def run(steps: list[Step]) -> set[str]:
    """Play steps; compare everything after each of them, and return the fields that were compared."""
    api, metrics = ScriptedApi(), Metrics()
    clock = LoopClock(asyncio.get_running_loop())
    values = Settings.model_validate({"topology_levels": LEVELS})
    controller = Controller(values, clock, api, metrics, Term())
    task = asyncio.create_task(controller.run())
    muster = Muster(controller, api, metrics, values)
    board = Board(controller, metrics, clock)
    seen: set[str] = set()
    try:
        muster.sync()
        story = Story(muster)
        for step in steps:
            await story.take(step)
            seen |= compare(story, await board.look(), board)
    finally:
        muster.fall_silent()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return seen


def compare(story: Story, picture: BoardPicture, board: Board) -> set[str]:
    """Recompute everything that can be read now; return what was."""
    true = Recomputed(story)
    rows = list(gang_rows(picture))
    line = sorted((row for row in rows if row.position), key=lambda row: row.position or 0)
    assert [row.position for row in rows if row.position] == list(range(1, len(picture.order) + 1))
    true.seen.add("gangs[].position")
    statuses = dict(story.muster.api.statuses)
    for row in rows:
        true.gang(row)
        if row.name in statuses:
            true.group_status(row, statuses[row.name])
    true.nodes(nodes_document(picture, board.resources()))
    true.capacity(capacity_document(picture.levels, picture.nodes))
    true.queues(picture.queues, rows)
    true.status(picture.status, rows)
    inspection = story.muster.controller.inspection
    for row in rows:
        ref = next(ref for ref in story.objects.groups if ref.name == row.name)
        shown = explanation(inspection.explain(ref))
        true.explain(shown, row)
        true.line(shown, row, line)
        assert said_twice(shown) == []
    return true.seen


def said_twice(shown: Explanation) -> list[str]:
    """Return the sentences that occur more than once in what `muster explain` prints, tables left out."""
    printed = io.StringIO()
    show_explanation(Console(file=printed, width=1000), replaced(shown, pods=(), waterfall=(), holders=()))
    said = (part.strip() for line in printed.getvalue().splitlines() for part in re.split(r"; |waits: \w+: ", line))
    return [part for part, times in Counter(said).items() if times > 1 and part.count(" ") > 1]


def play(steps: list[Step]) -> set[str]:
    """Play steps in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(run(steps))


@settings(deadline=None, max_examples=EXAMPLES, phases=[Stage.generate], suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_what_is_shown_is_true(steps: list[Step]) -> None:
    """Status, gangs, nodes, capacity, Queues, explanations, PodGroups and metrics, after every step of a history."""
    play(steps)


def test_every_number_is_recomputed() -> None:
    """Each numeric field of each document was compared in a few histories, or is looked at by another test."""
    fields = {field for name, document in DOCUMENTS.items() for field in fields_of(name, document)}
    assert ELSEWHERE.keys() <= fields, "these are no fields any more"
    seen: set[str] = set()
    for seed in range(8):
        drawn = random.Random(seed)
        numbers = drawn.choices(range(30), k=60)
        steps = [(drawn.choice(KINDS), *each) for each in zip(*[iter(numbers)] * 3, strict=True)]
        seen |= play([("node", 1, 0, 1), ("node", 2, 0, 1), *steps])
    assert fields - seen == ELSEWHERE.keys()


def numeric(where: str, kind: inspect.Type, around: frozenset[type] = frozenset()) -> Iterator[str]:
    """Yield the fields of a document that hold numbers; of structs within others of their kind, once."""
    match kind:
        case inspect.StructType(cls=cls, fields=fields) | inspect.DataclassType(cls=cls, fields=fields):
            for field in fields if cls not in around else ():
                yield from numeric(f"{where}.{field.encode_name}", field.type, around | {cls})
        case inspect.UnionType(types=types):
            for each in types:
                yield from numeric(where, each, around)
        case inspect.CollectionType(item_type=item) | inspect.VarTupleType(item_type=item):
            yield from numeric(f"{where}[]", item, around)
        case inspect.DictType(value_type=value):
            yield from numeric(f"{where}{{}}", value, around)
        case inspect.Metadata(type=inner):
            yield from numeric(where, inner, around)
        case inspect.IntType() | inspect.FloatType():
            yield where
        case _:
            return


def fields_of(name: str, document: type[msgspec.Struct]) -> set[str]:
    """Return the numeric fields of a document."""
    return set(numeric(name, inspect.type_info(document)))
