"""Where the GPU hours go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

SECONDS_PER_HOUR = 3600.0


class Activity(StrEnum):
    """What a gang does with the GPUs that its pods hold: wait for the others, set up the job, or train."""

    IDLE = "idle"
    INIT = "init"
    PRODUCTIVE = "productive"


@dataclass(frozen=True, slots=True)
class GpuSeconds:
    """GPU-seconds by activity."""

    idle: float = 0.0
    init: float = 0.0
    productive: float = 0.0

    def __add__(self, other: GpuSeconds) -> GpuSeconds:
        """Add activity by activity."""
        return GpuSeconds(self.idle + other.idle, self.init + other.init, self.productive + other.productive)


class GpuMeter:
    """Integrate how many GPUs one gang holds over time, by what it does with them."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Read the time in seconds from `now`."""
        self._now = now
        self._since = now()
        self._spent = dict.fromkeys(Activity, 0.0)
        self.held = 0
        self.activity = Activity.IDLE

    def set(self, held: int, activity: Activity) -> None:
        """Say what the gang holds and does from now on."""
        self._settle()
        self.held, self.activity = held, activity

    def read(self) -> GpuSeconds:
        """Return what has been spent until now."""
        self._settle()
        return GpuSeconds(**{activity.value: spent for activity, spent in self._spent.items()})

    def _settle(self) -> None:
        now = self._now()
        self._spent[self.activity] += self.held * (now - self._since)
        self._since = now
