"""People who look at Muster, as a process of its own: `onlookers.py PORT stream READERS`, or `explain RATE GANG...`.

Readers follow the live board and throw away what they get. Whoever explains asks so many times a second, about one gang
after the other. It stops when its standard input ends, and then prints what it has seen as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

LOOPBACK = "127.0.0.1"
#: Bytes that are read at once.
_CHUNK = 1 << 16


@dataclass(slots=True)
class Seen:
    """What came back: bytes and messages of streams, seconds until the first picture, gang and seconds of answers."""

    bytes: int = 0
    messages: int = 0
    first_picture: list[float] = field(default_factory=list)
    answers: list[tuple[str, float]] = field(default_factory=list)


async def read_stream(port: int, seen: Seen) -> None:
    """Follow the live board until cancelled."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection(LOOPBACK, port, limit=1 << 24)
    try:
        writer.write(f"GET /api/v1/stream HTTP/1.1\r\nHost: {LOOPBACK}\r\n\r\n".encode())
        await reader.readuntil(b"event: board")
        await reader.readuntil(b"\n\n")
        seen.first_picture.append(time.perf_counter() - began)
        while chunk := await reader.read(_CHUNK):
            seen.bytes += len(chunk)
            seen.messages += chunk.count(b"event: change")
    finally:
        writer.close()


async def ask(port: int, rate: float, gangs: Sequence[str], seen: Seen) -> None:
    """Have gangs explained in turn so many times a second, one question at a time, until cancelled."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port, limit=1 << 24)
    try:
        for gang in itertools.cycle(gangs):
            began = time.perf_counter()
            writer.write(f"GET /api/v1/gangs/{gang}/explain HTTP/1.1\r\nHost: {LOOPBACK}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            if not head.startswith(b"HTTP/1.1 200 "):
                raise RuntimeError(f"Muster answered {head!r}: {body[:300]!r}")
            seen.answers.append((gang, time.perf_counter() - began))
            await asyncio.sleep(max(1 / rate - (time.perf_counter() - began), 0))
    finally:
        writer.close()


async def look_on(port: int, what: str, amount: str, gangs: Sequence[str]) -> Seen:
    """Look until standard input ends."""
    seen = Seen()
    works = [ask(port, float(amount), gangs, seen)] if what == "explain" else []
    works += [read_stream(port, seen) for _ in range(int(amount))] if what == "stream" else []
    tasks = [asyncio.create_task(work) for work in works]
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    await asyncio.wait([ended, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if task.done():
            task.result()  # it should not have ended
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    return seen


if __name__ == "__main__":
    port, what, amount, *gangs = sys.argv[1:]
    found = asyncio.run(look_on(int(port), what, amount, gangs))
    print(
        json.dumps(
            {
                "bytes": found.bytes,
                "messages": found.messages,
                "first_picture": found.first_picture,
                "answers": found.answers,
            }
        )
    )
