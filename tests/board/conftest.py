"""A running controller with a board of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from extender.board.board import Board, Change, Picture
from extender.board.document import Json
from extender.board.writing import gangs_json
from extender.simulation.virtual_time import LoopClock
from tests.control.conftest import Muster, muster, pytest_asyncio_loop_factories, settings, term

__all__ = ["muster", "pytest_asyncio_loop_factories", "settings", "term"]


@dataclass
class Seen:
    """A board, and the controller that it shows."""

    muster: Muster
    board: Board

    async def picture(self) -> Picture:
        """Let the controller come to rest, and look."""
        await asyncio.sleep(1)
        self.refresh()
        return self.board.picture()

    async def change(self) -> Change | None:
        """Let the controller come to rest, and return what has changed since the last time."""
        await asyncio.sleep(1)
        self.refresh()
        return self.board.take_change()

    async def gangs(self) -> dict[str, Json]:
        """Return the rows of all gangs by name."""
        return {row["name"]: row for row in gangs_json(await self.picture())}

    def refresh(self) -> None:
        """Bring the board up to date at once."""
        for _ in self.board.refresh():
            pass


@pytest.fixture
async def seen(muster: Muster) -> Seen:
    """Return the board of a controller that knows four nodes of eight GPUs."""
    muster.nodes(4)
    muster.sync()
    return Seen(muster, Board(muster.controller, muster.metrics, LoopClock(asyncio.get_running_loop())))
