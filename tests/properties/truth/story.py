"""Random histories: a controller, and an API server and kube-scheduler that do what it asks for."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

from hypothesis import strategies as st

from extender.admission.events import (
    ClaimGone,
    ClaimSeen,
    ClaimTemplateSeen,
    DeviceClassSeen,
    GroupSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    QueueSeen,
    SliceGone,
    SliceSeen,
)
from extender.objects.branches import Branch
from extender.objects.keys import GROUP, USER, Options
from extender.objects.node import UNSCHEDULABLE_TAINT, Node
from extender.objects.pod import Phase, Pod, Shape
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.queue import Flavor, PreemptionPolicy, Queue, Quota, RunningLimit
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.topology import TopologyTerms
from muster_lab.simulation.virtual_time import LoopClock
from tests.control.conftest import Muster
from tests.devicevalues import claim_of, class_of, slice_of, spec_of, template_of, uses
from tests.properties.truth.world import GPU, Objects, claimed

LEVELS = [{"name": "block", "nodeLabel": "block"}, {"name": "rack", "nodeLabel": "rack"}]
QUOTAS: Final = {"red": Quota(16, lending_limit=12), "green": Quota(8, borrowing_limit=6)}
DURATIONS: Final = (None, None, 45.0, 600.0)
LIMITS: Final = RunningLimit(USER, gangs=3, gpus=12), RunningLimit(GROUP, gangs=4)
USERS: Final = {"jane": {USER: "jane", GROUP: "ml"}, "ali": {USER: "ali", GROUP: "ml"}, "": {}}
UNKNOWN = "none"

Step = tuple[str, int, int, int]
KINDS: Final = [
    *["node"] * 2,
    *["gang"] * 3,
    "parts",
    "slices",
    "claims",
    "foreign",
    *["run"] * 3,
    *["end"] * 2,
    "delete",
    "cordon",
    "lose",
]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), *[st.integers(0, 30)] * 3), min_size=4, max_size=25)


class Story:
    """A controller, and an API server and kube-scheduler that do what it asks for at the next step."""

    def __init__(self, muster: Muster, clock: LoopClock) -> None:
        self.muster = muster
        self.clock = clock
        self.objects = Objects()
        self._serial = 0
        self._allocated: dict[str, list[int]] = {}  # by pod, the devices that its claim has of its node
        self.tell(DeviceClassSeen(class_of()))
        for count in (1, 2, 4):
            self.tell(ClaimTemplateSeen(template_of(f"gpus-{count}", spec_of(count))))
        self._nominated = self._evicted = 0
        for name, quota in QUOTAS.items():
            flavors = (Flavor("any", {GPU: quota}),)
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
                objects.evicted.add(name)
                self.see(replace(objects.pods[name], deleting=True))
        self._nominated, self._evicted = len(api.nominations), len(api.evictions)
        return news

    def see(self, pod: Pod) -> None:
        """Change a pod."""
        self.objects.pods[pod.name] = pod
        if pod.node_name or pod.done or pod.deleting:
            self.objects.promised.pop(pod.name, None)
        self.tell(PodSeen(pod))
        if pod.done:
            self._let_go(pod)

    def _let_go(self, pod: Pod) -> None:
        """Delete the claim of a pod that is done, or gone."""
        if self._allocated.pop(pod.name, None) is not None:
            self.tell(ClaimGone("default", f"{pod.name}-gpus-{claimed(pod)}"))

    def drop(self, pod: Pod) -> None:
        """Delete a pod."""
        self.objects.promised.pop(pod.name, None)
        del self.objects.pods[pod.name]
        self.tell(PodGone(pod.uid))
        self._let_go(pod)

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

    def _slices(self, first: int, second: int, third: int) -> None:
        """Add a node whose GPUs only a ResourceSlice tells of."""
        self._node(first, 3, third)
        name, count = f"node-{self._serial}", (4, 8)[second % 2]
        self.objects.devices[name] = count
        self.tell(SliceSeen(slice_of(name, ("H100",) * count, whole=True)))

    def _claims(self, first: int, second: int, third: int) -> None:
        """Create a gang in no Queue whose members claim devices; which are GPUs is known from the first slice on."""
        if not self.objects.devices:
            self._slices(first, second, third)
        self._serial += 1
        ref = GroupRef(COSCHEDULING, "default", f"gang-{self._serial}")
        members, devices = 1 + first % 4, (1, 2, 4)[second % 3]
        least = max(members - third % 2, 1)
        group = PodGroup(ref, uid=f"uid-{ref.name}", min_member=least, created=self._created())
        self.objects.groups[ref] = group
        self.tell(GroupSeen(group))
        for index in range(members):
            self.see(self._pod(f"{ref.name}-{index}", 0, group=ref, claims=uses(template=f"gpus-{devices}")))

    def _bind(self, pod: Pod, node: str, **fields: Any) -> None:
        """Bind a pod, and allocate the claim that was made for it."""
        if devices := claimed(pod):
            held = (self._allocated.get(each.name, ()) for each in self.objects.holding(node, promised=False))
            taken_there = {device for devices in held for device in devices}
            chosen = sorted(set(range(self.objects.devices[node])) - taken_there)[:devices]
            name = f"{pod.name}-gpus-{devices}"
            self._allocated[pod.name] = chosen
            self.tell(ClaimSeen(claim_of(name, spec_of(devices), owner=pod.uid, node=node, devices=chosen)))
            pod = replace(pod, claims=replace(pod.claims, claims=(replace(pod.claims.claims[0], claim=name),)))
        self.see(replace(pod, node_name=node, **fields))

    def _cordon(self, first: int, *_: int) -> None:
        if nodes := list(self.objects.nodes.values()):
            node = nodes[first % len(nodes)]
            taints = () if node.taints else (UNSCHEDULABLE_TAINT,)
            self.objects.nodes[node.name] = replace(node, taints=taints)
            self.tell(NodeSeen(self.objects.nodes[node.name]))

    def _lose(self, first: int, *_: int) -> None:
        """Remove a node on which nothing is: what becomes of pods on nodes that are gone is the API server's to say."""
        last = set(self.objects.devices) if len(self.objects.devices) == 1 else set()  # the only one to tell of GPUs
        if nodes := [name for name in self.objects.nodes if name not in last and not self.objects.holding(name)]:
            name = nodes[first % len(nodes)]
            del self.objects.nodes[name]
            if self.objects.devices.pop(name, 0):
                self.tell(SliceGone(f"slice-{name}"))
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
            options=Options(queue=queue, topology=terms, expected_duration=DURATIONS[(first + third) % 4]),
        )
        self.objects.groups[ref] = group
        self.tell(GroupSeen(group))
        for index in range(members):
            gpus = (1, 2, 4, 8, 0)[(second + (index == 0)) % 5]
            pod = self._pod(f"{ref.name}-{index}", gpus, group=ref, gated=second % 7 == 0, priority=third % 2)
            self.see(replace(pod, labels=tuple(USERS.values())[(first + second) % 3]))

    def _parts(self, first: int, second: int, third: int) -> None:
        """Create a gang with roles, or with replicas of which it needs two, whose members are all alike."""
        self._serial += 1
        ref = GroupRef(COSCHEDULING, "default", f"gang-{self._serial}")
        level = "rack" if third % 3 == 0 else ""
        replicas = tuple(Branch(name, 2, (Branch(f"{name}.p", 1), Branch(f"{name}.d", 2)), level) for name in "abc")
        tree = Branch("", 1 + third % 2, replicas, preferred="block") if second % 3 else None
        roles = ("a.p", "a.d", "a.d", "b.p", "b.d", "b.d", "c.p", "c.d", "c.d")
        group = PodGroup(
            ref,
            uid=f"uid-{ref.name}",
            role_minimums=() if tree else (("a.p", 1), ("a.d", 2)),
            created=self._created(),
            options=Options(queue=("", "red", "green")[first % 3]),
            tree=tree,
        )
        self.objects.groups[ref] = group
        self.tell(GroupSeen(group))
        count = 1 + (first * 7 + third) % len(roles)
        for index, role in enumerate(roles[:count]):
            gated = second % 5 == 0 and index % 2 == 1
            pod = self._pod(f"{ref.name}-{index}", 1 + second % 2, group=ref, gated=gated, role=role)
            self.see(replace(pod, labels=tuple(USERS.values())[(first + second) % 3]))

    def _foreign(self, first: int, second: int, _third: int) -> None:
        gpus = 1 + second % 4
        if nodes := [
            name
            for name in self.objects.nodes
            if name not in self.objects.devices and self.objects.free(name, GPU) >= gpus
        ]:
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
        runs = second % 3 != 2
        began = self.clock.now().timestamp() if runs else None
        for pod in members[second % 2 :]:
            phase = Phase.RUNNING if runs else Phase.PENDING
            self._bind(pod, promised[pod.name], phase=phase, started_at=began)

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
