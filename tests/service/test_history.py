"""What people ask about the past."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import pytest

from extender.admission.events import NodeSeen, PodGone, PodSeen
from extender.control.controller import Controller
from extender.control.metrics import Metrics
from extender.history.records import Batch, GangRecord, HourSums, Payer
from extender.history.store import HistoryStore
from extender.objects.meta import ObjectRef
from extender.objects.pod import Phase
from extender.service.app import create_app
from extender.settings import Settings
from muster_lab.simulation.virtual_time import LoopClock
from tests.builders import node, pod
from tests.control.conftest import Muster, ScriptedApi

DAY = 86_400
#: 2026-03-02, a Monday, in UTC.
MONDAY = 1772409600.0


@pytest.fixture
def store(tmp_path: Path) -> HistoryStore:
    """Return an empty store."""
    return HistoryStore(str(tmp_path / "history.db"))


@pytest.fixture
async def muster(store: HistoryStore) -> AsyncIterator[Muster]:
    """Return a synced controller that keeps a history; the test has it written."""
    settings, metrics, api = Settings(history_write_seconds=3600), Metrics(), ScriptedApi()
    clock = LoopClock(asyncio.get_running_loop())
    made = Muster(Controller(settings, clock, api, metrics, store=store), api, metrics, settings)
    made.controller.tell(NodeSeen(node("node-1", 16)))
    made.sync()
    yield made
    made.fall_silent()


@pytest.fixture
async def http(muster: Muster) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the application."""
    app = create_app(muster.controller, muster.settings, muster.metrics, muster.controller.clock)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://muster") as client:
        yield client


def fill(store: HistoryStore, *gangs: GangRecord, usage: dict[tuple[int, Payer], HourSums] | None = None) -> None:
    """Put gangs and hours into a store."""
    store.load("test", [])
    store.write("test", 1, Batch(MONDAY, gangs, usage=usage or {}))


def gang(number: int, **fields: str) -> GangRecord:
    """Return a gang that ended so many seconds after Monday began."""
    ended = MONDAY + number
    plain = GangRecord(f"uid-{number}", "team-a", f"gang-{number}", "pod", created=ended - 60, started=ended - 50)
    return msgspec.structs.replace(plain, ended=ended, **fields)


async def test_a_gang_that_ended_is_told_with_all_that_became_of_it(http: httpx.AsyncClient, muster: Muster) -> None:
    """From the watch to the answer, by way of the store."""
    assert muster.controller.history is not None
    made = pod("train", 8, namespace="team-a", owner=ObjectRef("batch/v1", "Job", "default", "train", "uid-job"))
    muster.controller.tell(PodSeen(made))
    muster.controller.tell(PodSeen(replace(made, node_name="node-1", phase=Phase.RUNNING)))
    await muster.controller.history.turn()
    (row,) = (await http.get("/api/v1/history?outcome=Running")).json()["gangs"]
    assert (row["name"], row["outcome"], row["resources"]) == ("train", "Running", {"nvidia.com/gpu": 8})
    muster.controller.tell(PodGone(made.uid))
    await muster.controller.history.turn()
    answer = (await http.get("/api/v1/history?namespace=team-a")).json()
    (row,) = answer["gangs"]
    assert (row["outcome"], row["owner"], row["nodes"], row["gpus"]) == ("Deleted", "Job/train", "node-1", 8)
    assert answer["next"] is None
    assert (await http.get("/api/v1/history?namespace=team-b")).json()["gangs"] == []
    assert muster.sample("muster_gpu_seconds_total", queue="", gang_namespace="team-a", use="used") > 0


