"""The same history in PostgreSQL, the real one, and what becomes of it when that is away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from extender.admission.events import PodGone, PodSeen
from extender.clock import ManualClock
from extender.history.records import Batch, GangQuery, GangRecord, HourSums, Payer, StoreError, SupersededError
from extender.history.schema import TABLES
from extender.history.store import HistoryStore
from tests.history.postgres import Server, running
from tests.history.recording import Cluster, RecordingMuster, gangs_of, used_by_queue
from tests.history.test_curves import check_random_course


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Run a server for the tests of this file."""
    with running() as started:
        yield started


@pytest.fixture
def store(server: Server) -> Iterator[HistoryStore]:
    """Return a store in an empty database."""
    engine = create_engine(make_url(server.url).set(drivername="postgresql+psycopg"))
    TABLES.drop_all(engine)
    engine.dispose()
    opened = HistoryStore(server.url)
    yield opened
    opened.close()


def test_a_history_with_a_kill_adds_up(store: HistoryStore) -> None:
    """Gangs, GPU-seconds and what is open are as they are in SQLite."""
    cluster = Cluster(ManualClock())
    muster = RecordingMuster(cluster, store)
    muster.write()
    for name in ("a", "b"):
        made = cluster.create(name, 4, queue="q")
        muster.tell(PodSeen(made))
        muster.tell(PodSeen(cluster.bind(made.uid)))
    cluster.clock.advance(100)
    muster.write()
    muster.tell(PodGone(cluster.delete("uid-a")))
    muster.write()
    cluster.clock.advance(100)
    after = RecordingMuster(cluster, store)
    after.write()
    assert used_by_queue(store) == cluster.integral() == {"q": 4 * 300}
    assert gangs_of(store)["a"].outcome == "Deleted"
    assert list(gangs_of(store, running=True)) == ["b"]


def test_pages_filters_and_retention(store: HistoryStore) -> None:
    """Each question that is asked of it."""
    store.load("me", [])
    gangs = [
        GangRecord(f"uid-{n}", f"ns-{n % 2}", f"g-{n}", "pod", user=f"u-{n % 3}", ended=float(n // 2))
        for n in range(90)
    ]
    usage = {(n, Payer("q", "ns", "user")): HourSums(used=1.0) for n in range(10)}
    store.write("me", 1, Batch(100.0, gangs, usage=usage))
    page = store.gangs(GangQuery(namespace="ns-1", user="u-1", limit=10))
    rest = store.gangs(GangQuery(namespace="ns-1", user="u-1", limit=10, after=page.last))
    assert [each.name for each in (*page.gangs, *rest.gangs)] == [f"g-{n}" for n in range(85, 0, -6)]
    assert [sums.used for _, _, sums in store.usage(3, 5, "user", Payer("q"))] == [1.0, 1.0]
    assert store.forget(10.0) == 0
    assert len(store.gangs(GangQuery(limit=100)).gangs) == 70


def test_curves_prefixes_and_nodes(store: HistoryStore) -> None:
    """As in SQLite."""
    check_random_course(store, 1)
    names = [each.name for each in store.gangs(GangQuery(prefix="gang-1", limit=100)).gangs]
    assert names
    assert all(name.startswith("gang-1") for name in names)
    assert not store.gangs(GangQuery(prefix="gang_")).gangs
    store.write("test", 9, Batch(1.0, [GangRecord("x", "ns", "on", "pod", ended=1.0, nodes="gpu-[08-10],b")]))
    assert [each.name for each in store.gangs(GangQuery(node="gpu-09")).gangs] == ["on"]


def test_a_writer_that_was_followed_writes_no_more(server: Server, store: HistoryStore) -> None:
    """The replica that decides now goes on; the one before is told so."""
    store.load("first", [])
    second = HistoryStore(server.url)
    second.load("second", [])
    second.close()
    with pytest.raises(SupersededError):
        store.write("first", 1, Batch(1.0))


def test_a_server_that_is_lost_is_an_error_and_comes_back(server: Server, store: HistoryStore) -> None:
    """Within seconds, not minutes; the same store goes on when it answers again."""
    store.load("me", [])
    server.stop()
    with pytest.raises(StoreError) as refused:
        store.write("me", 1, Batch(1.0))
    assert not refused.value.lasting
    server.start()
    store.write("me", 1, Batch(1.0, [GangRecord("uid", "ns", "a", "pod", ended=1.0)]))
    assert list(gangs_of(store)) == ["a"]


def test_a_server_that_only_reads_is_waited_for(server: Server, store: HistoryStore) -> None:
    """A primary that became a standby: nothing is dropped, and a new connection finds whoever took its place."""
    store.load("me", [])
    engine = create_engine(make_url(server.url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    record = GangRecord("uid", "default", "train", "pod", ended=1.0)
    with engine.connect() as connection:
        connection.execute(text("ALTER DATABASE postgres SET default_transaction_read_only = on"))
        store.close()
        try:
            with pytest.raises(StoreError, match="read-only") as refused:
                store.write("me", 1, Batch(1.0, [record]))
        finally:
            connection.execute(text("SET default_transaction_read_only = off"))
            connection.execute(text("ALTER DATABASE postgres RESET default_transaction_read_only"))
    engine.dispose()
    assert not refused.value.lasting
    store.write("me", 1, Batch(1.0, [record]))
    assert list(gangs_of(store)) == ["train"]
