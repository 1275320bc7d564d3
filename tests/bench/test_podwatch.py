"""The benchmark's watch of pods, and the client that it reads with, against a server that says what it is told to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import certifi
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bench.controlplane.accounts import read_muster
from bench.controlplane.client import LoadClient, Request
from bench.controlplane.podwatch import PodWatch
from localcluster.credentials import Connection
from localcluster.errors import ApiError, LocalClusterError, NotInTimeError
from tests.patience import HANGS

PATH = "/api/v1/namespaces/default/pods"


def event(name: str, version: int, *, node: str = "", nominated: str = "") -> bytes:
    """Return a line of a watch."""
    item = {
        "metadata": {"name": name, "resourceVersion": str(version)},
        "spec": {"nodeName": node} if node else {},
        "status": {"nominatedNodeName": nominated} if nominated else {},
    }
    return json.dumps({"type": "MODIFIED", "object": item}).encode() + b"\n"


@asynccontextmanager
async def api_server(*watches: bytes) -> AsyncIterator[tuple[LoadClient, list[str]]]:
    """Serve each of `watches` once and end it, then refuse; yield a client and the versions that were asked for."""
    left, versions = iter(watches), list[str]()

    async def pods(request: web.Request) -> web.Response:
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "7"}, "items": []})
        versions.append(request.query["resourceVersion"])
        body = next(left, None)
        return web.Response(status=410, text="too old") if body is None else web.Response(body=body)

    app = web.Application()
    app.router.add_get(PATH, pods)
    async with TestServer(app) as server:
        connection = Connection(str(server.make_url("/")).rstrip("/"), Path(certifi.where()), "token")
        async with LoadClient(connection) as client:
            yield client, versions


async def test_a_watch_that_the_server_ends_goes_on_where_it_was() -> None:
    """Nothing is missed, and a pod is bound once, at its first event with a node."""
    watches = [event("a", 8, nominated="n"), event("a", 9, node="n") + event("b", 10), event("b", 11, node="n")]
    async with api_server(*watches) as (client, versions), PodWatch(client, "default") as watch:
        await watch.until_bound(2, timeout_seconds=HANGS)
        assert list(watch.bound) == ["a", "b"]
        assert watch.nominations == 1
    assert versions[:3] == ["7", "8", "10"]


async def test_a_nomination_that_is_taken_back_and_renewed_counts_twice() -> None:
    """The first and the second writing are both work; the same nomination in a later event is not."""
    seen = [("m", 8), ("m", 9), ("", 10), ("m", 11)]
    body = b"".join(event("a", version, nominated=node) for node, version in seen) + event("a", 12, node="m")
    async with api_server(body) as (client, _), PodWatch(client, "default") as watch:
        await watch.until_bound(1, timeout_seconds=HANGS)
        assert watch.nominations == 2


async def test_a_watch_that_cannot_go_on_ends_the_measurement() -> None:
    """The error says why, at once and not at the deadline."""
    async with api_server(event("a", 8)) as (client, _), PodWatch(client, "default") as watch:
        with pytest.raises(LocalClusterError, match="410"):
            await watch.until_bound(1, timeout_seconds=HANGS)


async def test_a_status_in_place_of_a_pod_ends_the_measurement() -> None:
    """That is how the API server ends a watch for good."""
    status = b'{"type":"ERROR","object":{"kind":"Status","metadata":{},"status":"Failure","code":410}}\n'
    async with api_server(status) as (client, _), PodWatch(client, "default") as watch:
        with pytest.raises(LocalClusterError, match=r"not an event of a pod.*Failure"):
            await watch.until_bound(1, timeout_seconds=HANGS)


async def test_pods_that_are_not_bound_in_time_are_counted_in_the_error() -> None:
    """The message says how far it came."""
    many = b"".join(event(f"pod-{number}", 8 + number, node="n") for number in range(3))
    async with api_server(many, *[b""] * 10_000) as (client, _), PodWatch(client, "default") as watch:
        with pytest.raises(NotInTimeError, match="4 pods bound, 3 are"):
            await watch.until_bound(4, timeout_seconds=0.2)


async def test_a_refused_request_is_an_error() -> None:
    """What was not created must not be waited for."""
    async with api_server() as (client, _):
        with pytest.raises(ApiError, match="404"):
            await client.send_all([Request("POST", "/nowhere", b"{}")] * 3, concurrency=2)


async def test_a_server_that_has_gone_is_an_error_that_names_the_request() -> None:
    """The program says it without a traceback, as for all that fails in the local cluster."""
    connection = Connection("http://127.0.0.1:1", Path(certifi.where()), "token")
    async with LoadClient(connection) as client:
        with pytest.raises(LocalClusterError, match=r"GET /version: no answer"):
            await client.send_all([Request("GET", "/version", b"")], concurrency=1)


def test_metrics_that_nobody_gives_are_an_error() -> None:
    """A figure without its counters would be wrong in silence."""
    with pytest.raises(LocalClusterError, match=r"no metrics from http://127\.0\.0\.1:1"):
        read_muster("http://127.0.0.1:1")
