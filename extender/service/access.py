"""Reads for those who say who they are: what a caller may see is what the API server says that it may list.

One door in front of all routes of people: who shows a bearer token is answered about the namespaces whose PodGroups it
may list, about nodes and Queues by its rights to these; who shows none is answered as the setting says. A route that
nothing here is known of is for callers who may list the PodGroups of all namespaces.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from extender.clock import Clock
from extender.control.controller import Controller
from extender.kube.api import TOKEN_HEADER
from extender.kube.reviews import Caller, ReviewError, Reviews, UnknownCallerError
from extender.kube.rights import Access
from extender.service.sight import (
    EVERYTHING,
    LimitedBoard,
    Sight,
    give_sight,
    limited_document,
    limited_text,
)
from extender.service.stream import Stream, gang_rows

_API: Final = "/api/"
_STATUS, _WHATIF = "/api/v1/status", "/api/v1/explain"
_METRICS: Final = "/metrics"
#: Routes whose answers are left with what the caller may see.
_LIMITED: Final = frozenset(
    (
        _STATUS,
        _WHATIF,
        *(
            f"/api/v1/{name}"
            for name in ("gangs", "demand", "board", "stream", "events", "history", "report", "curves")
        ),
    )
)
_OF_NODES: Final = frozenset(("/api/v1/nodes", "/api/v1/capacity"))
_OF_QUEUES: Final = frozenset(("/api/v1/queues",))
_OF_A_GANG: Final = re.compile(r"/api/v1/gangs/([^/]{1,253})/")
_OK, _UNAUTHORIZED, _FORBIDDEN, _UNAVAILABLE = 200, 401, 403, 503

#: How long a live board goes on (seconds) before its reader, who comes again at once, is looked up again.
_STREAM_SECONDS: Final = 60.0

_NODES: Final = Access("list", "", "nodes")
_QUEUES: Final = Access("list", "muster.dev", "queues")

WHO_CALLS: Final = (
    "this listener answers callers who show a token: Authorization: Bearer ..., or, through the API server's proxy, "
    f"which takes that away, {TOKEN_HEADER}: Bearer ...; an older command line shows none by a kubeconfig"
)


class RefusedError(Exception):
    """A request that is not answered, with an HTTP status."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class AccessGuard:
    """An application for people, as far as each of them may see."""

    def __init__(
        self, app: ASGIApp, controller: Controller, stream: Stream, reviews: Reviews, *, anonymous: bool
    ) -> None:
        """Guard `app`; callers without a token see everything if `anonymous` is true, else nothing."""
        self._app = app
        self._controller = controller
        self._stream = stream
        self._reviews = reviews
        self._anonymous = anonymous
        self.state = getattr(app, "state", None)  # for `hang_up`

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path = scope["path"] if scope["type"] == "http" else ""
        if not path.startswith(_API) and path != _METRICS:
            await self._app(scope, receive, send)  # pages, scripts and health name nothing
            return
        try:
            sight = await self._sight(scope, path)
        except RefusedError as error:
            headers = {"WWW-Authenticate": "Bearer"} if error.status == _UNAUTHORIZED else None
            await JSONResponse({"detail": str(error)}, error.status, headers)(scope, receive, send)
            return
        if not sight.whole:
            rows = await self._rows(sight) if path == _STATUS else None
            send = LimitedAnswer(path, sight, send, rows, self._controller.clock).send
        await self._app(give_sight(scope, sight), receive, send)

    async def _sight(self, scope: Scope, path: str) -> Sight:
        """Return what the caller of a request may see; raise RefusedError if it may not ask at all."""
        headers = Headers(scope=scope)
        kind, _, token = (headers.get("authorization") or headers.get(TOKEN_HEADER, "")).partition(" ")
        if not token or kind.lower() != "bearer":
            if self._anonymous:
                return EVERYTHING
            raise RefusedError(_UNAUTHORIZED, WHO_CALLS)
        try:
            caller = await self._reviews.caller(token.strip())
            sight = await self._of(caller, scope, path)
            for needed, access in ((_OF_NODES, _NODES), (_OF_QUEUES, _QUEUES)):
                if path in needed:
                    await self._require(caller, access)
            if (
                path not in _LIMITED | _OF_NODES | _OF_QUEUES
                and not _OF_A_GANG.match(path)
                and sight.namespaces is not None
            ):
                await self._require(caller, _gangs(""))
        except UnknownCallerError as error:
            raise RefusedError(_UNAUTHORIZED, str(error)) from error
        except ReviewError as error:
            raise RefusedError(_UNAVAILABLE, str(error)) from error
        return sight

    async def _of(self, caller: Caller, scope: Scope, path: str) -> Sight:
        """Return what a caller may see; a namespace that it asks for by name it has to be allowed to see."""
        nodes, queues, every = await asyncio.gather(
            *(self._reviews.allows(caller, access) for access in (_NODES, _QUEUES, _gangs("")))
        )
        if every:
            return Sight(None, frozenset(), nodes=nodes, queues=queues)
        known = set(self._namespaces())
        asked = set(parse_qs(scope["query_string"].decode("latin-1")).get("namespace", ()))
        if found := _OF_A_GANG.match(path):
            asked.add(found[1])
        for namespace in asked:
            await self._require(caller, _gangs(namespace))
        ordered = sorted(known - asked)
        allowed = await asyncio.gather(*(self._reviews.allows(caller, _gangs(each)) for each in ordered))
        shown = frozenset(asked.union(each for each, may in zip(ordered, allowed, strict=True) if may))
        hidden = known.union(self._controller.admission.sharing.namespaces) - shown
        return Sight(shown, frozenset(hidden), nodes=nodes, queues=queues)

    async def _require(self, caller: Caller, access: Access) -> None:
        if not await self._reviews.allows(caller, access):
            what = f"{access.resource}.{access.group}".rstrip(".")
            where = f" in namespace {access.namespace}" if access.namespace else " in all namespaces"
            where = "" if access in {_NODES, _QUEUES} else where
            raise RefusedError(_FORBIDDEN, f"{caller.user.username} lacks the right to list {what}{where}")

    def _namespaces(self) -> Iterable[str]:
        """Return the namespaces that answers could be about: of the gangs that there are, and were lately."""
        yield from {gang.ref.namespace for gang in self._controller.admission.model.gangs}
        for row in self._controller.decisions.since(0):
            yield from (name.partition("/")[0] for name in (row.gang, row.about) if "/" in name)

    async def _rows(self, sight: Sight) -> list[Mapping[str, Any]]:
        """Return the gangs that a status counts."""
        picture = await self._stream.board.look()
        shown = [row for row in gang_rows(picture) if sight.shows(row.namespace)]
        found: list[Mapping[str, Any]] = msgspec.to_builtins(shown)
        return found


