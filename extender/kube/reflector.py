"""Watches: one kind of object each, kept in step with the API server whatever happens to the connection.

Three loops, one for each class of failure: `run` starts from a complete list again when the server has forgotten where
the watch was; `_stay_connected` connects again from there when a connection ends; `_read` takes what one connection
says, and skips what it cannot decode. What is known of one connection is a `WatchConnection`, made new for each.

An example, of a server that is restarted while an object is deleted (place: the version to resume from):

    connection            what comes                         ends           the next one
    1  lists              a, b, end of the list at 7; a at 8 DISCONNECTED   resumes from 8
    2  resumes from 8     no answer                          DISCONNECTED   resumes from 8, after a pause of 5 s at most
    3  resumes from 8     410 Gone                           place lost     lists
    4  lists              a, end of the list at 40           (goes on)      b was not in the list: it is gone

Before it resumes, a connection compares its place with how far the server is. Had its etcd been restored to version 5,
connection 3 would be silent until there was a version 9; instead the place counts as lost, and everything is listed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Generic, NoReturn

import msgspec
import structlog

from extender.control.ports import ApiError, EventSink
from extender.control.watched import CALIBRATION, LEASE, PROVISIONING, WATCHED, Known, Watched
from extender.kube.api import NOT_FOUND, TIMEOUT, UNREADABLE, ApiServer, ReconnectBackoff, Sleep, list_pages
from extender.kube.rights import CREDENTIALS_REFUSED
from extender.kube.watch import (
    GONE,
    INITIAL_EVENTS_END,
    PlaceLostError,
    T,
    WatchConnection,
    WatchFailure,
    WatchFeed,
    WatchOptions,
    decode_watch_event,
    watch_error,
)
from extender.objects.meta import BareMeta, DecodeError, Identity, ObjectMeta, decode_metadata, identify

_UNAUTHORIZED, _FORBIDDEN, _TOO_MANY_REQUESTS = 401, 403, 429
#: How servers without WatchList refuse its parameters. Source: k8s.io/apimachinery ValidateListOptions.
_NO_WATCH_LIST = frozenset({400, 422})

log = structlog.get_logger("muster.watch")


class Reflector(Generic[T]):
    """Report every object of one kind to a sink, in the server's order, and never miss a deletion.

    Remembers the name and UID of each object that it has reported, not the object.
    """

    def __init__(  # noqa: PLR0913 - what it reads, what it reports to, and what tests replace
        self,
        feed: WatchFeed[T],
        api: ApiServer,
        sink: EventSink,
        options: WatchOptions,
        *,
        random: Random,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._feed = feed
        self._api = api
        self._sink = sink
        self._options = options
        self._random = random
        self._sleep = sleep
        self._backoff = ReconnectBackoff(options.first_backoff_seconds, options.longest_backoff_seconds, random)
        self._log = log.bind(kind=str(feed.kind))
        self._known: dict[str, str] = {}  # namespace/name -> UID
        self._unmet: dict[str, str] = {}  # what the list that has begun has not shown yet; empty outside of one
        self._path = feed.path
        self._untried = list(feed.older)  # under other versions of the API, which the server may have instead
        self._synced = False
        self._taken = 0
        self._undecodable = 0

    @property
    def undecodable(self) -> int:
        """Count the events and objects that were skipped because they could not be decoded."""
        return self._undecodable

    # The loop around lost places.

    async def run(self) -> NoReturn:
        """List and watch until cancelled, and list again whenever the place is lost."""
        while True:
            try:
                await self._stay_connected()
            except PlaceLostError as lost:
                self._log.info("listing again", cause=str(lost.cause))
                await self._pause(lost.cause, "")

    # The loop around connections that end.

    async def _stay_connected(self) -> NoReturn:
        """Connect, and connect again from where the last connection ended; raise PlaceLostError if that is gone."""
        connection = WatchConnection()
        while True:
            end: ApiError | None = None
            try:
                await self._connect(connection)
            except ApiError as error:
                end = error
            if connection.progressed:
                self._backoff.reset()
            connection = await self._after(connection, end)

    async def _connect(self, connection: WatchConnection) -> None:
        """Watch over one connection, from its place or from a complete list, until it ends."""
        if connection.version is None:
            self._begin_list()
            if connection.pages:
                await self._list(connection)
        else:
            await self._compare(connection.version)
        query = self._watch_query(connection)
        idle = self._options.idle_timeout_seconds
        async with self._api.stream(self._path, query, idle_timeout_seconds=idle) as chunks:
            self._answered(connection)
            self._untried = [path for path in (self._feed.path, *self._feed.older) if path != self._path]
            self._sink.heard(self._feed.kind)
            await self._read(chunks, connection)

    async def _compare(self, place: str) -> None:
        """Raise PlaceLostError if the server is not as far as `place`: it went back to an older state.

        A watch from a place that is yet to come says nothing until it has come, and then leaves out what happened
        before. The list of one object is read from etcd, so it is never older than what the watch has shown.
        """
        async for page in list_pages(self._api, self._path, 1, self._feed.selector):
            self._expect(page.metadata.resource_version if page.metadata else None, place)
            return

    def _expect(self, version: str | None, place: str | None) -> None:
        """Raise PlaceLostError for a version before `place`; what is no number cannot be compared."""
        if version is None or place is None or not (version.isdecimal() and place.isdecimal()):
            return
        if int(version) < int(place):
            self._log.warning("the API server went back to an older state", version=version, seen=place)
            raise PlaceLostError(WatchFailure.REWOUND)

    def _watch_query(self, connection: WatchConnection) -> dict[str, str]:
        seconds = self._random.randint(self._options.shortest_watch_seconds, self._options.longest_watch_seconds)
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds), **self._feed.selector}
        if connection.version is None:
            return query | {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        return query | {"resourceVersion": connection.version}

    async def _after(self, connection: WatchConnection, error: ApiError | None) -> WatchConnection:
        """Do what the end asks for, and return the next connection; raise PlaceLostError if only a list helps."""
        if error is None:
            return await self._next(connection, WatchFailure.CLOSED, "")
        if error.status:
            self._answered(connection)
        if error.status == GONE:
            raise PlaceLostError(WatchFailure.EXPIRED)
        if error.status in _NO_WATCH_LIST and connection.version is None and not connection.pages:
            self._log.info("the server has no WatchList, listing in pages", answer=str(error))
            return WatchConnection(pages=True)
        if error.status == NOT_FOUND and self._feed.optional:
            return await self._not_installed(connection)
        return await self._next(connection, *self._cause(error, connection), error.retry_after)

    def _cause(self, error: ApiError, connection: WatchConnection) -> tuple[WatchFailure, str]:
        """Classify and log an error; return it in words too."""
        if error.status in {_UNAUTHORIZED, _FORBIDDEN}:
            verb = "list" if connection.pages and connection.version is None else "watch"
            if error.status == _UNAUTHORIZED:
                self._log.error("the API server refused Muster's credentials: token or certificate", answer=str(error))
                return WatchFailure.FORBIDDEN, CREDENTIALS_REFUSED
            self._log.error("not allowed; Muster's ClusterRole must grant it", verb=verb, answer=str(error))
            return WatchFailure.FORBIDDEN, f"Muster's ClusterRole must grant to {verb} {self._feed.kind} ({error})"
        if error.status:
            self._log.warning("refused", answer=str(error))
            throttled = error.status == _TOO_MANY_REQUESTS
            return WatchFailure.THROTTLED if throttled else WatchFailure.REFUSED, str(error)
        if error.reason == TIMEOUT:
            self._backoff.reset()  # the silence was pause enough
            return WatchFailure.SILENT, str(error)
        self._log.warning("disconnected", error=str(error))
        return WatchFailure.DISCONNECTED, str(error)

    def _answered(self, connection: WatchConnection) -> None:
        """Note that the server answers: pauses that grew while it was away say nothing about its load."""
        if connection.after_outage and not connection.answered:
            self._backoff.reset()
        connection.answered = True

    async def _next(
        self, connection: WatchConnection, cause: WatchFailure, detail: str, retry_after: float | None = None
    ) -> WatchConnection:
        """Pause after a connection and return the next one; raise PlaceLostError if its place is of no use."""
        following = connection.next(cause, self._options.fruitless_connections)
        await self._pause(cause, detail, retry_after, outage=following.after_outage)
        return following

    async def _pause(
        self, cause: WatchFailure, detail: str, retry_after: float | None = None, *, outage: bool = False
    ) -> None:
        self._sink.watch_restarted(self._feed.kind, cause, detail)
        seconds = self._backoff.pause(at_least=retry_after or 0.0)
        await self._sleep(min(seconds, self._options.longest_outage_pause_seconds) if outage else seconds)

    async def _not_installed(self, connection: WatchConnection) -> WatchConnection:
        """Try other versions of an API that is not installed; if none is, it has no objects: look again later."""
        if self._untried:
            self._path = self._untried.pop(0)
            return WatchConnection(connection.version)
        self._path, self._untried = self._feed.path, list(self._feed.older)
        if not self._synced or self._known:
            self._log.info("API not installed", look_again_seconds=self._options.look_again_seconds)
        self._begin_list()
        await self._complete_list()
        self._sink.heard(self._feed.kind)
        await self._sleep(self._options.look_again_seconds)
        return WatchConnection()

    # The list, where the server has no WatchList.

    async def _list(self, connection: WatchConnection) -> None:
        version = None
        number = 0
        async for page in list_pages(self._api, self._path, self._options.page_size, self._feed.selector):
            self._sink.heard(self._feed.kind)
            number += 1
            for index, raw in enumerate(page.items or ()):
                where = f"item {index} of page {number}"
                try:
                    self._deliver(raw, where, connection)
                except DecodeError as error:
                    self._skip(str(error), where, connection)
                await self._breathe()
            version = page.metadata.resource_version if page.metadata else None
        await self._complete_list()
        connection.version = version

    def _begin_list(self) -> None:
        """Expect every object that is known; names are crossed off one by one, so that no step takes long."""
        self._unmet = self._known.copy()

    async def _complete_list(self) -> None:
        """Have a complete list: what is not in it is gone."""
        for key in list(self._unmet):
            self._forget(key)
            await self._breathe()
        self._unmet.clear()
        if not self._synced:
            self._log.info("synced", objects=len(self._known))
        if self._known or not self._synced:  # an API that is not installed is looked for again and again
            self._synced = True
            self._sink.synced(self._feed.kind)

    # The loop around what cannot be decoded.

    async def _read(self, chunks: AsyncIterator[bytes], connection: WatchConnection) -> None:
        """Take in the lines of one connection."""
        rest = b""
        number = 0
        async for chunk in chunks:
            self._sink.heard(self._feed.kind)
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                number += 1
                await self._take(line, f"line {number} of the watch", connection)
                await self._breathe()
        if rest:
            self._log.info("the watch ended inside a line, which will come again", after=connection.version)

    async def _take(self, line: bytes, where: str, connection: WatchConnection) -> None:
        try:
            item = self._feed.decode.changed(line)
            if item is not None:
                self._report(item, item.metadata, identify(item.metadata), connection)
                return
            event = decode_watch_event(line)
            match event.type:
                case "ADDED" | "MODIFIED":
                    self._deliver(event.object, where, connection)
                case "DELETED":
                    self._withdraw(event.object, connection)
                case "BOOKMARK":
                    await self._bookmark(event.object, connection)
                case "ERROR":
                    raise watch_error(event.object)
                case other:
                    self._skip(f"unknown type of event {other!r}", where, connection)
        except DecodeError as error:
            self._skip(str(error), where, connection)
            connection.damaged = connection.version is not None

    def _deliver(self, raw: msgspec.Raw, where: str, connection: WatchConnection) -> None:
        """Report an object that was added or changed, or is in a list.

        One that cannot be read is skipped, but not taken for deleted; DecodeError if it cannot even be attributed.
        """
        item: T | None = None
        meta: BareMeta | None
        try:
            item = self._feed.decode(raw)
            meta = item.metadata
            who = identify(meta)
        except DecodeError as error:
            meta = decode_metadata(raw).metadata
            who = identify(meta)
            self._skip(str(error), where, connection, who.key)
        self._report(item, meta, who, connection)

    def _report(self, item: T | None, meta: BareMeta | None, who: Identity, connection: WatchConnection) -> None:
        """Take in that an object is there, and report it unless it could not be read."""
        key = who.key
        if self._known.get(key, who.uid) != who.uid:
            self._forget(key)
        self._unmet.pop(key, None)
        if item is not None:
            self._known[key] = who.uid
            self._feed.seen(item)
        self._advance(meta, connection)

    def _withdraw(self, raw: msgspec.Raw, connection: WatchConnection) -> None:
        """Report that an object was deleted."""
        meta = decode_metadata(raw).metadata
        who = identify(meta)
        self._unmet.pop(who.key, None)
        if self._known.get(who.key) == who.uid:
            self._forget(who.key)
        self._advance(meta, connection)

    async def _bookmark(self, raw: msgspec.Raw, connection: WatchConnection) -> None:
        meta = decode_metadata(raw).metadata or ObjectMeta()
        if connection.version is not None:
            self._advance(meta, connection)
        elif (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true":
            if not meta.resource_version:
                raise ApiError(0, UNREADABLE, "the bookmark that ends the list has no resourceVersion")
            await self._complete_list()
            connection.version = meta.resource_version

    def _advance(self, meta: BareMeta | None, connection: WatchConnection) -> None:
        """Move the place, once there is one: a list that is not complete cannot be resumed."""
        if connection.version is None or meta is None or not meta.resource_version:
            return
        self._expect(meta.resource_version, connection.version)
        connection.version = meta.resource_version
        connection.progressed = True

    def _forget(self, key: str) -> None:
        uid = self._known.pop(key)
        namespace, _, name = key.partition("/")
        self._feed.gone(Identity(namespace, name, uid))

    def _skip(self, error: str, where: str, connection: WatchConnection, key: str = "") -> None:
        """Count and log what is left out; `key` is the object's, "" where it is not known."""
        self._undecodable += 1
        self._sink.skipped(self._feed.kind)
        self._log.error(
            "skipped what cannot be decoded", where=where, object=key, after=connection.version, error=error
        )

    async def _breathe(self) -> None:
        """Let other tasks run after every batch; reading what is buffered already would not."""
        self._taken += 1
        if self._taken % self._options.batch == 0:
            await asyncio.sleep(0)


