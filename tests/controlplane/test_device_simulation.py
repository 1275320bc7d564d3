"""One story of gangs that claim devices, on the real control plane and in the simulation: the same comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from textwrap import dedent
from typing import Final, Protocol

import pytest

from extender.clock import Clock
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.control.ports import WatchedKind
from extender.objects.sources.coscheduling import COSCHEDULING_LABEL, COSCHEDULING_POD_GROUPS
from extender.service.app import create_app
from extender.settings import Settings
from localcluster.devices import (
    RESOURCE_CLAIMS,
    claim_spec,
    claim_template,
    claiming,
    device_class,
    gpus_of,
    resource_slice,
)
from localcluster.history import SCHEDULING, Recorder
from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from localcluster.story import Gang
from localcluster.watching import Change
from muster_lab.simulation.objects import Json, ObjectChange
from muster_lab.simulation.scenario import Scenario
from muster_lab.simulation.scenario_file import read_scenario
from muster_lab.simulation.scheduler.extender import Transport
from muster_lab.simulation.transports import asgi_transport
from muster_lab.simulation.virtual_time import LoopClock, VirtualTimeLoop
from muster_lab.simulation.world import World
from tests.controlplane.holding import Device, Holding, allocations, hands_changed
from tests.lab.conftest import reach

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300)]

NODES, EACH = 4, 8
#: Gang -> its members, the devices that each claims, and whether its last member has a reason of its own against every
#: node: then it cannot start, and is given up after five seconds.
GANGS: Final = {"broken": (2, 8, True), "whole": (4, 8, False), "one": (4, 6, False), "other": (4, 6, False)}
#: Those that fit alone, and not together.
PAIR: Final = ("one", "other")
TIMEOUT: Final = 5
#: How long the devices of a gang that does not start may stay allocated: see docs/devices.md.
LONGEST_IN_VAIN = 30.0


class Stage(Protocol):
    """Where the story is played."""

    def create(self, *gangs: str) -> None:
        """Create gangs, their members in turns."""
        ...

    def finish(self, gang: str) -> None:
        """Let the work of a gang's members end well."""
        ...

    def delete(self, gang: str) -> None:
        """Delete a gang."""
        ...

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something is so; raise an error if it takes more than a minute."""
        ...

    def bound(self, gang: str) -> int:
        """Count the members on nodes."""
        ...

    def is_told(self, gang: str) -> bool:
        """Tell whether a PodGroup says why its gang waits."""
        ...

    def changes(self) -> Sequence[Change]:
        """Return what the API server has said of pods and claims."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of the story.

    `started` are the gangs in the order in which their last member was bound; which of the pair is first may differ.
    `devices` are those of each allocation that is left, `idle` counts the allocations of the one that waited while the
    other ran, and `twice` those of one device at a time. `in_vain` is how long devices were allocated for the gang that
    never started (seconds).
    """

    started: tuple[str, ...]
    devices: list[tuple[Device, ...]]
    idle: int
    twice: int
    in_vain: float


def tell(stage: Stage) -> Outcome:
    """Play the story: a gang that cannot start gives its devices back, and of two that fit alone one waits."""
    stage.create("broken")
    stage.until(lambda: stage.is_told("broken"), "broken is told why it waits")
    stage.create("whole")
    stage.until(lambda: stage.bound("whole") == NODES, "whole has the devices that broken had")
    stage.delete("broken")
    stage.finish("whole")
    stage.until(lambda: not _left(stage), "whole has given its devices back")
    stage.create(*PAIR)
    stage.until(lambda: any(stage.bound(gang) == NODES for gang in PAIR), "one of the two runs")
    runs, waits = sorted(PAIR, key=stage.bound, reverse=True)
    stage.until(lambda: stage.is_told(waits), "the other one is told why it waits")
    idle = [held for held in _left(stage) if held.owner.startswith(waits)]
    stage.finish(runs)
    stage.until(lambda: stage.bound(waits) == NODES, "the other one runs")
    stage.until(lambda: len(_left(stage)) == NODES, "the first one has given its devices back")
    return judge(stage.changes(), len(idle))


def _left(stage: Stage) -> list[Holding]:
    return [held for held in allocations(stage.changes()) if held.until == float("inf")]


def judge(changes: Sequence[Change], idle: int) -> Outcome:
    """Return what came of the story from what the API server said."""
    last: dict[str, int] = {}
    bound: set[str] = set()
    for change in changes:
        item = change.object
        if item["kind"] == "Pod" and item["spec"].get("nodeName") and item["metadata"]["uid"] not in bound:
            bound.add(item["metadata"]["uid"])
            last[item["metadata"]["labels"][COSCHEDULING_LABEL]] = int(item["metadata"]["resourceVersion"])
    held = allocations(changes)
    started = [("pair" if gang in PAIR else gang) for gang in sorted(last, key=last.__getitem__)]
    return Outcome(
        tuple(started),
        sorted(each.devices for each in held if each.until == float("inf")),
        idle,
        len(hands_changed(held)),
        max((each.seconds for each in held if each.owner.startswith("broken")), default=0.0),
    )


class RealStage:
    """The real control plane, with kube-scheduler, kube-controller-manager and a Muster of its own."""

    def __init__(self, cluster: Sandbox, recorder: Recorder) -> None:
        """Create nodes, devices and templates."""
        self._cluster = cluster
        self._recorder = recorder
        self._gangs: dict[str, Gang] = {}
        cluster.create(device_class())
        for count in {count for _, count, _ in GANGS.values()}:
            cluster.create(claim_template(f"some-{count}", claim_spec(count)))
        for node in cluster.nodes(NODES, gpus=0):
            cluster.create(resource_slice(node, gpus_of(EACH)))

    def create(self, *gangs: str) -> None:
        """Create gangs, their members in turns."""
        for gang in gangs:
            self._describe(gang)
        self._cluster.interleave(*(self._gangs[gang] for gang in gangs))

    def _describe(self, gang: str) -> None:
        """Say what a gang is; what its last member has against every node is a volume that does not exist."""
        members, devices, ill = GANGS[gang]
        claims = claiming(template=f"some-{devices}")
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
        roles = [self._cluster.role("well", members - ill, spec=claims)]
        roles += [self._cluster.role("ill", 1, spec={**claims, "volumes": [volume]})] if ill else []
        self._gangs[gang] = self._cluster.gang(gang, roles=roles, create=0, timeout_seconds=TIMEOUT)

    def finish(self, gang: str) -> None:
        """Let the work of a gang's members end well."""
        self._gangs[gang].complete()

    def delete(self, gang: str) -> None:
        """Delete a gang."""
        for member in self._gangs[gang].members:
            member.delete()
        self._gangs[gang].delete_group()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something is so."""
        self._cluster.wait_until(condition, what, 60)

    def bound(self, gang: str) -> int:
        """Count the members on nodes."""
        return len(self._gangs[gang].bound)

    def is_told(self, gang: str) -> bool:
        """Tell whether a PodGroup says why its gang waits."""
        condition = self._gangs[gang].condition()
        return condition is not None and condition["status"] == "False"

    def changes(self) -> Sequence[Change]:
        """Return what the API server has said."""
        self._recorder.catch_up()
        return self._recorder.changes()


class SimulatedStage:
    """The simulation, from one moment to the next."""

    def __init__(self, runner: asyncio.Runner) -> None:
        """Start a world on the loop of `runner`."""
        self._runner = runner
        gangs = "\n".join(_gang_in_words(name) for name in GANGS)
        scenario = read_scenario(f"namespaces: [{{name: default}}]\n{dedent(_NODES_IN_WORDS)}gangs:\n{gangs}", "story")
        self._gangs = {gang.name: gang for gang in scenario.gangs}
        self._changes: list[Change] = []
        self._world = runner.run(self._start(replace(scenario, gangs=())))

    async def _start(self, scenario: Scenario) -> World:
        def connect(controller: Controller, settings: Settings, metrics: Metrics, clock: Clock) -> Transport:
            return asgi_transport(create_app(controller, settings, metrics, clock))

        clock = LoopClock(asyncio.get_running_loop())
        world = World(scenario, clock, connect, ruled_out=lambda pod, _: "-ill-" in pod.name)
        world.cluster.audit(self._note)
        self._running = asyncio.create_task(world.run())
        await self._pass(1.0)
        return world

    def _note(self, change: ObjectChange) -> None:
        version = change.object.json | {
            "metadata": change.object.json["metadata"] | {"resourceVersion": change.version}
        }
        at = asyncio.get_running_loop().time()
        self._changes.append(Change(at, change.type.value, version))

    def create(self, *gangs: str) -> None:
        """Create gangs, their members in turns."""
        self._runner.run(self._add(gangs))

    async def _add(self, gangs: tuple[str, ...]) -> None:
        self._world.workload.add([self._gangs[gang] for gang in gangs])

    def finish(self, gang: str) -> None:
        """Let the work of a gang's members end well."""
        self._runner.run(self._end(gang))

    async def _end(self, gang: str) -> None:
        def patch(json: Json) -> None:
            json["status"]["phase"] = "Succeeded"

        for member in self._gangs[gang].members:
            self._world.cluster.update(WatchedKind.POD, ("default", member.name), patch)

    def delete(self, gang: str) -> None:
        """Delete a gang."""
        self._runner.run(self._forget(gang))

    async def _forget(self, gang: str) -> None:
        self._world.workload.forget(self._world.workload.gang("default", gang))

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Let time pass until something is so."""
        for _ in range(600):
            if condition():
                return
            self._runner.run(self._pass(0.1))
        raise AssertionError(f"not within a minute: {what}")

    async def _pass(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        await reach(loop.time() + seconds)

    def bound(self, gang: str) -> int:
        """Count the members on nodes."""
        members = self._world.workload.gang("default", gang).members
        return sum(member.pod is not None and member.pod.bound for member in members.values())

    def is_told(self, gang: str) -> bool:
        """Tell whether a PodGroup says why its gang waits."""
        group = self._world.cluster.get(COSCHEDULING_POD_GROUPS, "default", gang).json
        conditions = group.get("status", {}).get("conditions", ())
        return any(each["type"] == "Scheduled" and each["status"] == "False" for each in conditions)

    def changes(self) -> Sequence[Change]:
        """Return what the API server has said."""
        return self._changes


_NODES_IN_WORDS = f"""
nodes:
  - name: node
    count: {NODES}
    allocatable: {{cpu: 32, memory: 64Gi}}
    devices: [{{class: gpu.nvidia.com, count: {EACH}}}]
