"""What people ask about a gang."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from xml.etree import ElementTree as ET

import httpx
import jsonschema_rs
import msgspec
import pytest

from extender.admission.events import PodSeen
from extender.control.ports import LeaseGone
from extender.explain.documents import Explanation
from extender.objects.pod import Phase
from tests.builders import as_sent
from tests.control.conftest import GPU, Muster, Term

GANG = "/api/v1/gangs/default/train"
DEFRAG = f"{GANG}/defrag"


@pytest.fixture
async def synced(muster: Muster) -> Muster:
    """Return a Muster that knows three nodes."""
    muster.nodes(3)
    muster.sync()
    return muster


async def test_a_gang_that_waits_says_why(http: httpx.AsyncClient, synced: Muster) -> None:
    """Reason, members, and no placement."""
    synced.gang("train", 4)
    document = (await http.get(f"{GANG}/explain")).json()
    assert (document["namespace"], document["name"], document["minMember"]) == ("default", "train", 4)
    assert document["placement"] is None
    assert [pod["name"] for pod in document["pods"]] == ["train-0", "train-1", "train-2", "train-3"]
    assert {pod["state"] for pod in document["pods"]} == {"waiting"}


async def test_a_gang_that_waits_says_which_nodes_are_left_and_who_has_the_others(
    http: httpx.AsyncClient, synced: Muster
) -> None:
    """In line, step by step, at the nearest miss."""
    synced.controller.tell(PodSeen(replace(synced.pod("other", 8), node_name="node-0")))
    synced.gang("train", 3)
    await asyncio.sleep(1)
    document = (await http.get(f"{GANG}/explain")).json()
    assert document["queue"] == {"name": None, "position": 1, "of": 1, "positionInQueue": 1, "ofQueue": 1, "ahead": []}
    (fall,) = document["waterfall"]
    assert [(step["cause"], step["nodes"], step["left"]) for step in fall["steps"]] == [("TooFull", 1, 2)]
    assert (fall["nodes"], fall["usable"], fall["fits"], fall["pods"]) == (3, 2, 2, 3)
    assert document["nearestMiss"] == {"level": "cluster", "domain": "", "fits": 2, "needed": 3, "lacks": {GPU: "8"}}
    assert [(holder["gang"], holder["gpus"]) for holder in document["holders"]] == [("default/other", 8)]
    assert document["choice"] is None


async def test_what_would_help_is_searched_for_on_request(http: httpx.AsyncClient, synced: Muster) -> None:
    """By default nobody searches, which is null; what is found is a list, and no answer at all is refused."""
    synced.gang("train", 4)
    await asyncio.sleep(1)
    assert (await http.get(f"{GANG}/explain")).json()["suggestions"] is None
    found = (await http.get(f"{GANG}/explain", params={"suggestions": True})).json()["suggestions"]
    assert (found[0]["change"], found[0]["from"], found[0]["to"]) == ("gpus", {GPU: "8"}, {GPU: "4"})
    assert (await http.get(f"{GANG}/explain", params={"suggestions": "perhaps"})).status_code == 422


async def test_an_explanation_has_the_form_that_the_openapi_document_says(
    http: httpx.AsyncClient, synced: Muster
) -> None:
    """Of a gang that waits, with suggestions and without, and of one that is placed."""
    openapi = (await http.get("/openapi.json")).json()
    answers = openapi["paths"]["/api/v1/gangs/{namespace}/{name}/explain"]["get"]["responses"]
    schema = answers["200"]["content"]["application/json"]["schema"]
    synced.controller.tell(PodSeen(replace(synced.pod("other", 8), node_name="node-0")))
    synced.gang("train", 3)
    placed = synced.gang("placed", 1)
    await asyncio.sleep(1)
    await synced.controller.filter(placed[0], ["node-0", "node-1", "node-2"])
    for path in (f"{GANG}/explain", f"{GANG}/explain?suggestions=true", "/api/v1/gangs/default/placed/explain"):
        document = (await http.get(path)).json()
        jsonschema_rs.validate({**schema, "components": openapi["components"]}, document)
        assert as_sent(msgspec.convert(document, Explanation)) == document  # nothing else is in it
        assert document["waterfall"] or document["choice"]


async def test_a_placed_gang_says_where_it_is(http: httpx.AsyncClient, synced: Muster) -> None:
    """What is promised counts: nodes and GPUs are there before anything is bound."""
    pods = synced.gang("train", 2)
    await synced.controller.filter(pods[0], ["node-0", "node-1", "node-2"])
    document = (await http.get(f"{GANG}/explain")).json()
    assert document["phase"] == "Scheduling"
    assert sum(document["placement"]["gpusPerNode"].values()) == 16
    assert {pod["state"] for pod in document["pods"]} == {"reserved"}
    assert all(pod["gpus"] == list(range(8)) for pod in document["pods"])
    assert {pod["node"] for pod in document["pods"]} == set(document["placement"]["gpusPerNode"])
    assert document["choice"]["considered"] == 3
    assert document["queue"]["position"] is None


async def test_the_picture_shows_the_cluster_with_the_gang_on_it(http: httpx.AsyncClient, synced: Muster) -> None:
    """An SVG that runs nothing and loads nothing."""
    pods = synced.gang("train", 2)
    await synced.controller.filter(pods[0], ["node-0", "node-1", "node-2"])
    answer = await http.get(f"{GANG}/picture.svg")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    drawn = ET.fromstring(answer.text)  # noqa: S314 - it is our own
    title = drawn.findtext("{http://www.w3.org/2000/svg}title") or ""
    assert title.startswith("default/train: Scheduling")
    cells = [cell for cell in drawn.iter("{http://www.w3.org/2000/svg}rect") if cell.get("class") == "own"]
    assert len(cells) == 16 + 1  # and the legend


@pytest.mark.parametrize("what", ["explain", "picture.svg"])
async def test_an_unknown_gang_is_not_found(http: httpx.AsyncClient, synced: Muster, what: str) -> None:
    """404, and what was looked for."""
    assert synced.controller.health.ready
    answer = await http.get(f"{GANG}/{what}")
    assert answer.status_code == 404
    assert answer.json()["detail"] == (
        "no gang default/train: there is no PodGroup, no gang of pods and no pod for Muster of that name"
    )


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/api/v1/gangs/Default/train/explain", "'Default' cannot be the name of a namespace"),
        ("/api/v1/gangs/default/-train/explain", "'-train' cannot be the name of a gang"),
        ("/api/v1/gangs/default/a%20b/picture.svg", "'a b' cannot be the name of a gang"),
        (f"/api/v1/gangs/default/{'x' * 300}/explain", f"'{'x' * 100}' cannot be the name of a gang"),
        ("/api/v1/gangs/..%5c/%00/explain", "'..\\\\' cannot be the name of a namespace"),
    ],
)
async def test_what_cannot_be_a_name_is_refused(
    http: httpx.AsyncClient, synced: Muster, path: str, detail: str
) -> None:
    """400, quoting it."""
    assert synced.controller.health.ready
    answer = await http.get(path)
    assert (answer.status_code, answer.json()) == (400, {"detail": detail})


async def test_before_everything_is_read_nobody_is_told_that_a_gang_does_not_exist(http: httpx.AsyncClient) -> None:
    """503, and what is missing."""
    answer = await http.get(f"{GANG}/explain")
    assert answer.status_code == 503
    assert "not ready: " in answer.json()["detail"]
    assert "pods not synced" in answer.json()["detail"]


async def test_gangs_are_not_on_the_second_listener(read_http: httpx.AsyncClient, synced: Muster) -> None:
    """Names of pods and nodes are for those who may call the verbs."""
    synced.gang("train", 2)
    assert (await read_http.get(f"{GANG}/explain")).status_code == 404


async def test_the_openapi_document_describes_them(http: httpx.AsyncClient) -> None:
    """Paths, parameters and failures."""
    paths = (await http.get("/openapi.json")).json()["paths"]
    assert set(paths["/api/v1/gangs/{namespace}/{name}/defrag"]) == {"get", "post"}
    for what in ("explain", "picture.svg", "defrag"):
        responses = paths[f"/api/v1/gangs/{{namespace}}/{{name}}/{what}"]["get"]["responses"]
        assert set(responses) >= {"200", "400", "404", "503"}


class TestDefragment:
    """Moves that would make a gang fit."""

    @staticmethod
    async def halves(synced: Muster) -> None:
        """Let three nodes be half used each, and a gang wait for a whole one."""
        for index in range(3):
            (pod,) = synced.gang(f"half-{index}", 1, gpus=4, present=0)
            synced.controller.tell(PodSeen(replace(pod, node_name=f"node-{index}", phase=Phase.RUNNING)))
        synced.gang("train", 1)
        await asyncio.sleep(1)

    async def test_a_get_shows_them(self, http: httpx.AsyncClient, synced: Muster) -> None:
        """Who would go from where to where; nothing is done."""
        await self.halves(synced)
        document = (await http.get(DEFRAG)).json()
        assert (document["fits"], document["reason"]) == (True, "")
        (move,) = document["moves"]
        assert move["gang"].startswith("default/half-")
        assert (move["pods"], len(move["from"]), len(move["to"])) == (1, 1, 1)
        assert move["from"] != move["to"]
        await asyncio.sleep(1)
        assert synced.api.evictions == []

    async def test_a_post_has_them_made(self, http: httpx.AsyncClient, synced: Muster) -> None:
        """The answer is the same, and whoever has to move is evicted."""
        await self.halves(synced)
        document = (await http.post(DEFRAG)).json()
        await asyncio.sleep(1)
        assert [f"default/{name[:-2]}" for name, _ in synced.api.evictions] == [
            move["gang"] for move in document["moves"]
        ]

    async def test_without_any_it_says_why(self, http: httpx.AsyncClient, synced: Muster) -> None:
        """A gang that is larger than the cluster."""
        synced.gang("train", 4)
        document = (await http.get(DEFRAG)).json()
        assert (document["fits"], document["moves"]) == (False, [])
        assert document["reason"].startswith("no moves make it fit")

    @pytest.mark.parametrize("method", ["GET", "POST"])
    async def test_an_unknown_gang_is_not_found(self, http: httpx.AsyncClient, synced: Muster, method: str) -> None:
        """404, as for its other reads."""
        assert synced.controller.health.ready
        assert (await http.request(method, DEFRAG)).status_code == 404

    @pytest.mark.parametrize("method", ["GET", "POST"])
    async def test_before_everything_is_read_nothing_is_planned(self, http: httpx.AsyncClient, method: str) -> None:
        """503, and what is missing."""
        answer = await http.request(method, DEFRAG)
        assert answer.status_code == 503
        assert "not ready: " in answer.json()["detail"]

    async def test_a_replica_that_does_not_lead_plans_nothing(
        self, http: httpx.AsyncClient, synced: Muster, term: Term
    ) -> None:
        """503, and who to ask instead."""
        await self.halves(synced)
        term.until = -1.0
        synced.controller.tell(LeaseGone())
        answer = await http.post(DEFRAG)
        assert answer.status_code == 503
        assert "does not hold the Lease" in answer.json()["detail"]
        assert synced.api.evictions == []
