"""The board live, over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from extender.service import stream
from extender.service.app import create_app
from extender.service.board.board import Board
from extender.service.stream import Stream, board_document, hang_up
from extender.settings import Settings
from muster_lab.simulation.virtual_time import LoopClock
from tests.control.conftest import Muster
from tests.patience import HANGS
from tests.service.serving import Service, served

REQUEST = b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"


@asynccontextmanager
async def serving(muster: Muster, settings: Settings | None = None) -> AsyncIterator[Service]:
    """Serve the application of a running controller."""
    app = create_app(
        muster.controller, settings or muster.settings, muster.metrics, LoopClock(asyncio.get_running_loop())
    )
    async with served(muster.settings, app=app) as service:
        yield service


class Reader:
    """One page that follows the board."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read from a connection on which the request was sent."""
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, service: Service) -> Reader:
        """Open the stream and read the head of its answer."""
        reader, writer = await service.connect()
        writer.write(REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"200 OK" in head
        assert b"text/event-stream" in head
        return cls(reader, writer)

    async def event(self) -> tuple[str, dict[str, Any]]:
        """Return the next event that has data: its name and the document."""
        name = ""
        async with asyncio.timeout(HANGS):
            while True:
                line = (await self.reader.readline()).decode()
                if line.startswith("event: "):
                    name = line.removeprefix("event: ").strip()
                if line.startswith("data: "):
                    return name, json.loads(line.removeprefix("data: "))


async def test_the_picture_comes_first_then_what_changes(muster: Muster) -> None:
    """A page gets everything once, and then a gang that arrives soon after."""
    muster.nodes(2)
    muster.sync()
    async with serving(muster) as service:
        page = await Reader.open(service)
        name, picture = await page.event()
        assert (name, picture["nodes"]["names"]) == ("board", ["node-0", "node-1"])
        began = asyncio.get_running_loop().time()
        muster.gang("new", 1)
        changes = [await page.event()]
        while not changes[-1][1]["gangs"]["put"]:
            changes.append(await page.event())
        assert asyncio.get_running_loop().time() - began < 10
        assert [row["name"] for row in changes[-1][1]["gangs"]["put"]] == ["new"]
        assert {name for name, _ in changes} == {"change"}
        assert [document["seq"] for _, document in changes] == [picture["seq"] + 1 + i for i in range(len(changes))]


async def test_a_later_page_sees_the_same(muster: Muster) -> None:
    """Who comes while others read gets a picture, and every change that is not in it."""
    muster.nodes(1)
    muster.sync()
    async with serving(muster) as service:
        first = await Reader.open(service)
        await first.event()
        muster.gang("a", 1)
        second = await Reader.open(service)
        _, picture = await second.event()
        muster.gang("b", 1)
        seen: dict[Reader, set[str]] = {first: set(), second: {row["name"] for row in picture["gangs"]}}
        for page, names in seen.items():
            while not {"a", "b"} <= names:
                _, change = await page.event()
                names |= {row["name"] for row in change["gangs"]["put"]}
        assert seen[first] == seen[second] == {"a", "b"}


async def test_without_the_page_the_stream_goes_on(muster: Muster) -> None:
    """With the dashboard switched off `muster watch` still follows."""
    muster.sync()
    async with serving(muster, Settings(dashboard=False)) as service:
        page = await Reader.open(service)
        assert (await page.event())[0] == "board"


async def test_too_many_pages_are_sent_away(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page that is one too many is told so, and how many may be open."""
    monkeypatch.setattr(stream, "_MOST_READERS", 1)
    muster.sync()
    async with serving(muster) as service:
        page = await Reader.open(service)
        await page.event()
        answer = await service.send(REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert b"503" in answer.split(b"\r\n")[0]
    assert b"1 pages are open already" in answer


async def test_silence_is_broken_now_and_then(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing changes a comment comes, so that both sides notice when the other is gone."""
    monkeypatch.setattr(stream, "_SILENCE_SECONDS", 0.05)
    muster.sync()
    board = Board(muster.controller, muster.metrics, LoopClock(asyncio.get_running_loop()))
    messages = Stream(board).messages()
    assert (await anext(messages)).startswith(b"retry: 1000\nevent: board\nid: ")
    assert await anext(messages) == b": nothing new\n\n"
    await messages.aclose()  # type: ignore[attr-defined]  # an async generator behind the iterator's type


async def test_who_falls_behind_begins_anew(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that does not read is sent away rather than remembered for ever."""
    monkeypatch.setattr(stream, "_MOST_WAITING", 2)
    monkeypatch.setattr(stream, "_PAUSE_SECONDS", 0.01)
    muster.sync()
    board = Board(muster.controller, muster.metrics, LoopClock(asyncio.get_running_loop()))
    messages = Stream(board).messages()
    await anext(messages)
    for number in range(40):
        muster.gang(f"g{number}", 1)
        await asyncio.sleep(0.03)
    rest = [message async for message in messages]
    assert len(rest) <= 2
    assert all(message.startswith(b"event: change") for message in rest)


async def test_nobody_looks_while_nobody_reads(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the last page is closed the board is left alone; the next page finds it right all the same."""
    monkeypatch.setattr(stream, "_PAUSE_SECONDS", 0.01)
    muster.sync()
    looks = []

    class Counted(Board):
        """A board that counts how often it is brought up to date."""

        def refresh(self) -> Any:
            """Count, and do it."""
            looks.append(1)
            return super().refresh()

    live = Stream(Counted(muster.controller, muster.metrics, LoopClock(asyncio.get_running_loop())))
    messages = live.messages()
    await anext(messages)
    await messages.aclose()  # type: ignore[attr-defined]  # an async generator behind the iterator's type
    await asyncio.sleep(0.3)
    before = len(looks)
    muster.gang("a", 1)
    await asyncio.sleep(0.1)
    assert len(looks) == before
    again = live.messages()
    assert b'"name":"a"' in await anext(again)
    await again.aclose()  # type: ignore[attr-defined]  # an async generator behind the iterator's type


async def test_a_service_that_stops_ends_its_streams(muster: Muster) -> None:
    """Every page gets the end of its stream at once, and an application without streams has nothing to end."""
    muster.sync()
    clock = LoopClock(asyncio.get_running_loop())
    app = create_app(muster.controller, muster.settings, muster.metrics, clock)
    async with served(muster.settings, app=app) as service:
        page = await Reader.open(service)
        await page.event()
        hang_up(app)
        async with asyncio.timeout(HANGS):
            rest = await page.reader.readuntil(b"0\r\n\r\n")
    assert rest.endswith(b"0\r\n\r\n")
    hang_up(object())


async def test_pages_that_come_together_share_a_picture(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture is written once for all that are opened between two changes, and again after one."""
    written: list[int] = []

    def counted(picture: Any) -> Any:
        """Count, and write it."""
        written.append(picture.seq)
        return board_document(picture)

    monkeypatch.setattr(stream, "board_document", counted)
    monkeypatch.setattr(stream, "_PAUSE_SECONDS", 0.05)
    muster.sync()
    live = Stream(Board(muster.controller, muster.metrics, LoopClock(asyncio.get_running_loop())))
    first, second = live.messages(), live.messages()
    assert await anext(first) == await anext(second)
    assert len(written) == 1
    muster.gang("a", 1)
    while b'"name":"a"' not in await anext(first):
        pass
    third = live.messages()
    assert b'"name":"a"' in await anext(third)
    assert len(written) == 2
    for messages in (first, second, third):
        await messages.aclose()  # type: ignore[attr-defined]  # an async generator behind the iterator's type
