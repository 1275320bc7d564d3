"""What people ask about a gang."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from xml.etree import ElementTree as ET

import httpx
import pytest

from extender.domain.pod import Phase
from tests.control.conftest import Muster, Term

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
    assert synced.controller.ready
    answer = await http.get(f"{GANG}/{what}")
    assert answer.status_code == 404
    assert answer.json()["detail"] == (
        "no gang default/train: neither a PodGroup nor a pod of that name's gang is there"
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
    assert synced.controller.ready
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
            synced.controller.observer.pod_seen(replace(pod, node_name=f"node-{index}", phase=Phase.RUNNING))
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
        assert synced.controller.ready
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
        answer = await http.post(DEFRAG)
        assert answer.status_code == 503
        assert "does not hold the Lease" in answer.json()["detail"]
        assert synced.api.evictions == []
