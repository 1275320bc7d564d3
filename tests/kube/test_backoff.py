"""Pauses between attempts."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from extender.kube.backoff import Backoff


class Longest(Random):
    """Draws the upper bound every time."""

    def uniform(self, _a: float, b: float) -> float:
        """Return the upper bound."""
        return b


def test_bound_doubles_until_the_longest() -> None:
    """The upper bound of the pauses doubles from the first to the longest, and stays there."""
    backoff = Backoff(0.5, 30.0, Longest())
    assert [backoff.pause() for _ in range(8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_reset_starts_with_the_first_pause_again() -> None:
    """After a success the next pause is drawn as the first one was."""
    backoff = Backoff(0.5, 30.0, Longest())
    for _ in range(5):
        backoff.pause()
    backoff.reset()
    assert backoff.pause() == 0.5


def test_server_may_ask_for_a_longer_pause() -> None:
    """A pause is at least as long as the server asked for, and its wish does not change the next bound."""
    backoff = Backoff(0.5, 30.0, Longest())
    assert backoff.pause(at_least=7.0) == 7.0
    assert backoff.pause() == 1.0


@given(st.integers(min_value=0, max_value=2**32), st.integers(min_value=1, max_value=200))
def test_pauses_are_spread_over_the_whole_range(seed: int, attempts: int) -> None:
    """Every pause lies between zero and its bound, however many there were."""
    backoff = Backoff(0.5, 30.0, Random(seed))
    pauses = [backoff.pause() for _ in range(attempts)]
    assert all(0.0 <= pause <= min(0.5 * 2.0**n, 30.0) for n, pause in enumerate(pauses))
