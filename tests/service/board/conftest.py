"""A running controller with a board of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from extender.service.board.board import Board, BoardChange, BoardPicture
from extender.service.board.documents import GangRow
from extender.service.stream import gang_rows
from muster_lab.simulation.virtual_time import LoopClock
from tests.control.conftest import Muster, muster, pytest_asyncio_loop_factories, settings, term

__all__ = ["muster", "pytest_asyncio_loop_factories", "settings", "term"]


@dataclass
class Seen:
    """A board, and the controller that it shows."""

    muster: Muster
    board: Board

    async def picture(self) -> BoardPicture:
        """Let the controller come to rest, and look."""
        await asyncio.sleep(1)
        self.refresh()
        return self.board.picture()

    async def change(self) -> BoardChange | None:
        """Let the controller come to rest, and return what has changed since the last time."""
        await asyncio.sleep(1)
        self.refresh()
        return self.board.take_change()

    async def gangs(self) -> dict[str, GangRow]:
        """Return the rows of all gangs by name."""
        return {row.name: row for row in gang_rows(await self.picture())}

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
