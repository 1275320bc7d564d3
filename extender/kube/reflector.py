"""One kind of object, kept in step with the API server whatever happens to the connection.

Three loops, one for each class of failure: `run` starts from a complete list again when the server has forgotten where
the watch was; `_stay_connected` connects again from there when the connection ends; `_read` takes what one connection
says, and skips what it cannot decode.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Generic, NoReturn, TypeAlias

import msgspec
import structlog

from extender.control.observer import Observer
from extender.control.ports import ApiError
from extender.kube.api import NOT_FOUND, TIMEOUT, UNREADABLE, ApiServer
from extender.kube.backoff import Backoff
from extender.kube.listing import list_pages
from extender.kube.watch import (
    GONE,
    INITIAL_EVENTS_END,
    Cause,
    Feed,
    Identity,
    PlaceLostError,
    T,
    WatchOptions,
    identify,
    watch_error,
)
from extender.wire.codec import DecodeError, decode_metadata, decode_watch_event
from extender.wire.kubernetes import ObjectMeta

_UNAUTHORIZED, _FORBIDDEN, _TOO_MANY_REQUESTS = 401, 403, 429
#: How servers without WatchList refuse its parameters. Source: k8s.io/apimachinery ValidateListOptions.
_NO_WATCH_LIST = frozenset({400, 422})
#: Connections that end so without having brought anything hint at a place that the server cannot continue from.
_FRUITLESS = frozenset({Cause.CLOSED, Cause.REFUSED})

Sleep: TypeAlias = Callable[[float], Awaitable[None]]

log = structlog.get_logger("muster.watch")


class Reflector(Generic[T]):
    """Tell an observer of every object of one kind, in the server's order, and never miss a deletion.

    Remembers the name and UID of each object that it has told of, not the object.
    """

    def __init__(  # noqa: PLR0913 - what it reads, whom it tells, and what tests replace
        self,
        feed: Feed[T],
        api: ApiServer,
        observer: Observer,
        options: WatchOptions,
        *,
        random: Random,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Prepare; nothing is read before `run`."""
        self._feed = feed
        self._api = api
        self._observer = observer
        self._options = options
        self._random = random
        self._sleep = sleep
        self._backoff = Backoff(options.first_backoff_seconds, options.longest_backoff_seconds, random)
        self._log = log.bind(kind=str(feed.kind))
        self._known: dict[str, str] = {}  # namespace/name -> UID
        self._unmet: dict[str, str] = {}  # what the list that has begun has not shown yet; empty outside of one
        self._path = feed.path
        self._untried = list(feed.older)  # under other versions of the API, which the server may have instead
        self._version: str | None = None  # where to resume; None until the list is complete
        self._pages = False  # list page by page, for want of WatchList
        self._synced = False
        self._fruitless = 0
        self._resumed = False  # this connection began where the last one ended
        self._progressed = False  # and moved the place
        self._damaged = False  # a deletion may have been missed
        self._answered = False  # the server has answered on this connection
        self._unreachable = False  # no answer came on the last one
        self._taken = 0
        self._undecodable = 0

    @property
    def undecodable(self) -> int:
        """Count the events and objects that were skipped because they could not be decoded."""
        return self._undecodable

    async def run(self) -> NoReturn:
        """List and watch until cancelled, and list again whenever the place is lost."""
        while True:
            self._version = None
            self._pages = False
            self._fruitless = 0
            self._damaged = False
            try:
                await self._stay_connected()
            except PlaceLostError as lost:
                self._log.info("listing again", cause=str(lost.cause))
                await self._pause(lost.cause)

    # The reconnect loop.

    async def _stay_connected(self) -> NoReturn:
        """Connect, and connect again from where the last connection ended; raise PlaceLostError if that is gone."""
        while True:
            self._resumed = self._version is not None
            self._progressed = False
            try:
                await self._connect()
            except ApiError as error:
                await self._cope(error)
            else:
                await self._ended(Cause.CLOSED)

    async def _connect(self) -> None:
        """Watch over one connection, from the place of the last one or from a complete list, until it ends."""
        self._answered = False
        if self._version is None:
            self._begin_list()
            if self._pages:
                await self._list()
        idle = self._options.idle_timeout_seconds
        async with self._api.stream(self._path, self._watch_query(), idle_timeout_seconds=idle) as chunks:
            self._reached()
            self._untried = [path for path in (self._feed.path, *self._feed.older) if path != self._path]
            self._observer.heard(self._feed.kind)
            await self._read(chunks)

    def _watch_query(self) -> dict[str, str]:
        seconds = self._random.randint(self._options.shortest_watch_seconds, self._options.longest_watch_seconds)
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds), **self._feed.selector}
        if self._version is None:
            return query | {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        return query | {"resourceVersion": self._version}

    async def _cope(self, error: ApiError) -> None:
        """Do what the answer asks for, then pause; raise PlaceLostError when only a new list helps."""
        if error.status:
            self._reached()
        if error.status == GONE:
            raise PlaceLostError(Cause.EXPIRED)
        if error.status in _NO_WATCH_LIST and self._version is None and not self._pages:
            self._log.info("the server has no WatchList, listing in pages", answer=str(error))
            self._pages = True
        elif error.status == NOT_FOUND and self._feed.optional:
            await self._not_installed()
        elif error.status in {_UNAUTHORIZED, _FORBIDDEN}:
            verb = "list" if self._pages and self._version is None else "watch"
            self._log.error("not allowed; Muster's ClusterRole must grant it", verb=verb, answer=str(error))
            await self._ended(Cause.FORBIDDEN, error.retry_after)
        elif error.status:
            self._log.warning("refused", answer=str(error))
            busy = error.status == _TOO_MANY_REQUESTS
            await self._ended(Cause.THROTTLED if busy else Cause.REFUSED, error.retry_after)
        elif error.reason == TIMEOUT:
            self._backoff.reset()  # the silence was pause enough
            await self._ended(Cause.SILENT)
        else:
            self._log.warning("disconnected", error=str(error))
            self._unreachable = not self._answered
            await self._ended(Cause.DISCONNECTED)

    def _reached(self) -> None:
        """Take in that the server answers: pauses that grew while it was away say nothing about its load."""
        self._answered = True
        if self._unreachable:
            self._unreachable = False
            self._backoff.reset()

    async def _ended(self, cause: Cause, retry_after: float | None = None) -> None:
        """Pause after a connection; raise PlaceLostError when it is of no use to continue from its place."""
        if self._damaged:
            raise PlaceLostError(Cause.DAMAGED)
        if self._resumed and not self._progressed and cause in _FRUITLESS:
            self._fruitless += 1
            if self._fruitless >= self._options.fruitless_connections:
                raise PlaceLostError(Cause.STUCK)
        await self._pause(cause, retry_after)

    async def _pause(self, cause: Cause, retry_after: float | None = None) -> None:
        if self._progressed:
            self._fruitless = 0
            self._backoff.reset()
        self._observer.watch_restarted(self._feed.kind, cause)
        seconds = self._backoff.pause(at_least=retry_after or 0.0)
        await self._sleep(min(seconds, self._options.longest_outage_pause_seconds) if self._unreachable else seconds)

    async def _not_installed(self) -> None:
        """Take an API that the server has in no version for one without objects, and look again later."""
        if self._untried:
            self._path = self._untried.pop(0)
            self._pages = False
            return
        self._path, self._untried = self._feed.path, list(self._feed.older)
        if not self._synced or self._known:
            self._log.info("API not installed", look_again_seconds=self._options.look_again_seconds)
        self._begin_list()
        await self._complete(None)
        self._pages = False
        self._observer.heard(self._feed.kind)
        await self._sleep(self._options.look_again_seconds)

    # The list, where the server has no WatchList.

    async def _list(self) -> None:
        version = None
        number = 0
        async for page in list_pages(self._api, self._path, self._options.page_size, self._feed.selector):
            self._observer.heard(self._feed.kind)
            number += 1
            for index, raw in enumerate(page.items or ()):
                where = f"item {index} of page {number}"
                try:
                    self._deliver(raw, where)
                except DecodeError as error:
                    self._skip(str(error), where)
                await self._breathe()
            version = page.metadata.resource_version if page.metadata else None
        await self._complete(version)

    def _begin_list(self) -> None:
        """Expect every object that is known; names are crossed off one by one, so that no step takes long."""
        self._unmet = self._known.copy()

    async def _complete(self, version: str | None) -> None:
        """Have a complete list: what is not in it is gone."""
        for key in list(self._unmet):
            self._forget(key)
            await self._breathe()
        self._unmet.clear()
        self._version = version
        if not self._synced:
            self._log.info("synced", objects=len(self._known))
        if self._known or not self._synced:  # an API that is not installed is looked for again and again
            self._synced = True
            self._observer.synced(self._feed.kind)

    # The read loop.

    async def _read(self, chunks: AsyncIterator[bytes]) -> None:
        """Take in the lines of one connection."""
        rest = b""
        number = 0
        async for chunk in chunks:
            self._observer.heard(self._feed.kind)
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                number += 1
                await self._take(line, f"line {number} of the watch")
                await self._breathe()
        if rest:
            self._log.info("the watch ended inside a line, which will come again", after=self._version)

    async def _take(self, line: bytes, where: str) -> None:
        try:
            event = decode_watch_event(line)
            match event.type:
                case "ADDED" | "MODIFIED":
                    self._deliver(event.object, where)
                case "DELETED":
                    self._withdraw(event.object)
                case "BOOKMARK":
                    await self._bookmark(event.object)
                case "ERROR":
                    raise watch_error(event.object)
                case other:
                    self._skip(f"unknown type of event {other!r}", where)
        except DecodeError as error:
            self._skip(str(error), where)
            self._damaged = self._version is not None

    def _deliver(self, raw: msgspec.Raw, where: str) -> None:
        """Tell of an object that was added or changed, or is in a list.

        One that cannot be read is skipped, but not taken for deleted; DecodeError if it cannot even be attributed.
        """
        item: T | None = None
        try:
            item = self._feed.decode(raw)
            meta = item.metadata
            who = identify(meta)
        except DecodeError as error:
            meta = decode_metadata(raw).metadata
            who = identify(meta)
            self._skip(str(error), where)
        if self._known.get(who.key, who.uid) != who.uid:
            self._forget(who.key)
        self._unmet.pop(who.key, None)
        if item is not None:
            self._known[who.key] = who.uid
            self._feed.seen(item)
        self._advance(meta)

    def _withdraw(self, raw: msgspec.Raw) -> None:
        """Tell that an object was deleted."""
        meta = decode_metadata(raw).metadata
        who = identify(meta)
        self._unmet.pop(who.key, None)
        if self._known.get(who.key) == who.uid:
            self._forget(who.key)
        self._advance(meta)

    async def _bookmark(self, raw: msgspec.Raw) -> None:
        meta = decode_metadata(raw).metadata or ObjectMeta()
        if self._version is not None:
            self._advance(meta)
        elif (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true":
            if not meta.resource_version:
                raise ApiError(0, UNREADABLE, "the bookmark that ends the list has no resourceVersion")
            await self._complete(meta.resource_version)

    def _advance(self, meta: ObjectMeta | None) -> None:
        """Move the place, once there is one: a list that is not complete cannot be resumed."""
        if self._version is not None and meta is not None and meta.resource_version:
            self._version = meta.resource_version
            self._progressed = True

    def _forget(self, key: str) -> None:
        uid = self._known.pop(key)
        namespace, _, name = key.partition("/")
        self._feed.gone(Identity(namespace, name, uid))

    def _skip(self, error: str, where: str) -> None:
        self._undecodable += 1
        self._observer.skipped(self._feed.kind)
        self._log.error("skipped what cannot be decoded", where=where, after=self._version, error=error)

    async def _breathe(self) -> None:
        """Let others have the event loop after every batch; reading what is buffered already would not."""
        self._taken += 1
        if self._taken % self._options.batch == 0:
            await asyncio.sleep(0)
