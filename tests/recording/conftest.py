"""A recorder on a clock that stands still, told a short story."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.clock import ManualClock
from extender.domain.keys import Options
from extender.domain.membership import GroupApi, GroupRef
from extender.domain.node import Node
from extender.domain.pod import Phase, Pod
from extender.domain.podgroup import PodGroup
from extender.domain.queue import Flavor, Queue, Quota
from extender.recording.archive import Snapshot
from extender.recording.recorder import Recorder
from extender.settings import Settings
from tests.builders import GPU, shape

#: Names that are nobody's but this story's, every one of which a snapshot without names must not have.
NAMES = ("zebra", "lovelace", "babbage", "hopper", "murrays", "bletchley", "turing", "colossus", "enigma")
GANG = GroupRef(GroupApi.COSCHEDULING, "lovelace-team", "babbage-train")


def member(number: int) -> Pod:
    """Return a member of the gang of the story, with labels of its own."""
    return Pod(
        f"5e0f-{number}",
        "lovelace-team",
        f"hopper-{number}",
        shape(8),
        created="2026-01-01T00:00:00Z",
        group=GANG,
        role="turing",
        scheduler_name="muster",
        labels={"enigma.example/owner": "colossus"},
        options=Options(queue="murrays"),
    )


class Story:
    """A recorder, its clock, and what happens: a gang of two starts on two of four nodes, another waits for quota."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.clock = ManualClock()
        self.recorder = Recorder(settings or Settings(), self.clock)

    def open(self) -> None:
        """Let nodes, a Queue and a gang be seen, and the work be taken up."""
        recorder = self.recorder
        for number in range(4):
            name = f"zebra-{number}"
            node = Node(name, f"a{number}", {GPU: 8, "cpu": 64_000, "memory": 1 << 40, "pods": 110})
            recorder.node_seen(replace(node, labels={"bletchley.example/hut": f"bletchley-{number % 2}"}))
        recorder.queue_seen(Queue("murrays", "q", flavors=(Flavor("colossus", {GPU: Quota(16)}),)))
        recorder.group_seen(PodGroup(GANG, "e9", min_member=2, created="2026-01-01T00:00:00Z"))
        for number in range(2):
            recorder.pod_seen(member(number))
        recorder.rebuild()
        recorder.take_effects()

    def start(self) -> None:
        """Let the gang be placed, arrive, and run."""
        recorder = self.recorder
        recorder.tick()
        recorder.decide()
        for uid, wish in recorder.take_effects().nominations.items():
            self.clock.advance(0.25)
            pod = replace(wish.pod, nominated_node=wish.node)
            recorder.pod_seen(pod)
            assert recorder.filter(pod, [wish.node]).accepted == [wish.node]
            recorder.prioritize(pod, [wish.node])
            recorder.arrive(uid, wish.node)
            recorder.take_effects()
            recorder.pod_seen(replace(pod, node_name=wish.node, phase=Phase.RUNNING))
            recorder.take_effects()

    def crowd(self) -> None:
        """Let one pod without gang be refused, for quota, on many nodes."""
        single = replace(member(9), group=None, role="")
        self.recorder.pod_seen(single)
        self.recorder.filter(single, [f"zebra-{number}" for number in range(4)])
        self.recorder.take_effects()

    def waits(self, number: int) -> None:
        """Let a gang be seen that has one of three members."""
        ref = GroupRef(GroupApi.COSCHEDULING, "lovelace-team", f"hut-{number}")
        self.recorder.group_seen(PodGroup(ref, f"f{number}", min_member=3, created="2026-01-01T00:00:00Z"))
        self.recorder.pod_seen(replace(member(100 + number), group=ref))
        self.recorder.decide()

    def snapshot(self) -> Snapshot:
        """Return all of it."""
        collected = self.recorder.snapshot()
        assert collected is not None
        return collected()


@pytest.fixture
def story() -> Story:
    """Return the whole story, told."""
    told = Story()
    told.open()
    told.start()
    told.crowd()
    return told


@pytest.fixture
def snapshot(story: Story) -> Snapshot:
    """Return the recording of the story."""
    return story.snapshot()
