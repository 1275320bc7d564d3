"""Questions about gangs that nobody has submitted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from extender.admission.events import PriorityClassGone, PriorityClassSeen
from extender.service.app import Application
from extender.service.gangs import WhatIfRoutes
from tests.builders import Json
from tests.control.conftest import Muster, Term
from tests.explain.hypothetical import objects

ASK = "/api/v1/explain"


@pytest.fixture
async def whatif(muster: Muster) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of an application that answers nothing but these questions."""
    app = Application(WhatIfRoutes(muster.controller, muster.settings).routes())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://muster") as client:
        yield client


@pytest.fixture
async def synced(muster: Muster) -> Muster:
    """Return a Muster that leads and knows three nodes."""
    muster.nodes(3)
    muster.sync()
    await asyncio.sleep(1)
    assert muster.controller.leading
    return muster


async def ask(client: httpx.AsyncClient, what: list[Json]) -> list[Json]:
    """Ask, and return what is said of each gang."""
    answer = await client.post(ASK, json={"objects": what})
    assert answer.status_code == 200, answer.text
    gangs: list[Json] = answer.json()["gangs"]
    return gangs


async def test_a_gang_that_would_start_says_where(whatif: httpx.AsyncClient, synced: Muster) -> None:
    """The node of each member, its GPUs, and what it would be like; nothing of it stays."""
    (gang,) = await ask(whatif, objects(2))
    assert (gang["wouldStart"], gang["hypothetical"], gang["reason"], gang["phase"]) == (True, True, None, "Pending")
    assert sum(gang["placement"]["gpusPerNode"].values()) == 16
    assert {pod["state"] for pod in gang["pods"]} == {"reserved"}
    assert all(pod["gpus"] == list(range(8)) for pod in gang["pods"])
    assert gang["suggestions"] == []
    assert not list(synced.controller.inspection.gangs())
    assert synced.api.nominations == []


async def test_a_gang_that_would_wait_says_why_and_what_would_help(whatif: httpx.AsyncClient, synced: Muster) -> None:
    """Its reason, its place in the line, the nodes that are left, and the smallest changes."""
    synced.gang("old", 2)
    await asyncio.sleep(1)
    (gang,) = await ask(whatif, objects(2))
    assert gang["wouldStart"] is False
    assert gang["reason"]["code"] == "InsufficientCapacity"
    assert gang["queue"]["position"] == 1
    (fall,) = gang["waterfall"]
    assert (fall["nodes"], fall["usable"], fall["fits"]) == (3, 1, 1)
    assert [each["gang"] for each in gang["holders"]] == ["default/old"]
    assert gang["suggestions"][0] == {
        "change": "gpus",
        "from": {"nvidia.com/gpu": "8"},
        "to": {"nvidia.com/gpu": "4"},
        "message": "4 nvidia.com/gpu per pod instead of 8, if its program can do with so many",
        "later": False,
        "startsAt": None,
    }


async def test_each_gang_is_judged_by_itself(whatif: httpx.AsyncClient, synced: Muster) -> None:
    """As if the others had not been asked about."""
    assert synced.controller.leading
    what = [pod for name in ("a", "b") for pod in _labelled(name, 2)]
    gangs = await ask(whatif, what)
    assert [(gang["name"], gang["wouldStart"]) for gang in gangs] == [("a", True), ("b", True)]


