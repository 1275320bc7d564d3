"""Requests that a browser sends for a page of another site."""

from __future__ import annotations

import pytest

from extender.service.origins import foreign
from extender.settings import Settings
from tests.service.serving import served

HERE = b"localhost:10261"


@pytest.mark.parametrize("host", [HERE, b"127.0.0.1:8080", b"[::1]:1", b"localhost", b"muster.localhost", b"127.8.9.1"])
@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_names_of_loopback_are_asked(method: bytes, host: bytes) -> None:
    """Who asks for this machine by any of its own names is answered; kube-scheduler sends no Origin."""
    assert foreign(method, {b"host": host}, loopback=True) == ""
    assert foreign(method, {b"host": host, b"origin": b"http://" + host}, loopback=True) == ""


@pytest.mark.parametrize(
    "headers",
    [
        {b"host": b"attacker.example:10261"},
        {b"host": b"10.0.0.7"},
        {b"host": b"localhost.attacker.example"},
        {b"host": HERE, b"origin": b"https://attacker.example"},
        {b"host": HERE, b"origin": b"http://localhost:3000"},
        {b"host": HERE, b"origin": b"null"},
        {b"host": HERE, b"origin": b"http://[half"},
    ],
)
@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_foreign_pages_are_refused_on_loopback(method: bytes, headers: dict[bytes, bytes]) -> None:
    """Neither a name that was rebound to this machine nor another page's origin gets an answer."""
    assert foreign(method, headers, loopback=True)


@pytest.mark.parametrize(
    ("method", "headers", "refused"),
    [
        (b"GET", {b"host": b"muster.svc"}, False),
        (b"GET", {b"host": b"muster.svc", b"origin": b"https://wiki.example"}, False),
        (b"POST", {b"host": b"muster.svc"}, False),
        (b"POST", {b"host": b"muster.svc", b"origin": b"https://muster.svc"}, False),
        (b"POST", {b"host": b"muster.svc", b"origin": b"https://wiki.example"}, True),
        (b"POST", {b"host": b"10.0.0.7", b"origin": b"https://wiki.example", b"sec-fetch-site": b"same-origin"}, False),
        (b"POST", {b"host": b"10.0.0.7", b"origin": b"https://wiki.example", b"sec-fetch-site": b"cross-site"}, True),
    ],
)
def test_elsewhere_pages_may_ask_and_change_nothing(
    method: bytes, headers: dict[bytes, bytes], *, refused: bool
) -> None:
    """Off loopback any name is right, and only what a foreign page would change is refused."""
    assert bool(foreign(method, headers, loopback=False)) is refused


@pytest.mark.parametrize(
    "lines",
    [b"Host: attacker.example", b"Host: localhost\r\nOrigin: https://attacker.example"],
    ids=["rebound name", "foreign page"],
)
@pytest.mark.parametrize("target", [b"POST /v1/bind", b"POST /api/v1/gangs/a/b/defrag", b"GET /api/v1/board"])
async def test_a_refused_request_reaches_no_application(target: bytes, lines: bytes) -> None:
    """The answer is 403 with why; nothing is run."""
    called: list[str] = []

    async def app(scope: object, _receive: object, _send: object) -> None:
        called.append(str(scope))

    async with served(Settings(), app=app) as service:
        answer = await service.send(target + b" HTTP/1.1\r\n" + lines + b"\r\nContent-Length: 0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
        assert b"x-content-type-options: nosniff\r\n" in answer
        assert service.refused("foreign") == 1
    assert called == []
