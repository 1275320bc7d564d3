"""What comes and goes over HTTP is freed as it goes: no cycle of its objects waits for a full garbage collection."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.control.conftest import Muster
from tests.garbage import garbage
from tests.service.conftest import pod_body
from tests.service.serving import Service
from tests.service.test_stream import Reader, serving


async def test_a_page_that_closes_leaves_nothing(muster: Muster) -> None:
    """By then its connection has lived for longer than any collection looks back."""
    muster.nodes(2)
    muster.sync()
    async with serving(muster) as service:

        async def look() -> None:
            page = await Reader.open(service)
            await page.event()
            page.writer.close()
            await page.writer.wait_closed()
            service.connections.clear()
            await asyncio.sleep(0.1)

        assert await garbage(look) == {}


async def _ask(service: Service, path: str, body: Any) -> None:
    content = json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(content)}\r\n\r\n"
    assert (await service.send(head.encode() + content)).startswith(b"HTTP/1.1 ")
    service.connections.pop().close()
    await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/filter", {"Pod": pod_body("single", gpus=1), "NodeNames": ["node-0", "node-1"]}),
        ("/v1/prioritize", {"Pod": pod_body("single", gpus=1), "NodeNames": ["node-0", "node-1"]}),
        ("/v1/bind", {"PodName": "x", "PodNamespace": "default", "PodUID": "x", "Node": "node-0"}),
        ("/v1/filter", "no question"),
        ("/metrics", None),
        ("/api/v1/board", None),
        ("/api/v1/gangs/default/waits/explain", None),
        ("/api/v1/snapshot", None),
        ("/nowhere", None),
    ],
)
async def test_a_call_leaves_nothing(muster: Muster, path: str, body: Any) -> None:
    """Neither the call nor its connection, answered or refused."""
    muster.nodes(2)
    muster.gang("waits", 3)
    muster.sync()
    async with serving(muster) as service:
        assert await garbage(lambda: _ask(service, path, body)) == {}
