"""What people ask about queues."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from extender.admission.queueview import QueueView, QuotaUse
from extender.service.queues import add_queues
from tests.control.conftest import Muster

USE = QuotaUse("h100", "nvidia.com/gpu", nominal=16, used=24, borrowed=8, lent=0)
TEAM = QueueView("team-a", "research", active=True, message="", flavors=(USE,), share=0.5, pending=3, admitted=2)


@pytest.fixture
async def queues(muster: Muster) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of an application with one queue."""
    app = FastAPI()
    add_queues(app, muster.controller, lambda: [TEAM])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://muster") as client:
        yield client


async def test_every_queue_is_told_with_its_quota(queues: httpx.AsyncClient, muster: Muster) -> None:
    """Under the names of the Queue's status."""
    muster.sync()
    answer = await queues.get("/api/v1/queues")
    assert answer.json() == {
        "queues": [
            {
                "name": "team-a",
                "parent": "research",
                "active": True,
                "reason": "",
                "message": "",
                "share": 0.5,
                "pendingGangs": 3,
                "admittedGangs": 2,
                "flavors": [
                    {
                        "name": "h100",
                        "resource": "nvidia.com/gpu",
                        "nominal": 16,
                        "used": 24,
                        "borrowed": 8,
                        "lent": 0,
                    }
                ],
            }
        ]
    }


async def test_before_everything_is_read_nobody_is_told_wrong_usage(queues: httpx.AsyncClient) -> None:
    """503, and what is missing."""
    answer = await queues.get("/api/v1/queues")
    assert answer.status_code == 503
    assert "not ready: " in answer.json()["detail"]


async def test_the_openapi_document_describes_them(queues: httpx.AsyncClient) -> None:
    """Every field of the answer, and the failure."""
    responses = (await queues.get("/openapi.json")).json()["paths"]["/api/v1/queues"]["get"]["responses"]
    assert set(responses) >= {"200", "503"}
    schema = responses["200"]["content"]["application/json"]["schema"]["properties"]["queues"]["items"]["properties"]
    assert set(schema) == {
        *("name", "parent", "active", "reason", "message", "share", "pendingGangs", "admittedGangs", "flavors")
    }
    assert set(schema["flavors"]["items"]["properties"]) == {
        *("name", "resource", "nominal", "used", "borrowed", "lent")
    }
