"""Accounts handed to a store that is away, locked, hangs, or is another's: nothing waits for it, and little is lost."""

from __future__ import annotations

import asyncio
import math
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from sqlalchemy import Engine
from structlog.testing import capture_logs

from extender.admission.events import NodeSeen, PodGone, PodSeen
from extender.control.controller import Controller
from extender.control.historykeeper import HistoryKeeper
from extender.control.metrics import Metrics
from extender.control.ports import LeaseGone, LeaseSeen
from extender.control.watched import REQUIRED_KINDS
from extender.explain.runtimes import Runtime, RuntimeSource
from extender.history.records import Batch, GangQuery, GangRecord, HourSums, PastRuntime, Payer, StoredState, StoreError
from extender.history.store import HistoryStore, open_sqlite
from extender.objects.lease import Lease
from extender.objects.pod import Phase
from extender.settings import Settings
from muster_lab.simulation.virtual_time import LoopClock
from tests.builders import node, pod
from tests.control.conftest import Muster, ScriptedApi, Term
from tests.patience import HANGS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the store is."""
    return tmp_path / "history.db"


@pytest.fixture
async def muster(path: Path) -> Muster:
    """Return a synced controller whose history is written when the test says so."""
    return recorded(HistoryStore(str(path)))


def recorded(store: HistoryStore, term: Term | None = None) -> Muster:
    """Return a controller with a store, which is synced."""
    settings, metrics, api = Settings(history_write_seconds=0.1), Metrics(), ScriptedApi()
    clock = LoopClock(asyncio.get_running_loop())
    muster = Muster(Controller(settings, clock, api, metrics, term, store=store), api, metrics, settings)
    muster.controller.tell(NodeSeen(node("node-1", 64)))
    for kind in REQUIRED_KINDS:
        muster.controller.synced(kind)
    return muster


async def until(happened: Callable[[], bool]) -> None:
    """Wait until something has happened in a thread."""
    async with asyncio.timeout(HANGS):
        while not happened():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.05)


def keeper(muster: Muster) -> HistoryKeeper:
    """Return what writes."""
    assert muster.controller.history is not None
    return muster.controller.history


def run_one(muster: Muster, name: str) -> None:
    """Let a pod come, run and go."""
    made = pod(name, 1)
    muster.controller.tell(PodSeen(made))
    muster.controller.tell(PodSeen(replace(made, node_name="node-1", phase=Phase.RUNNING)))
    muster.controller.tell(PodGone(made.uid))


def kept(path: Path) -> list[str]:
    """Return the names of the gangs that ended."""
    return sorted(each.name for each in HistoryStore(str(path)).gangs(GangQuery(limit=1000)).gangs)


async def test_what_happens_while_the_store_is_away_is_written_when_it_is_back(muster: Muster, path: Path) -> None:
    """It is said once, and again when it is over; a metric tells meanwhile."""
    path.mkdir()  # noqa: ASYNC240 - no file can be there
    with capture_logs() as logs:
        for name in ("a", "b", "c"):
            run_one(muster, name)
            await keeper(muster).turn()
        assert muster.sample("muster_history_up") == 0
        path.rmdir()  # noqa: ASYNC240 - of a test
        await keeper(muster).turn()
    assert [line["event"] for line in logs if line["event"].startswith("history")] == [
        "history cannot be written",
        "history is written again",
    ]
    assert muster.sample("muster_history_up") == 1
    assert muster.sample("muster_history_dropped_total") == 0
    assert kept(path) == ["a", "b", "c"]


async def test_a_store_that_is_locked_is_waited_for_by_the_thread_alone(muster: Muster, path: Path) -> None:
    """The event loop goes on meanwhile; what was not written comes with the next turn."""
    run_one(muster, "a")
    await keeper(muster).turn()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    run_one(muster, "b")
    turns = 0
    writing = asyncio.create_task(keeper(muster).turn())
    while not writing.done():
        await asyncio.sleep(0.01)
        turns += 1
        if turns == 20:
            run_one(muster, "c")
            other.execute("COMMIT")
    other.close()
    assert turns > 20
    await keeper(muster).turn()
    assert kept(path) == ["a", "b", "c"]


class SharedFile(HistoryStore):
    """A file that two replicas share, as they share a database."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.shared = True

    def _open(self) -> Engine:
        if self._engine is None:
            self._engine = open_sqlite(Path(self._where))
        return self._engine


