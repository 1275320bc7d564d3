"""How long to pause before trying again."""

from __future__ import annotations

from random import Random


class Backoff:
    """Pauses that double up to a bound, each drawn from zero to there ("full jitter"), so that clients spread out.

    Args:
        first_seconds: upper bound of the first pause.
        longest_seconds: upper bound of every pause.
        random: draws the pauses.
    """

    def __init__(self, first_seconds: float, longest_seconds: float, random: Random) -> None:
        """Start with the first pause."""
        self._first = first_seconds
        self._longest = longest_seconds
        self._random = random
        self._bound = first_seconds

    def pause(self, at_least: float = 0.0) -> float:
        """Return the seconds to wait now, no less than `at_least`, and double the bound of the next pause."""
        seconds = self._random.uniform(0.0, self._bound)
        self._bound = min(2 * self._bound, self._longest)
        return max(seconds, at_least)

    def reset(self) -> None:
        """Start with the first pause again: what failed has worked since."""
        self._bound = self._first
