"""How many writes may be under way at once: as many as the API server bears."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import IntEnum
from itertools import count

from extender.control.ports import ApiError, BudgetError

#: The API server refuses a request because too many are under way (RFC 6585; API Priority and Fairness).
_TOO_MANY_REQUESTS = 429


class Rank(IntEnum):
    """Whose turn comes first when writes queue: what starts a gang before what tells of it."""

    BINDING = 0
    NOMINATION = 1
    REPORT = 2


class WriteWindow:
    """Admit writes, by rank and then in order, to a number of places that follows the API server's answers.

    Additive increase, multiplicative decrease, as TCP does it (Jacobson, "Congestion Avoidance and Control", 1988): a
    round of successes opens one place more, up to `ceiling`; an answer 429 halves the window, once for all the writes
    that were under way then, since they met with the same congestion.
    """

    #: Part of the window that reports may fill: they are many when many gangs change, and nothing waits for them.
    REPORT_SHARE = 1 / 8

    def __init__(self, ceiling: int) -> None:
        """Start with `ceiling` places."""
        self._ceiling = ceiling
        self._places = float(ceiling)
        self._under_way = 0
        self._waiting: list[tuple[Rank, int, asyncio.Future[None]]] = []
        self._serial = count()
        self._cut_at = -1  # writes admitted later have seen the window as it is since it was last halved

    @property
    def places(self) -> int:
        """Return how many writes may be under way at once now."""
        return int(self._places)

    @property
    def report_places(self) -> int:
        """Return how many of them may be reports."""
        return max(1, int(self._places * self.REPORT_SHARE))

    @asynccontextmanager
    async def turn(self, rank: Rank) -> AsyncIterator[None]:
        """Hold one of the places, once there is one; an ApiError that passes through is the write's result."""
        await self._enter(rank)
        serial = next(self._serial)
        try:
            yield
        except ApiError as error:
            congested = error.status == _TOO_MANY_REQUESTS and not isinstance(error, BudgetError)
            if congested and serial > self._cut_at:
                self._resize(self._places / 2)
                self._cut_at = next(self._serial)
            raise
        else:
            self._resize(self._places + 1 / self._places)
        finally:
            self._under_way -= 1
            self._admit()

    async def _enter(self, rank: Rank) -> None:
        if self._under_way < self.places and not self._waiting:
            self._under_way += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (rank, next(self._serial), place))
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # it was given away in the same moment
                self._under_way -= 1
                self._admit()
            raise

    def _admit(self) -> None:
        """Give free places to those whose turn it is."""
        while self._waiting and self._under_way < self.places:
            *_, place = heapq.heappop(self._waiting)
            if not place.done():
                self._under_way += 1
                place.set_result(None)

    def _resize(self, places: float) -> None:
        self._places = min(max(places, 1.0), float(self._ceiling))
