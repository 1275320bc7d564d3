"""An engine and its journal on a clock that stands still, told a short story."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.admission.admission import Admission
from extender.admission.engine import Engine
from extender.admission.events import (
    A,
    Arrive,
    Decide,
    Event,
    Filter,
    GroupSeen,
    NodeSeen,
    PodSeen,
    Prioritize,
    QueueSeen,
    Rebuild,
    Tick,
)
from extender.clock import Clock, ManualClock
from extender.journal.archive import Snapshot
from extender.journal.entries import microseconds
from extender.journal.journal import Journal
from extender.journal.outcomes import Raised
from extender.journal.standing import StateSummary
from extender.ledger.effects import Effects
from extender.objects.keys import Options
from extender.objects.node import Node
from extender.objects.pod import Phase, Pod
from extender.objects.podgroup import NO_GROUP, GroupRef, PodGroup
from extender.objects.queue import Flavor, Queue, Quota
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.settings import Settings
from tests.builders import GPU, shape

#: Names that are nobody's but this story's, every one of which a snapshot without names must not have.
NAMES = ("zebra", "lovelace", "babbage", "hopper", "murrays", "bletchley", "turing", "colossus", "enigma")
GANG = GroupRef(COSCHEDULING, "lovelace-team", "babbage-train")


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


class Recorder:
    """An engine and a journal that notes what it takes in, as the controller has them."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Start with an empty cluster."""
        self._settings = settings
        self._clock = clock
        self.journal = Journal(round(settings.recording_megabytes * (1 << 20)), clock)
        self.engine = Engine(settings, self.journal.clock)
        self.journal.open()

    @property
    def admission(self) -> Admission:
        """Return the state."""
        return self.engine.admission

    def apply(self, event: Event[A]) -> Effects[A]:
        """Take in an event and note it."""
        self.journal.begin()
        try:
            effects = self.engine.apply(event)
        except Exception as error:
            self.journal.note(event, Raised.of(error))
            raise
        self.journal.note(event, effects)
        return effects

    def snapshot(self) -> Snapshot:
        """Return all that was noted."""
        excerpt = self.journal.excerpt()
        assert excerpt is not None
        saved = microseconds(self._clock.now())
        return Snapshot.of(excerpt, StateSummary.of(self.admission), self._settings, saved)


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
            recorder.apply(NodeSeen(replace(node, labels={"bletchley.example/hut": f"bletchley-{number % 2}"})))
        recorder.apply(QueueSeen(Queue("murrays", "q", flavors=(Flavor("colossus", {GPU: Quota(16)}),))))
        recorder.apply(GroupSeen(PodGroup(GANG, "e9", min_member=2, created="2026-01-01T00:00:00Z")))
        for number in range(2):
            recorder.apply(PodSeen(member(number)))
        recorder.apply(Rebuild())

    def start(self) -> None:
        """Let the gang be placed, arrive, and run."""
        recorder = self.recorder
        recorder.apply(Tick())
        for uid, wish in recorder.apply(Decide()).nominations.items():
            self.clock.advance(0.25)
            pod = replace(wish.pod, nominated_node=wish.node)
            recorder.apply(PodSeen(pod))
            assert recorder.apply(Filter(pod, [wish.node])).answer.accepted == [wish.node]
            recorder.apply(Prioritize(pod, [wish.node]))
            recorder.apply(Arrive(uid, wish.node))
            recorder.apply(PodSeen(replace(pod, node_name=wish.node, phase=Phase.RUNNING)))

    def crowd(self) -> None:
        """Let one pod without gang be refused, for quota, on many nodes."""
        single = replace(member(9), group=NO_GROUP, role="")
        self.recorder.apply(PodSeen(single))
        self.recorder.apply(Filter(single, [f"zebra-{number}" for number in range(4)]))

    def waits(self, number: int) -> None:
        """Let a gang be seen that has one of three members."""
        ref = GroupRef(COSCHEDULING, "lovelace-team", f"hut-{number}")
        self.recorder.apply(GroupSeen(PodGroup(ref, f"f{number}", min_member=3, created="2026-01-01T00:00:00Z")))
        self.recorder.apply(PodSeen(replace(member(100 + number), group=ref)))
        self.recorder.apply(Decide())

    def snapshot(self) -> Snapshot:
        """Return all of it."""
        return self.recorder.snapshot()


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
