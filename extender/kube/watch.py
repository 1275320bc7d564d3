"""What a watch is of, how patient it is, what one connection has shown, and why it ended: the reflector's values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from extender.control.ports import REWOUND, ApiError
from extender.kube.api import UNREADABLE, Query, decode_status
from extender.objects.meta import BareMeta, DecodeError, Decoder, Identity, ObjectDecoder


class WatchEvent(Struct, gc=False, frozen=True):
    """One line of a watch; `object` stays undecoded until its kind is known."""

    type: str | None = None
    object: Raw = Raw(b"null")


decode_watch_event = Decoder(WatchEvent)

#: Marks the bookmark that ends the initial events of a WatchList. Source: metav1.InitialEventsAnnotationKey.
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

#: The place of a watch or a list has been compacted away.
GONE = 410

#: Reasons of a metav1.Status that mean GONE even where its code is missing.
_GONE_REASONS = frozenset({"Expired", "Gone"})
_INTERNAL_ERROR = 500


class WatchFailure(StrEnum):
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
    REWOUND = REWOUND
    """The server is not as far as the watch was: its etcd was restored to an older state."""
    EXPIRED = "expired"
    """The server has forgotten where the watch was (410)."""
    STUCK = "stuck"
    """The server answers, but connections from this place bring nothing, again and again."""
    DAMAGED = "damaged"
    """Something could not be read at all; it may have been a deletion, so the place is given up for a new list."""


#: Connections that end so without having brought anything hint at a place that the server cannot continue from.
_FRUITLESS = frozenset({WatchFailure.CLOSED, WatchFailure.REFUSED})


class PlaceLostError(Exception):
    """The watch cannot go on from where it was; only a new list helps."""

    def __init__(self, cause: WatchFailure) -> None:
        super().__init__(cause)
        self.cause = cause


@dataclass(slots=True)
class WatchConnection:
    """One connection of a watch: where it begins, and what has come over it.

    Attributes:
        version: its place, from which the next one resumes; None until the list is complete.
        pages: whether the list comes page by page, for want of WatchList.
        fruitless: how many connections before it, in a row, resumed and brought nothing.
        after_outage: whether the one before it got no answer.
        resumed: whether it begins at a place.
        answered: whether the server has answered.
        progressed: whether it moved the place.
        damaged: whether something could not be read that may have been a deletion.
    """

    version: str | None = None
    pages: bool = False
    fruitless: int = 0
    after_outage: bool = False
    resumed: bool = field(init=False)
    answered: bool = field(init=False, default=False)
    progressed: bool = field(init=False, default=False)
    damaged: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.resumed = self.version is not None

    def next(self, cause: WatchFailure, fruitless_limit: int) -> WatchConnection:
        """Return the connection that follows when this one ended by `cause`.

        Raises PlaceLostError where it is of no use to resume from the place: something is missing, or
        `fruitless_limit` connections in a row brought nothing.
        """
        if self.damaged:
            raise PlaceLostError(WatchFailure.DAMAGED)
        fruitless = 0 if self.progressed else self.fruitless + (self.resumed and cause in _FRUITLESS)
        if fruitless >= fruitless_limit:
            raise PlaceLostError(WatchFailure.STUCK)
        outage = cause is WatchFailure.DISCONNECTED and not self.answered
        return WatchConnection(self.version, self.pages, fruitless, outage)


class ApiObject(Protocol):
    """Any object of the API."""

    @property
    def metadata(self) -> BareMeta | None:
        """The object's metadata."""


T = TypeVar("T", bound=ApiObject)


@dataclass(frozen=True, slots=True)
class WatchFeed(Generic[T]):
    """What to watch, and what to call.

    `path` is the collection over all namespaces. `seen` gets every object that was added or changed, `gone` every one
    that was deleted. An `optional` kind whose API is not installed counts as empty. `selector` is a part of
    every query, for a watch of some objects only. `older` are the collection's paths under earlier versions of the API,
    newest first, for servers that do not have the one of `path`.
    """

    kind: str
    path: str
    decode: ObjectDecoder[T]
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

    batch: int = 5
    """Objects taken in before other tasks get their turn on the event loop: about half a millisecond, and each kind has
    one in every turn. More makes verbs wait longer while a list comes in, less makes the list take longer."""

    shortest_watch_seconds: int = 240
    longest_watch_seconds: int = 290
    """When the server is to end a watch, drawn for each so that the kinds do not all reconnect at once. Beyond
    five minutes the server may have compacted away the place of a quiet watch."""

    idle_timeout_seconds: float = 45.0
    """How long a watch may be silent before it is opened again, in case the other end is gone. A kind in which nothing
    happens is silent: the server sends no bookmark while its version stays the same. Keep it below the setting
    stale_after_seconds, or quiet kinds count as stale; a few seconds would only make requests."""

    first_backoff_seconds: float = 0.5
    longest_backoff_seconds: float = 30.0
    """Bounds of the pause before what failed is tried again; it doubles from the first to the longest."""

    longest_outage_pause_seconds: float = 5.0
    """Bound of that pause while no answer comes at all: how late it may be noticed that the server is back. A request
    that is not answered costs little."""

    look_again_seconds: float = 30.0
    """How often to look for an optional API that is not installed. It is also how late its first objects are seen."""

    fruitless_connections: int = 6
    """How many connections in a row the server may refuse or close without a word before the place is given up for a
    new list: it need not say that it cannot read the place. Fewer would list again while the server is in trouble."""


def watch_error(raw: msgspec.Raw) -> ApiError:
    """Return what an ERROR event says."""
    try:
        status = decode_status(raw)
    except DecodeError as error:
        return ApiError(_INTERNAL_ERROR, UNREADABLE, f"ERROR event: {error}")
    reason = status.reason or ""
    code = GONE if reason in _GONE_REASONS else status.code or _INTERNAL_ERROR
    return ApiError(code, reason, status.message or "")
