"""GPU-seconds by queue are the integral of what the API server had, however often Muster is killed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from extender.admission.events import GroupSeen, PodGone, PodSeen
from extender.clock import ManualClock
from extender.history.store import HistoryStore
from extender.objects.keys import Options
from extender.objects.meta import write_timestamp
from extender.objects.pod import Phase
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.sources.coscheduling import COSCHEDULING
from tests.history.recording import Cluster, RecordingMuster, gangs_of, used_by_queue

#: Seconds that Muster is away after a kill: a container that starts again, a node that is drained.
AWAY = (2.0, 30.0)
#: Seconds between two things that happen, two writes, and two kills.
STEP, WRITE_EVERY, KILL_EVERY = 20.0, 10.0, 4000.0
STEPS = 1500


class History:
    """One random history: gangs of one to eight members in three queues, of which each runs an hour or so."""

    def __init__(self, seed: int, path: Path) -> None:
        self.random = Random(seed)
        self.cluster = Cluster(ManualClock())
        self.cluster.clock.advance(self.random.uniform(0, 7200))
        self.store = HistoryStore(str(path))
        self.muster: RecordingMuster | None = RecordingMuster(self.cluster, self.store)
        self.muster.write()
        self.kills = 0
        self._number = 0

    def play(self) -> None:
        """Let things happen, then have the rest written."""
        wrote = killed = self.cluster.now
        for _ in range(STEPS):
            self.cluster.clock.advance(self.random.expovariate(1 / STEP))
            self._step()
            if self.cluster.now - wrote > WRITE_EVERY and self.muster is not None:
                self.muster.write()
                wrote = self.cluster.now
            if self.random.random() < STEP / KILL_EVERY and self.muster is not None:
                self.muster, killed = None, self.cluster.now + self.random.uniform(*AWAY)
                self.kills += 1
            if self.muster is None and self.cluster.now >= killed:
                self.muster = RecordingMuster(self.cluster, self.store)
                self.muster.write()
        if self.muster is None:
            self.muster = RecordingMuster(self.cluster, self.store)
        self.muster.write()

    def _step(self) -> None:
        """Create a gang, or let something become of one pod."""
        random, cluster = self.random, self.cluster
        pods = list(cluster.pods.values())
        if not pods or random.random() < 0.08:
            self._create()
            return
        one = random.choice(pods)
        if not one.node_name:
            self._see(cluster.bind(one.uid).uid)
        elif one.bound and random.random() < 0.2:
            self._see(cluster.end(one.uid, random.choice((Phase.SUCCEEDED, Phase.FAILED))).uid)
        elif random.random() < 0.1:
            uid = cluster.delete(one.uid)
            if self.muster is not None:
                self.muster.tell(PodGone(uid))

    def _create(self) -> None:
        self._number += 1
        name, queue = f"gang-{self._number}", f"queue-{self.random.randrange(3)}"
        members, gpus = self.random.randint(1, 8), self.random.choice((1, 2, 4, 8))
        fields = {}
        if members > 1:
            ref = GroupRef(COSCHEDULING, "default", name)
            created = write_timestamp(self.cluster.clock.now())
            group = PodGroup(ref, f"uid-{name}", members, created=created, options=Options(queue=queue))
            self.cluster.groups[name] = group
            fields["group"] = ref
            if self.muster is not None and self.random.random() < 0.5:
                self.muster.tell(GroupSeen(group))
        for index in range(members):
            self._see(self.cluster.create(f"{name}-{index}", gpus, queue=queue, **fields).uid)
        if members > 1 and self.muster is not None:
            self.muster.tell(GroupSeen(self.cluster.groups[name]))

    def _see(self, uid: str) -> None:
        if self.muster is not None:
            self.muster.tell(PodSeen(self.cluster.pods[uid]))


@pytest.mark.parametrize("tens", [0, *(pytest.param(tens, marks=pytest.mark.nightly) for tens in range(1, 10))])
def test_gpu_seconds_by_queue_are_the_integral_over_the_history_of_the_api_server(tens: int, tmp_path: Path) -> None:
    """Of 100 random histories, each with several kills, no sum is off by more than a thousandth."""
    kills = 0
    for seed in range(10 * tens, 10 * tens + 10):
        history = History(seed, tmp_path / f"{seed}.db")
        history.play()
        kills += history.kills
        found, expected = used_by_queue(history.store), history.cluster.integral()
        assert found.keys() == expected.keys()
        for queue, amount in expected.items():
            assert found[queue] == pytest.approx(amount, rel=0.001), f"seed {seed}, {queue}"
        every = [*gangs_of(history.store).values(), *gangs_of(history.store, running=True).values()]
        now = history.cluster.now
        by_gang = sum(record.used + record.using * (now - record.as_of) for record in every)
        assert by_gang == pytest.approx(sum(expected.values()), rel=0.001)
        history.store.close()
    assert kills > 30
