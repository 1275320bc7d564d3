"""Wait for the outside world with a deadline; the only place here that polls."""

import sys
import time
from collections.abc import Callable

from localcluster.errors import NotInTimeError

POLL_SECONDS = 0.02

#: How many times longer than it takes at most on a quiet machine something may take before it counts as hanging: a
#: machine that is busy, or three times slower, is no failure of what is waited for.
PATIENCE = 4.0


def wait_until(condition: Callable[[], bool], *, timeout_seconds: float, description: str) -> float:
    """Return the seconds until `condition()` was true, asking every POLL_SECONDS.

    `timeout_seconds` is ample on a quiet machine. After it the wait says on standard error what it waits for; after
    PATIENCE times as long it raises NotInTimeError that names `description`.
    """
    started = time.monotonic()
    said = False
    while not condition():
        waited = time.monotonic() - started
        if waited > PATIENCE * timeout_seconds:
            raise NotInTimeError(f"{description}: not within {PATIENCE * timeout_seconds:g} s")
        if waited > timeout_seconds and not said:
            say_slow(description, timeout_seconds)
            said = True
        time.sleep(POLL_SECONDS)
    return time.monotonic() - started


def say_slow(description: str, seconds: float) -> None:
    """Say what is still waited for, where a test that fails or is stopped shows it."""
    sys.stderr.write(f"slow: still waiting after {seconds:g} s: {description}\n")
