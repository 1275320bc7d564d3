"""Random runs that are recorded: scenarios of the simulator with people who look, and stories full of faults."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.clock import Clock
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.journal.archive import Snapshot, unpack
from extender.service.app import create_app
from extender.settings import Settings
from muster_lab.replay.verdict import judge
from muster_lab.simulation.scenario_file import read_scenario
from muster_lab.simulation.scheduler.extender import Transport
from muster_lab.simulation.simulate import simulate
from muster_lab.simulation.transports import asgi_transport
from muster_lab.simulation.world import Connect
from tests.builders import GPU
from tests.properties.faults.play import play
from tests.properties.faults.story import write_story

_MINUTE = 60
#: Calls of kube-scheduler between two looks of people, at most.
_RARELY = 40


@contextmanager
def controllers(patch: pytest.MonkeyPatch) -> Iterator[list[Controller]]:
    """Collect every controller that is made meanwhile."""
    made: list[Controller] = []
    put_together = Controller.__init__

    def kept(self: Controller, *arguments: Any, **named: Any) -> None:
        made.append(self)
        put_together(self, *arguments, **named)

    with patch.context() as patched:
        patched.setattr(Controller, "__init__", kept)
        yield made


def run(seed: int, patch: pytest.MonkeyPatch, steps: int) -> list[Snapshot]:
    """Return what each Muster of one random run recorded: odd seeds are stories of so many steps, even scenarios."""
    with controllers(patch) as made:
        if seed % 2:
            play(write_story(f"replay {seed}", steps))
        else:
            simulate(read_scenario(yaml.safe_dump(scenario(seed)), f"seed {seed}"), curious(seed))
    snapshots = []
    for controller in made:
        collected = controller.snapshot()
        assert collected is not None, controller.journal.standing().ended
        snapshots.append(collected())
    return snapshots


def curious(seed: int) -> Connect:
    """Return what puts Muster in front of a world in which people look at it at random moments."""
    drawn = random.Random(seed)

    def connect(controller: Controller, settings: Settings, metrics: Metrics, clock: Clock) -> Transport:
        inner = asgi_transport(create_app(controller, settings, metrics, clock))
        left = drawn.randrange(_RARELY)

        async def asked(path: str, body: bytes) -> bytes:
            nonlocal left
            left -= 1
            if left < 0:
                left = drawn.randrange(_RARELY)
                look(controller, drawn)
            return await inner(path, body)

        return asked

    return connect


def look(controller: Controller, drawn: random.Random) -> None:
    """Look at everything that people can look at, at one gang closely."""
    gangs = list(controller.inspection.gangs())
    list(controller.scrape_in_steps())
    controller.inspection.queues()
    if gangs:
        ref = drawn.choice(gangs).ref
        controller.inspection.explain(ref)
        controller.inspection.survey(ref)
        controller.admission.placement_of(ref)


def scenario(seed: int) -> dict[str, Any]:
    """Return a random scenario: blocks and racks, queues that borrow, priorities, roles, gangs that grow."""
    drawn = random.Random(seed)
    nodes = [
        {
            "name": f"b{block}n",
            "count": drawn.randint(1, 5),
            "allocatable": {GPU: 8, "cpu": drawn.choice([16, 64]), "memory": "256Gi"},
            "labels": {
                "cloud.google.com/gce-topology-block": f"b{block}",
                "cloud.google.com/gce-topology-subblock": f"r{block}{drawn.randint(0, 1)}",
            },
        }
        for block in range(drawn.randint(1, 3))
    ]
    queues = [_queue(drawn, index) for index in range(drawn.randint(0, 3))]
    document: dict[str, Any] = {
        "nodes": nodes,
        "gangs": [_gang(drawn, index, [queue["name"] for queue in queues]) for index in range(drawn.randint(2, 8))],
        "until": "2h",
    }
    return document | ({"queues": [{"name": "root"}, *queues]} if queues else {})


def _queue(drawn: random.Random, index: int) -> dict[str, Any]:
    resources = [{"name": GPU, "nominalQuota": 8 * drawn.randint(1, 3)}]
    if drawn.random() < 0.4:
        resources.append({"name": "cpu", "nominalQuota": drawn.randint(8, 100)})
    return {"name": f"q{index}", "parent": "root", "flavors": [{"name": "f", "resources": resources}]}


def _gang(drawn: random.Random, index: int, queues: list[str]) -> dict[str, Any]:
    size = drawn.randint(1, 5)
    gang: dict[str, Any] = {
        "name": f"g{index}",
        "minMember": size,
        "arrival": drawn.randint(0, 20) * _MINUTE,
        "duration": drawn.choice([5, 20, 40]) * _MINUTE,
        "priority": drawn.choice([0, 0, 0, 5, 9]),
    }
    if queues:
        gang["queue"] = drawn.choice(queues)
    if drawn.random() < 0.4:
        level = drawn.choice(["block", "subblock"])
        gang["annotations"] = {f"muster.dev/topology-{drawn.choice(['required', 'preferred'])}": level}
    if drawn.random() < 0.3:
        roles: list[dict[str, Any]] = [
            {
                "name": role,
                "replicas": drawn.randint(1, 3),
                "requests": {GPU: drawn.choice([1, 2, 4, 8]), "cpu": drawn.choice([1, 2, 8])},
            }
            for role in drawn.sample(["leader", "worker", "ps", "eval"], drawn.randint(2, 3))
        ]
        members = sum(int(role["replicas"]) for role in roles)
        return gang | {"roles": roles, "minMember": drawn.randint(1, members)}
    return gang | {"replicas": size + drawn.choice([0, 0, 1, 2]), "requests": {GPU: drawn.choice([1, 2, 4, 8, 8])}}


def check(directory: Path) -> list[str]:
    """Play every snapshot in a directory; return which of them came out otherwise, and how."""
    complaints = []
    for file in sorted(directory.glob("*.tar.gz")):
        verdict = judge(unpack(file.read_bytes()))
        if not verdict.same:
            complaints.append(f"{file.name}: {verdict.difference or verdict.state}"[:2000])
    return complaints


if __name__ == "__main__":
    # What a process with another seed for its hashes is started with.
    for complaint in check(Path(sys.argv[1])):
        sys.stdout.write(f"{complaint}\n")
