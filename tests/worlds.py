"""A small world around one engine: nodes, gangs and a scheduler that asks, on a clock that the test moves."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any, Final

from msgspec.structs import fields

from extender.admission.admission import Admission
from extender.admission.engine import Engine
from extender.admission.events import (
    A,
    Arrival,
    Arrive,
    Decide,
    Event,
    Filter,
    Filtered,
    GroupSeen,
    NodeSeen,
    PodSeen,
    Rebuild,
    Tick,
)
from extender.clock import Clock, ManualClock
from extender.cluster.gangs import Gang
from extender.ledger.effects import CollectedEffects
from extender.ledger.slots import Slot
from extender.objects import keys
from extender.objects.node import Node
from extender.objects.pod import Phase, Pod, Shape
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.reason import Reason, Wait
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.sources.table import LABEL
from extender.settings import Settings
from tests.state import State

_COLLECTED: Final = fields(CollectedEffects)  # costs more than most events

GPU = "nvidia.com/gpu"


@dataclass
class Job:
    """A gang as its owner sees it; `pods` are its members as the API server has them now."""

    world: World
    ref: GroupRef
    pods: list[Pod] = field(default_factory=list)

    @property
    def gang(self) -> Gang:
        """Return the gang as the model has it."""
        gang = self.world.state.gang(self.ref)
        assert gang is not None, f"{self.ref} is unknown"
        return gang

    @property
    def wait(self) -> Wait | None:
        """Return why the gang waits."""
        return self.world.state.wait(self.gang.uid)

    @property
    def reason(self) -> Reason | None:
        """Return the enum value of why the gang waits."""
        return None if self.wait is None else self.wait.reason

    @property
    def reserved(self) -> dict[str, str]:
        """Return pod name -> reserved node."""
        return {slot.pod.name: slot.node for slot in self.slots.values()}

    @property
    def slots(self) -> dict[str, Slot]:
        """Return pod UID -> its promise."""
        reservation = self.world.state.reservation(self.gang.uid)
        return {} if reservation is None else dict(reservation.slots)

    def see(self, index: int, **changes: Any) -> Pod:
        """Change one member at the API server, and let the admission see it."""
        self.pods[index] = replace(self.pods[index], **changes)
        self.world.tell(PodSeen(self.pods[index]))
        return self.pods[index]

    def bind(self, index: int) -> Arrival:
        """Call bind for one member on the node it is planned on."""
        pod = self.pods[index]
        return self.world.tell(Arrive(pod.uid, self.reserved[pod.name]))

    def run(self) -> None:
        """Bring every reserved member through bind, and show it as running on its node."""
        nodes = self.reserved
        for index, pod in enumerate(self.pods):
            if pod.name in nodes:
                self.bind(index)
        for index, pod in enumerate(self.pods):
            if pod.name in nodes:
                self.see(index, node_name=nodes[pod.name], phase=Phase.RUNNING)

    def finish(self) -> None:
        """Let every bound member succeed."""
        for index, pod in enumerate(self.pods):
            if pod.bound:
                self.see(index, phase=Phase.SUCCEEDED)


class CollectingEngine:
    """An engine whose effects are collected until a test takes them."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._engine = Engine(settings, clock)
        self._due = CollectedEffects()

    @property
    def admission(self) -> Admission:
        """Return the state."""
        return self._engine.admission

    def mistaken(self, uid: str, namespace: str, name: str) -> str:
        """Return what is wrong with a bind call that names a pod so, or ""."""
        return self._engine.verbs.mistaken(uid, namespace, name)

    def tell(self, event: Event[A]) -> A:
        """Let the engine take in an event, and return its answer."""
        effects = self._engine.apply(event)
        for each in _COLLECTED:
            value, due = getattr(effects, each.name), getattr(self._due, each.name)
            if isinstance(due, dict | set):
                due.update(value)
            elif value:
                setattr(self._due, each.name, due + value)
        return effects.answer

    def effects(self) -> CollectedEffects:
        """Take what has been called for since last time."""
        due, self._due = self._due, CollectedEffects()
        return due


class TickingClock(ManualClock):
    """A clock that moves on whenever it is read: each look at it ends the step of a pass."""

    def __init__(self, seconds: float = 0.01) -> None:
        super().__init__()
        self._seconds = seconds

    def monotonic(self) -> float:
        """Return the seconds advanced so far, and advance."""
        self.advance(self._seconds)
        return super().monotonic()


