"""Answers that leave in one piece."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from extender.service.connections import JoinedWrites


class Wire(asyncio.Transport):
    """A transport that records what is done with it."""

    def __init__(self) -> None:
        """Be open."""
        super().__init__()
        self.sent: list[bytes] = []
        self.deeds: list[str] = []
        self.protocol: asyncio.BaseProtocol = asyncio.Protocol()
        self.limits = (1, 2)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Take what is sent."""
        self.sent.append(b"".join(list_of_data))

    def write_eof(self) -> None:
        """Take the end."""
        self.deeds.append("eof")

    def close(self) -> None:
        """Close."""
        self.deeds.append("close")

    def abort(self) -> None:
        """Close at once."""
        self.deeds.append("abort")

    def is_closing(self) -> bool:
        """Tell whether it was closed."""
        return bool({"close", "abort"} & set(self.deeds))

    def can_write_eof(self) -> bool:
        """Take an end."""
        return True

    def is_reading(self) -> bool:
        """Tell whether the last word was to read."""
        return self.deeds[-1:] != ["pause"]

    def pause_reading(self) -> None:
        """Stop reading."""
        self.deeds.append("pause")

    def resume_reading(self) -> None:
        """Read."""
        self.deeds.append("resume")

    def get_write_buffer_size(self) -> int:
        """Keep ten bytes."""
        return 10

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return what was set."""
        return self.limits

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Take limits."""
        self.limits = (low or 0, high or 0)

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Know the peer."""
        return "peer" if name == "peername" else default

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return who receives."""
        return self.protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Change who receives."""
        self.protocol = protocol


@pytest.fixture
def wire() -> Wire:
    """Return a transport that records."""
    return Wire()


@pytest.fixture
async def writes(wire: Wire) -> JoinedWrites:
    """Return joined writes to it."""
    return JoinedWrites(wire, asyncio.get_running_loop())


async def test_what_is_written_in_one_turn_leaves_together(wire: Wire, writes: JoinedWrites) -> None:
    """Head and body are one system call, at the end of the turn; what comes later is another."""
    writes.write(b"head ")
    writes.writelines([b"body", bytearray(b"!")])
    assert (wire.sent, writes.get_write_buffer_size()) == ([], 10 + len("head body!"))
    await asyncio.sleep(0)
    assert (wire.sent, writes.get_write_buffer_size()) == ([b"head body!"], 10)
    writes.write(b"next")
    await asyncio.sleep(0)
    assert wire.sent == [b"head body!", b"next"]


@pytest.mark.parametrize("end", ["close", "eof"])
async def test_what_is_written_before_the_end_is_sent(wire: Wire, writes: JoinedWrites, end: str) -> None:
    """An answer with `connection: close` arrives whole."""
    writes.write(b"answer")
    (writes.close if end == "close" else writes.write_eof)()
    assert (wire.sent, wire.deeds) == ([b"answer"], [end])
    await asyncio.sleep(0)
    assert wire.sent == [b"answer"]


async def test_an_abort_sends_nothing_more(wire: Wire, writes: JoinedWrites) -> None:
    """A client that does not read is not sent the rest."""
    writes.write(b"answer")
    writes.abort()
    await asyncio.sleep(0)
    assert (wire.sent, wire.deeds) == ([], ["abort"])


async def test_nothing_is_sent_to_a_transport_that_closed_meanwhile(wire: Wire, writes: JoinedWrites) -> None:
    """The client went away between question and answer."""
    writes.write(b"answer")
    wire.close()
    await asyncio.sleep(0)
    assert wire.sent == []


async def test_all_else_is_the_transports(wire: Wire, writes: JoinedWrites) -> None:
    """Flow control, what is known of the peer and who receives are passed on."""
    writes.pause_reading()
    assert not writes.is_reading()
    writes.resume_reading()
    assert writes.is_reading()
    writes.set_write_buffer_limits(high=7, low=3)
    assert writes.get_write_buffer_limits() == (3, 7)
    protocol = asyncio.Protocol()
    writes.set_protocol(protocol)
    assert writes.get_protocol() is wire.protocol is protocol
    assert (writes.get_extra_info("peername"), writes.get_extra_info("else", 1)) == ("peer", 1)
    assert writes.can_write_eof()
    assert not writes.is_closing()
