"""Health and metrics."""

from __future__ import annotations

import platform

import httpx
import pytest

from extender import __version__
from tests.control.conftest import Muster
from tests.service.conftest import pod_body


async def test_healthz_answers_from_the_start(http: httpx.AsyncClient) -> None:
    """The process is alive before it is ready."""
    assert (await http.get("/healthz")).text == "ok\n"


async def test_readyz_says_what_is_missing(http: httpx.AsyncClient, muster: Muster) -> None:
    """Until synced it is 503 with one line per kind, then ok."""
    response = await http.get("/readyz")
    assert response.status_code == 503
    assert "pods not synced\n" in response.text
    muster.sync()
    response = await http.get("/readyz")
    assert (response.status_code, response.text) == (200, "ok, leading\n")


async def test_metrics_show_verbs_and_gangs(http: httpx.AsyncClient, muster: Muster) -> None:
    """The exposition has latency by verb and outcome, and gauges read off the state."""
    muster.nodes(1)
    muster.sync()
    muster.gang("a", 1)
    await http.post("/v1/filter", json={"Pod": pod_body("a-0", gang="a"), "NodeNames": ["node-0"]})
    response = await http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    assert 'muster_verb_seconds_count{outcome="pinned",verb="filter"} 1.0' in response.text
    assert 'muster_gangs{phase="Scheduling"} 1.0' in response.text


async def test_metrics_name_the_build_and_no_times_of_creation(http: httpx.AsyncClient) -> None:
    """What runs can be told from the metrics alone, and no series says only when another began."""
    lines = (await http.get("/metrics")).text.splitlines()
    build = f'muster_build_info{{python="{platform.python_version()}",version="{__version__}"}} 1.0'
    assert build in lines
    assert [line for line in lines if "_created" in line] == []


async def test_no_metric_is_labelled_by_pod_node_or_gang(http: httpx.AsyncClient, muster: Muster) -> None:
    """Series do not grow with the cluster."""
    muster.nodes(50)
    muster.sync()
    for index in range(20):
        muster.gang(f"gang-{index}", 2)
    text = (await http.get("/metrics")).text
    assert "gang-" not in text
    assert "node-1" not in text


async def test_the_second_listener_knows_no_verbs(read_http: httpx.AsyncClient, muster: Muster) -> None:
    """What may be reached from other machines cannot place pods."""
    muster.sync()
    assert (await read_http.get("/readyz")).status_code == 200
    assert (await read_http.get("/metrics")).status_code == 200
    for path in ("/v1/filter", "/v1/prioritize", "/v1/bind", "/v1/preempt", "/openapi.json", "/docs"):
        assert (await read_http.post(path, json={})).status_code == 404
        assert (await read_http.get(path)).status_code == 404


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_the_second_listener_is_read_only(read_http: httpx.AsyncClient, path: str) -> None:
    """Every method that could change something is 405."""
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert (await read_http.request(method, path)).status_code == 405


async def test_the_verbs_are_described(http: httpx.AsyncClient) -> None:
    """The OpenAPI document has each verb with the fields that kube-scheduler sends, and what comes back."""
    document = (await http.get("/openapi.json")).json()
    assert document == (await http.get("/openapi.json")).json()
    assert set(document["paths"]) >= {"/v1/filter", "/v1/prioritize", "/v1/bind", "/v1/preempt", "/healthz"}
    schemas = document["components"]["schemas"]
    assert set(schemas["ExtenderArgs"]["properties"]) == {"Pod", "Nodes", "NodeNames"}
    assert set(schemas["BindingArgs"]["properties"]) == {"PodName", "PodNamespace", "PodUID", "Node"}
    filtering = document["paths"]["/v1/filter"]["post"]
    assert filtering["responses"].keys() == {"200", "400", "413"}
    shape = filtering["responses"]["200"]["content"]["application/json"]["schema"]
    assert shape == {"$ref": "#/components/schemas/FilterResult"}
