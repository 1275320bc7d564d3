"""What runs now and how long the whole still takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bench.controlplane.accounts import busy_processors, load_average
from bench.options import Say

#: Above this many busy processors between two runs, something else computes. API server and etcd at rest need less.
QUIET_PROCESSORS = 0.25


@dataclass(slots=True)
class Progress:
    """Say each step as it begins. `expected` is how many seconds all steps were thought to take; `now` tells seconds.

    How long it still takes is judged by how long the steps so far took instead of what was expected of them. `busy` is
    asked how many processors are at work before the step, when nothing of the measurement is, up to `looks` times until
    the machine is quiet.
    """

    say: Say
    now: Callable[[], float]
    expected: float
    load: Callable[[], float] = load_average
    busy: Callable[[], float] = busy_processors
    looks: int = 120
    _began: float | None = field(default=None, init=False)
    _expected_so_far: float = field(default=0.0, init=False)

    def step(self, what: str, seconds: float) -> None:
        """Say that something begins that should take so many seconds."""
        now = self.now()
        if self._began is None:
            self._began = now
        pace = (now - self._began) / self._expected_so_far if self._expected_so_far else 1.0
        left = max(seconds, self.expected - self._expected_so_far) * pace
        self._expected_so_far += seconds
        busy = self._least_busy()
        self.say(
            f"{what}: about {duration(seconds * pace)}, all about {duration(left)} still"
            f" (load {self.load():.2f}, {busy:.2f} processors busy)"
        )
        if busy > QUIET_PROCESSORS:
            self.say(
                f"warning: {busy:.2f} processors are at work, and nothing is measured yet; times need a quiet machine"
            )

    def _least_busy(self) -> float:
        """Return how many processors are at work, once that is little or has been looked at often enough."""
        busy = self.busy()
        for _ in range(self.looks - 1):
            if busy <= QUIET_PROCESSORS:
                break
            busy = self.busy()
        return busy


def duration(seconds: float) -> str:
    """Return seconds for people, in minutes where that is easier to read."""
    whole = round(seconds)
    return f"{whole} s" if whole < 100 else f"{whole / 60:.0f} min"  # noqa: PLR2004 - longer is read in minutes
