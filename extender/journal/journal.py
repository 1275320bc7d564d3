"""The journal: every event and what came of it, written down in a thread and kept in little space.

It stands beside the way to the engine, not on it: the controller has the engine take in an event, and notes it here
with what the engine read from the clock meanwhile.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import threading
import zlib
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import structlog

from extender.admission.events import Event
from extender.clock import Clock
from extender.journal.entries import EntryWriter, JournalEntry, Readings
from extender.journal.outcomes import Raised
from extender.journal.tape import Chunk, Tape
from extender.ledger.effects import Effects

log = structlog.get_logger("muster.recording")

#: How many inputs are written down together, a list of nodes counting as one for so many names.
_CHUNK_INPUTS = 256
_NAMES_PER_INPUT = 512

#: The niceness of the thread that writes.
_LOWEST_PRIORITY = 19

#: zlib's level: the quickest. Inputs repeat each other so much that more effort saves little.
_LEVEL = 1


@dataclass(frozen=True, slots=True)
class Recording:
    """How a recording stands: whether it goes on, how many inputs it has had, in how many bytes, and since when.

    `ended` says why it does not go on, "" where it does or was never wanted.
    """

    on: bool
    inputs: int
    size: int
    since: dt.datetime
    ended: str = ""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """All that a journal holds at one moment: chunks, some of them still being written, and the inputs after them."""

    began: dt.datetime
    first: Readings
    inputs: int
    chunks: Sequence[Chunk]
    rest: Sequence[Future[Chunk]]

    def collect(self) -> list[Chunk]:
        """Return what was written; this waits for whatever is still being written, and belongs into a thread."""
        return [*self.chunks, *(chunk.result() for chunk in self.rest)]


class NotedClock:
    """Pass on another clock's time, and remember what was said since `begin`."""

    def __init__(self, clock: Clock) -> None:
        self._read_monotonic = clock.monotonic
        self._read_calendar = clock.now
        self._monotonic: list[float] = []
        self._calendar: list[dt.datetime] = []

    def begin(self) -> None:
        """Forget what was said before."""
        if self._monotonic:
            self._monotonic = []
        if self._calendar:
            self._calendar = []

    def taken(self) -> Readings:
        """Return what was said since `begin`; what is said from now on does not count."""
        readings = Readings(self._monotonic, self._calendar)
        self._monotonic, self._calendar = [], []
        return readings

    def monotonic(self) -> float:
        """Return seconds that never go backwards."""
        seconds = self._read_monotonic()
        self._monotonic.append(seconds)
        return seconds

    def now(self) -> dt.datetime:
        """Return the calendar time in UTC."""
        moment = self._read_calendar()
        self._calendar.append(moment)
        return moment


class Journal:
    """Note events in order, from the beginning on, as long as they fit.

    A journal without its beginning is worth nothing: when it is full, it ends and is let go.

    Attributes:
        clock: what the engine has to read the time from.
    """

    def __init__(self, limit: int, clock: Clock) -> None:
        """Keep at most `limit` bytes; 0 keeps nothing."""
        self.clock = NotedClock(clock)
        self._began = clock.now()
        self._first = Readings()
        self._inputs = 0
        self._entries: list[JournalEntry] = []
        self._weight = 0
        self._tape = Tape(limit)
        self._coming: deque[Future[Chunk]] = deque()  # being written, in order
        self._ended = ""
        self._on = limit > 0
        self._writer = EntryWriter()
        self._thread: ThreadPoolExecutor | None = None

    def open(self) -> None:
        """Note what the engine read from the clock while it was put together."""
        self._first = self.clock.taken()

    def begin(self) -> None:
        """Begin an event: what was read from the clock before is not part of it."""
        self.clock.begin()

    def note(self, event: Event[Any], came: Effects[Any] | Raised) -> None:
        """Note an event that was taken in, and what came of it."""
        if not self._on:
            return
        entry = JournalEntry(event, self.clock.taken(), came)
        self._entries.append(entry)
        self._inputs += 1
        self._weight += 1 + len(getattr(event, "names", ())) // _NAMES_PER_INPUT
        if self._weight >= _CHUNK_INPUTS:
            self._write()
            self._measure()

    def standing(self) -> Recording:
        """Return how the recording stands."""
        if self._on:
            self._measure()
        return Recording(self._on, self._inputs, self._tape.size, self._began, self._ended)

    def excerpt(self) -> Excerpt | None:
        """Return all there is, None where nothing is recorded."""
        if not self._on:
            return None
        if self._entries:
            self._write()
        return Excerpt(self._began, self._first, self._inputs, tuple(self._tape.chunks), tuple(self._coming))

    def _write(self) -> None:
        """Have what was noted written down, in order."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "recording", _give_way)
        entries, self._entries, self._weight = self._entries, [], 0
        self._coming.append(self._thread.submit(_written, self._writer, entries))

    def _measure(self) -> None:
        """Take in what has been written since last time; end where it does not fit, or could not be written."""
        while self._coming and self._coming[0].done():
            coming = self._coming.popleft()
            error = coming.exception()
            if error is not None:
                self._end(f"{type(error).__name__}: {error}")
                return
            if not self._tape.add(coming.result()):
                self._end(f"{self._inputs} inputs since {self._began:%Y-%m-%dT%H:%M:%SZ} fill recording_megabytes")
                return

    def _end(self, why: str) -> None:
        log.warning("recording ended", why=why)
        self._on, self._ended = False, why
        self._tape.clear()
        self._coming.clear()
        self._entries.clear()
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None


def _give_way() -> None:
    """Let the event loop go first where it shares a processor with this thread."""
    with contextlib.suppress(OSError):  # a thread has a priority of its own on Linux alone
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)


def _written(writer: EntryWriter, entries: Sequence[JournalEntry]) -> Chunk:
    return Chunk(len(entries), zlib.compress(writer.write(entries), _LEVEL))
