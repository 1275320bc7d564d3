"""Answers that leave in one piece."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


class JoinedWrites(asyncio.Transport):
    """A transport that sends together what is written in one turn of the event loop.

    uvicorn writes head and body of an answer one after the other. Each write is a system call in which the kernel also
    wakes the reader, so that kube-scheduler reads every answer twice, and that was a fifth of Muster's CPU.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        """Send through `transport`."""
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
        """Let somebody else receive."""
        self._transport.set_protocol(protocol)
