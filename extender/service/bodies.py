"""Request bodies, read within limits: one for each, and one for all that are in memory at once."""

from __future__ import annotations

from typing import Self

from starlette.requests import ClientDisconnect, Request


class BodyTooLargeError(Exception):
    """A request body beyond a limit; the rest of it was not read."""

    def __init__(self, what: str, limit: int, setting: str) -> None:
        """Say what exceeds which limit, in bytes."""
        super().__init__(f"{what} {limit} bytes ({setting})")


class BodyLostError(Exception):
    """A client that went away before its request was complete; nobody waits for an answer."""


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

    def __init__(self, request: Request, limit: int, setting: str, budget: BodyBudget) -> None:
        """Read no more than `limit` bytes; `setting` is what to call that limit."""
        self._request = request
        self._limit = limit
        self._setting = setting
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
        announced = self._request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > self._limit:
            raise self._too_large()
        chunks: list[bytes] = []
        try:
            async for chunk in self._request.stream():
                if self._size + len(chunk) > self._limit:
                    raise self._too_large()
                self._budget.take(len(chunk))
                self._size += len(chunk)
                chunks.append(chunk)
        except ClientDisconnect as error:
            raise BodyLostError("the client went away before its request was complete") from error
        return b"".join(chunks)

    def _too_large(self) -> BodyTooLargeError:
        return BodyTooLargeError("body exceeds", self._limit, self._setting)
