"""Requests: what arrives at the server, and what comes of its answers."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from email.utils import format_datetime
from pathlib import Path

import pytest
from aiohttp import web

import extender
from extender.clock import ManualClock
from extender.control.ports import ApiError
from extender.kube.transport import Transport
from tests.garbage import garbage
from tests.kube.apiscript import Answer, ApiScript, End, abort, hold, line, refuses, says, watch
from tests.kube.conftest import write_kubeconfig

OK = says({"kind": "Thing"})


def authorizations(script: ApiScript) -> list[str | None]:
    """Return the Authorization header of every request."""
    return [request.headers.get("Authorization") for request in script.requests]


class TestRequests:
    """What the server sees."""

    async def test_authorization_header_arrives(self, script: ApiScript, transport: Transport) -> None:
        """Every kind of request carries the bearer token."""
        script.plan("/x", OK, OK, OK, watch())
        await transport.get("/x", {})
        await transport.post("/x", {"a": 1})
        await transport.patch("/x", {"a": 1})
        async with transport.stream("/x", {"watch": "true"}, idle_timeout_seconds=5.0):
            pass
        assert authorizations(script) == ["Bearer secret"] * 4

    async def test_query_arrives_unharmed(self, script: ApiScript, transport: Transport) -> None:
        """Characters that mean something in a URL arrive as they were, as in a continue token."""
        script.plan("/x", OK)
        query = {"continue": "a+b/c==&%25 ü", "limit": "500"}
        assert json.loads(await transport.get("/x", query)) == {"kind": "Thing"}
        assert script.requests[0].query == query

    async def test_bodies_arrive_with_their_content_type(self, script: ApiScript, transport: Transport) -> None:
        """A POST is plain JSON, a PATCH a merge patch in which null deletes."""
        script.plan("/x", OK, OK)
        await transport.post("/x", {"name": "ü"})
        await transport.patch("/x", {"status": {"nominatedNodeName": None}})
        create, patch = script.requests
        assert (create.method, create.body) == ("POST", {"name": "ü"})
        assert create.headers["Content-Type"] == "application/json"
        assert (patch.method, patch.body) == ("PATCH", {"status": {"nominatedNodeName": None}})
        assert patch.headers["Content-Type"] == "application/merge-patch+json"

    async def test_requests_say_who_asks_and_want_no_compression(self, script: ApiScript, transport: Transport) -> None:
        """The server's logs can tell Muster from others, and the server need not compress."""
        script.plan("/x", OK)
        await transport.get("/x", {})
        headers = script.requests[0].headers
        assert headers["User-Agent"] == f"muster/{extender.__version__}"
        assert headers["Accept-Encoding"] == "identity"

    async def test_netrc_is_not_read(
        self, script: ApiScript, transport: Transport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A netrc entry for the server's host does not get in the way of the token."""
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login me password wrong\n", encoding="utf-8")
        monkeypatch.setenv("NETRC", str(netrc))
        script.plan("/x", OK)
        await transport.get("/x", {})
        assert authorizations(script) == ["Bearer secret"]

    async def test_pool_bounds_the_connections(self, script: ApiScript, clock: ManualClock, tmp_path: Path) -> None:
        """No more requests are under way than the pool has connections; the others wait their turn."""
        source = write_kubeconfig(tmp_path / "kubeconfig", script.url, {"token": "secret"})
        async with await Transport.connect(source, clock, pool_size=2) as transport:
            held = [asyncio.create_task(_held(transport)) for _ in range(2)]
            await script.until(lambda: len(script.requests) == 2)
            waiting = asyncio.create_task(transport.get("/x", {}))
            script.plan("/x", OK)
            await asyncio.sleep(0.02)
            assert len(script.requests) == 2
            held[0].cancel()
            await waiting
            held[1].cancel()
            assert len(script.requests) == 3
            await asyncio.gather(*held, return_exceptions=True)


def _breaks_off(status: int) -> Answer:
    """Answer with the beginning of a body, then break the connection."""

    async def answer(_script: ApiScript, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.close()
        return response

    return answer


async def _held(transport: Transport) -> None:
    async with transport.stream("/held", {"watch": "true"}, idle_timeout_seconds=60.0) as chunks:
        async for _ in chunks:
            pass


class TestTime:
    """What answers say of the time of day."""

    async def test_the_api_servers_time_counts(
        self, script: ApiScript, transport: Transport, clock: ManualClock, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A machine whose clock is hours off is told once; afterwards the two agree."""
        said = clock.now() + dt.timedelta(hours=3)
        script.date = format_datetime(said, usegmt=True)
        await transport.ask_time()
        assert transport.clock.now() == said
        clock.advance(0.5)
        await transport.ask_time()
        clock.advance(0.5)
        assert transport.clock.now() == said + dt.timedelta(seconds=1)
        assert capsys.readouterr().out.count("times are the API server's") == 1

    async def test_an_answer_without_a_time_tells_none(
        self, script: ApiScript, transport: Transport, clock: ManualClock
    ) -> None:
        """A date that cannot be read leaves the time as it was."""
        script.date = "yesterday"
        await transport.ask_time()
        assert transport.clock.now() == clock.now()

    async def test_a_server_that_is_away_tells_none(self, clock: ManualClock, tmp_path: Path) -> None:
        """The machine's own time counts until there is an answer."""
        source = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1", {"token": "secret"})
        async with await Transport.connect(source, clock) as transport:
            await transport.ask_time()
            assert transport.clock.now() == clock.now()


class TestRefusals:
    """Answers that are no success."""

    async def test_status_becomes_an_error(self, script: ApiScript, transport: Transport) -> None:
        """Status, reason and message are those of the metav1.Status."""
        script.plan("/x", refuses(409, "Conflict", "the object has been modified"))
        with pytest.raises(ApiError) as refused:
            await transport.get("/x", {})
        error = refused.value
        assert (error.status, error.reason, error.message) == (409, "Conflict", "the object has been modified")
        assert error.retry_after is None
        assert not error.transient

    async def test_retry_after_is_kept(self, script: ApiScript, transport: Transport) -> None:
        """A server that is too busy says for how long."""
        script.plan("/x", refuses(429, "TooManyRequests", headers={"Retry-After": "7"}))
        with pytest.raises(ApiError) as refused:
            await transport.post("/x", {"a": 1})
        assert refused.value.retry_after == 7.0
        assert refused.value.transient

    async def test_retry_after_that_is_a_date_is_ignored(self, script: ApiScript, transport: Transport) -> None:
        """The other form of the header, which API servers do not use, does no harm."""
        script.plan("/x", refuses(503, "Unavailable", headers={"Retry-After": "Fri, 07 Nov 2031 23:59:59 GMT"}))
        with pytest.raises(ApiError) as refused:
            await transport.get("/x", {})
        assert refused.value.retry_after is None

    async def test_text_of_a_proxy_is_shown(self, script: ApiScript, transport: Transport) -> None:
        """An answer that is not a metav1.Status is shown by its beginning."""
        script.plan("/x", says("<h1>Bad Gateway</h1>" + 1000 * "x", 502))
        with pytest.raises(ApiError) as refused:
            await transport.get("/x", {})
        error = refused.value
        assert (error.status, error.reason) == (502, "Bad Gateway")
        assert error.message.startswith("<h1>Bad Gateway</h1>xx")
        assert len(error.message) == 300

    async def test_document_of_a_pod_behind_the_proxy_is_kept(self, script: ApiScript, transport: Transport) -> None:
        """JSON that is not a metav1.Status either: the caller knows what it means."""
        document = json.dumps({"detail": 500 * "x"})
        script.plan("/x", says(document, 503))
        with pytest.raises(ApiError) as refused:
            await transport.get("/x", {})
        assert refused.value.message == document

    async def test_refusal_that_breaks_off_is_still_a_refusal(self, script: ApiScript, transport: Transport) -> None:
        """A status whose body never comes is reported as the status."""
        script.plan("/x", _breaks_off(503))
        with pytest.raises(ApiError) as refused:
            await transport.get("/x", {})
        assert refused.value.status == 503
        assert "while reading the answer" in refused.value.message

    async def test_refused_watch_raises_on_entry(self, script: ApiScript, transport: Transport) -> None:
        """A watch that is refused never yields."""
        script.plan("/x", refuses(403, "Forbidden", "no"))
        with pytest.raises(ApiError, match="403 Forbidden: no"):
            async with transport.stream("/x", {"watch": "true"}, idle_timeout_seconds=5.0):
                pytest.fail("entered")


class TestNoAnswer:
    """Connections that do not work."""

    async def test_nobody_listens(self, clock: ManualClock, tmp_path: Path) -> None:
        """A connection that cannot be made is an error without status that may pass."""
        source = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1", {"token": "secret"})
        async with await Transport.connect(source, clock) as transport:
            with pytest.raises(ApiError) as refused:
                await transport.get("/x", {})
        assert (refused.value.status, refused.value.reason) == (0, "Disconnected")
        assert refused.value.transient

    async def test_answer_breaks_off(self, script: ApiScript, transport: Transport) -> None:
        """An answer that is cut short is no answer."""
        script.plan("/x", _breaks_off(200))
        with pytest.raises(ApiError) as refused:
            await transport.get("/x", {})
        assert (refused.value.status, refused.value.reason) == (0, "Disconnected")

    async def test_answer_does_not_come(self, script: ApiScript, clock: ManualClock, tmp_path: Path) -> None:
        """A server that accepts a request and never answers is given up after the timeout."""
        source = write_kubeconfig(tmp_path / "kubeconfig", script.url, {"token": "secret"})
        script.plan("/x", watch(then=hold))
        async with await Transport.connect(source, clock, timeout_seconds=0.05) as transport:
            with pytest.raises(ApiError) as refused:
                await transport.get("/x", {})
        assert (refused.value.status, refused.value.reason) == (0, "Timeout")


class TestStreams:
    """Watches."""

    async def test_stream_yields_until_the_server_ends_it(self, script: ApiScript, transport: Transport) -> None:
        """All bytes arrive, and the end of the answer is the end of the iteration."""
        script.plan("/x", watch({"a": 1}, b"half", b" a line"))
        async with transport.stream("/x", {"watch": "true"}, idle_timeout_seconds=5.0) as chunks:
            assert b"".join([chunk async for chunk in chunks]) == line({"a": 1}) + b"half a line"

    async def test_silence_is_noticed(self, script: ApiScript, transport: Transport) -> None:
        """A half-open watch raises after the idle timeout; what came before has been delivered."""
        script.plan("/x", watch({"a": 1}, then=hold))
        received = []
        with pytest.raises(ApiError) as silent:  # noqa: PT012 - the iteration is what raises
            async with transport.stream("/x", {"watch": "true"}, idle_timeout_seconds=0.05) as chunks:
                async for chunk in chunks:
                    received.append(chunk)  # noqa: PERF401 - what came before the error is kept
        assert received == [line({"a": 1})]
        assert (silent.value.status, silent.value.reason) == (0, "Timeout")

    @pytest.mark.parametrize("end", [hold, abort])
    async def test_nothing_is_left_of_a_watch_that_breaks_off(
        self, script: ApiScript, transport: Transport, end: End
    ) -> None:
        """No cycle of answer, buffers and error; they are old by then, and would be kept for good."""

        async def break_off() -> None:
            script.plan("/x", watch({"a": 1}, then=end))
            with pytest.raises(ApiError):  # noqa: PT012 - the iteration is what raises
                async with transport.stream("/x", {"watch": "true"}, idle_timeout_seconds=0.05) as chunks:
                    async for _ in chunks:
                        pass

        assert await garbage(break_off) == {}

    @pytest.mark.parametrize("status", [200, 503])
    async def test_nothing_is_left_of_an_answer_that_breaks_off(
        self, script: ApiScript, transport: Transport, status: int
    ) -> None:
        """Nor of one that is read whole, whatever its status."""

        async def break_off() -> None:
            script.plan("/x", watch({"a": 1}, then=abort, status=status))
            with pytest.raises(ApiError):
                await transport.get("/x", {})

        assert await garbage(break_off) == {}

    async def test_broken_connection_is_noticed(self, script: ApiScript, transport: Transport) -> None:
        """A watch whose connection breaks raises, which tells it from one that has ended."""
        script.plan("/x", watch({"a": 1}, then=abort))
        with pytest.raises(ApiError) as broken:  # noqa: PT012 - the iteration is what raises
            async with transport.stream("/x", {"watch": "true"}, idle_timeout_seconds=5.0) as chunks:
                async for _ in chunks:
                    pass
        assert (broken.value.status, broken.value.reason) == (0, "Disconnected")
