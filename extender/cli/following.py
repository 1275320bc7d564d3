"""Following a running Muster: its board first, then each change, also after it restarts.

The format of the stream is that of server-sent events in the HTML standard, section 9.2
(https://html.spec.whatwg.org/multipage/server-sent-events.html), without lone carriage returns and byte order marks.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from extender.cli.asking import Asker, AskError, UnknownPathError
from extender.cli.connecting import Connection, reached, refusals
from extender.explain.documents import DecisionRow
from extender.service.board.documents import BoardDocument, ChangeDocument, GangRow, StatusDocument

Connect: TypeAlias = Callable[[], AbstractContextManager[Asker]]

STREAM = "/api/v1/stream"
#: How long the stream may be silent; Muster says something every ten seconds.
IDLE_SECONDS = 30.0
#: Pauses before each attempt to connect again, the last one repeated. A replica that takes over needs six seconds.
PAUSES = (1.0, 1.0, 2.0, 4.0, 8.0)
#: Decisions that are remembered so that each is shown once: as many as Muster itself keeps.
_MOST_EVENTS = 2000


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its name and its data. A comment, which only shows that the server lives, is an event named ""."""

    name: str
    data: str = ""


@dataclass(frozen=True, slots=True)
class StreamLost:
    """The connection is lost; the next attempt is after `seconds`."""

    why: str
    seconds: float


@dataclass(frozen=True, slots=True)
class News:
    """Something has come in: gangs that changed or are gone, and decisions. Nothing at all only shows that it lives."""

    gangs: tuple[str, ...] = ()
    events: tuple[DecisionRow, ...] = ()


@dataclass(slots=True)
class Followed:
    """What the stream has said so far.

    Attributes:
        status: as `GET /api/v1/status`.
        gangs: rows by namespace/name.
        order: the waiting gangs, in the order of the queue.
        events: the latest decisions, oldest first.
    """

    status: StatusDocument | None = None
    gangs: dict[str, GangRow] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    events: deque[DecisionRow] = field(default_factory=lambda: deque(maxlen=_MOST_EVENTS))

    def board(self, document: BoardDocument) -> News:
        """Take in the first picture of a connection: all that there is, in place of what there was."""
        rows = {row.key: row for row in document.gangs}
        changed = [name for name, row in rows.items() if self.gangs.get(name) != row]
        changed += [name for name in self.gangs if name not in rows]
        self.gangs = rows
        self.order = tuple(name for name, row in rows.items() if row.position)
        self.status = document.status
        return News(tuple(changed), self._new(document.events))

    def change(self, document: ChangeDocument) -> News:
        """Take in what has changed."""
        gangs = document.gangs
        put = {row.key: row for row in gangs.put}
        self.gangs.update(put)
        for name in gangs.gone:
            self.gangs.pop(name, None)
        if gangs.order is not msgspec.UNSET:
            self.order = gangs.order
        self.status = document.status
        return News((*put, *gangs.gone), self._new(document.events))

    def _new(self, events: Iterable[DecisionRow]) -> tuple[DecisionRow, ...]:
        """Keep the decisions that are new. A restarted Muster counts from one again, so the number is not enough."""
        known = {_identity(event) for event in self.events}
        new = tuple(event for event in events if _identity(event) not in known)
        self.events.extend(new)
        return new


@contextlib.contextmanager
def following(
    command: str, connection: Connection, followed: Followed
) -> Iterator[Generator[News | StreamLost, None, None]]:
    """Follow Muster for a command until Ctrl-C, which ends it well; what goes wrong ends it as `refusals` says."""
    with refusals(command), contextlib.closing(follow(lambda: reached(connection), followed)) as news:
        try:
            yield news
        except KeyboardInterrupt:
            return


def follow(
    connect: Connect, followed: Followed, pause: Callable[[float], None] | None = None
) -> Generator[News | StreamLost, None, None]:
    """Keep `followed` up to date, and yield what has come in, without end; each connection begins with a whole board.

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
        yield StreamLost(why, seconds)
        pause(seconds)


def _taken(followed: Followed, name: str, data: str) -> News:
    if name not in {"board", "change"}:
        return News()
    try:
        if name == "board":
            return followed.board(msgspec.json.decode(data, type=BoardDocument))
        return followed.change(msgspec.json.decode(data, type=ChangeDocument))
    except msgspec.DecodeError as error:
        raise AskError(
            f"the stream has a message that cannot be read ({error!r}); is Muster as new as this?"
        ) from error


def _identity(event: DecisionRow) -> tuple[object, ...]:
    return event.seq, event.time, event.kind, event.gang


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


def events_of(lines: Iterable[str]) -> Iterator[ServerEvent]:
    """Yield the events that lines make up, comments among them; an event that is cut off is none."""
    name, data = "message", list[str]()
    for line in lines:
        if line.startswith(":"):
            yield ServerEvent("")
        elif line:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                name = value
            elif field == "data":
                data.append(value)
        else:
            if data:
                yield ServerEvent(name, "\n".join(data))
            name, data = "message", []