class HangingStore(HistoryStore):
    """A store whose first write hangs until the test lets it go on."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.go_on = threading.Event()

    def load(self, writer: str, uids: object) -> StoredState:  # noqa: ARG002 - as a store has it
        """Know nothing."""
        return StoredState()

    def write(self, writer: str, seq: int, batch: Batch) -> None:  # noqa: ARG002 - as a store has it
        """Hang."""
        self.go_on.wait(60)


class RefusingStore(HistoryStore):
    """A store that will never take what it is given, until the test lets it."""

    refuses = True

    def write(self, writer: str, seq: int, batch: Batch) -> None:
        """Refuse."""
        if self.refuses:
            raise StoreError("no such column", lasting=True)
        super().write(writer, seq, batch)


async def test_a_store_that_hangs_holds_up_nothing(path: Path) -> None:
    """Bounds are kept meanwhile, and Muster stops all the same."""
    store = HangingStore(str(path))
    muster = recorded(store)
    run_one(muster, "before")
    muster.controller.accountant.most_ended = 10
    writing = asyncio.create_task(keeper(muster).turn())
    await until(lambda: muster.sample("muster_history_up") == 0)
    for number in range(20):
        run_one(muster, f"gang-{number}")
    await until(lambda: muster.sample("muster_history_dropped_total") > 0)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    store.go_on.set()


async def test_a_standby_remembers_only_so_much(path: Path) -> None:
    """It never writes, and follows the cluster all the same; what the leader writes counts as nothing that is lost."""
    standby = recorded(SharedFile(str(path)), Term(until=-math.inf))
    accountant = standby.controller.accountant
    accountant.most_ended = 10
    for turn in range(3):
        for number in range(20):
            run_one(standby, f"pod-{turn}-{number}")
        await keeper(standby).turn()
    assert len(accountant.known()) == 10
    assert standby.sample("muster_history_dropped_total") == 0
    assert standby.sample("muster_history_up") == 1


async def test_what_a_refused_batch_takes_with_it_counts_as_dropped(path: Path) -> None:
    """Those that have gone and were not in it too; what is there still is written again."""
    store = RefusingStore(str(path))
    muster = recorded(store)
    made = pod("stays", 1)
    muster.controller.tell(PodSeen(made))
    muster.controller.tell(PodSeen(replace(made, node_name="node-1", phase=Phase.RUNNING)))
    for number in range(600):  # a batch has 500
        run_one(muster, f"pod-{number}")
    await keeper(muster).turn()
    dropped = muster.sample("muster_history_dropped_total")
    assert 600 < dropped < 610  # and a few sums of an hour
    store.refuses = False
    await keeper(muster).turn()
    assert [gang.name for gang in store.gangs(GangQuery(running=True)).gangs] == ["stays"]
    assert kept(path) == []


async def test_too_many_questions_at_a_time_are_refused(muster: Muster) -> None:
    """As an error of the store: those who read know what to make of it."""
    begun, go_on, asking = threading.Event(), threading.Event(), keeper(muster)

    def hang(_: HistoryStore) -> None:
        begun.set()
        go_on.wait(HANGS)

    calls = [asyncio.create_task(asking.read(hang))]
    await until(begun.is_set)
    calls += [asyncio.create_task(asking.read(hang)) for _ in range(100)]
    await asyncio.sleep(0)
    with pytest.raises(StoreError, match="100 calls wait already for the store"):
        await asking.read(lambda _: None)
    go_on.set()
    await asyncio.gather(*calls)


KILLED = """
import os, signal, sys
from extender.history.records import Batch, GangRecord
from extender.history.store import HistoryStore
store = HistoryStore(sys.argv[1])
store.load("me", [])
ended = dict(queue="", user="", started=100.0, outcome="Succeeded")
gangs = [GangRecord(f"g{n}", "default", f"g{n}", "pod", ended=100.0 + 10 * n, **ended) for n in range(1, 6)]
others = [GangRecord("lost", "default", "lost", "pod", ended=9100.0, evictions=1, **ended)]
store.write("me", 1, Batch(10_000.0, gangs + others))
os.kill(os.getpid(), signal.SIGKILL)
"""


async def test_runtimes_that_were_learned_survive_a_kill(path: Path) -> None:
    """The process after it goes by those of the gangs in the history, apart from those that were evicted."""
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, str(path))
    assert await killed.wait() == -signal.SIGKILL
    muster = recorded(HistoryStore(str(path)))
    muster.controller.tell(PodSeen(pod("new", 1)))
    admission = muster.controller.admission
    gang = next(iter(admission.model.gangs))
    learned = muster.controller.accountant.runtimes
    assert learned.expect(gang, admission.sharing) is None
    await keeper(muster).turn()
    assert learned.expect(gang, admission.sharing) == Runtime(30.0, RuntimeSource.LEARNED)
    for _ in range(2):  # read again they count once
        muster.controller.accountant.release()
        await keeper(muster).turn()
    assert learned.expect(gang, admission.sharing, elapsed=35.0) == Runtime(45.0, RuntimeSource.LEARNED)


async def test_a_mistake_in_the_last_turn_ends_nothing_else(muster: Muster) -> None:
    """Stopping goes on as if it had been written; the log says what it was."""
    task = asyncio.create_task(keeper(muster).run())
    await asyncio.sleep(0.05)
    muster.controller.accountant.bound_memory = None  # type: ignore[assignment, method-assign]  # the mistake
    with capture_logs() as logs:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [line["event"] for line in logs] == ["history: a mistake in Muster"]


def test_two_threads_open_one_connection_pool(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader and the writer come at the same time, and share what is opened."""
    opened, store = list[Path](), HistoryStore(str(path))
    HistoryStore(str(path)).load("me", [])

    def slowly(where: Path) -> Engine:
        opened.append(where)
        threading.Event().wait(0.05)
        return open_sqlite(where)

    monkeypatch.setattr("extender.history.store.open_sqlite", slowly)
    threads = [threading.Thread(target=store.gangs, args=(GangQuery(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened == [path]


async def test_a_batch_whose_fate_is_not_known_is_not_written_twice(path: Path) -> None:
    """A connection that breaks after the store has it: the number of the batch tells."""
    store = HistoryStore(str(path))
    store.load("me", [])
    gang = GangRecord("uid", "default", "train", "pod", ended=1.0)
    batch = Batch(10.0, [gang], usage={(1, Payer("q")): HourSums(used=5.0)})
    for _ in range(3):
        store.write("me", 1, batch)
    store.write("me", 2, batch)
    assert [sums.used for _, _, sums in store.usage(0, 10, "queue", Payer())] == [10.0]


async def test_another_writer_takes_over(path: Path, muster: Muster) -> None:
    """Who was followed writes no more: it gives up, and begins again from what is there."""
    run_one(muster, "a")
    await keeper(muster).turn()
    HistoryStore(str(path)).load("another", [])
    run_one(muster, "b")
    await keeper(muster).turn()
    assert kept(path) == ["a"]
    await keeper(muster).turn()
    run_one(muster, "c")
    await keeper(muster).turn()
    assert kept(path) == ["a", "c"]


async def test_a_shared_store_is_written_by_the_one_that_decides(path: Path) -> None:
    """A standby writes nothing; who takes over goes on from what the other has written, without counting it twice."""
    terms = Term(), Term(until=-math.inf)
    first, second = (recorded(SharedFile(str(path)), term) for term in terms)
    made, began = pod("train", 1), asyncio.get_running_loop().time()
    for each in (first, second):
        each.controller.tell(PodSeen(made))
        each.controller.tell(PodSeen(replace(made, node_name="node-1", phase=Phase.RUNNING)))
    await keeper(first).turn()
    await keeper(second).turn()
    assert not second.controller.accountant.adopted
    terms[0].lease_gone()
    first.controller.tell(LeaseGone())
    second.controller.tell(LeaseSeen(Lease("", math.inf, None)))
    await asyncio.sleep(0.3)
    await keeper(first).turn()
    assert not first.controller.accountant.adopted
    await keeper(second).turn()
    await keeper(second).turn()
    took = asyncio.get_running_loop().time() - began
    ((_, _, sums),) = [each for each in keeper(second).store.usage(0, 10**9, "namespace", Payer()) if each[1]]
    assert 0.25 < sums.used < took + 0.1


def test_tables_of_a_newer_version_are_left_alone(path: Path) -> None:
    """After a downgrade nothing is written that the newer one could not read."""
    store = HistoryStore(str(path))
    store.load("me", [])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE muster_state SET version = 99")
    with pytest.raises(StoreError, match="version 99") as refused:
        store.load("me", [])
    assert refused.value.lasting


def test_tables_of_the_first_version_get_what_the_newest_has(path: Path) -> None:
    """Gangs stay and are found by how their names begin; what they waited is added up, and hours by days and weeks."""
    store = HistoryStore(str(path))
    store.load("me", [])
    gang = GangRecord("uid", "default", "train-7", "pod", queue="q", gpus=8, created=4000.0, started=8000.0, ended=9e3)
    store.write("me", 1, Batch(9000.0, [gang], usage={(2, Payer("q")): HourSums(used=5.0, capacity=9.0)}))
    tables = "SELECT * FROM muster_usage", "SELECT * FROM muster_spans"
    store.close()
    with sqlite3.connect(path) as connection:
        before = [sorted(connection.execute(table)) for table in tables]
        connection.execute("DROP INDEX muster_gangs_named")
        connection.execute("ALTER TABLE muster_gangs DROP COLUMN runs")
        connection.execute("CREATE INDEX muster_gangs_name ON muster_gangs (name)")
        connection.execute("DELETE FROM muster_usage WHERE used = 0")
        for name in ("waiting_gangs", "waiting_gpus"):
            connection.execute(f"ALTER TABLE muster_usage DROP COLUMN {name}")
        connection.execute("DROP TABLE muster_spans")
        connection.execute("UPDATE muster_state SET version = 1")
    again = HistoryStore(str(path))
    again.load("me", [])
    assert [each.runs for each in again.gangs(GangQuery(prefix="train")).gangs] == [""]
    assert not again.gangs(GangQuery(prefix="trains")).gangs
    with sqlite3.connect(path) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
        after = [sorted(connection.execute(table)) for table in tables]
    assert "muster_gangs_named" in names
    assert "muster_gangs_name" not in names
    assert after == before
    assert sorted(row[-2:] for row in after[1]) == [(0.0, 0.0)] * 2 + [(4000.0, 32_000.0)] * 2


def test_a_busy_user_leaves_the_runtimes_of_others(path: Path) -> None:
    """Of each Queue and user the latest are read, the latest of all last."""
    store = HistoryStore(str(path))
    store.load("me", [])
    first = GangRecord("first", "ns", "a", "pod", queue="q", user="ann", started=9.0)
    ann = [structs.replace(first, uid=f"a-{n}", ended=n + 60.0) for n in range(3)]
    bob = [structs.replace(first, uid=f"b-{n}", user="bob", ended=n + 100.0) for n in range(99)]
    gangs = [structs.replace(gang, outcome="Succeeded") for gang in (*ann, *bob)]
    failed = structs.replace(gangs[0], uid="failed", outcome="Failed")
    store.write("me", 1, Batch(500.0, [*gangs, failed, structs.replace(gangs[0], uid="evicted", evictions=1)]))
    runtimes = store.load("me", []).runtimes
    assert runtimes[:3] == [PastRuntime("q", "ns", "ann", 51.0 + n) for n in range(3)]
    assert [each.seconds for each in runtimes[3:]] == [100.0 + n - 9.0 for n in range(68, 99)]


def test_what_is_older_than_the_retention_goes(path: Path) -> None:
    """Gangs by their end, GPU-seconds by the hour; what has not ended stays."""
    store = HistoryStore(str(path))
    store.load("me", [])
    gangs = [GangRecord(f"uid-{n}", "default", f"g-{n}", "pod", ended=1000.0 * n) for n in range(5000)]
    gangs.append(GangRecord("open", "default", "open", "pod", created=1.0))
    usage = {(hour, Payer("q")): HourSums(used=1.0) for hour in range(2000)}
    store.write("me", 1, Batch(10.0, gangs, usage=usage))
    while store.forget(4_000_000.0):
        pass
    left = store.gangs(GangQuery(limit=5000)).gangs
    assert (len(left), min(each.ended or 0.0 for each in left)) == (1000, 4_000_000.0)
    assert min(hour for hour, _, _ in store.usage(0, 2000, "queue", Payer())) == 4_000_000 // 3600
    assert len(store.gangs(GangQuery(running=True)).gangs) == 1