def _labelled(name: str, pods: int) -> list[Json]:
    """Return the pods of a gang that labels alone describe."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{index}",
                "labels": {"muster.dev/gang": name},
                "annotations": {"muster.dev/min-member": str(pods)},
            },
            "spec": {
                "schedulerName": "muster",
                "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 8}}}],
            },
        }
        for index in range(pods)
    ]


async def test_the_clusters_priority_classes_count(whatif: httpx.AsyncClient, synced: Muster) -> None:
    """By name, and the global default for pods that name none."""
    synced.controller.tell(PriorityClassSeen("high", 7, global_default=False))
    (gang,) = await ask(whatif, objects(1, priorityClassName="high"))
    assert gang["assumptions"] == []
    synced.controller.tell(PriorityClassGone("high"))
    (gang,) = await ask(whatif, objects(1, priorityClassName="high"))
    assert gang["assumptions"][0].startswith("no PriorityClass is called high; priority 0 is assumed")


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({}, "cannot read the question: Object missing required field `objects`"),
        ({"objects": []}, "cannot read the question: Expected `array` of length >= 1 - at `$.objects`"),
        ({"objects": [1]}, "cannot read the question: Expected `object`, got `int` - at `$.objects[0]`"),
        ({"objects": [{}], "more": 1}, "cannot read the question: Object contains unknown field `more`"),
        ({"objects": [{}]}, "object 1 is no Kubernetes object: it has no kind"),
        (
            {"objects": [*objects(1)[:1], *objects(1, nodeSelector=7)[1:]]},
            "Job default/new: spec.template.spec.nodeSelector: Expected `object | null`, got `int`",
        ),
    ],
)
async def test_what_nobody_can_judge_is_refused(
    whatif: httpx.AsyncClient, synced: Muster, body: Json, detail: str
) -> None:
    """400, with object and field."""
    assert synced.controller.leading
    answer = await whatif.post(ASK, json=body)
    assert (answer.status_code, answer.json()) == (400, {"detail": detail})


async def test_too_many_gangs_are_refused(whatif: httpx.AsyncClient, synced: Muster) -> None:
    """Each would take as long as an explanation."""
    assert synced.controller.leading
    what = [pod for index in range(65) for pod in _labelled(f"g{index}", 1)]
    answer = await whatif.post(ASK, json={"objects": what})
    assert answer.status_code == 400
    assert answer.json()["detail"] == "65 gangs are more than one question may be about, 64"


async def test_a_large_body_is_refused(whatif: httpx.AsyncClient, synced: Muster) -> None:
    """Before it is read, by the limit that the settings say."""
    assert synced.controller.leading
    answer = await whatif.post(ASK, content=b"x" * 100_001)
    assert answer.status_code == 413
    assert answer.json() == {"detail": "body exceeds 100000 bytes (setting body_limit_bytes)"}


async def test_questions_are_answered_one_by_one(whatif: httpx.AsyncClient, synced: Muster) -> None:
    """A few wait, more are refused: nobody's verbs wait for them."""
    assert synced.controller.leading
    what = {"objects": objects(1)}
    answers = await asyncio.gather(*(whatif.post(ASK, json=what) for _ in range(12)))
    assert sorted({answer.status_code for answer in answers}) == [200, 429]


async def test_nothing_is_said_before_everything_is_read(whatif: httpx.AsyncClient) -> None:
    """503, and what is missing."""
    answer = await whatif.post(ASK, json={"objects": objects(1)})
    assert answer.status_code == 503
    assert "not ready: " in answer.json()["detail"]


async def test_a_replica_that_stands_by_is_not_asked(whatif: httpx.AsyncClient, muster: Muster, term: Term) -> None:
    """It does not know for whom room is kept."""
    term.lease_gone()
    muster.sync()
    await asyncio.sleep(1)
    answer = await whatif.post(ASK, json={"objects": objects(1)})
    assert (answer.status_code, answer.json()["detail"]) == (
        503,
        "this replica stands by and decides nothing; ask the one that leads",
    )


async def test_the_openapi_document_describes_it(whatif: httpx.AsyncClient) -> None:
    """The body, and every status."""
    openapi = (await whatif.get("/openapi.json")).json()
    asked: dict[str, Any] = openapi["paths"][ASK]["post"]
    assert asked["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/WhatIfQuestion"
    }
    schema = openapi["components"]["schemas"]["WhatIfQuestion"]
    assert schema["required"] == ["objects"]
    assert schema["properties"]["objects"]["minItems"] == 1
    assert set(asked["responses"]) == {"200", "400", "413", "429", "503"}