#: How long the watch of the Lease may be silent, and the longest pause before it is opened again (seconds).
LEASE_IDLE_SECONDS = 5.0
LEASE_BACKOFF_SECONDS = 2.0


class Feeds:
    """Keep a sink in step with the API server: one watch for each kind, each reported as synced by itself."""

    def __init__(  # noqa: PLR0913 - what it reads, what it tells, and what tests replace
        self,
        api: ApiServer,
        sink: EventSink,
        options: WatchOptions = WatchOptions(),  # noqa: B008 - a frozen value
        *,
        random: Random,
        sleep: Sleep = asyncio.sleep,
        lease: str | None = None,
        calibration: str = "muster-system/muster-calibration",
        provisioning: bool = False,
    ) -> None:
        """Prepare; nothing is read before `run`.

        `random` draws jitter and the life of watches, `sleep` waits. `lease` (NAMESPACE/NAME) is watched too.
        `calibration` (NAMESPACE/NAME) is the ConfigMap with measured bandwidths. With `provisioning` requests for nodes
        are watched.
        """
        rows = [_one(row, calibration) if row is CALIBRATION else row for row in WATCHED]
        if provisioning:
            rows.append(PROVISIONING)
        if lease is not None:
            rows.insert(0, _one(LEASE, lease))
        self._reflectors: dict[str, Reflector[Any]] = {
            feed.kind: Reflector(feed, api, sink, _patience(feed.kind, options), random=random, sleep=sleep)
            for feed in feeds(sink, rows)
        }

    async def run(self) -> None:
        """Watch until cancelled; failures of the API server are survived, an error of the sink ends all."""
        async with asyncio.TaskGroup() as group:
            for kind, reflector in self._reflectors.items():
                group.create_task(reflector.run(), name=f"watch-{kind}")

    def undecodable(self) -> Mapping[str, int]:
        """Count, by kind, the objects and events that were skipped because they could not be decoded."""
        return {kind: reflector.undecodable for kind, reflector in self._reflectors.items()}


