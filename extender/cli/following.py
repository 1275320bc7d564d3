"""Following a running Muster: its board first, then what changes, for as long as anybody looks, across its restarts."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from extender.cli.asking import Asker, AskError, UnknownPathError
from extender.cli.serverevents import events_of

Json: TypeAlias = Mapping[str, Any]
Connect: TypeAlias = Callable[[], AbstractContextManager[Asker]]

STREAM = "/api/v1/stream"
#: How long the stream may be silent; Muster says something every ten seconds.
IDLE_SECONDS = 30.0
#: Pauses before Muster is looked for again, the last one for ever. A replica that takes over needs six seconds.
PAUSES = (1.0, 1.0, 2.0, 4.0, 8.0)
#: Decisions that are remembered, to be told once: as many as Muster itself keeps.
_MOST_EVENTS = 2000


@dataclass(frozen=True, slots=True)
class Lost:
    """Nobody answers any more; it is tried again after `seconds`."""

    why: str
    seconds: float


@dataclass(frozen=True, slots=True)
class News:
    """Something has come in: gangs that changed or are gone, and decisions. Nothing at all only shows that it lives."""

    gangs: tuple[str, ...] = ()
    events: tuple[Json, ...] = ()


@dataclass(slots=True)
class Followed:
    """What the stream has told so far.

    Attributes:
        status: as `GET /api/v1/status`.
        gangs: rows by namespace/name.
        order: the waiting gangs, the one that is judged first in front.
        events: the latest decisions, oldest first.
    """

    status: Json = field(default_factory=dict)
    gangs: dict[str, Json] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    events: deque[Json] = field(default_factory=lambda: deque(maxlen=_MOST_EVENTS))

    def board(self, document: Json) -> News:
        """Take in the first picture of a connection: all that there is, in place of what there was."""
        rows = {f"{row['namespace']}/{row['name']}": row for row in document["gangs"]}
        changed = [name for name, row in rows.items() if self.gangs.get(name) != row]
        changed += [name for name in self.gangs if name not in rows]
        self.gangs = rows
        self.order = tuple(name for name, row in rows.items() if row.get("position") is not None)
        self.status = document["status"]
        return News(tuple(changed), self._new(document["events"]))

    def change(self, document: Json) -> News:
        """Take in what has changed."""
        gangs = document["gangs"]
        put = {f"{row['namespace']}/{row['name']}": row for row in gangs["put"]}
        self.gangs.update(put)
        for name in gangs["gone"]:
            self.gangs.pop(name, None)
        if "order" in gangs:
            self.order = tuple(gangs["order"])
        self.status = document["status"]
        return News((*put, *gangs["gone"]), self._new(document["events"]))

    def _new(self, events: Iterable[Json]) -> tuple[Json, ...]:
        """Keep the decisions that were not told yet. A restarted Muster counts anew, so the number is not enough."""
        known = {_identity(event) for event in self.events}
        new = tuple(event for event in events if _identity(event) not in known)
        self.events.extend(new)
        return new


def follow(
    connect: Connect, followed: Followed, pause: Callable[[float], None] | None = None
) -> Generator[News | Lost, None, None]:
    """Keep `followed` up to date, and yield what has come in, for ever; each connection begins with a whole board.

    Raises AskError if there is no stream, or if the first connection fails: later ones may, while Muster restarts or
    another replica takes over.
    """
    pause = pause or _wait
    failures = 0
    reached = False
    while True:
        try:
            with connect() as muster:
                for event in events_of(muster.lines(STREAM, IDLE_SECONDS)):
                    yield _taken(followed, event.name, event.data)
                    failures, reached = 0, True
            why = f"{muster.where} has ended the stream"
        except UnknownPathError:
            raise
        except AskError as error:
            if not reached:
                raise
            why = str(error)
        seconds = PAUSES[min(failures, len(PAUSES) - 1)]
        failures += 1
        yield Lost(why, seconds)
        pause(seconds)


def _taken(followed: Followed, name: str, data: str) -> News:
    if name not in {"board", "change"}:
        return News()
    try:
        document = json.loads(data)
        return followed.board(document) if name == "board" else followed.change(document)
    except (ValueError, KeyError, TypeError) as error:
        raise AskError(
            f"the stream has a message that cannot be read ({error!r}); is Muster as new as this?"
        ) from error


def _identity(event: Json) -> tuple[object, ...]:
    return event["seq"], event["time"], event["kind"], event["gang"]


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)
