"""What is counted of gangs that come, run and end."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender.admission.events import PodGone, PodSeen
from extender.clock import ManualClock
from extender.history.store import HistoryStore
from extender.objects.pod import Phase
from tests.history.recording import Cluster, RecordingMuster, gangs_of, usage_by, used_by_queue


@pytest.fixture
def cluster() -> Cluster:
    """Return an empty cluster."""
    return Cluster(ManualClock())


@pytest.fixture
def store(tmp_path: Path) -> HistoryStore:
    """Return an empty store."""
    return HistoryStore(str(tmp_path / "history.db"))


@pytest.fixture
def muster(cluster: Cluster, store: HistoryStore) -> RecordingMuster:
    """Return a Muster that has begun to write."""
    begun = RecordingMuster(cluster, store)
    begun.write()
    return begun


def test_a_pod_counts_from_its_binding_to_its_end(
    cluster: Cluster, store: HistoryStore, muster: RecordingMuster
) -> None:
    """Eight GPUs that are bound for 90 s are 720 GPU-seconds, of its gang and of its queue."""
    made = cluster.create("train", 8, queue="team-a")
    muster.tell(PodSeen(made))
    cluster.clock.advance(30)
    muster.tell(PodSeen(cluster.bind(made.uid)))
    cluster.clock.advance(90)
    muster.tell(PodSeen(cluster.end(made.uid)))
    cluster.clock.advance(60)
    muster.write()
    record = gangs_of(store)["train"]
    assert (record.used, record.waited, record.outcome, record.queue) == (720, 30, "Succeeded", "team-a")
    assert (record.resources, record.nodes, record.members) == ("nvidia.com/gpu=8", "node-1", 1)
    assert used_by_queue(store) == {"team-a": 720}


def test_what_runs_is_in_the_store_and_goes_on_after_a_kill(
    cluster: Cluster, store: HistoryStore, muster: RecordingMuster
) -> None:
    """A process that is killed without a word loses nothing of a pod that still runs when the next one starts."""
    made = cluster.create("train", 4, queue="q")
    muster.tell(PodSeen(made))
    muster.tell(PodSeen(cluster.bind(made.uid)))
    cluster.clock.advance(10)
    muster.write()
    cluster.clock.advance(100)
    after = RecordingMuster(cluster, store)
    after.write()
    cluster.clock.advance(5)
    after.tell(PodGone(cluster.delete(made.uid)))
    after.write()
    record = gangs_of(store)["train"]
    assert record.used == pytest.approx(4 * 115)
    assert record.outcome == "Deleted"
    assert used_by_queue(store) == {"q": pytest.approx(4 * 115)}


def test_what_is_gone_after_a_kill_ended_in_the_middle(
    cluster: Cluster, store: HistoryStore, muster: RecordingMuster
) -> None:
    """Of a pod that vanished while no Muster ran it is known only between when: the middle is taken."""
    made = cluster.create("train", 4, queue="q")
    muster.tell(PodSeen(made))
    muster.tell(PodSeen(cluster.bind(made.uid)))
    cluster.clock.advance(100)
    muster.write()
    cluster.clock.advance(10)
    cluster.delete(made.uid)
    cluster.clock.advance(10)
    RecordingMuster(cluster, store).write()
    record = gangs_of(store)["train"]
    assert record.used == pytest.approx(4 * 110)
    assert record.outcome == "Deleted"
    assert used_by_queue(store) == {"q": pytest.approx(4 * 110)}
    assert not gangs_of(store, running=True)


def test_what_ran_unseen_is_told_by_its_conditions(
    cluster: Cluster, store: HistoryStore, muster: RecordingMuster
) -> None:
    """A pod that came, ran and ended while no Muster ran is counted to the second."""
    muster.write()
    made = cluster.create("train", 2, queue="q")
    cluster.bind(made.uid)
    cluster.clock.advance(500)
    cluster.end(made.uid)
    cluster.clock.advance(60)
    after = RecordingMuster(cluster, store)
    after.write()
    cluster.clock.advance(60)
    RecordingMuster(cluster, store).write()
    assert used_by_queue(store) == {"q": pytest.approx(1000, abs=2)}
    assert gangs_of(store)["train"].used == pytest.approx(1000, abs=2)


def test_a_failed_pod_is_a_failed_gang(cluster: Cluster, store: HistoryStore, muster: RecordingMuster) -> None:
    """A gang of one whose pod fails has failed."""
    made = cluster.create("train", 2)
    muster.tell(PodSeen(made))
    muster.tell(PodSeen(cluster.bind(made.uid)))
    cluster.clock.advance(5)
    muster.tell(PodSeen(cluster.end(made.uid, Phase.FAILED)))
    muster.write()
    assert gangs_of(store)["train"].outcome == "Failed"
    assert usage_by(store, "namespace", "used") == {"default": 10}
    assert usage_by(store, "namespace", "capacity") == {"": pytest.approx(512 * 5)}