def _patience(kind: str, options: WatchOptions) -> WatchOptions:
    """Return how patient the watch of a kind is: what a Lease says is out of date within seconds."""
    if kind != LEASE.name:
        return options
    return replace(
        options,
        idle_timeout_seconds=min(options.idle_timeout_seconds, LEASE_IDLE_SECONDS),
        longest_backoff_seconds=min(options.longest_backoff_seconds, LEASE_BACKOFF_SECONDS),
    )


def feeds(sink: EventSink, rows: Iterable[Watched[Any]] = WATCHED) -> Iterator[WatchFeed[Any]]:
    """Yield what to watch, told to `sink`."""
    known = Known()
    return (_feed(row, sink, known) for row in rows)


def _feed(row: Watched[Any], sink: EventSink, known: Known) -> WatchFeed[Any]:
    def seen(item: Any) -> None:  # noqa: ANN401 - an object of the row's kind
        for event in row.seen(item, known):
            sink.tell(event)

    def gone(who: Identity) -> None:
        for event in row.gone(who, known):
            sink.tell(event)

    newest, *older = row.paths
    return WatchFeed(row.name, newest, row.decode, seen, gone, row.optional, row.selector, tuple(older))


def _one(row: Watched[Any], key: str) -> Watched[Any]:
    """Return the row for one object alone, called `key` (NAMESPACE/NAME)."""
    namespace, _, name = key.partition("/")
    prefix, _, resource = row.paths[0].rpartition("/")
    path = f"{prefix}/namespaces/{namespace}/{resource}"
    return replace(row, paths=(path,), selector={"fieldSelector": f"metadata.name={name}"})
