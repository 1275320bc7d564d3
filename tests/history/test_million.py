"""A million gangs that ended: what they take, and how long a question about them does."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from extender.history.curves import curves, time_grid
from extender.history.documents import history_document
from extender.history.records import Batch, GangQuery, GangRecord, HourSums, Payer
from extender.history.store import HistoryStore

GANGS, BATCH, PAYERS = 1_000_000, 10_000, 500
END = 1_772_409_600.0
YEAR = 365 * 86_400
MESSAGE = "1 of 8 members fit now: 37 of 64 nodes lack nvidia.com/gpu, 20 have taints that it does not tolerate"

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
