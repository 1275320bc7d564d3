"""Limits of connections, exceeded over real sockets."""

from __future__ import annotations

import asyncio
import socket

import pytest

from extender.service.connections import client_names
from extender.settings import Settings
from tests.patience import HANGS
from tests.service.serving import POST, served, until

LIMITS = Settings(head_limit_bytes=2048, header_limit=16)
HASTY = Settings(head_timeout_seconds=0.2, body_timeout_seconds=0.3)
REQUEST = POST + b"Content-Length: 5\r\nConnection: close\r\n\r\nhello"


async def test_a_request_within_the_limits_is_answered() -> None:
    """Pieces that come slowly, but in time, make one request."""
    async with served(LIMITS) as service:
        reader, writer = await service.connect()
        for start in range(0, len(REQUEST), 20):
            writer.write(REQUEST[start : start + 20])
            await asyncio.sleep(0.001)
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"5 bytes")


async def test_connections_are_used_again() -> None:
    """Two requests in one connection, sent at once, get two answers."""
    async with served(LIMITS) as service:
        answer = await service.send(POST + b"Content-Length: 2\r\n\r\nab" + REQUEST)
    assert answer.count(b"HTTP/1.1 200 ") == 2
    assert service.refused("slow_head") == service.refused("slow_body") == 0


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 3000 + b" HTTP/1.1\r\n\r\n",
        POST + b"X: " + b"x" * 3000 + b"\r\n\r\n",
        POST + b"X: " + b"x" * 3000,  # it never ends
        POST + b"X: 1\r\n" * 17 + b"\r\n",
    ],
    ids=["request-line", "one-header", "unfinished", "many-headers"],
)
async def test_a_head_beyond_the_limits_is_431(head: bytes) -> None:
    """The answer names the setting, and the connection ends."""
    async with served(LIMITS) as service:
        answer = await service.send(head)
        assert service.refused("head_too_large") == 1
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"(setting head" in answer


async def test_a_head_that_trickles_in_is_counted_as_a_whole() -> None:
    """Not the size of a piece decides."""
    async with served(LIMITS) as service:
        reader, writer = await service.connect()
        writer.write(POST)
        while not service.refused("head_too_large"):
            writer.write(b"X: " + b"x" * 100)
            await asyncio.sleep(0.001)
        assert (await reader.read()).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    ("sent", "cause"),
    [(b"POST /v1", "slow_head"), (b"\r\n", "slow_head"), (POST + b"Content-Length: 5\r\n\r\nhel", "slow_body")],
    ids=["head", "line-breaks", "body"],
)
async def test_who_is_slow_to_ask_is_sent_away(sent: bytes, cause: str) -> None:
    """Neither a head nor a body may take for ever to come in."""
    async with served(HASTY) as service:
        answer = await service.send(sent)
        assert service.refused(cause) == 1
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"timeout_seconds)" in answer


async def test_one_byte_now_and_then_does_not_help() -> None:
    """The time for a head does not begin anew with every byte (slow loris)."""
    async with served(HASTY) as service:
        reader, writer = await service.connect()

        async def trickle() -> None:
            while True:
                writer.write(b"G")
                await asyncio.sleep(0.02)

        task = asyncio.create_task(trickle())
        answer = await reader.read()
        task.cancel()
    assert answer.startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 400 "))


async def test_a_silent_connection_ends() -> None:
    """Who connects and says nothing is no better than who has been answered and says nothing more."""
    async with served(LIMITS, idle_seconds=1) as service:
        assert await service.send() == b""


async def test_a_bind_that_is_held_is_not_hurried() -> None:
    """While a request is being answered no timer of its connection runs."""

    async def slow(_scope: object, _receive: object, send: object) -> None:
        await asyncio.sleep(0.7)
        assert callable(send)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async with served(HASTY, app=slow) as service:
        assert (await service.send(REQUEST)).endswith(b"ok")


async def test_who_does_not_read_the_answer_is_dropped() -> None:
    """An answer that is larger than the socket's buffers does not stay in memory for ever."""
    async with served(HASTY) as service:
        caller = socket.create_connection(("127.0.0.1", service.port))
        with caller:
            caller.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with asyncio.timeout(HANGS):
                await until(lambda: service.refused("slow_reader") == 1)


async def test_a_connection_too_many_is_503() -> None:
    """The ones before it go on; when one of them ends there is room again."""
    limits = LIMITS.model_copy(update={"connection_limit": 2})
    async with served(limits) as service:
        kept = [await service.connect() for _ in range(2)]
        await asyncio.sleep(0.02)
        assert (await service.send()).startswith(b"HTTP/1.1 503 ")
        assert service.refused("too_many") == 1
        reader, writer = kept[0]
        writer.write(REQUEST)
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        await asyncio.sleep(0.02)
        assert (await service.send(REQUEST)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 \r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
    ],
    ids=["tls", "two-framings", "two-lengths", "negative-length", "version"],
)
async def test_what_is_not_http_is_400(garbage: bytes) -> None:
    """The connection ends, so that nothing behind it is taken for a request."""
    async with served(LIMITS) as service:
        answer = await service.send(garbage + REQUEST)
        assert service.refused("malformed") == 1
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


def test_client_names_are_the_common_name_and_the_alternative_ones() -> None:
    """Both ways to name a client count; a certificate without names has none."""
    decoded = {
        "subject": ((("organizationName", "system:masters"),), (("commonName", "kube-scheduler"),)),
        "subjectAltName": (("DNS", "scheduler.example"), ("IP Address", "127.0.0.1")),
    }
    assert client_names(decoded) == {"kube-scheduler", "scheduler.example", "127.0.0.1"}
    assert client_names({}) == client_names(None) == frozenset()
