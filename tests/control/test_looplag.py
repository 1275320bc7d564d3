"""How late the event loop runs: measured in virtual time, where only the test makes it late."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

import pytest

from extender.clock import ManualClock, thread_cpu_seconds
from extender.control.health import INTERVAL_SECONDS, LOOK_BACK_SECONDS, LoopLag
from extender.control.metrics import Metrics


@dataclass
class Machine:
    """A machine whose clock and CPU time stand still unless a turn of the loop is said to take some."""

    clock: ManualClock
    metrics: Metrics
    computed: float = 0.0

    def sample(self, name: str, **labels: str) -> float:
        """Return the value of a metric."""
        value = self.metrics.registry.get_sample_value(name, labels)
        assert value is not None
        return value

    def look(self, lag: LoopLag, *, late: float, computed: float) -> None:
        """Have one look come `late` seconds late, after `computed` seconds of the thread's own work."""

        async def play() -> None:
            task = asyncio.create_task(lag.run())
            await asyncio.sleep(0)
            self.clock.advance(INTERVAL_SECONDS + late)
            self.computed += computed
            await asyncio.sleep(INTERVAL_SECONDS + 0.001)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

        with asyncio.Runner() as runner:
            runner.run(play())


@pytest.fixture
def machine() -> Machine:
    """Return a machine at rest."""
    return Machine(ManualClock(), Metrics())


@pytest.fixture
def lag(machine: Machine) -> LoopLag:
    """Return what is tested."""
    return LoopLag(machine.clock, lambda: machine.computed, machine.metrics)


def test_a_loop_in_time_has_no_lag_and_no_stall(machine: Machine, lag: LoopLag) -> None:
    """A look that comes in time counts as one of no lag."""
    machine.look(lag, late=0, computed=0.001)
    assert machine.sample("muster_event_loop_lag_seconds_bucket", le="0.001") == 1
    assert machine.sample("muster_event_loop_stalls_total", cause="busy") == 0
    assert machine.sample("muster_event_loop_stalls_total", cause="starved") == 0


@pytest.mark.parametrize(("computed", "cause", "other"), [(0.014, "busy", "starved"), (0.002, "starved", "busy")])
def test_a_stall_is_its_own_doing_if_its_thread_computed(
    machine: Machine, lag: LoopLag, computed: float, cause: str, other: str
) -> None:
    """12 ms late is a stall; whose doing it was is told by the CPU time of the loop's thread."""
    machine.look(lag, late=0.012, computed=computed)
    assert machine.sample("muster_event_loop_stalls_total", cause=cause) == 1
    assert machine.sample("muster_event_loop_stalls_total", cause=other) == 0
    assert machine.sample("muster_event_loop_longest_lag_seconds") == pytest.approx(0.012)
    assert machine.sample("muster_event_loop_longest_busy_seconds") == pytest.approx(min(computed, 0.012))


@pytest.mark.parametrize(("waited", "cause"), [(0.02, "busy"), (0.05, "starved")])
def test_a_stall_is_its_own_doing_if_that_was_most_of_it(
    machine: Machine, lag: LoopLag, waited: float, cause: str
) -> None:
    """A long turn may be interrupted; what has piled up while others computed is not its own doing."""
    machine.look(lag, late=0.1 + waited, computed=0.1)
    assert machine.sample("muster_event_loop_stalls_total", cause=cause) == 1


def test_what_is_less_late_than_a_stall_is_none(machine: Machine, lag: LoopLag) -> None:
    """9 ms late is seen in the histogram alone."""
    machine.look(lag, late=0.009, computed=0.014)
    assert machine.sample("muster_event_loop_lag_seconds_bucket", le="0.0075") == 0
    assert machine.sample("muster_event_loop_lag_seconds_bucket", le="0.01") == 1
    assert machine.sample("muster_event_loop_stalls_total", cause="busy") == 0


def test_the_longest_lag_is_forgotten_after_a_while(machine: Machine, lag: LoopLag) -> None:
    """The gauge looks back one to two windows, so that the start of the process does not stand there for ever."""

    def longest() -> tuple[float, float]:
        names = ("muster_event_loop_longest_lag_seconds", "muster_event_loop_longest_busy_seconds")
        return machine.sample(names[0]), machine.sample(names[1])

    machine.look(lag, late=0.2, computed=0.1)
    machine.clock.advance(LOOK_BACK_SECONDS)
    machine.look(lag, late=0.03, computed=0.02)
    assert longest() == pytest.approx((0.2, 0.1))
    machine.clock.advance(LOOK_BACK_SECONDS)
    machine.look(lag, late=0.02, computed=0)
    assert longest() == pytest.approx((0.03, 0.02))


def test_the_cpu_time_is_that_of_the_calling_thread() -> None:
    """It grows when the thread computes."""
    before = thread_cpu_seconds()
    assert sum(range(200_000)) > 0
    assert thread_cpu_seconds() > before
