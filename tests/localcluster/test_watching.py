"""Waiting for conditions over live views."""

import threading

import pytest

from localcluster.errors import NotInTimeError
from localcluster.watching import Signal


def test_condition_is_looked_at_after_every_change() -> None:
    """A waiter wakes as soon as another thread makes its condition true."""
    signal, seen = Signal(), list[int]()

    def change() -> None:
        for number in range(3):
            with signal.changing():
                seen.append(number)

    thread = threading.Thread(target=change)
    thread.start()
    assert signal.wait_until(lambda: len(seen) == 3, timeout_seconds=5, description=lambda: "three") < 5
    thread.join()


def test_missed_deadline_tells_what_was_true_instead() -> None:
    """The description is asked at the deadline, not before."""
    state = {"bound": 0}

    def never() -> bool:
        state["bound"] = 3
        return False

    with pytest.raises(NotInTimeError, match=r"not within 0.01 s: 3 of 4 bound"):
        Signal().wait_until(never, timeout_seconds=0.01, description=lambda: f"{state['bound']} of 4 bound")
