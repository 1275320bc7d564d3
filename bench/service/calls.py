"""Calling Muster as kube-scheduler does: one kept-alive connection, one call at a time, and as little Python as can be.

A client that parses, allocates or awaits would be what is measured; this one sends prepared bytes and waits for as many
as the answer's head promises.
"""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from localcluster.errors import LocalClusterError
from localcluster.ports import LOOPBACK

#: Seconds until a call that is not answered fails the measurement.
_TIMEOUT_SECONDS = 30.0
#: Bytes: the largest answer, 15,000 refusals, has about 2 MB.
_BUFFER_BYTES = 16 * 1024 * 1024
_HEAD_END = b"\r\n\r\n"
_OK = b"HTTP/1.1 200 "


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it goes over the wire, and how its answer is judged: by the body that the first one brought."""

    request: bytes
    expected: bytes


class Connection:
    """One connection to Muster, kept alive."""

    def __init__(self, port: int) -> None:
        """Connect to Muster on loopback."""
        self._socket = socket.create_connection((LOOPBACK, port), timeout=_TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))

    def exchange(self, request: bytes) -> memoryview:
        """Send a request and return the body of its answer, good until the next one; raise LocalClusterError."""
        self._socket.sendall(request)
        have, need, body = 0, 1, 0
        while have < need:
            got = self._socket.recv_into(self._buffer[have:])
            if not got:
                raise LocalClusterError("Muster closed the connection instead of answering; see its log")
            have += got
            if not body:
                body, need = self._read_head(have)
        return self._buffer[body:have]

    def _read_head(self, have: int) -> tuple[int, int]:
        """Return where the body begins and ends, or that a byte more is needed to tell."""
        head, end, _ = bytes(self._buffer[: min(have, 4096)]).partition(_HEAD_END)
        if not end:
            return 0, have + 1
        if not head.startswith(_OK):
            raise LocalClusterError(f"Muster answered {head.decode(errors='replace')}")
        _, _, rest = head.lower().partition(b"content-length: ")
        begins = len(head) + len(end)
        return begins, begins + int(rest.split(b"\r\n")[0])

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self._socket.close()


def request(verb: str, body: bytes) -> bytes:
    """Return a call of `verb` as Go's client sends it."""
    head = (
        f"POST /v1/{verb} HTTP/1.1\r\nHost: {LOOPBACK}\r\nUser-Agent: Go-http-client/1.1\r\n"
        f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    return head.encode() + body


def prepare(connection: Connection, verb: str, body: bytes, check: Callable[[bytes], bool]) -> Call:
    """Make a call once, and expect the same answer from then on; raise LocalClusterError if `check` finds it wrong."""
    sent = request(verb, body)
    answer = bytes(connection.exchange(sent))
    if not check(answer):
        raise LocalClusterError(f"{verb} was not answered as this measurement needs it: {answer[:300]!r}")
    return Call(sent, answer)


def time_calls(
    connection: Connection, calls: Sequence[Call], *, at_most: int, seconds: float, at_least: int = 3
) -> NDArray[np.float64]:
    """Make the calls in turn, and return what each took, in milliseconds.

    Stops after `at_most` calls, or when `seconds` are over and there are `at_least`. Raises LocalClusterError if an
    answer is another one than it was at first.
    """
    taken: list[float] = []
    ends = time.perf_counter() + seconds
    with _without_collections():
        while len(taken) < at_most and (len(taken) < at_least or time.perf_counter() < ends):
            call = calls[len(taken) % len(calls)]
            began = time.perf_counter()
            answer = connection.exchange(call.request)
            taken.append(time.perf_counter() - began)
            if answer != call.expected:
                raise LocalClusterError(f"the answer changed while it was measured: {bytes(answer[:300])!r}")
    return np.array(taken) * 1000


@contextmanager
def _without_collections() -> Iterator[None]:
    """Keep this process from collecting garbage while it keeps time."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
