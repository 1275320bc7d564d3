"""Log lines on their way."""

from __future__ import annotations

import os
import threading

import pytest
from prometheus_client import CollectorRegistry, Counter

from extender.cli.logwriter import DropCause, LogWriter

PATIENCE = 30.0


class Standing:
    """A reader that stands still until it is told to read."""

    def __init__(self) -> None:
        self.reads = threading.Event()
        self.waiting = threading.Event()
        self.got = b""

    def write(self, data: bytes) -> int:
        """Block like a full pipe; then take three bytes at a time."""
        self.waiting.set()
        self.reads.wait(PATIENCE)
        self.got += data[:3]
        return len(data[:3])


def test_lines_are_written_in_order() -> None:
    """What is put first is written first, each line with its end, however little is written at a time."""
    reader = Standing()
    reader.reads.set()
    writer = LogWriter(reader.write)
    for number in range(100):
        writer.put(f"line {number}")
    assert writer.flush(PATIENCE)
    assert reader.got.decode() == "".join(f"line {number}\n" for number in range(100))


def test_reader_that_stands_still_costs_lines_and_no_time() -> None:
    """Nobody waits for it: what finds no room is dropped and counted, the rest comes when it reads again."""
    reader = Standing()
    writer = LogWriter(reader.write, most_bytes=50)
    writer.put("first")
    assert reader.waiting.wait(PATIENCE)
    for number in range(20):
        writer.put(f"line {number:4}")
    assert writer.dropped(DropCause.FULL) == 15
    assert not writer.flush(0)
    reader.reads.set()
    assert writer.flush(PATIENCE)
    assert reader.got.decode().splitlines() == ["first", *(f"line {number:4}" for number in range(5))]


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(28, "No space left on device"), ValueError("closed")])
def test_failed_writes_cost_their_lines(error: Exception) -> None:
    """A write that fails drops its lines; the next line is tried again."""
    failing = threading.Event()
    failing.set()
    got: list[bytes] = []

    def write(data: bytes) -> int:
        if failing.is_set():
            raise error
        got.append(data)
        return len(data)

    writer = LogWriter(write)
    writer.put("lost")
    assert writer.flush(PATIENCE)
    failing.clear()
    writer.put("kept")
    assert writer.flush(PATIENCE)
    assert (writer.dropped(DropCause.FAILED), got) == (1, [b"kept\n"])


def test_a_pipe_that_does_not_block_is_waited_for() -> None:
    """A descriptor without room that says so is tried again, as a terminal is that another program made so."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    writer = LogWriter(lambda data: os.write(writing, data))
    for _ in range(3):
        writer.put("x" * 50_000)
    got = b""
    while len(got) < 150_003:
        got += os.read(reading, 100_000)
    assert writer.flush(PATIENCE)
    assert writer.dropped(DropCause.FAILED) == 0
    os.close(reading)
    os.close(writing)


def test_what_is_dropped_is_counted_by_cause() -> None:
    """A metric has the lines that were dropped before there was one, too."""
    writer = LogWriter(None)
    writer.put("nowhere")
    writer.unprintable()
    registry = CollectorRegistry()
    writer.counted_by(Counter("dropped", "Lines.", ("cause",), registry=registry))
    writer.put("nowhere")
    found = {cause: registry.get_sample_value("dropped_total", {"cause": cause}) for cause in DropCause}
    assert found == {DropCause.FULL: 0, DropCause.FAILED: 2, DropCause.UNPRINTABLE: 1}