async def test_pages_follow_each_other_without_gaps(http: httpx.AsyncClient, store: HistoryStore) -> None:
    """Also where gangs ended at the same moment."""
    fill(store, *(gang(number // 3, uid=f"uid-{number}", name=f"gang-{number}") for number in range(50)))
    names: list[str] = []
    path: str | None = "/api/v1/history?limit=7"
    while path is not None:
        answer = (await http.get(path)).json()
        names += [row["name"] for row in answer["gangs"]]
        path = None if answer["next"] is None else f"/api/v1/history?limit=7&after={answer['next']}"
    assert len(names) == len(set(names)) == 50
    assert names[0] in {"gang-48", "gang-49"}


async def test_a_report_adds_up_hours_by_period(http: httpx.AsyncClient, store: HistoryStore) -> None:
    """Days begin where the reader says; the share is of what the cluster had in the period."""
    hour = int(MONDAY // 3600)
    a, b = Payer("a", "team-a", "ann"), Payer("b", "team-b", "bob")
    usage = {
        (hour, a): HourSums(used=7200, lost=3600),
        (hour, b): HourSums(used=3600, reserved=3600),
        (hour + 23, a): HourSums(used=3600),
        (hour, Payer()): HourSums(capacity=16 * 3600),
        (hour + 23, Payer()): HourSums(capacity=16 * 3600),
    }
    fill(store, usage=usage)
    span = "since=2026-03-02T00:00:00Z&until=2026-03-04T00:00:00Z"
    answer = (await http.get(f"/api/v1/report?{span}&by=queue&per=day&price=2.5")).json()
    assert [(row["period"], row["key"], row["used"], row["cost"]) for row in answer["rows"]] == [
        ("2026-03-02", "a", 3.0, 7.5),
        ("2026-03-02", "b", 1.0, 2.5),
    ]
    assert [row["share"] for row in answer["rows"]] == [3 / 32, 2 / 32]
    tokyo = (await http.get(f"/api/v1/report?{span}&zone=Asia/Tokyo&user=ann&by=user")).json()
    assert [(row["period"], row["used"], row["share"]) for row in tokyo["rows"]] == [
        ("2026-03-02", 2.0, 2 / 16),
        ("2026-03-03", 1.0, 1 / 16),
    ]
    weekly = (await http.get(f"/api/v1/report?{span}&per=week&by=namespace")).json()
    assert [(row["period"], row["key"], row["lost"]) for row in weekly["rows"]] == [
        ("2026-W10", "team-a", 1.0),
        ("2026-W10", "team-b", 0.0),
    ]


async def test_curves_are_told_by_payer(http: httpx.AsyncClient, store: HistoryStore) -> None:
    """On average in each hour; what is not told apart is one curve."""
    hour = int(MONDAY // 3600)
    usage = {(hour - 1, Payer(f"q-{n}", "team-a")): HourSums(used=3600.0 * (n + 1)) for n in range(3)}
    usage[hour - 1, Payer()] = HourSums(capacity=16 * 3600)
    fill(store, msgspec.structs.replace(gang(-1800, queue="q-2"), created=MONDAY - 3600, gpus=4), usage=usage)
    span = "since=2026-03-01T23:00:00Z&until=2026-03-02T00:00:00Z"
    answer = (await http.get(f"/api/v1/curves?{span}&most=2")).json()
    assert (answer["by"], answer["stepSeconds"], answer["capacity"]) == ("queue", 3600, [16.0])
    assert [(curve["key"], curve["used"]) for curve in answer["curves"]] == [("q-2", [3.0]), ("q-1", [2.0])]
    assert answer["others"]["used"] == [1.0]
    assert answer["curves"][0]["waitingGpus"] == [pytest.approx(4 * 1750 / 3600, abs=0.001)]
    one = (await http.get(f"/api/v1/curves?{span}&by=namespace&queue=q-0")).json()
    assert [(curve["key"], curve["used"]) for curve in one["curves"]] == [("team-a", [1.0])]


async def test_gangs_are_found_by_how_they_begin_and_by_node(http: httpx.AsyncClient, store: HistoryStore) -> None:
    """Names of nodes are looked through, page by page."""
    fill(store, *(gang(number, nodes=f"gpu-[{number % 4}-{number % 4 + 2}]") for number in range(40)))
    names = [row["name"] for row in (await http.get("/api/v1/history?prefix=gang-3")).json()["gangs"]]
    assert names == [*(f"gang-{number}" for number in range(39, 29, -1)), "gang-3"]
    answer = (await http.get("/api/v1/history?node=gpu-5&limit=6")).json()
    rest = (await http.get(f"/api/v1/history?node=gpu-5&limit=6&after={answer['next']}")).json()
    names = [row["name"] for row in (*answer["gangs"], *rest["gangs"])]
    assert names == [f"gang-{number}" for number in range(39, 0, -4)]
    assert rest["next"] is None


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("history?outcome=Lost", "outcome"),
        ("history?since=yesterday", "since"),
        ("history?since=9999-12-31T23:59:59-23:59", "since"),
        ("report?until=0001-01-01T00:00:00Z", "until"),
        ("curves?since=0001-01-01T00:00:00Z&until=0001-01-02T00:00:00Z", "until"),
        ("history?limit=0", "limit"),
        ("history?after=x", "after"),
        ("history?colour=red", "colour"),
        ("report?by=colour", "by"),
        ("curves?by=colour", "by"),
        ("curves?most=0", "most"),
        ("curves?since=1970-01-01T00:00:00Z", "hours"),
        ("report?per=year", "per"),
        ("report?zone=Mars", "zone"),
        ("report?price=-1", "price"),
        ("report?since=1970-01-01T00:00:00Z", "hours"),
    ],
)
async def test_what_cannot_be_asked_is_named(http: httpx.AsyncClient, query: str, names: str) -> None:
    """400, and the parameter."""
    answer = await http.get(f"/api/v1/{query}")
    assert answer.status_code == 400
    assert names in answer.json()["detail"]


async def test_a_store_that_cannot_be_read_is_said(http: httpx.AsyncClient, store: HistoryStore) -> None:
    """503: before anything is written there is no table."""
    del store
    answer = await http.get("/api/v1/history")
    assert answer.status_code == 503
    assert "cannot be read" in answer.json()["detail"]
