"""How many calls may be under way at once."""

from __future__ import annotations


class TooManyCallsError(Exception):
    """One call more than may be under way at once."""


class CallSlots:
    """Count calls under way: a context manager around each, which refuses one too many."""

    def __init__(self, limit: int, setting: str) -> None:
        """Allow `limit` calls; `setting` is what to change if that is too few."""
        self._limit = limit
        self._setting = setting
        self._taken = 0

    def __enter__(self) -> None:
        if self._taken >= self._limit:
            raise TooManyCallsError(f"{self._taken} calls are under way, no more are taken ({self._setting})")
        self._taken += 1

    def __exit__(self, *_: object) -> None:
        self._taken -= 1
