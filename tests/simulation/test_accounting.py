"""Where the GPU hours go."""

from __future__ import annotations

from extender.simulation.accounting import Activity, GpuMeter, GpuSeconds


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        """Start at zero."""
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def test_gpu_seconds_are_held_gpus_times_time_by_activity() -> None:
    """Each stretch of time counts for what was held and done during it."""
    clock = Hands()
    meter = GpuMeter(clock)
    for until, held, activity in (
        (10, 8, Activity.IDLE),
        (15, 32, Activity.INIT),
        (115, 32, Activity.PRODUCTIVE),
        (200, 0, Activity.IDLE),
    ):
        meter.set(held, activity)
        clock.now = until
    assert meter.read() == GpuSeconds(idle=80.0, init=160.0, productive=3200.0)
    assert meter.read() == meter.read()


def test_a_gang_counts_from_when_it_is_measured() -> None:
    """Time before the meter was made does not count."""
    clock = Hands()
    clock.now = 100
    meter = GpuMeter(clock)
    meter.set(1, Activity.IDLE)
    clock.now = 101
    assert meter.read() == GpuSeconds(idle=1.0)


def test_gpu_seconds_add_up() -> None:
    """Activity by activity."""
    assert GpuSeconds(1, 2, 3) + GpuSeconds(10, 20, 30) == GpuSeconds(11, 22, 33)
