"""What one connection may cost: how many there are, how large a request's head is, and how long its parts may take.

uvicorn leaves these to a proxy in front. There is none: kube-scheduler calls Muster itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from http import HTTPStatus
from typing import Any, Self

import uvicorn
from prometheus_client import Counter
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from extender.service.origins import foreign, is_loopback
from extender.settings import Settings


class CloseCause(StrEnum):
    """Why a connection was ended; the value is the metric label."""

    TOO_MANY = "too_many"
    HEAD_TOO_LARGE = "head_too_large"
    SLOW_HEAD = "slow_head"
    SLOW_BODY = "slow_body"
    SLOW_READER = "slow_reader"
    CLIENT_NAME = "client_name"
    FOREIGN = "foreign"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class ConnectionRules:
    """What is allowed on the connections of one listener; without `client_names`, any client that TLS lets in."""

    connections: int
    head_bytes: int
    headers: int
    head_seconds: float
    body_seconds: float
    refused: Counter
    client_names: frozenset[str] = frozenset()

    @classmethod
    def from_settings(cls, settings: Settings, refused: Counter, client_names: Iterable[str] = ()) -> Self:
        """Take the limits from the settings; `refused` counts by cause."""
        return cls(
            connections=settings.connection_limit,
            head_bytes=settings.head_limit_bytes,
            headers=settings.header_limit,
            head_seconds=settings.head_timeout_seconds,
            body_seconds=settings.body_timeout_seconds,
            refused=refused,
            client_names=frozenset(client_names),
        )


class _RequestPart(Enum):
    """Which part of a request comes in."""

    NONE = auto()
    HEAD = auto()
    BODY = auto()


class _RefusedError(Exception):
    """Stops the parser in the middle of a request."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    status: HTTPStatus
    cause: CloseCause
    message: str


