"""The client of the API server: whose connections are whose."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import certifi
import pytest

from localcluster.client import ApiClient
from localcluster.credentials import Connection
from tests.localcluster.upstream import Upstream
from tests.patience import HANGS


@pytest.fixture
def client(upstream: Upstream) -> Iterator[ApiClient]:
    """Yield a client of that server."""
    with ApiClient(Connection(upstream.url, Path(certifi.where()), "token")) as client:
        yield client


def test_nobody_else_has_the_connection_of_a_request_under_way(client: ApiClient, upstream: Upstream) -> None:
    """Watches that are open, and requests beside them, come over as many connections; who is alone uses one again."""
    with client.stream("/pods", {"watch": "true"}), client.stream("/nodes", {"watch": "true"}):
        client.request("GET", "/first")
        client.request("GET", "/second")
    client.request("GET", "/third")
    *watches, first, second, third = upstream.connections
    assert len({*watches, first}) == 3
    assert first == second
    assert third not in watches  # of which the answers had no end


def test_many_threads_are_answered_what_they_asked(client: ApiClient, upstream: Upstream) -> None:
    """All begin at once, again and again; each gets its own answer."""
    begin = Barrier(8)

    def ask(thread: int) -> set[str]:
        answered = set()
        for number in range(20):
            begin.wait(HANGS)
            line = client.request("GET", f"/{thread}/{number}")["line"]
            answered.add(line)
        return answered

    with ThreadPoolExecutor(8) as pool:
        for thread, answered in enumerate(pool.map(ask, range(8))):
            assert answered == {f"GET /{thread}/{number}" for number in range(20)}
    assert len(set(upstream.connections)) <= 8