def _gangs(namespace: str) -> Access:
    """Return the right by which the gangs of a namespace may be seen; of all namespaces for ""."""
    return Access("list", "scheduling.x-k8s.io", "podgroups", namespace)


class LimitedAnswer:
    """The answer to one request on its way to a caller who may not see all of it."""

    def __init__(self, path: str, sight: Sight, send: Send, rows: list[Mapping[str, Any]] | None, clock: Clock) -> None:
        """Send what is left by `send`; `rows` are the gangs that a status counts."""
        self._clock = clock
        self._until = clock.monotonic() + _STREAM_SECONDS
        self._path = path
        self._sight = sight
        self._send = send
        self._rows = rows
        self._start: Message = {}
        self._body = bytearray()
        self._board: LimitedBoard | None = None

    async def send(self, message: Message) -> None:
        """Take in a part of the answer: events go on one by one, all else when it is complete."""
        if message["type"] == "http.response.start":
            self._start = message
            if Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream"):
                self._board = LimitedBoard(self._sight)
                await self._send(message)
            return
        if self._board is not None:
            body = await asyncio.to_thread(self._board.message, message.get("body", b""))
            ends = self._clock.monotonic() > self._until
            await self._send({**message, "body": body, "more_body": not ends})
            if ends:
                raise ConnectionAbortedError("the reader comes again, and is looked up again")
            return
        self._body += message.get("body", b"")
        if message.get("more_body"):
            return
        status, body = await asyncio.to_thread(self._limited)
        headers = [each for each in self._start["headers"] if each[0].lower() != b"content-length"]
        headers.append((b"content-length", b"%d" % len(body)))
        await self._send({**self._start, "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    def _limited(self) -> tuple[int, bytes]:
        """Return status and body of what the caller may see."""
        status, body = self._start["status"], bytes(self._body)
        kind = Headers(raw=self._start["headers"]).get("content-type", "")
        if status != _OK or not kind.startswith("application/json"):
            return status, limited_text(body, self._sight)
        if self._path == _WHATIF:
            about = {gang["namespace"] for gang in msgspec.json.decode(body)["gangs"]}
            if other := sorted(name for name in about if not self._sight.shows(name)):
                said = f"you lack the right to list podgroups.scheduling.x-k8s.io in namespace {other[0]}"
                return _FORBIDDEN, msgspec.json.encode({"detail": said})
        return status, limited_document(body, self._sight, self._rows)
