"""Clocks tell the time twice over, and the manual one only when told."""

from __future__ import annotations

import datetime as dt

import pytest

from extender.clock import Clock, ClusterClock, ManualClock, SystemClock


def test_the_system_clock_is_utc_and_steady() -> None:
    """The calendar time is aware of its zone; the steady time does not go backwards."""
    clock: Clock = SystemClock()
    before = clock.monotonic()
    assert clock.now().utcoffset() == dt.timedelta(0)
    assert clock.monotonic() >= before


def test_a_manual_clock_stands_still() -> None:
    """Until it is told to move, both times stay where they started."""
    clock: Clock = ManualClock()
    assert (clock.monotonic(), clock.now()) == (0.0, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    assert (clock.monotonic(), clock.now()) == (0.0, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))


def test_a_manual_clock_moves_both_times_together() -> None:
    """Advancing moves the steady and the calendar time by the same seconds."""
    start = dt.datetime(2030, 5, 1, 12, tzinfo=dt.UTC)
    clock = ManualClock(start)
    clock.advance(1.5)
    clock.advance(0)
    clock.advance(60)
    assert clock.monotonic() == 61.5
    assert clock.now() == start + dt.timedelta(seconds=61.5)


@pytest.mark.parametrize("seconds", [-1, -0.001])
def test_a_manual_clock_does_not_go_backwards(seconds: float) -> None:
    """Moving back is an error, and moves nothing."""
    clock = ManualClock()
    clock.advance(10)
    with pytest.raises(ValueError, match="does not go backwards"):
        clock.advance(seconds)
    assert clock.monotonic() == 10


class TestClusterClock:
    """The API server's time of day."""

    START = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)

    def test_until_it_is_heard_the_machine_is_believed(self) -> None:
        """The time of day goes on with the steady clock."""
        machine = ManualClock(self.START)
        clock: Clock = ClusterClock(machine)
        machine.advance(5)
        assert (clock.monotonic(), clock.now()) == (5.0, self.START + dt.timedelta(seconds=5))

    @pytest.mark.parametrize(("ahead", "added"), [(0.0, 0.0), (0.9, 0.0), (-0.05, 0.05), (1.2, -0.1), (7200, -7198.9)])
    def test_what_cannot_be_is_put_right(self, ahead: float, added: float) -> None:
        """An answer a tenth of a second after the question bounds the time to 1.1 s; a time within that stays."""
        machine = ManualClock(self.START + dt.timedelta(seconds=ahead))
        clock = ClusterClock(machine)
        machine.advance(0.1)
        said = self.START + dt.timedelta(seconds=0.1)
        assert clock.hear(said, 0.0) == pytest.approx(added)
        assert clock.now() == self.START + dt.timedelta(seconds=0.1 + ahead + added)

    def test_answers_together_tell_the_time_exactly(self) -> None:
        """Whole seconds bound it from both sides: what they leave open becomes less with each answer."""
        machine = ManualClock(self.START - dt.timedelta(hours=3))
        clock, api_server = ClusterClock(machine), self.START
        for _ in range(200):
            machine.advance(1.01)
            api_server = self.START + dt.timedelta(seconds=machine.monotonic())
            clock.hear(api_server.replace(microsecond=0), machine.monotonic())
        assert abs(clock.now() - api_server) <= dt.timedelta(seconds=0.02)

    def test_a_machine_whose_clock_is_set_changes_nothing(self) -> None:
        """Only the steady clock is read."""

        class Restless(ManualClock):
            def now(self) -> dt.datetime:
                return super().now() + dt.timedelta(hours=self.monotonic())

        machine = Restless(self.START)
        clock = ClusterClock(machine)
        machine.advance(2)
        assert clock.now() == self.START + dt.timedelta(seconds=2)
