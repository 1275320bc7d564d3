"""No decision follows the order of a set of texts, which is another one in every process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from extender.admission.events import (
    BudgetSeen,
    Decide,
    GroupSeen,
    NodeGone,
    NodeSeen,
    PodSeen,
    QueueSeen,
    Rebuild,
    Tick,
)
from extender.clock import ManualClock
from extender.objects.budget import DisruptionBudget
from extender.objects.keys import Options
from extender.objects.node import Node
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.podspec import DOOM, Taint
from extender.objects.queue import Flavor, Queue, Quota
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.settings import Settings
from tests.builders import GPU, shape
from tests.journal.conftest import Recorder

GANGS = 16


def digest() -> str:
    """Return a checksum of all that comes of a story in which many gangs lose, want and wait at the same moment."""
    clock = ManualClock()
    recorder = Recorder(Settings(), clock)
    recorder.apply(QueueSeen(Queue("all", "all")))
    for name, nominal in (("red", 8), ("green", 24)):  # red has borrowed all that it runs on beyond 8
        recorder.apply(QueueSeen(Queue(name, name, parent="all", flavors=(Flavor("any", {GPU: Quota(nominal)}),))))
    nodes = [Node(f"n{number}", f"n{number}", {GPU: 16, "cpu": 64_000, "pods": 110}) for number in range(2)]
    for node in nodes:
        recorder.apply(NodeSeen(node))
    for number in range(GANGS):
        _gang(recorder, f"low-{number}", 0, "red", node="n0" if number % 2 else "n1")
    recorder.apply(Rebuild())
    for number in range(GANGS):
        _gang(recorder, f"high-{number}", 9, "green")
    _pass(recorder, clock)
    recorder.apply(NodeSeen(replace(nodes[0], taints=(Taint(min(DOOM), "", "NoSchedule"),))))
    for _ in range(5):
        _pass(recorder, clock)
    recorder.apply(BudgetSeen(DisruptionBudget("ns", "budget")))
    _pass(recorder, clock)
    recorder.apply(NodeGone("n0"))
    for _ in range(20):
        _pass(recorder, clock)
    noted = list(recorder.snapshot().noted())
    assert sum(len(each.came) for each in noted) > 3_000  # a story in which nothing happens would say nothing
    return hashlib.sha256(b"".join(each.came for each in noted)).hexdigest()


def _gang(recorder: Recorder, name: str, priority: int, queue: str, node: str = "") -> None:
    """Let a gang of one pod be seen, running on a node or waiting."""
    ref = GroupRef(COSCHEDULING, "ns", name)
    recorder.apply(
        GroupSeen(PodGroup(ref, f"{name}-uid", created="2026-01-01T00:00:00Z", options=Options(queue=queue)))
    )
    phase = Phase.RUNNING if node else Phase.PENDING
    pod = Pod(f"{name}-0", "ns", name, shape(2), group=ref, priority=priority, scheduler_name="muster", phase=phase)
    recorder.apply(PodSeen(replace(pod, node_name=node)))


def _pass(recorder: Recorder, clock: ManualClock) -> None:
    clock.advance(20.0)
    recorder.apply(Tick())
    recorder.apply(Decide())


@pytest.mark.slow
def test_another_process_decides_in_the_same_order() -> None:
    """Who is evicted, wounded, judged and told first is the same whatever texts hash to."""
    command = [sys.executable, "-m", "tests.journal.test_hash_order"]
    told = {
        subprocess.run(
            command, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert told == {f"{digest()}\n"}


if __name__ == "__main__":
    sys.stdout.write(f"{digest()}\n")
