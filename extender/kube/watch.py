"""What a watch is of, how patient it is, and why it ends: the values that the reflector works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import msgspec

from extender.control.ports import ApiError, Kind
from extender.kube.api import UNREADABLE, Query
from extender.wire.codec import DecodeError, decode_status
from extender.wire.kubernetes import ObjectMeta

#: Marks the bookmark that ends the initial events of a WatchList. Source: metav1.InitialEventsAnnotationKey.
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
#: The place of a watch or a list has been compacted away.
GONE = 410
#: Reasons of a metav1.Status that mean GONE even where its code is missing.
_GONE_REASONS = frozenset({"Expired", "Gone"})
_INTERNAL_ERROR = 500


class Cause(StrEnum):
    """Why a watch had to start again; the value is the metric label."""

    CLOSED = "closed"
    """The server ended it, as it was asked to or because it shuts down."""
    SILENT = "silent"
    """Nothing was heard for too long: nothing happens, or the other end is gone."""
    DISCONNECTED = "disconnected"
    """The connection could not be made, or broke."""
    THROTTLED = "throttled"
    """The server has too much to do (429)."""
    FORBIDDEN = "forbidden"
    """The server does not know Muster's credentials (401), or Muster lacks a right (403)."""
    REFUSED = "refused"
    """The server answered with another error."""
    EXPIRED = "expired"
    """The server has forgotten where the watch was (410)."""
    STUCK = "stuck"
    """The server answers, but connections from this place bring nothing, again and again."""
    DAMAGED = "damaged"
    """Something could not be read at all; it may have been a deletion, so the place is given up for a new list."""


class PlaceLostError(Exception):
    """The watch cannot go on from where it was; only a new list helps."""

    def __init__(self, cause: Cause) -> None:
        """Keep why."""
        super().__init__(cause)
        self.cause = cause


class ApiObject(Protocol):
    """Any object of the API."""

    @property
    def metadata(self) -> ObjectMeta | None:
        """The object's metadata."""
        ...


T = TypeVar("T", bound=ApiObject)


@dataclass(frozen=True, slots=True)
class Identity:
    """Which object: a name may be used again, with another UID. `namespace` is empty for objects of the cluster."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """Render as `namespace/name`, which is unique at any instant."""
        return f"{self.namespace}/{self.name}"


def identify(meta: ObjectMeta | None) -> Identity:
    """Return which object the metadata belong to; raise DecodeError where they do not say."""
    if meta is None or not meta.name or not meta.uid:
        raise DecodeError("cannot tell which object this is: metadata.name or metadata.uid is missing")
    return Identity(meta.namespace or "", meta.name, meta.uid)


@dataclass(frozen=True, slots=True)
class Feed(Generic[T]):
    """What to watch, and whom to tell.

    `path` is the collection over all namespaces. `seen` is told of every object that was added or changed, `gone` of
    every one that was deleted. An `optional` kind whose API is not installed counts as empty. `selector` is a part of
    every query, for a watch of some objects only. `older` are the collection's paths under earlier versions of the API,
    newest first, for servers that do not have the one of `path`.
    """

    kind: Kind
    path: str
    decode: Callable[[msgspec.Raw], T]
    seen: Callable[[T], None]
    gone: Callable[[Identity], None]
    optional: bool = False
    selector: Query = field(default_factory=dict)
    older: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How patient the watches are."""

    page_size: int = 500
    """Objects per page of a LIST, where the server has no WatchList. A page arrives as one body, so larger ones take
    more memory; smaller ones cost more requests. client-go uses 500."""

    batch: int = 10
    """Objects taken in before others get their turn on the event loop: about half a millisecond, and each kind has one
    in every turn. More makes verbs wait longer while a list comes in, less makes the list take longer."""

    shortest_watch_seconds: int = 240
    longest_watch_seconds: int = 290
    """When the server shall end a watch, drawn anew each time so that the kinds do not all reconnect at once. Beyond
    five minutes the server may have compacted away the place of a quiet watch."""

    idle_timeout_seconds: float = 45.0
    """How long a watch may be silent before it is opened again, in case the other end is gone. A kind in which nothing
    happens is silent: the server sends no bookmark while its version stays the same. Keep it below the setting
    stale_after_seconds, or quiet kinds count as stale; a few seconds would only make requests."""

    first_backoff_seconds: float = 0.5
    longest_backoff_seconds: float = 30.0
    """Bounds of the pause before what failed is tried again; it doubles from the first to the longest."""

    longest_outage_pause_seconds: float = 5.0
    """Bound of that pause while no answer comes at all: how late it may be noticed that the server is back. Knocking at
    a closed door costs nobody much."""

    look_again_seconds: float = 30.0
    """How often to look for an optional API that is not installed. It is also how late its first objects are seen."""

    fruitless_connections: int = 6
    """How many connections in a row the server may refuse or close without a word before the place is given up for a
    new list: it need not say that it cannot read the place. Fewer would list anew while the server is in trouble."""


def watch_error(raw: msgspec.Raw) -> ApiError:
    """Return what an ERROR event says."""
    try:
        status = decode_status(raw)
    except DecodeError as error:
        return ApiError(_INTERNAL_ERROR, UNREADABLE, f"ERROR event: {error}")
    reason = status.reason or ""
    code = GONE if reason in _GONE_REASONS else status.code or _INTERNAL_ERROR
    return ApiError(code, reason, status.message or "")
