"""What people ask about Queues."""

from __future__ import annotations

import httpx

from extender.admission.events import QueueSeen
from extender.objects.queue import Flavor, Queue, Quota
from tests.control.conftest import Muster

GPU = "nvidia.com/gpu"
AMOUNTS = ("used", "borrowed", "lent", "reserved")


async def test_every_queue_is_told_with_its_quota(http: httpx.AsyncClient, muster: Muster) -> None:
    """Under the names of the Queue's status; amounts are counts here, whatever the resource."""
    muster.sync()
    flavor = Flavor("h100", {GPU: Quota(16)})
    muster.controller.tell(QueueSeen(Queue("research", flavors=(flavor,))))
    muster.controller.tell(QueueSeen(Queue("team-a", parent="research", flavors=(flavor,))))
    research, team = (await http.get("/api/v1/queues")).json()["queues"]
    assert research["name"] == "research"
    assert team == {
        "name": "team-a",
        "parent": "research",
        "active": True,
        "reason": "",
        "message": "",
        "share": 0.0,
        "pendingGangs": 0,
        "admittedGangs": 0,
        "flavors": [
            {"name": "h100", "resource": GPU, "nominal": 16, "used": 0, "borrowed": 0, "lent": 0, "reserved": 0}
        ],
        "pendingSince": None,
        "running": [],
    }


async def test_before_everything_is_read_nobody_is_told_wrong_usage(http: httpx.AsyncClient) -> None:
    """503, and what is missing."""
    answer = await http.get("/api/v1/queues")
    assert answer.status_code == 503
    assert "not ready: " in answer.json()["detail"]


async def test_the_openapi_document_describes_them(http: httpx.AsyncClient) -> None:
    """Every field of the answer, as the struct has it, and the failure."""
    openapi = (await http.get("/openapi.json")).json()
    responses = openapi["paths"]["/api/v1/queues"]["get"]["responses"]
    assert set(responses) >= {"200", "503"}
    assert responses["200"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/QueuesDocument"}
    schemas = openapi["components"]["schemas"]
    assert set(schemas["QueueRow"]["properties"]) == {
        *("name", "parent", "active", "reason", "message", "share", "flavors"),
        *("pendingGangs", "admittedGangs", "pendingSince", "running"),
    }
    assert set(schemas["QuotaUse"]["properties"]) == {
        *("name", "resource", "nominal", "used", "borrowed", "lent", "reserved")
    }
