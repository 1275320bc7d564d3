"""What autoscalers are told."""

from __future__ import annotations

import asyncio

import httpx

from tests.control.conftest import Muster, Term

DEMAND = "/api/v1/demand"


async def test_a_gang_that_lacks_nodes_is_listed(http: httpx.AsyncClient, muster: Muster) -> None:
    """How many pods of which shape wait together, why and since when; and the metrics add it up."""
    muster.nodes(1)
    muster.sync()
    muster.gang("train", 3)
    await asyncio.sleep(1)
    (row,) = (await http.get(DEMAND)).json()["gangs"]
    assert (row["namespace"], row["name"], row["api"]) == ("default", "train", "scheduling.x-k8s.io")
    assert (row["reason"], row["pods"], row["level"]) == ("ExceedsCluster", 3, None)
    (pod_set,) = row["podSets"]
    assert pod_set["count"] == 3
    assert pod_set["requests"]["nvidia.com/gpu"] == "8"
    await http.get("/metrics")
    assert muster.sample("muster_unmet_demand_pods") == 3
    assert muster.sample("muster_unmet_demand", resource="nvidia.com/gpu") == 24


async def test_a_gang_that_fits_lacks_nothing(http: httpx.AsyncClient, muster: Muster) -> None:
    """A reservation is room: nobody need buy nodes for it."""
    muster.nodes(3)
    muster.sync()
    muster.gang("train", 3)
    await asyncio.sleep(1)
    assert (await http.get(DEMAND)).json() == {"gangs": []}
    await http.get("/metrics")
    assert muster.sample("muster_unmet_demand_pods") == 0


async def test_who_judges_nobody_does_not_say_that_nobody_lacks_anything(
    http: httpx.AsyncClient, muster: Muster, term: Term
) -> None:
    """503 until everything is read, and from a replica that does not lead."""
    answer = await http.get(DEMAND)
    assert answer.status_code == 503
    assert "not synced" in answer.json()["detail"]
    term.lease_gone()
    muster.sync()
    answer = await http.get(DEMAND)
    assert (answer.status_code, answer.json()["detail"]) == (503, "no gang is evaluated here: another replica leads")


async def test_it_is_not_served_to_other_machines(read_http: httpx.AsyncClient) -> None:
    """Names of gangs are in it; what the metrics say is in them for everybody."""
    assert (await read_http.get(DEMAND)).status_code == 404


async def test_it_is_documented(http: httpx.AsyncClient) -> None:
    """The OpenAPI document names its answers."""
    path = (await http.get("/openapi.json")).json()["paths"][DEMAND]["get"]
    assert sorted(path["responses"]) == ["200", "503"]
