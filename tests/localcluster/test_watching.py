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
    signal.wait_until(lambda: len(seen) == 3, timeout_seconds=5, description=lambda: "three")
    assert seen == [0, 1, 2]
    thread.join()


def test_missed_deadline_tells_what_was_true_instead(capsys: pytest.CaptureFixture[str]) -> None:
    """A slow wait says what it waits for; the description is asked then and at the deadline, not before."""
    state = {"bound": 0}

    def never() -> bool:
        state["bound"] += 1
        return False

    with pytest.raises(NotInTimeError, match=r"not within 0.04 s: 4 of 9 bound"):
        Signal().wait_until(never, timeout_seconds=0.01, description=lambda: f"{state['bound']} of 9 bound")
    assert "slow: still waiting after 0.01 s: 2 of 9 bound" in capsys.readouterr().err


def test_what_stays_false_is_waited_for_exactly_as_long() -> None:
    """What must not happen is watched for a named time, whatever the machine's patience."""
    signal = Signal()
    assert not signal.comes_true(lambda: False, 0.01)
    assert signal.comes_true(lambda: True, 0.01)
