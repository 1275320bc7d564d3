"""Wait for the outside world with a deadline; the only place here that polls."""

import time
from collections.abc import Callable

from localcluster.errors import NotInTimeError

POLL_SECONDS = 0.02


def wait_until(condition: Callable[[], bool], *, timeout_seconds: float, description: str) -> float:
    """Return the seconds until `condition()` was true, asking every POLL_SECONDS.

    Raises NotInTimeError that names `description` when it is still false after `timeout_seconds`.
    """
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > timeout_seconds:
            raise NotInTimeError(f"{description}: not within {timeout_seconds:g} s")
        time.sleep(POLL_SECONDS)
    return time.monotonic() - started
