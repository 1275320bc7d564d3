"""Gangs that wait are told every few seconds when they will start, and it is measured how true that came."""

from __future__ import annotations

import asyncio

import pytest

from extender.clock import ManualClock
from extender.control import forecaster as module
from extender.control.dispatch import ChangedGangs
from extender.control.forecaster import Forecaster
from extender.control.metrics import Metrics
from extender.explain.forecast import Prospects
from extender.explain.runtimes import LearnedRuntimes
from tests.explain.test_forecast import job
from tests.worlds import Job, World


class Told:
    """A forecaster of a world with one node, on which a gang runs for 100 s that another waits for."""

    def __init__(self) -> None:
        self.world = World(ManualClock())
        self.world.nodes(1)
        self.running, self.waits = self._running(), job(self.world, "waits", 1, 50.0)
        self.world.judge()
        self.changed, self.metrics, self.pauses = ChangedGangs(), Metrics(), list[float]()
        self.changed.take()
        admission = self.world.admission
        self.prospects = Prospects(admission)
        parts = (admission, self.prospects, LearnedRuntimes(), self.changed, self.world.clock, self.metrics)
        self.forecaster = Forecaster(*parts, self.pauses.append)

    def _running(self) -> Job:
        running = job(self.world, "running", 1, 100.0)
        running.run()
        running.see(0, started_at=self.world.now)
        return running

    def count(self, name: str, **labels: str) -> float | None:
        """Return the value of a metric."""
        return self.metrics.registry.get_sample_value(name, labels)


async def test_who_is_told_something_else_is_shown_again() -> None:
    """Only then; and as long as nothing changes nothing is worked out."""
    told = Told()
    await told.forecaster.turn()
    assert told.changed.take() == {told.waits.ref}
    prospect = told.prospects.told[told.waits.gang.uid]
    assert prospect.at == pytest.approx(told.world.now + 100.0)
    assert prospect.because == "default/running"
    await told.forecaster.turn()
    assert told.count("muster_forecast_seconds_count") == 1
    job(told.world, "other", 2, 50.0)
    await told.forecaster.turn()
    assert told.count("muster_forecast_seconds_count") == 2
    assert len(told.changed.take() or ()) == 1


async def test_a_start_is_compared_with_what_was_told_first() -> None:
    """Once, whichever way it was wrong."""
    told = Told()
    await told.forecaster.turn()
    told.world.clock.advance(130.0)
    told.forecaster.started(told.waits.gang.uid)
    told.forecaster.started(told.waits.gang.uid)
    assert told.count("muster_expected_start_error_seconds_sum", direction="late") == pytest.approx(30.0)
    assert told.count("muster_expected_start_error_seconds_count", direction="late") == 1


async def test_a_prospect_that_has_passed_is_worked_out_again() -> None:
    """Though nothing has changed in the cluster: what runs overruns."""
    told = Told()
    await told.forecaster.turn()
    told.world.clock.advance(101.0)
    await told.forecaster.turn()
    assert told.count("muster_forecast_seconds_count") == 2
    assert told.prospects.told[told.waits.gang.uid].overdue


async def test_a_replica_that_does_not_decide_looks_at_nothing() -> None:
    """It has no line."""
    told = Told()
    told.world.admission.stand_down()
    await told.forecaster.turn()
    assert told.count("muster_forecast_seconds_count") == 0


@pytest.fixture
def costly(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let each look at the processor's time cost what the list has in it (seconds); return the list."""
    cost, spent = [1.0], [0.0]

    def look() -> float:
        spent[0] += cost[0]
        return spent[0]

    monkeypatch.setattr(module, "thread_cpu_seconds", look)
    return cost


@pytest.mark.usefixtures("costly")
async def test_the_thread_rests_and_gives_up_in_time() -> None:
    """Nine times as long as it works; of what is further ahead a bound is told, which is no expectation."""
    told = Told()
    await told.forecaster.turn()
    assert set(told.pauses) == {9.0}
    prospect = told.prospects.told[told.waits.gang.uid]
    assert (prospect.at, prospect.after) == (None, told.world.now)
    assert prospect.unknown.startswith("later than")


async def test_it_looks_far_ahead_only_now_and_then(costly: list[float]) -> None:
    """Those who wait far behind are told so too, and that stands while it looks less far, if it still may be."""
    told = Told()
    await told.forecaster.turn()
    uid = told.waits.gang.uid
    assert told.prospects.told[uid].at is None
    await told.forecaster.turn()  # nothing has changed but that it may look further
    expected = told.prospects.told[uid]
    assert expected.at == pytest.approx(told.world.now + 100.0)
    costly[0] = 3.0
    other = job(told.world, "other", 2, 50.0)
    await told.forecaster.turn()
    assert told.prospects.told[uid] == expected
    assert told.prospects.told[other.gang.uid].after == told.world.now
    told.world.clock.advance(601.0)
    job(told.world, "third", 2, 50.0)
    costly[0] = 0.0
    await told.forecaster.turn()
    assert told.prospects.told[uid].overdue


async def test_a_mistake_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is logged, and the next turn comes."""
    told, turns = Told(), asyncio.Event()

    async def turn(_: Forecaster) -> None:
        if told.pauses:
            turns.set()
        told.pauses.append(0.0)
        raise ValueError

    monkeypatch.setattr(Forecaster, "turn", turn)
    monkeypatch.setattr(module, "_EVERY", 0.001)
    task = asyncio.create_task(told.forecaster.run())
    await asyncio.wait_for(turns.wait(), 5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
