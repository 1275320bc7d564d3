"""Reads by callers who say who they are: each sees what it may list, and no name of anything else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import httpx
import pytest

from extender.admission.events import GroupSeen, PodSeen
from extender.control.ports import ApiError
from extender.kube.api import JsonObject
from extender.kube.reviews import ANSWER_SECONDS, Reviews
from extender.objects.podgroup import GroupRef, PodGroup
from extender.objects.sources.coscheduling import COSCHEDULING
from extender.service.app import create_view_app
from extender.service.board.board import Board
from extender.service.sight import OF_ANOTHER
from extender.service.stream import Stream
from muster_lab.simulation.virtual_time import LoopClock
from tests.control.conftest import Muster

TEAMS = ("team-a", "team-b", "team-c")
READS = ("status", "gangs", "demand", "board", "events", "queues", "nodes", "capacity")


@dataclass
class Reviewer:
    """An API server that knows tokens, and who may list what: `user -> {resource or podgroups@namespace}`."""

    rights: dict[str, set[str]] = field(default_factory=dict)
    asked: list[JsonObject] = field(default_factory=list)
    failing: ApiError | None = None

    async def post(self, path: str, body: JsonObject) -> bytes:
        """Answer a TokenReview, or a SubjectAccessReview."""
        if self.failing is not None:
            raise self.failing
        self.asked.append(body)
        spec = body["spec"]
        if path.endswith("tokenreviews"):
            known = spec["token"] in self.rights
            user = {"username": spec["token"], "groups": ["system:authenticated"]}
            return json.dumps({"status": {"authenticated": known, **({"user": user} if known else {})}}).encode()
        wanted = spec["resourceAttributes"]
        assert (spec["groups"], wanted["verb"]) == (["system:authenticated"], "list")
        right = wanted["resource"] + (f"@{wanted['namespace']}" if "namespace" in wanted else "")
        allowed = not {right, wanted["resource"]}.isdisjoint(self.rights[spec["user"]])
        return json.dumps({"status": {"allowed": allowed}}).encode()


@pytest.fixture
def reviewer() -> Reviewer:
    """Return an API server with an administrator, a member of team-a, and a user without rights."""
    return Reviewer(
        {"admin": {"podgroups", "nodes", "queues"}, "alice": {"podgroups@team-a"}, "eve": set(), "ops": {"nodes"}}
    )


def client_of(muster: Muster, reviewer: Reviewer, *, anonymous: bool = True) -> httpx.AsyncClient:
    """Return a client of the application for people."""
    clock = LoopClock(asyncio.get_running_loop())
    stream = Stream(Board(muster.controller, muster.metrics, clock))
    settings = muster.settings.model_copy(update={"anonymous_reads": anonymous})
    reviews = Reviews(reviewer, clock)  # type: ignore[arg-type]  # only asks
    app = create_view_app(muster.controller, settings, muster.metrics, stream, reviews)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://muster")


@pytest.fixture
async def http(muster: Muster, reviewer: Reviewer) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of a listener that asks who calls, over a cluster of three teams."""
    fill(muster, Random(1))
    await settle(muster)
    async with client_of(muster, reviewer) as client:
        yield client


def fill(muster: Muster, random: Random) -> list[GroupRef]:
    """Have gangs of three teams on nodes with too little room, some of them with long names; return them."""
    found = []
    muster.nodes(3)
    muster.sync()
    for number in range(12):
        team = random.choice(TEAMS)
        name = f"secret-of-{team}-{number}" + "x" * random.choice([0, 30])
        ref = GroupRef(COSCHEDULING, team, name)
        found.append(ref)
        members = random.randint(1, 3)
        muster.controller.tell(GroupSeen(PodGroup(ref, uid=f"{name}-uid", min_member=members, created=f"{number:02}")))
        for index in range(members):
            pod = muster.pod(f"{name}-{index}", random.choice([2, 4, 8]), ref)
            muster.controller.tell(PodSeen(replace(pod, namespace=team, priority=random.choice([0, 0, 10]))))
    return found


async def settle(muster: Muster) -> None:
    """Wait until every gang was judged."""
    for _ in range(2000):
        if not muster.controller.admission.pending:
            return
        await asyncio.sleep(0.01)
    pytest.fail("no pass has run")


def by(user: str) -> dict[str, str]:
    """Return the headers of a caller."""
    return {"Authorization": f"Bearer {user}"}