"""


def _gang_in_words(name: str) -> str:
    members, devices, ill = GANGS[name]
    roles = [f"{{name: well, replicas: {members - ill}}}", *(["{name: ill}"] if ill else [])]
    claims, spec = f"[{{class: gpu.nvidia.com, count: {devices}}}]", f"{{scheduleTimeoutSeconds: {TIMEOUT}}}"
    return f"- {{name: {name}, devices: {claims}, roles: [{', '.join(roles)}], podGroupSpec: {spec}}}"


@contextmanager
def simulated() -> Iterator[SimulatedStage]:
    """Yield a simulation."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        yield SimulatedStage(runner)


def test_the_simulation_plays_devices_as_the_control_plane_does(device_cluster: Sandbox, device_muster: Server) -> None:
    """The same gangs start in the same order with the same devices, and what is held in vain is given back in time."""
    with Recorder(device_cluster.api, (*SCHEDULING, RESOURCE_CLAIMS)) as recorder:
        real = tell(RealStage(device_cluster, recorder))
    device_muster.check()
    with simulated() as stage:
        played = tell(stage)
    assert real.started == played.started == ("whole", "pair", "pair")
    assert real.devices == played.devices
    assert len(real.devices) == NODES
    assert (real.idle, real.twice) == (played.idle, played.twice) == (0, 0)
    assert real.in_vain < LONGEST_IN_VAIN
    assert 0 < played.in_vain < LONGEST_IN_VAIN
