"""An API server that plays a script over loopback, for failures that a real one does not produce on demand."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiohttp import web

from tests.kube.changes import Changes

JsonObject: TypeAlias = dict[str, Any]
Answer: TypeAlias = Callable[["ApiScript", web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that arrived."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: JsonObject | None
    client: str
    """Common name of the client's certificate, empty without one."""


class ApiScript(Changes):
    """Answer each path with what was scripted for it, in order.

    A path whose script has ended accepts watches and says nothing, and refuses the rest with 501.

    Attributes:
        requests: what was asked, without questions how far the server is.
        version: how far the server is.
        date: the time of day that answers tell, "" for none.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """Have no script; with `tls`, speak HTTPS."""
        super().__init__()
        self._tls = tls
        self.requests: list[Seen] = []
        self.version = 2**40
        self.date = ""
        self._scripts: defaultdict[str, deque[Answer]] = defaultdict(deque)
        self._ending = asyncio.Event()
        application = web.Application()
        application.on_response_prepare.append(self._tell_time)
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        self.url = ""

    async def start(self) -> None:
        """Listen on a free port."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"{'https' if self._tls else 'http'}://{host}:{port}"

    async def stop(self) -> None:
        """End all watches and stop listening."""
        self._ending.set()
        await self._runner.cleanup()

    def plan(self, path: str, *answers: Answer) -> None:
        """Append to the script of a path."""
        self._scripts[path].extend(answers)

    def of(self, path: str) -> list[Seen]:
        """Return the requests to one path."""
        return [request for request in self.requests if request.path == path]

    async def hold(self) -> None:
        """Wait until the test ends."""
        await self._ending.wait()

    async def _tell_time(self, _request: web.Request, response: web.StreamResponse) -> None:
        """Tell the time of day of the story, not this machine's."""
        del response.headers["Date"]
        if self.date:
            response.headers["Date"] = self.date

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        seen = Seen(
            method=request.method,
            path=request.path,
            query=dict(request.query),
            headers=dict(request.headers),
            body=json.loads(body) if body else None,
            client=_common_name(request),
        )
        if request.query.get("limit") == "1" and "watch" not in request.query and "fieldSelector" not in request.query:
            return web.json_response(page(version=self.version))  # how far the server is; no part of the script
        self.requests.append(seen)
        self.changed()
        script = self._scripts[request.path]
        if script:
            return await script.popleft()(self, request)
        if request.query.get("watch"):
            return await watch(then=hold)(self, request)
        return web.json_response(status_object(501, "NotImplemented", "not in the script"), status=501)


def _common_name(request: web.Request) -> str:
    certificate = request.transport and request.transport.get_extra_info("peercert")
    return certificate["subject"][0][0][1] if certificate else ""


def status_object(code: int, reason: str, message: str) -> JsonObject:
    """Return a metav1.Status."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def says(body: JsonObject | str, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Answer with one JSON object, or a text."""

    async def answer(_script: ApiScript, _request: web.Request) -> web.StreamResponse:
        if isinstance(body, str):
            return web.Response(text=body, status=status, headers=headers)
        return web.json_response(body, status=status, headers=headers)

    return answer


def refuses(code: int, reason: str, message: str = "because", headers: Mapping[str, str] | None = None) -> Answer:
    """Answer with an error."""
    return says(status_object(code, reason, message), code, headers)


async def slam(_script: ApiScript, request: web.Request) -> web.StreamResponse:
    """Break the connection without an answer, as a proxy does whose server is away."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


End: TypeAlias = Callable[["ApiScript", web.Request, web.StreamResponse], Awaitable[None]]


async def close(_script: ApiScript, _request: web.Request, response: web.StreamResponse) -> None:
    """End the watch properly."""
    await response.write_eof()


async def hold(script: ApiScript, _request: web.Request, _response: web.StreamResponse) -> None:
    """Keep the watch open and say nothing more, as a half-open connection does."""
    await script.hold()


async def abort(_script: ApiScript, request: web.Request, _response: web.StreamResponse) -> None:
    """Break the connection."""
    assert request.transport is not None
    request.transport.abort()


def watch(*parts: JsonObject | bytes, then: End = close, status: int = 200) -> Answer:
    """Answer with a watch: events as lines, bytes as they are; then end it, hold it, or break it."""

    async def answer(script: ApiScript, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for part in parts:
            await response.write(part if isinstance(part, bytes) else line(part))
        await then(script, request, response)
        return response

    return answer


def line(event: JsonObject) -> bytes:
    """Return an event as the API server writes it."""
    return json.dumps(event).encode() + b"\n"


def named(name: str, uid: str = "", version: int = 1, namespace: str = "", **fields: Any) -> JsonObject:
    """Return an object; its UID is `uid-NAME` unless given."""
    metadata: JsonObject = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    if namespace:
        metadata["namespace"] = namespace
    return {"metadata": metadata, **fields}


def event(kind: str, item: JsonObject) -> JsonObject:
    """Return a watch event."""
    return {"type": kind, "object": item}


def added(*args: Any, **fields: Any) -> JsonObject:
    """Return an ADDED event of `named(...)`."""
    return event("ADDED", named(*args, **fields))


def modified(*args: Any, **fields: Any) -> JsonObject:
    """Return a MODIFIED event of `named(...)`."""
    return event("MODIFIED", named(*args, **fields))


def deleted(*args: Any, **fields: Any) -> JsonObject:
    """Return a DELETED event of `named(...)`."""
    return event("DELETED", named(*args, **fields))


def bookmark(version: int, *, ends_list: bool = False) -> JsonObject:
    """Return a bookmark; `ends_list` marks the one after the initial events of a WatchList."""
    metadata: JsonObject = {"resourceVersion": str(version)}
    if ends_list:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", {"kind": "Node", "apiVersion": "v1", "metadata": metadata})


def listed(version: int) -> JsonObject:
    """Return the bookmark that ends the initial events of a WatchList."""
    return bookmark(version, ends_list=True)


def gone(code: int | None = 410) -> JsonObject:
    """Return the ERROR event of a place that has been compacted away."""
    status = status_object(410, "Expired", "too old resource version: 1 (9)")
    if code is None:
        del status["code"]
    return event("ERROR", status)


def page(*items: JsonObject, version: int, more: str = "") -> JsonObject:
    """Return a page of a list; `more` is the token of the next."""
    metadata = {"resourceVersion": str(version)}
    if more:
        metadata["continue"] = more
    return {"kind": "NodeList", "apiVersion": "v1", "metadata": metadata, "items": list(items)}
