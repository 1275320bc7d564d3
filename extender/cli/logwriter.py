"""Log lines on their way to a file descriptor, written by a thread: no reader can delay a decision, nor end one.

A pipe whose reader stands still blocks every write to it, a full disk and a closed descriptor fail it. So lines wait in
a buffer of bounded size, and those that find no room there, or cannot be written, are dropped and counted.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import prometheus_client

#: Bytes of lines that may wait: some 30,000 lines.
BUFFER_BYTES: Final = 8 << 20
#: Bytes that are written with one call at most, so that a line is not told to be lost with thousands of others.
_BATCH_BYTES: Final = 1 << 16
#: Seconds between attempts to write to a descriptor that does not block and has no room.
_PAUSE_SECONDS: Final = 0.2


class DropCause(StrEnum):
    """Why a line was dropped; the value is the metric label."""

    FULL = "full"
    """The reader is slower than lines come: the buffer is full."""
    FAILED = "failed"
    """The write failed: the disk is full, or the reader is gone."""
    UNPRINTABLE = "unprintable"
    """The line could not be rendered."""


class LogWriter:
    """Take lines from any thread without waiting, and write them in order in a thread of its own.

    `write` writes some of what it is given and returns how many bytes, as `os.write` does; None writes nothing and
    counts every line as failed.
    """

    def __init__(self, write: Callable[[bytes], int] | None, most_bytes: int = BUFFER_BYTES) -> None:
        """Start the thread."""
        self._write = write
        self._most_bytes = most_bytes
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._writing = False
        self._counts: Counter[DropCause] = Counter()
        self._counter: prometheus_client.Counter | None = None
        threading.Thread(target=self._run, name="log-writer", daemon=True).start()

    def put(self, line: str) -> None:
        """Have a line written, or count it as dropped; never waits for the reader and never raises."""
        data = line.encode(errors="backslashreplace") + b"\n"
        with self._changed:
            if self._write is None or self._bytes + len(data) > self._most_bytes:
                self._drop(DropCause.FAILED if self._write is None else DropCause.FULL, 1)
                return
            self._lines.append(data)
            self._bytes += len(data)
            self._changed.notify_all()

    def unprintable(self) -> None:
        """Count a line that could not be rendered."""
        with self._changed:
            self._drop(DropCause.UNPRINTABLE, 1)

    def counted_by(self, counter: prometheus_client.Counter) -> None:
        """Count dropped lines with `counter` by cause, those that were dropped before included."""
        with self._changed:
            self._counter = counter
            for cause in DropCause:
                counter.labels(cause).inc(self._counts[cause])

    def dropped(self, cause: DropCause) -> int:
        """Return how many lines were dropped for a cause."""
        with self._changed:
            return self._counts[cause]

    def flush(self, seconds: float) -> bool:
        """Wait until every line has been written or dropped, `seconds` at most; return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lines and not self._writing, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                batch = self._take()
                self._writing = True
            written = self._write_all(b"".join(batch))
            with self._changed:
                self._writing = False
                if not written:
                    self._drop(DropCause.FAILED, len(batch))
                self._changed.notify_all()

    def _take(self) -> list[bytes]:
        batch: list[bytes] = []
        size = 0
        while self._lines and (not batch or size + len(self._lines[0]) <= _BATCH_BYTES):
            batch.append(self._lines.popleft())
            size += len(batch[-1])
        self._bytes -= size
        return batch

    def _write_all(self, data: bytes) -> bool:
        """Write all of `data`; return False if that fails."""
        write = self._write
        while data and write is not None:
            try:
                data = data[write(data) :]
            except BlockingIOError:
                with self._changed:
                    self._changed.wait(_PAUSE_SECONDS)
            except (OSError, ValueError):  # ValueError: a file object that was closed
                return False
        return True

    def _drop(self, cause: DropCause, lines: int) -> None:
        self._counts[cause] += lines
        if self._counter is not None:
            self._counter.labels(cause).inc(lines)
