"""The board live: one picture, then what changes, as server-sent events.

However many pages are open, a change is collected and written once, and the same bytes go to all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse

from extender.board.board import Board
from extender.board.writing import change_json, picture_json
from extender.control.controller import Controller
from extender.service.overview import look
from extender.service.readiness import ERROR_SCHEMA, NOT_READ_YET, UNAVAILABLE, require_ready
from extender.wire.codec import encode

#: Seconds between two looks at the board: a change is seen well within a second.
_PAUSE_SECONDS = 0.3
#: Seconds of silence after which a comment is sent, so that both sides notice a connection that is gone.
_SILENCE_SECONDS = 10.0
#: Messages that may wait for one reader. Whoever is further behind is sent away, and begins anew with a picture.
_MOST_WAITING = 32
#: Milliseconds after which a browser comes back.
_RETRY_MILLISECONDS = 1000
#: Pages that may be open at once; each is a connection.
_MOST_READERS = 500


class Stream:
    """Look at the board while anybody reads, and hand each change to all readers."""

    def __init__(self, board: Board) -> None:
        """Look at `board`."""
        self._board = board
        self._readers: set[asyncio.Queue[bytes | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()
        self._picture: tuple[int, asyncio.Task[bytes]] | None = None

    @property
    def is_full(self) -> bool:
        """Tell whether as many read as may."""
        return len(self._readers) >= _MOST_READERS

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield the picture, then changes, until the reader goes or falls behind."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_WAITING)
        async with self._looking:  # no change may fall between the picture and the first one that is handed over
            seq, writing = await self._current_picture()
            self._readers.add(queue)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._publish(), name="stream")
        try:
            body = await asyncio.shield(writing)
            yield b"retry: %d\n%b" % (_RETRY_MILLISECONDS, _message("board", seq, body))
            while True:
                try:
                    async with asyncio.timeout(_SILENCE_SECONDS):
                        message = await queue.get()
                except TimeoutError:
                    message = b": nothing new\n\n"
                if message is None:
                    return
                yield message
        finally:
            self._readers.discard(queue)

    def hang_up(self) -> None:
        """End what every reader gets, for good: the service stops."""
        for queue in list(self._readers):
            self._send_away(queue)

    async def _current_picture(self) -> tuple[int, asyncio.Task[bytes]]:
        """Return a picture that the next change goes on from: its number, and its bytes once they are written.

        All pages that are opened between two changes get the same one: after a restart they come all at once.
        """
        if self._readers and self._picture is not None and self._picture[0] == self._board.seq:
            return self._picture
        picture = await look(self._board)
        if not self._readers:
            self._board.forget_changes()  # nobody lacks them
        writing = asyncio.create_task(asyncio.to_thread(lambda: encode(picture_json(picture))))
        self._picture = picture.seq, writing
        return self._picture

    async def _publish(self) -> None:
        """Hand over changes for as long as anybody reads."""
        while self._readers:
            await asyncio.sleep(_PAUSE_SECONDS)
            async with self._looking:
                for _ in self._board.refresh():
                    await asyncio.sleep(0)
                change = self._board.take_change()
                if change is None:
                    continue
                body = await asyncio.to_thread(encode, change_json(change))
                message = _message("change", change.seq, body)
                for queue in list(self._readers):
                    self._hand_over(queue, message)

    def _hand_over(self, queue: asyncio.Queue[bytes | None], message: bytes) -> None:
        try:
            queue.put_nowait(message)
        except asyncio.QueueFull:
            self._send_away(queue)

    def _send_away(self, queue: asyncio.Queue[bytes | None]) -> None:
        self._readers.discard(queue)
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(None)


def add_stream(app: FastAPI, controller: Controller, board: Board) -> None:
    """Add the live board to an application."""
    stream = app.state.stream = Stream(board)

    @app.get(
        "/api/v1/stream",
        summary="Follow the board: the picture first (event `board`), then what changes (event `change`).",
        response_class=StreamingResponse,
        responses={
            200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
            UNAVAILABLE: {
                "description": f"{NOT_READ_YET} Or as many read already as may.",
                "content": {"application/json": {"schema": ERROR_SCHEMA}},
            },
        },
    )
    async def follow() -> StreamingResponse:
        require_ready(controller)
        if stream.is_full:
            raise HTTPException(UNAVAILABLE, f"{_MOST_READERS} pages are open already, and no more may be")
        return StreamingResponse(
            stream.messages(), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )


def hang_up(app: object) -> None:
    """End the streams of an application, if it has any: by themselves they never end."""
    stream = getattr(getattr(app, "state", None), "stream", None)
    if isinstance(stream, Stream):
        stream.hang_up()


def _message(event: str, seq: int, body: bytes) -> bytes:
    """Return one server-sent event; JSON as it is written here has no line breaks."""
    return b"event: %b\nid: %d\ndata: %b\n\n" % (event.encode(), seq, body)