class World:
    """One engine and its clock."""

    def __init__(self, clock: ManualClock | None = None, **settings: Any) -> None:
        self.clock = clock or ManualClock()
        self.engine = CollectingEngine(Settings.model_validate(settings), self.clock)
        self.tell = self.engine.tell
        self.effects = self.engine.effects
        self.state = State(self)
        self._serial = itertools.count(1)
        self.tell(Rebuild())

    def restart(self, **settings: Any) -> World:
        """Return a new process that has not been told anything yet."""
        successor = World(**settings)
        successor.engine = CollectingEngine(Settings.model_validate(settings), self.clock)
        successor.tell, successor.effects = successor.engine.tell, successor.engine.effects
        successor.clock = self.clock
        successor._serial = self._serial
        return successor

    @property
    def admission(self) -> Admission:
        """Return the state."""
        return self.engine.admission

    @property
    def now(self) -> float:
        """Return the time (epoch seconds)."""
        return self.clock.now().timestamp()

    def nodes(self, count: int, gpus: int = 8, *, prefix: str = "node", **fields: Any) -> list[str]:
        """Add nodes and return their names."""
        names = [f"{prefix}-{index}" for index in range(count)]
        for name in names:
            allocatable = {"cpu": 64_000, "memory": 2**40, "pods": 110} | ({GPU: gpus} if gpus else {})
            self.tell(NodeSeen(Node(name, uid=name, allocatable=allocatable, **fields)))
        return names

    def pod(self, name: str, gpus: int = 0, *, cpu: int = 1000, **fields: Any) -> Pod:
        """Return a pod of Muster's that nobody has seen yet."""
        serial = next(self._serial)
        requests = {"cpu": cpu, "pods": 1} | ({GPU: gpus} if gpus else {})
        values: dict[str, Any] = {
            "uid": f"uid-{serial}",
            "namespace": "default",
            "name": name,
            "shape": Shape(tuple(sorted(requests.items()))),
            "created": f"2026-01-01T00:00:{serial:06d}Z",
            "scheduler_name": "muster",
        }
        return Pod(**(values | fields))

    def gang(
        self,
        name: str,
        members: int,
        gpus: int = 8,
        *,
        min_member: int | None = None,
        api: str = COSCHEDULING,
        group: dict[str, Any] | None = None,
        **pod: Any,
    ) -> Job:
        """Create a PodGroup and its pods, and let the admission see and judge them."""
        ref = GroupRef(api, "default", name)
        job = Job(self, ref)
        minimum = members if min_member is None else min_member
        if api is LABEL:
            pod = {"options": keys.Options(min_member=minimum)} | pod
        else:
            self.group(ref, minimum, **(group or {}))
        for index in range(members):
            job.pods.append(self.pod(f"{name}-{index}", gpus, group=ref, **pod))
            self.tell(PodSeen(job.pods[-1]))
        self._decide()
        return job

    def group(self, ref: GroupRef, min_member: int, **fields: Any) -> PodGroup:
        """Create a PodGroup object."""
        serial = next(self._serial)
        values: dict[str, Any] = {"uid": f"group-{serial}", "created": f"2026-01-01T00:00:{serial:06d}Z"}
        group = PodGroup(ref, min_member=min_member, **(values | fields))
        self.tell(GroupSeen(group))
        return group

    def judge(self) -> None:
        """Let time-driven work and the pass happen."""
        self.tell(Tick())
        self._decide()

    def later(self, seconds: float) -> None:
        """Move the clock, then judge."""
        self.clock.advance(seconds)
        self.judge()

    def _decide(self) -> None:
        """Run a pass to its end."""
        self.tell(Decide())
        while self.admission.is_busy:
            self.tell(Decide())

    def filter(self, pod: Pod, names: list[str] | None = None) -> Filtered:
        """Ask filter, offering all nodes unless told otherwise."""
        return self.tell(Filter(pod, names or [node.name for node in self.state.nodes()]))

    def ask(self, pod: Pod, *names: str) -> Filtered:
        """Let a pod be seen, then ask filter about it, offering all nodes unless told otherwise."""
        self.tell(PodSeen(pod))
        return self.filter(pod, list(names) or None)

    def refuse(self, pod: Pod) -> None:
        """Let kube-scheduler refuse the node that a member is planned on."""
        slot, reservation = self.state.slot(pod), self.state.reservation_for(pod)
        assert slot is not None
        assert reservation is not None
        self.admission.refused(reservation, slot, [node.name for node in self.state.nodes() if node.name != slot.node])

    def reject(self, shape: Shape, node: str) -> None:
        """Let the kubelet of a node have rejected a pod that asks for this."""
        rejections, model = self.admission.rejections, self.admission.model
        rejections.add(shape, node)
        model.table.reassess(node)

    def check_promises(self) -> None:
        """Assert P2: nowhere is more bound and reserved than there is."""
        assert not self.state.overcommitted()


def elastic(world: World, name: str, members: int, **fields: Any) -> Job:
    """Create a gang of pods with one GPU each that starts with one of them, without having it judged."""
    job = Job(world, GroupRef(COSCHEDULING, "default", name))
    world.group(job.ref, 1)
    job.pods += [world.pod(f"{name}-{index}", 1, group=job.ref, **fields) for index in range(members)]
    for pod in job.pods:
        world.tell(PodSeen(pod))
    return job
