"""A small world around one admission: nodes, gangs and a scheduler that asks, on a clock that the test moves."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from extender.admission.admission import Admission
from extender.admission.answers import Arrival, Filtered
from extender.admission.effects import Effects
from extender.admission.verbs import Verbs
from extender.clock import ManualClock
from extender.cluster.gangs import Gang
from extender.domain import keys
from extender.domain.membership import GroupApi, GroupRef
from extender.domain.node import Node
from extender.domain.pod import Phase, Pod, Shape
from extender.domain.podgroup import PodGroup
from extender.domain.reason import Reason, Wait
from extender.settings import Settings

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
        gang = self.world.admission.model.gangs.get(self.ref)
        assert gang is not None, f"{self.ref} is unknown"
        return gang

    @property
    def wait(self) -> Wait | None:
        """Return why the gang waits."""
        return self.world.admission.reservations.waits.get(self.gang.uid)

    @property
    def reason(self) -> Reason | None:
        """Return the enum value of why the gang waits."""
        return None if self.wait is None else self.wait.reason

    @property
    def reserved(self) -> dict[str, str]:
        """Return pod name -> reserved node."""
        reservation = self.world.admission.reservations.ledger.of_gang(self.gang.uid)
        return {} if reservation is None else {slot.pod.name: slot.node for slot in reservation.slots.values()}

    def see(self, index: int, **changes: Any) -> Pod:
        """Change one member at the API server, and let the admission see it."""
        self.pods[index] = replace(self.pods[index], **changes)
        self.world.admission.pod_seen(self.pods[index])
        return self.pods[index]

    def bind(self, index: int) -> Arrival:
        """Call bind for one member on the node it is planned on."""
        pod = self.pods[index]
        return self.world.verbs.arrive(pod.uid, self.reserved[pod.name])

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


class World:
    """One admission, its verbs and its clock."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.admission = Admission(Settings.model_validate(settings), self.clock)
        self.verbs = Verbs(self.admission)
        self._serial = itertools.count(1)
        self.admission.rebuild()

    def restart(self, **settings: Any) -> World:
        """Return a new process that has not been told anything yet."""
        successor = World(**settings)
        successor.admission = Admission(Settings.model_validate(settings), self.clock)
        successor.verbs = Verbs(successor.admission)
        successor.clock = self.clock
        successor._serial = self._serial
        return successor

    def nodes(self, count: int, gpus: int = 8, *, prefix: str = "node", **fields: Any) -> list[str]:
        """Add nodes and return their names."""
        names = [f"{prefix}-{index}" for index in range(count)]
        for name in names:
            allocatable = {"cpu": 64_000, "memory": 2**40, "pods": 110} | ({GPU: gpus} if gpus else {})
            self.admission.node_seen(Node(name, uid=name, allocatable=allocatable, **fields))
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
        api: GroupApi = GroupApi.COSCHEDULING,
        group: dict[str, Any] | None = None,
        **pod: Any,
    ) -> Job:
        """Create a PodGroup and its pods, and let the admission see and judge them."""
        ref = GroupRef(api, "default", name)
        job = Job(self, ref)
        minimum = members if min_member is None else min_member
        if api is GroupApi.LABEL:
            pod = {"options": keys.Options(min_member=minimum)} | pod
        else:
            self.group(ref, minimum, **(group or {}))
        for index in range(members):
            job.pods.append(self.pod(f"{name}-{index}", gpus, group=ref, **pod))
            self.admission.pod_seen(job.pods[-1])
        self.admission.decide()
        return job

    def group(self, ref: GroupRef, min_member: int, **fields: Any) -> PodGroup:
        """Create a PodGroup object."""
        serial = next(self._serial)
        values: dict[str, Any] = {"uid": f"group-{serial}", "created": f"2026-01-01T00:00:{serial:06d}Z"}
        group = PodGroup(ref, min_member=min_member, **(values | fields))
        self.admission.group_seen(group)
        return group

    def judge(self) -> None:
        """Let time-driven work and the pass happen."""
        self.admission.tick()
        self.admission.decide()

    def later(self, seconds: float) -> None:
        """Move the clock, then judge."""
        self.clock.advance(seconds)
        self.admission.tick()
        self.admission.decide()

    def filter(self, pod: Pod, names: list[str] | None = None) -> Filtered:
        """Ask filter, offering all nodes unless told otherwise."""
        return self.verbs.filter(pod, names or [node.name for node in self.admission.model.table.nodes()])

    def effects(self) -> Effects:
        """Take what has been asked for since last time."""
        return self.admission.take_effects()

    def check_promises(self) -> None:
        """Assert P2: nowhere is more bound and reserved than there is."""
        table = self.admission.model.table
        assert not any(table.short_of(node.name) for node in table.nodes())


@pytest.fixture
def world() -> World:
    """Return a world without nodes."""
    return World()
