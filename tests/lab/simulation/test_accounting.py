"""Where the GPU hours go."""

from __future__ import annotations

from muster_lab.simulation.accounting import Activity, GpuMeter, GpuSeconds


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
    assert GpuSeconds(1, 2, 3, 4) + GpuSeconds(10, 20, 30, 40) == GpuSeconds(11, 22, 33, 44)


def test_training_that_was_lost_is_not_productive() -> None:
    """The last seconds of training are taken back, each with the GPUs that it had; no more than there was."""
    clock = Hands()
    meter = GpuMeter(clock)
    for until, held, activity in (
        (100, 8, Activity.PRODUCTIVE),
        (150, 16, Activity.PRODUCTIVE),
    ):
        meter.set(held, activity)
        clock.now = until
    meter.lose(60)
    assert meter.read() == GpuSeconds(productive=8 * 90, lost=16 * 50 + 8 * 10)
    meter.lose(60)
    assert meter.read() == GpuSeconds(productive=8 * 90, lost=16 * 50 + 8 * 10)


def test_what_a_checkpoint_held_when_training_stopped_cannot_be_lost_later() -> None:
    """Only training since the last interruption is at stake."""
    clock = Hands()
    meter = GpuMeter(clock)
    meter.set(1, Activity.PRODUCTIVE)
    clock.now = 100
    meter.lose(0)
    meter.set(1, Activity.IDLE)
    clock.now = 110
    meter.set(1, Activity.PRODUCTIVE)
    clock.now = 130
    meter.lose(1000)
    assert meter.read() == GpuSeconds(idle=10.0, productive=100.0, lost=20.0)
