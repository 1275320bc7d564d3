"""A million gangs that ended: what they take, and how long a question about them does."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import create_engine, text

from extender.clock import SystemClock
from extender.history.curves import curves, time_grid
from extender.history.documents import history_document
from extender.history.records import Batch, GangQuery, GangRecord, HourSums, Payer
from extender.history.store import HistoryStore
from tests.history.postgres import running

GANGS, BATCH, PAYERS = 1_000_000, 10_000, 500
END = 1_772_409_600.0
YEAR = 365 * 86_400
MESSAGE = "1 of 8 members fit now: 37 of 64 nodes lack nvidia.com/gpu, 20 have taints that it does not tolerate"

#: Half a million gangs of 500 users, then as many of one.
MANY = """
INSERT INTO muster_gangs (uid, namespace, name, api, queue, "user", created, started, ended, outcome, gpus)
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 999999)
SELECT 'uid-' || n, 'team', 'gang-' || n, 'pod', CASE WHEN n < 500000 THEN 'queue-' || (n % 50) ELSE 'queue-0' END,
  CASE WHEN n < 500000 THEN 'user-' || (n % 500) ELSE 'busy' END, n, n + 10, n + 100 + n % 7, 'Succeeded', 8
FROM numbers
"""
WEEKS = """
INSERT INTO muster_spans (hours, hour, queue, namespace, "user", used)
SELECT 168, 0, queue, namespace, "user", count(*) FROM muster_gangs GROUP BY queue, namespace, "user"
"""

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


def payer_of(number: int) -> Payer:
    """Return one of the payers: each user is of one namespace and one Queue."""
    return Payer(f"queue-{number % 60}", f"team-{number % 40}-research", f"user-{number}")


def record(number: int, random: Random) -> GangRecord:
    """Return a gang as most are: names of some 30 characters, a reason with its numbers, eight nodes."""
    ended = END - YEAR + number * YEAR / GANGS
    first, payer = random.randrange(1, 4000), payer_of(random.randrange(PAYERS))
    return GangRecord(
        uid=f"{random.getrandbits(64):016x}-{number:019x}",
        namespace=payer.namespace,
        name=f"pretrain-7b-run-{number}-worker",
        api="scheduling.x-k8s.io",
        owner=f"Job/pretrain-7b-run-{number}",
        queue=payer.queue,
        flavor="h100",
        user=payer.user,
        priority=random.randrange(100),
        members=8,
        gpus=64,
        resources="nvidia.com/gpu=64",
        created=ended - 7300.5,
        started=ended - 7200.25,
        ended=ended,
        outcome=random.choice(("Succeeded", "Failed", "Evicted", "Deleted")),
        waited=100.25,
        reason="InsufficientCapacity",
        message=MESSAGE,
        nodes=f"gpu-node-[{first}-{first + 7}]",
        node_count=8,
        used=460_800.0,
        as_of=ended,
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fill a store with a year of gangs, and of hours of 100 payers at a time."""
    path, random = tmp_path_factory.mktemp("million") / "history.db", Random(1)
    store = HistoryStore(str(path))
    store.load("test", [])
    for seq, start in enumerate(range(0, GANGS, BATCH), start=1):
        store.write("test", seq, Batch(END, [record(start + number, random) for number in range(BATCH)]))
    size = path.stat().st_size / GANGS
    hour = int(END // 3600)
    for day in range(365):
        hours = range(hour - 24 * (day + 1), hour - 24 * day)
        usage = {(at, payer_of((at * 100 + n) % PAYERS)): HourSums(1.0) for at in hours for n in range(100)}
        store.write("test", 1000 + day, Batch(END, usage=usage))
    store.close()
    assert size < 1000, f"{size:.0f} bytes a gang"
    return path


def quickest(store: HistoryStore, query: GangQuery) -> tuple[float, int]:
    """Return how long an answer keeps a processor (seconds), at best, and how many gangs it has."""
    took, count = [], 0
    for _ in range(3):
        began = time.process_time()
        count = len(history_document(store.gangs(query)).gangs)
        took.append(time.process_time() - began)
    return min(took), count


@pytest.mark.parametrize(
    ("query", "count"),
    [
        (GangQuery(), 100),
        (GangQuery(limit=1000), 1000),
        (GangQuery(namespace="team-7-research"), 100),
        (GangQuery(queue="queue-7", since=END - YEAR, until=END - YEAR / 2), 100),
        (GangQuery(user="user-7", outcome="Evicted"), 100),
        (GangQuery(namespace="team-7-research", queue="queue-7", user="user-7"), 100),
        (GangQuery(namespace="team-7-research", queue="queue-7", user="user-8"), 0),
        (GangQuery(namespace="team-7-research", queue="there-is-none"), 0),
        (GangQuery(namespace="team-7-research", name="pretrain-7b-run-77-worker"), None),
        (GangQuery(outcome="Failed", until=END - YEAR / 3), 100),
        (GangQuery(outcome="Nothing"), 0),
        (GangQuery(running=True), 0),
        (GangQuery(after=(END - YEAR / 2, 500_000)), 100),
        (GangQuery(prefix="pretrain"), 100),
        (GangQuery(prefix="pretrain-7b-run-9", outcome="Failed"), 100),
        (GangQuery(prefix="pretrain-7b-run-99999"), None),
        (GangQuery(node="gpu-node-77", since=END - YEAR / 52), None),
    ],
    ids=repr,
)
def test_history_answers_in_200_ms(path: Path, query: GangQuery, count: int | None) -> None:
    """Whatever is asked, of a million gangs in a file of SQLite."""
    store = HistoryStore(str(path))
    seconds, found = quickest(store, query)
    store.close()
    assert count in {None, found}
    assert seconds < 0.2


@pytest.mark.parametrize("days", [1, 7, 30, 180, 365])
@pytest.mark.parametrize("by", ["queue", "namespace", "user"])
@pytest.mark.parametrize(
    "only", [Payer(), Payer("queue-7"), Payer("", "team-7-research"), Payer("", "", "user-7")], ids=str
)
def test_curves_answer_in_200_ms(path: Path, days: int, by: str, only: Payer) -> None:
    """Of a day or of a year, by whatever, as the pages ask."""
    store, took = HistoryStore(str(path)), []
    grid = time_grid(END - days * 86_400, END)
    for _ in range(3):
        began = time.process_time()
        assert curves(grid, store.course(grid, by, only, 8), by).curves
        took.append(time.process_time() - began)
    store.close()
    assert min(took) < 0.2


def test_a_month_is_reported_in_a_second(path: Path) -> None:
    """Hours of 100 payers, by queue."""
    store, hour = HistoryStore(str(path)), int(END // 3600)
    began = time.process_time()
    rows = store.usage(hour - 30 * 24, hour, "queue", Payer())
    seconds = time.process_time() - began
    store.close()
    assert len({key for _, key, _ in rows}) == 60
    assert seconds < 1.0


def check_runtimes(store: HistoryStore, url: str) -> float:
    """Write a million gangs, the latest of one busy user, and return how long it takes to load what is known."""
    clock = SystemClock()
    store.load("test", [])
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(MANY))
        connection.execute(text(WEEKS))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))
    engine.dispose()
    began = clock.monotonic()
    stored = store.load("test", [])
    took = clock.monotonic() - began
    store.close()
    of_user = Counter(each.user for each in stored.runtimes)
    assert of_user == {"busy": 31, **{f"user-{number}": 31 for number in range(PAYERS)}}
    assert [each.user for each in stored.runtimes[-31:]] == ["busy"] * 31
    return took


def test_runtimes_of_all_users_are_read_in_two_seconds(tmp_path: Path) -> None:
    """Although one of them had half a million gangs since, in SQLite and in PostgreSQL."""
    with running() as server:
        shared = check_runtimes(HistoryStore(server.url), server.url.replace("postgresql:", "postgresql+psycopg:"))
    assert check_runtimes(HistoryStore(str(tmp_path / "history.db")), f"sqlite:///{tmp_path}/history.db") < 2.0
    assert shared < 2.0