async def read(http: httpx.AsyncClient, path: str, user: str | None = None) -> Any:
    """Return a document."""
    answer = await http.get(f"/api/v1/{path}", headers={} if user is None else by(user))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_without_a_token_as_the_setting_says(muster: Muster, reviewer: Reviewer) -> None:
    """By default all is shown; otherwise it is said how to show one, and pages and probes are answered all the same."""
    fill(muster, Random(1))
    async with client_of(muster, reviewer) as http:
        assert len((await read(http, "gangs"))["gangs"]) == 12
    async with client_of(muster, reviewer, anonymous=False) as http:
        refused = await http.get("/api/v1/gangs")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert "Authorization: Bearer" in refused.json()["detail"]
        assert (await http.get("/metrics")).status_code == 401
        assert (await http.get("/healthz")).status_code == 200
        assert (await http.get("/")).status_code == 200
        assert (await read(http, "gangs", "admin"))["gangs"]
    assert all("token" in each["spec"] or each["spec"]["user"] == "admin" for each in reviewer.asked)


async def test_an_administrator_sees_everything(http: httpx.AsyncClient) -> None:
    """The same documents as without a token, on a listener that shows all to those."""
    for path in ("gangs", "board", "queues", "nodes"):
        assert (await read(http, path, "admin")) == (await read(http, path))
    assert (await http.get("/metrics", headers=by("admin"))).status_code == 200


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("nodes", "alice lacks the right to list nodes"),
        ("queues", "alice lacks the right to list queues.muster.dev"),
        ("gangs?namespace=team-b", "alice lacks the right to list podgroups.scheduling.x-k8s.io in namespace team-b"),
        ("gangs/team-b/x/explain", "alice lacks the right to list podgroups.scheduling.x-k8s.io in namespace team-b"),
        ("history?namespace=team-c", "alice lacks the right to list podgroups.scheduling.x-k8s.io in namespace team-c"),
        ("new-route", "alice lacks the right to list podgroups.scheduling.x-k8s.io in all namespaces"),
        ("../../metrics", "alice lacks the right to list podgroups.scheduling.x-k8s.io in all namespaces"),
    ],
)
async def test_what_a_caller_may_not_list_is_refused_with_the_right(
    http: httpx.AsyncClient, path: str, right: str
) -> None:
    """403, whether or not what is asked about exists."""
    refused = await http.get(f"/api/v1/{path}", headers=by("alice"))
    assert (refused.status_code, refused.json()["detail"]) == (403, right)


async def test_counts_are_of_what_is_shown(http: httpx.AsyncClient, reviewer: Reviewer) -> None:
    """A status says how many of the caller's own gangs wait, and which kinds it does not show all of."""
    every, own = await read(http, "status"), await read(http, "status", "alice")
    gangs = (await read(http, "gangs", "alice"))["gangs"]
    assert {row["namespace"] for row in gangs} == {"team-a"}
    assert sum(own["gangs"].values()) == len(gangs) < sum(every["gangs"].values())
    assert sum(own["waiting"].values()) == sum(row["reason"] is not None for row in gangs)
    assert own["hiddenGangs"] == sum(every["gangs"].values()) - len(gangs)
    assert (await read(http, "gangs", "alice"))["hidden"] == own["hiddenGangs"] > every["hiddenGangs"] == 0
    assert (await read(http, "gangs?namespace=team-a", "alice"))["hidden"] == 0
    assert (own["hidden"], every["hidden"]) == (["namespaces", "nodes", "queues"], [])
    assert own["gpus"]["allocatable"] == own["nodes"]["total"] == own["queues"] == 0
    nobody = await read(http, "status", "eve")
    assert sum(nobody["gangs"].values()) == 0
    assert nobody["oldestWait"] is None
    board = await read(http, "board", "alice")
    assert board["status"]["gangs"] == own["gangs"]
    assert (board["nodes"]["names"], board["holders"], board["queues"]) == ([], [], [])
    reviewer.rights["alice"].add("nodes")
    await asyncio.sleep(ANSWER_SECONDS + 1)
    assert OF_ANOTHER in (await read(http, "board", "alice"))["holders"]


async def test_a_token_that_is_not_known_is_refused(http: httpx.AsyncClient, reviewer: Reviewer) -> None:
    """Also where callers without one see everything; it is asked about once."""
    for _ in range(3):
        answer = await http.get("/api/v1/gangs", headers=by("stolen"))
        assert (answer.status_code, "log in again" in answer.json()["detail"]) == (401, True)
    assert len(reviewer.asked) == 1