class JoinedWrites(asyncio.Transport):
    """A transport that sends together what is written in one turn of the event loop.

    uvicorn writes head and body of an answer one after the other. Each write is a system call in which the kernel also
    wakes the reader, so that kube-scheduler reads every answer twice, and that was a fifth of Muster's CPU.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._unsent: list[bytes | bytearray | memoryview] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send `data` at the end of this turn."""
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send all of them at the end of this turn."""
        for data in list_of_data:
            self.write(data)

    def write_eof(self) -> None:
        """Send what is written, and then the end."""
        self._send()
        self._transport.write_eof()

    def close(self) -> None:
        """Send what is written, then close."""
        self._send()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._unsent.clear()
        self._transport.abort()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes have not been taken by the kernel."""
        return self._transport.get_write_buffer_size() + sum(map(len, self._unsent))

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent and not self._transport.is_closing():
            self._transport.writelines(unsent)

    # As the transport itself has it.

    def is_closing(self) -> bool:
        """Tell whether it is closing."""
        return self._transport.is_closing()

    def can_write_eof(self) -> bool:
        """Tell whether `write_eof` works."""
        return self._transport.can_write_eof()

    def is_reading(self) -> bool:
        """Tell whether data is received."""
        return self._transport.is_reading()

    def pause_reading(self) -> None:
        """Receive nothing."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Receive again."""
        self._transport.resume_reading()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return low and high water in bytes."""
        return self._transport.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set low and high water in bytes."""
        self._transport.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as asyncio has it
        """Return what is known of the connection."""
        return self._transport.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return who receives."""
        return self._transport.get_protocol()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Let another call receive."""
        self._transport.set_protocol(protocol)


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 with limits.

    One timer runs while a request comes in: first for its head, then for its body. It is set once what has come is
    parsed: a request that comes in one piece needs none. None runs while it is answered, for a bind may be held; nor
    between requests, where uvicorn closes connections that were idle for long.
    """

    def __init__(self, config: uvicorn.Config, server_state: ServerState, rules: ConnectionRules) -> None:
        super().__init__(config, server_state, {})
        self._rules = rules
        self._part = _RequestPart.NONE
        self._timed = _RequestPart.NONE
        self._head_bytes = 0
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None
        self._refusal: _Refusal | None = None
        self._loopback = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Take the connection in, unless there are too many."""
        super().connection_made(JoinedWrites(transport, self.loop))
        self._loopback = is_loopback(str((transport.get_extra_info("sockname") or ("",))[0]))
        if len(self.connections) > self._rules.connections:
            text = f"more than {self._rules.connections} connections (setting connection_limit)"
            self._refuse(_Refusal(HTTPStatus.SERVICE_UNAVAILABLE, CloseCause.TOO_MANY, text))
            return
        # uvicorn only starts to count idle seconds after the first answer.
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        allowed = self._rules.client_names
        if allowed and allowed.isdisjoint(names := client_names(transport.get_extra_info("peercert"))):
            shown = ", ".join(sorted(names)) or "no name"
            text = f"client certificate of {shown} is not among the allowed client names"
            self._refusal = _Refusal(HTTPStatus.FORBIDDEN, CloseCause.CLIENT_NAME, text)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection and its timers."""
        self._stop_reading()
        self._stop_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has come, and count it while it belongs to a head."""
        if self._part is _RequestPart.NONE:
            self._start_head()
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._part is _RequestPart.HEAD:
            self._head_bytes += len(data)
            if self._head_bytes > self._rules.head_bytes:
                self._refuse(self._too_large())
                return
        if self._part is not self._timed:
            self._set_timer()

    # What the parser calls; an exception here stops it, and comes back as `send_400_response`.

    def on_message_begin(self) -> None:
        """Start to count a head."""
        super().on_message_begin()
        self._start_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take in a header, unless there are too many."""
        super().on_header(name, value)
        if len(self.headers) > self._rules.headers:
            text = f"more than {self._rules.headers} headers (setting header_limit)"
            self._stop_parser(_Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, CloseCause.HEAD_TOO_LARGE, text))

    def on_headers_complete(self) -> None:
        """Let the request be answered, and wait for its body."""
        if self._refusal is not None:
            self._stop_parser(self._refusal)
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > self._rules.head_bytes:
            self._stop_parser(self._too_large())
        if why := foreign(self.parser.get_method(), dict(self.headers), loopback=self._loopback):
            self._stop_parser(_Refusal(HTTPStatus.FORBIDDEN, CloseCause.FOREIGN, why))
        self._part = _RequestPart.BODY
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End the wait for the request."""
        self._stop_reading()
        self._part = _RequestPart.NONE
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser stopped at."""
        self._refuse(self._refusal or _Refusal(HTTPStatus.BAD_REQUEST, CloseCause.MALFORMED, msg))

    # What the transport calls when the client does not take its answer.

    def pause_writing(self) -> None:
        """Wait for the client to read, up to a limit."""
        super().pause_writing()
        self._stop_writing()
        self._writing = self.loop.call_later(self._rules.body_seconds, self._slow_reader)

    def resume_writing(self) -> None:
        """Go on, for the client reads again."""
        super().resume_writing()
        self._stop_writing()

    def _start_head(self) -> None:
        self._part = _RequestPart.HEAD
        self._head_bytes = 0

    def _set_timer(self) -> None:
        """Wait for the rest of the part of a request that has begun to come."""
        self._stop_reading()
        if self._part is _RequestPart.HEAD:
            self._reading = self.loop.call_later(self._rules.head_seconds, self._slow_head)
        elif self._part is _RequestPart.BODY:
            self._reading = self.loop.call_later(self._rules.body_seconds, self._slow_body)
        self._timed = self._part

    def _stop_reading(self) -> None:
        self._timed = _RequestPart.NONE
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _stop_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    def _slow_head(self) -> None:
        text = f"the head took more than {self._rules.head_seconds:g} s (setting head_timeout_seconds)"
        self._refuse(_Refusal(HTTPStatus.REQUEST_TIMEOUT, CloseCause.SLOW_HEAD, text))

    def _slow_body(self) -> None:
        if self.flow.read_paused:  # what is missing is ours to read
            self._set_timer()
            return
        text = f"the body took more than {self._rules.body_seconds:g} s (setting body_timeout_seconds)"
        self._refuse(_Refusal(HTTPStatus.REQUEST_TIMEOUT, CloseCause.SLOW_BODY, text))

    def _slow_reader(self) -> None:
        self._rules.refused.labels(CloseCause.SLOW_READER).inc()
        self.transport.abort()

    def _too_large(self) -> _Refusal:
        text = f"request line and headers exceed {self._rules.head_bytes} bytes (setting head_limit_bytes)"
        return _Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, CloseCause.HEAD_TOO_LARGE, text)

    def _stop_parser(self, refusal: _Refusal) -> None:
        self._refusal = refusal
        raise _RefusedError

    def _refuse(self, refusal: _Refusal) -> None:
        """Say why, unless an answer is under way already, and close."""
        self._rules.refused.labels(refusal.cause).inc()
        self._stop_reading()
        answering: RequestResponseCycle | None = self.cycle  # uvicorn declares it without the None that it begins with
        if answering is None or answering.response_complete or not answering.response_started:
            self.transport.write(_response(refusal))
        if answering is not None:
            answering.disconnected = True  # nothing more is to be written
        self.transport.close()


def _response(refusal: _Refusal) -> bytes:
    body = f"{refusal.message}\n".encode()
    head = (
        f"HTTP/1.1 {refusal.status.value} {refusal.status.phrase}\r\n"
        f"content-type: text/plain; charset=utf-8\r\nx-content-type-options: nosniff\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


def client_names(certificate: dict[str, Any] | None) -> frozenset[str]:
    """Return the common name and the subject alternative names of a peer's certificate, as `ssl` decodes it."""
    if not certificate:
        return frozenset()
    common = {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
    return frozenset(common | {value for _, value in certificate.get("subjectAltName", ())})
