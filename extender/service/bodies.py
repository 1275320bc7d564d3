"""Request bodies, read within limits: one for each, and one for all that are in memory at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from starlette.types import Receive, Scope


class BodyTooLargeError(Exception):
    """A request body beyond a limit; the rest of it was not read."""

    def __init__(self, what: str, limit: int, setting: str) -> None:
        """Say what exceeds which limit, in bytes."""
        super().__init__(f"{what} {limit} bytes ({setting})")


class BodyLostError(Exception):
    """A client that went away before its request was complete; nobody waits for an answer."""


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """How large one body may be, in bytes, and what to call that limit."""

    size: int
    name: str


class BodyBudget:
    """Bytes that the bodies of all requests being read or answered may take together."""

    def __init__(self, limit: int) -> None:
        """Allow `limit` bytes."""
        self._limit = limit
        self._used = 0

    def take(self, size: int) -> None:
        """Count `size` bytes more; raise BodyTooLargeError, counting nothing, if that is too much."""
        if self._used + size > self._limit:
            raise BodyTooLargeError("bodies under way exceed", self._limit, "setting bodies_limit_bytes")
        self._used += size

    def give_back(self, size: int) -> None:
        """Count `size` bytes less."""
        self._used -= size


class Body:
    """One request's body, counted in a budget while it is in use: a context manager around reading and answering."""

    def __init__(self, scope: Scope, receive: Receive, limit: BodyLimit, budget: BodyBudget) -> None:
        """Read no more than `limit` allows."""
        self._scope = scope
        self._receive = receive
        self._limit = limit
        self._budget = budget
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._budget.give_back(self._size)

    async def read(self) -> bytes:
        """Return the whole body.

        Raises BodyTooLargeError as soon as it is known to exceed a limit, BodyLostError if the client goes away.
        """
        if self._announced() > self._limit.size:
            raise self._too_large()
        chunks: list[bytes] = []
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise BodyLostError("the client went away before its request was complete")
            chunk = message.get("body", b"")
            if self._size + len(chunk) > self._limit.size:
                raise self._too_large()
            self._budget.take(len(chunk))
            self._size += len(chunk)
            chunks.append(chunk)
            more = message.get("more_body", False)
        return b"".join(chunks)

    def _announced(self) -> int:
        """Return how many bytes the request says that it has, 0 if it does not say."""
        length = next((value for name, value in self._scope["headers"] if name == b"content-length"), b"")
        return int(length) if length.isdigit() else 0

    def _too_large(self) -> BodyTooLargeError:
        return BodyTooLargeError("body exceeds", self._limit.size, self._limit.name)
