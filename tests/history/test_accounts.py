"""What is counted of gangs that come, run and end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.admission.events import Decide, GroupSeen, PodGone, PodSeen
from extender.clock import ManualClock
from extender.history.documents import history_row
from extender.history.records import MOST_TEXT, fold_names, folded_with, is_folded_in, runs_of
from extender.history.store import HistoryStore
from extender.objects.jobsigns import JobSigns
from extender.objects.keys import Options
from extender.objects.meta import ObjectRef
from extender.objects.pod import Phase
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.sources.coscheduling import COSCHEDULING
from tests.builders import CREATED
from tests.counting import calls
from tests.history.recording import USER_LABEL, Cluster, RecordingMuster, gangs_of, usage_by, used_by_queue

GANG = GroupRef(COSCHEDULING, "default", "train")


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
    made = muster.start(cluster.create("train", 4, queue="q"))
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


@pytest.mark.parametrize("stored", [True, False])
def test_pods_that_have_run_for_a_year_are_taken_up_as_others(
    cluster: Cluster, store: HistoryStore, *, stored: bool
) -> None:
    """Nothing is counted hour by hour for each pod when a Muster starts, with a store and without."""

    def start() -> None:
        RecordingMuster(cluster, store if stored else None)

    for number in range(20):
        cluster.bind(cluster.create(f"serving-{number}", 8, queue="q").uid)
    start()
    young = calls(start)
    cluster.clock.advance(365 * 86_400)
    assert calls(start) == young


def test_what_is_gone_after_a_kill_ended_in_the_middle(
    cluster: Cluster, store: HistoryStore, muster: RecordingMuster
) -> None:
    """Of a pod that vanished while no Muster ran it is known only between when: the middle is taken."""
    made = muster.start(cluster.create("train", 4, queue="q"))
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
    made = muster.start(cluster.create("train", 2))
    cluster.clock.advance(5)
    muster.tell(PodSeen(cluster.end(made.uid, Phase.FAILED)))
    muster.write()
    assert gangs_of(store)["train"].outcome == "Failed"
    assert usage_by(store, "namespace", "used") == {"default": 10}
    assert usage_by(store, "namespace", "capacity") == {"": pytest.approx(512 * 5)}


def test_an_eviction_loses_what_was_not_saved(cluster: Cluster, store: HistoryStore, muster: RecordingMuster) -> None:
    """Two members that leave together are one eviction; lost is what they did since their last checkpoint."""
    for name in ("a", "b"):
        made = cluster.create(name, 4, queue="q", group=GANG)
        muster.tell(PodSeen(made))
        muster.tell(PodSeen(cluster.bind(made.uid)))
    cluster.clock.advance(100)
    saved = JobSigns(last_checkpoint=cluster.now - 30)
    cluster.pods["uid-a"] = replace(cluster.pods["uid-a"], signs=saved)
    muster.tell(PodSeen(cluster.pods["uid-a"]))
    for name in ("a", "b"):
        muster.evict(cluster.pods[f"uid-{name}"], "team-b/urgent")
    for name in ("a", "b"):
        muster.tell(PodGone(cluster.delete(f"uid-{name}")))
    muster.write()
    record = gangs_of(store)["train"]
    assert (record.evictions, record.evicted, record.evicted_by) == (1, "Preempted", "team-b/urgent")
    assert (record.lost, record.used, record.outcome) == (2 * 4 * 30, 2 * 4 * 100, "Evicted")
    assert usage_by(store, "queue", "lost") == {"q": 240}


@pytest.mark.parametrize("killed", [False, True])
def test_a_gang_that_ran_twice_has_two_runs(
    cluster: Cluster, store: HistoryStore, muster: RecordingMuster, *, killed: bool
) -> None:
    """With where it was and why it left; between them it waited. A kill in the second run changes nothing of it."""
    cluster.groups["train"] = PodGroup(GANG, "uid-train", 1, created=CREATED)
    muster.tell(GroupSeen(cluster.groups["train"]))
    first = muster.start(cluster.create("a", 4, queue="q", group=GANG))
    began = cluster.now
    cluster.clock.advance(100)
    muster.evict(cluster.pods[first.uid], "team-b/urgent")
    muster.tell(PodGone(cluster.delete(first.uid)))
    muster.write()
    cluster.clock.advance(50)
    again = cluster.create("b", 4, queue="q", group=GANG)
    muster.tell(PodSeen(again))
    muster.tell(PodSeen(cluster.bind(again.uid, "node-7")))
    cluster.clock.advance(10)
    muster.write()
    if killed:
        cluster.clock.advance(5)
        muster = RecordingMuster(cluster, store)
        muster.write()
    cluster.clock.advance(20)
    muster.tell(PodSeen(cluster.end(again.uid)))
    muster.write()
    record = gangs_of(store)["train"]
    before, after = runs_of(record)
    assert (before.nodes, before.evicted, before.by) == ("node-1", "Preempted", "team-b/urgent")
    assert before.began == pytest.approx(began, abs=1)
    assert before.ended == pytest.approx(began + 100, abs=1)
    assert (after.nodes, after.ended, after.evicted) == ("node-7", record.ended, "")
    assert after.began == pytest.approx(began + 150, abs=1)
    assert (record.outcome, record.evictions) == ("Succeeded", 1)
    assert record.waited >= 50


def test_a_gang_that_waits_again_is_not_running(cluster: Cluster, store: HistoryStore, muster: RecordingMuster) -> None:
    """Its run is over, and it has not ended."""
    cluster.groups["train"] = PodGroup(GANG, "uid-train", 1, created=CREATED)
    muster.tell(GroupSeen(cluster.groups["train"]))
    made = muster.start(cluster.create("a", 4, group=GANG))
    muster.tell(PodSeen(cluster.create("b", 4, group=GANG)))
    cluster.clock.advance(100)
    muster.write()
    assert history_row(gangs_of(store, running=True)["train"], cluster.now).outcome == "Running"
    muster.tell(PodGone(cluster.delete(made.uid)))
    muster.write()
    row = history_row(gangs_of(store, running=True)["train"], cluster.now)
    assert (row.outcome, [run.ended is None for run in row.runs]) == ("Waiting", [False])


def test_an_eviction_that_a_kill_interrupts_is_counted(
    cluster: Cluster, store: HistoryStore, muster: RecordingMuster
) -> None:
    """That a pod was on its way out is in the store, too."""
    made = muster.start(cluster.create("train", 4))
    cluster.clock.advance(50)
    muster.evict(cluster.pods[made.uid], "team-b/urgent")
    muster.write()
    cluster.delete(made.uid)
    RecordingMuster(cluster, store).write()
    record = gangs_of(store)["train"]
    assert (record.evictions, record.lost, record.outcome) == (1, 200, "Evicted")


def test_one_that_is_spared_is_not_evicted(cluster: Cluster, store: HistoryStore, muster: RecordingMuster) -> None:
    """Where its end comes all the same, it is its own."""
    made = muster.start(cluster.create("train", 4))
    muster.evict(cluster.pods[made.uid], "team-b/urgent")
    muster.accountant.stays(made.uid)
    cluster.clock.advance(5)
    muster.tell(PodGone(cluster.delete(made.uid)))
    muster.write()
    record = gangs_of(store)["train"]
    assert (record.evictions, record.lost, record.outcome) == (0, 0, "Deleted")


def test_what_is_promised_and_not_bound_is_reserved(
    cluster: Cluster, store: HistoryStore, muster: RecordingMuster
) -> None:
    """From the plan until the pod is bound: its GPUs are kept from others, and nothing runs on them."""
    made = cluster.create("train", 8, queue="")
    muster.tell(PodSeen(made))
    muster.tell(Decide())
    cluster.clock.advance(7)
    muster.tell(PodSeen(cluster.bind(made.uid)))
    cluster.clock.advance(3)
    muster.write()
    record = gangs_of(store, running=True)["train"]
    assert (record.reserved, record.used, record.reserving) == (8 * 7, 8 * 3, 0)
    grown = {use.name: amount for _, _, use, amount in muster.accountant.totals.grown(cluster.now)}
    assert grown == {"USED": 24, "RESERVED": 56}
    assert list(muster.accountant.totals.grown(cluster.now)) == []


def test_a_podgroup_that_comes_after_its_pods_is_the_same_gang(
    cluster: Cluster, store: HistoryStore, muster: RecordingMuster
) -> None:
    """Its record goes by another UID from then on, and by its queue; what was used before stays with the old one."""
    muster.start(cluster.create("a", 4, group=GANG))
    cluster.clock.advance(10)
    muster.write()
    cluster.groups["train"] = PodGroup(GANG, "uid-train", 1, created=CREATED, options=Options(queue="late"))
    muster.tell(GroupSeen(cluster.groups["train"]))
    muster.write()
    cluster.clock.advance(10)
    muster.write()
    (record,) = gangs_of(store, running=True).values()
    assert (record.uid, record.queue) == ("uid-train", "late")
    assert record.used + record.using * (cluster.now - record.as_of) == 80
    assert used_by_queue(store) == {"": 40, "late": 40}
    RecordingMuster(cluster, store).write()
    assert used_by_queue(store) == {"": 40, "late": 40}


def test_a_gang_that_never_ran_has_waited_until_it_was_deleted(
    cluster: Cluster, store: HistoryStore, muster: RecordingMuster
) -> None:
    """With the reason that it waited for last."""
    made = cluster.create("train", 1000)
    muster.tell(PodSeen(made))
    muster.tell(Decide())
    cluster.clock.advance(60)
    muster.tell(PodGone(cluster.delete(made.uid)))
    muster.write()
    record = gangs_of(store)["train"]
    assert (record.outcome, record.waited, record.started, record.members) == ("Deleted", 60, None, 1)
    assert record.reason


def test_user_and_owner_are_those_of_its_pods(cluster: Cluster, store: HistoryStore, muster: RecordingMuster) -> None:
    """By the label that a setting names, and the controller that made them."""
    made = cluster.create(
        "train", 1, labels={USER_LABEL: "ann"}, owner=ObjectRef("batch/v1", "Job", "default", "train", "uid-job")
    )
    muster.tell(PodSeen(made))
    muster.tell(PodSeen(cluster.bind(made.uid)))
    cluster.clock.advance(5)
    muster.write()
    record = gangs_of(store, running=True)["train"]
    assert (record.user, record.owner) == ("ann", "Job/train")
    assert usage_by(store, "user", "used") == {"ann": 5}


def test_while_a_store_is_away_what_waits_is_bounded(cluster: Cluster, store: HistoryStore) -> None:
    """Of very many gangs the first are dropped, and counted."""
    muster = RecordingMuster(cluster, store)
    muster.write()
    muster.accountant.most_ended = 100
    for number in range(150):
        made = cluster.create(f"gang-{number}", 0)
        muster.tell(PodSeen(made))
        muster.tell(PodGone(cluster.delete(made.uid)))
    muster.accountant.bound_memory()
    assert muster.accountant.dropped == 50
    muster.write()
    assert len(gangs_of(store)) == 100


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["b", "a"], "a,b"),
        (["a0", "a"], "a,a0"),
        (["n-10", "n-9", "n-8", "m-1"], "m-1,n-[8-10]"),
        (["gpu-01", "gpu-02", "gpu-09"], "gpu-[01-02,09]"),
        (["1", "2"], "[1-2]"),
        ([f"rack-{number}-x" for number in range(100)], None),
    ],
)
def test_names_of_nodes_are_folded(names: list[str], text: str | None) -> None:
    """As Slurm writes them; too many are cut."""
    folded = fold_names(names)
    assert folded == text if text is not None else folded.endswith(",...") and len(folded) == MOST_TEXT


@given(
    st.sets(st.from_regex(r"(a|gpu-|a-1b)[0-9]{0,3}", fullmatch=True), min_size=1, max_size=12), st.integers(0, 2000)
)
def test_a_name_is_found_among_folded_ones(names: set[str], number: int) -> None:
    """If it is one of them, and only then; unless the text was cut."""
    folded = fold_names(names, 1000)
    for name in (*names, f"gpu-{number}", f"a{number:03}", "gpu"):
        assert is_folded_in(name, folded, folded_with(name)) == (name in names), (name, folded)


def test_an_end_that_nothing_tells_the_time_of_is_in_the_middle(
    cluster: Cluster, store: HistoryStore, muster: RecordingMuster
) -> None:
    """A pod whose node was lost ends without a condition; it is there yet, and it is known by when it had ended."""
    made = muster.start(cluster.create("train", 4, queue="q"))
    cluster.clock.advance(100)
    muster.write()
    cluster.clock.advance(10)
    cluster.end(made.uid, Phase.FAILED)
    cluster.pods[made.uid] = replace(cluster.pods[made.uid], finished_at=None)
    cluster.clock.advance(30)
    RecordingMuster(cluster, store).write()
    record = gangs_of(store)["train"]
    assert record.used == pytest.approx(4 * 120)
    assert record.ended == pytest.approx(cluster.now - 20)


def test_a_gang_that_had_ended_is_kept_whatever_is_listed_first(
    cluster: Cluster, store: HistoryStore, muster: RecordingMuster
) -> None:
    """After a start its pods may be told before their PodGroup."""
    cluster.groups["train"] = PodGroup(GANG, "uid-train", 1, created=CREATED)
    muster.tell(GroupSeen(cluster.groups["train"]))
    made = muster.start(cluster.create("a", 4, group=GANG))
    cluster.clock.advance(10)
    muster.tell(PodSeen(cluster.end(made.uid)))
    muster.write()
    group = cluster.groups.pop("train")
    cluster.clock.advance(10)
    after = RecordingMuster(cluster, store)
    after.tell(GroupSeen(group))
    after.write()
    after.write()
    assert gangs_of(store)["train"].used == 40
    assert used_by_queue(store) == {"": 40}
