"""What people ask about the whole cluster."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import httpx
import pytest

from extender.admission.events import GroupSeen, NodeGone, PodSeen
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.objects.sources.table import LABEL
from tests.control.conftest import Muster

READS = ("status", "gangs", "nodes", "capacity", "board", "events")


@pytest.fixture
async def busy(muster: Muster) -> Muster:
    """Return a Muster of two nodes with a gang that is placed and one that waits."""
    muster.nodes(2)
    muster.sync()
    muster.gang("placed", 2)
    muster.gang("waiting", 2)
    return muster


async def judged(muster: Muster) -> None:
    """Wait until a pass has judged everybody, for 20 s at most."""
    for _ in range(2000):
        if not muster.controller.admission.pending:
            return
        await asyncio.sleep(0.01)
    pytest.fail("no pass has run")


@pytest.fixture(params=["http", "view_http"])
def client(request: pytest.FixtureRequest) -> httpx.AsyncClient:
    """Return a client of the whole application, and of the one that changes nothing."""
    found: httpx.AsyncClient = request.getfixturevalue(request.param)
    return found


async def test_status_counts(client: httpx.AsyncClient, busy: Muster) -> None:
    """The status has the numbers of everything."""
    await judged(busy)
    answer = (await client.get("/api/v1/status")).json()
    assert busy.controller.leading
    assert answer["ready"]
    assert answer["leading"]
    assert answer["gpus"] == {"allocatable": 16, "used": 0, "reserved": 16, "free": 0}
    assert answer["waiting"] == {"AwaitingMembers": 1, "InsufficientCapacity": 1}
    assert answer["gangs"]["Pending"] == 1
    assert answer["pass"]["calls"] >= 1


async def test_status_is_told_before_anything_was_read(http: httpx.AsyncClient) -> None:
    """Who is not ready says so, and what is missing; every other question is answered with 503."""
    answer = await http.get("/api/v1/status")
    assert answer.status_code == 200
    assert not answer.json()["ready"]
    assert answer.json()["unready"]
    for read in set(READS) - {"status", "events"}:
        refused = await http.get(f"/api/v1/{read}")
        assert refused.status_code == 503
        assert "not ready" in refused.json()["detail"]
    assert (await http.get("/api/v1/stream")).status_code == 503


async def test_gangs_are_chosen_by_parameters(http: httpx.AsyncClient, busy: Muster) -> None:
    """Parameters narrow the list down: by phase, reason, namespace, and queue."""
    await judged(busy)
    assert busy.controller.leading

    async def names(query: str) -> list[str]:
        return [row["name"] for row in (await http.get(f"/api/v1/gangs?{query}")).json()["gangs"]]

    assert await names("") == ["waiting", "placed"]
    assert await names("phase=Pending") == ["waiting"]
    assert await names("reason=InsufficientCapacity&namespace=default") == ["waiting"]
    assert await names("namespace=other") == []
    assert await names("queue=team-a") == []


async def test_gangs_are_chosen_by_labels(http: httpx.AsyncClient, busy: Muster) -> None:
    """Those of the object that describes a gang count, as it is now; without one those of its first pod."""
    ref = GroupRef(COSCHEDULING, "default", "waiting")
    for team in ("a", "b"):
        labels = {"team": team}
        busy.controller.tell(
            GroupSeen(PodGroup(ref, uid="waiting-uid", min_member=2, created="waiting", labels=labels))
        )
    for name, team in (("loose-0", "b"), ("loose-1", "a")):
        pod = busy.pod(name, 1, GroupRef(LABEL, "default", "loose"))
        busy.controller.tell(PodSeen(replace(pod, labels={"team": team})))
    await judged(busy)

    async def names(selector: str) -> set[str]:
        answer = await http.get("/api/v1/gangs", params={"labelSelector": selector})
        return {row["name"] for row in answer.json()["gangs"]}

    assert await names("team=a") == set()
    assert await names("team in (b, c)") == {"waiting", "loose"}
    assert await names("!team") == {"placed"}
    assert await names("") == {"waiting", "placed", "loose"}


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("gangs?phase=Sleeping", "phase cannot be 'Sleeping'; known: Failed, Finished, Pending, Running, Scheduling"),
        ("gangs?phase=Runnings", "phase cannot be 'Runnings'; did you mean Running?"),
        (
            "gangs?nmaespace=a",
            "no parameter is called 'nmaespace'; known: phase, reason, queue, namespace, labelSelector",
        ),
        ("gangs?labelSelector=a%3Db%3Dc", "label selector: 'b=c' in 'a=b=c' cannot be a label's value"),
        ("gangs?phase=Failed&phase=Running", "parameter phase is given 2 times"),
        ("nodes?x=1", "no parameter is called 'x'; known: none"),
        ("events?after=-1", "after is '-1', not a number from 0 on"),
        ("events?limit=0", "limit is '0', not a number from 1 on"),
        ("events?after=99999999999999999999", "after is '99999999999999999999', not a number from 0 on"),
    ],
)
async def test_parameters_that_cannot_be(http: httpx.AsyncClient, busy: Muster, query: str, detail: str) -> None:
    """What nobody knows is refused by its name, not ignored."""
    answer = await http.get(f"/api/v1/{query}")
    assert busy.controller.health.ready
    assert (answer.status_code, answer.json()["detail"]) == (400, detail)


async def test_events_go_on_from_where_one_was(http: httpx.AsyncClient, busy: Muster) -> None:
    """`next` of one answer is `after` of the next question; a gang's own are chosen by its name."""
    await judged(busy)
    first = (await http.get("/api/v1/events")).json()
    assert [(event["kind"], event["gang"]) for event in first["events"]] == [("reserved", "default/placed")]
    assert (await http.get(f"/api/v1/events?after={first['next']}")).json()["events"] == []
    assert (await http.get("/api/v1/events?gang=default/waiting")).json()["events"] == []
    busy.gang("third", 0)
    busy.controller.tell(NodeGone("node-0"))
    await judged(busy)
    later = (await http.get(f"/api/v1/events?after={first['next']}&limit=1")).json()
    assert len(later["events"]) == 1
    assert later["events"][0]["seq"] == later["next"]


async def test_capacity_and_nodes(client: httpx.AsyncClient, busy: Muster) -> None:
    """Nodes tell who holds what, and capacity what is left."""
    busy.controller.tell(NodeGone("node-1"))
    await judged(busy)
    nodes = (await client.get("/api/v1/nodes")).json()["nodes"]
    assert [(node["name"], node["gpus"]["free"]) for node in nodes] == [("node-0", 8)]
    capacity = (await client.get("/api/v1/capacity")).json()
    assert capacity["levels"][0]["islands"] == [{"freeGpus": 8, "domains": 1}]


async def test_the_view_has_no_verbs(view_http: httpx.AsyncClient, busy: Muster) -> None:
    """The listener for people neither answers kube-scheduler nor evicts anybody."""
    assert busy.controller.health.ready
    assert (await view_http.post("/v1/filter", content=b"{}")).status_code == 404
    assert (await view_http.post("/api/v1/gangs/default/waiting/defrag")).status_code in {404, 405}
    assert (await view_http.get("/api/v1/queues")).status_code == 200
    assert (await view_http.get("/healthz")).text == "ok\n"