async def test_rights_are_remembered_briefly(http: httpx.AsyncClient, reviewer: Reviewer) -> None:
    """A second question costs the API server nothing; a right that is taken away is gone after a while."""
    await read(http, "gangs", "alice")
    before = len(reviewer.asked)
    await read(http, "gangs", "alice")
    assert len(reviewer.asked) == before
    reviewer.rights["alice"].clear()
    await asyncio.sleep(ANSWER_SECONDS + 1)
    assert (await read(http, "gangs", "alice"))["gangs"] == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ApiError(403, "Forbidden", "no"), "Muster itself may not create tokenreviews; its ClusterRole must grant it"),
        (ApiError(0, "Timeout", "late"), "the API server does not answer who calls (tokenreviews): no answer: late"),
    ],
)
async def test_an_api_server_that_does_not_say_is_no_permission(
    http: httpx.AsyncClient, reviewer: Reviewer, error: ApiError, said: str
) -> None:
    """503, with what to do."""
    reviewer.failing = error
    answer = await http.get("/api/v1/gangs", headers=by("alice"))
    assert (answer.status_code, answer.json()["detail"]) == (503, said)


@pytest.mark.parametrize("seed", range(6))
async def test_no_name_of_another_namespace_is_told(muster: Muster, reviewer: Reviewer, seed: int) -> None:
    """Whatever a caller of one team asks, or one of none: no name of the other teams comes back."""
    random = Random(seed)
    names = fill(muster, random)
    await settle(muster)
    reviewer.rights |= {"alice": {"podgroups@team-a", "nodes", "queues"}, "eve": {"nodes", "queues"}}
    async with client_of(muster, reviewer) as http:
        for user, own in (("alice", "team-a"), ("eve", "")):
            asked = [*READS, "gangs?phase=Pending", "events?limit=5", "gangs?queue=x", "nonsense"]
            for ref in names:
                asked += [f"gangs/{ref.namespace}/{ref.name}/{part}" for part in ("explain", "picture.svg")]
                asked += [f"events?gang={ref}"]
            for path in asked:
                answer = await http.get(f"/api/v1/{path}", headers=by(user))
                told = answer.text.replace(str(path), "")
                leaked = [team for team in TEAMS if team != own and f"secret-of-{team}" in told]
                assert leaked == [], f"{user} asked {path}"
            if own:
                whole = "".join(
                    [(await http.get(f"/api/v1/gangs/{ref}/explain", headers=by(user))).text for ref in names]
                )
                assert "secret-of-team-a" in whole


async def test_the_live_board_is_as_limited(muster: Muster, reviewer: Reviewer) -> None:
    """Picture and changes have the caller's own gangs alone, and it ends by itself, to be looked up again."""
    fill(muster, Random(3))
    await settle(muster)
    async with client_of(muster, reviewer) as http:

        async def change() -> None:
            for number in range(10):
                await asyncio.sleep(10)
                fill(muster, Random(10 + number))

        changing = asyncio.create_task(change())
        answer = await http.get("/api/v1/stream", headers=by("alice"))
        changing.cancel()
    assert answer.text.count("event: board") == 1
    assert answer.text.count("event: change") >= 2
    assert "secret-of-team-a" in answer.text
    assert "secret-of-team-b" not in answer.text
    assert "secret-of-team-c" not in answer.text


async def test_what_if_is_about_namespaces_that_one_may_list(http: httpx.AsyncClient) -> None:
    """A gang that does not exist is answered for where its own would be shown."""

    def question(namespace: str) -> JsonObject:
        group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"minMember": 1}}
        labels = {"scheduling.x-k8s.io/pod-group": "new"}
        box = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": "8"}}}
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"schedulerName": "muster", "containers": [box]}}
        return {
            "objects": [
                group | {"metadata": {"name": "new", "namespace": namespace}},
                pod | {"metadata": {"name": "new-0", "namespace": namespace, "labels": labels}},
            ]
        }

    asked = [
        await http.post("/api/v1/explain", json=question(team), headers=by("alice")) for team in ("team-a", "team-b")
    ]
    assert [answer.status_code for answer in asked] == [200, 403]
    assert "in namespace team-b" in asked[1].json()["detail"]
    assert "secret-of-team-b" not in asked[0].text
