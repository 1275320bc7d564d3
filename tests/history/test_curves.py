"""The course of things as curves is the integral of what the hours and the gangs of a store say."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from extender.history.curves import MOST_STEPS, curves, time_grid
from extender.history.documents import CurvesDocument
from extender.history.records import HOUR, OTHERS, Batch, GangRecord, HourSums, Payer, TimeGrid
from extender.history.store import HistoryStore

START = 500_000 * HOUR


def random_gangs(random: Random, count: int, until: float) -> list[GangRecord]:
    """Return gangs that came before and after `START`, of which some wait yet, run yet, or never started."""
    gangs = []
    for number in range(count):
        created = START + random.uniform(-20, 30) * HOUR
        started = created + random.choice((0.0, random.expovariate(1 / HOUR), random.expovariate(1 / (9 * HOUR))))
        ended = started + random.expovariate(1 / (5 * HOUR))
        if min(created, until) == until:
            continue
        never, open_ = random.random() < 0.2, random.random() < 0.2
        gangs.append(
            GangRecord(
                f"uid-{number}",
                random.choice(("red", "blue")),
                f"gang-{number}",
                "pod",
                queue=f"q-{number % 5}",
                gpus=random.randrange(65),
                created=created,
                started=None if never or started > until else started,
                ended=None if open_ or ended > until else ended,
            )
        )
    return gangs


def waited(gangs: list[GangRecord], at: float, span: tuple[float, float]) -> tuple[float, float]:
    """Return how many gangs waited between two moments on average, and for how many GPUs."""
    numbers = gpus = 0.0
    for gang in gangs:
        until = gang.started if gang.started is not None else gang.ended if gang.ended is not None else at
        overlap = max(min(until, span[1]) - max(gang.created, span[0]), 0.0) / (span[1] - span[0])
        numbers += overlap
        gpus += overlap * gang.gpus
    return numbers, gpus


def spans(grid: TimeGrid, at: float) -> list[tuple[float, float]]:
    """Return the stretches that have begun."""
    begins = [grid.start + place * grid.step for place in range(grid.steps)]
    return [(begin, min(begin + grid.step, at)) for begin in begins if begin < at]


def check_random_course(store: HistoryStore, seed: int) -> None:
    """Fill a store at random, and compare each figure of its curves with what the definition says."""
    random = Random(seed)
    at = START + random.uniform(3, 40) * HOUR
    gangs = random_gangs(random, 80, at)
    usage = {
        (START // HOUR + hour, Payer(f"q-{queue}", "red")): HourSums(used=random.uniform(0, 9000), reserved=10.0)
        for hour in range(-2, int((at - START) // HOUR) + 1)
        for queue in range(4)
    }
    usage |= {(hour, Payer()): HourSums(capacity=64.0 * HOUR) for hour in {hour for hour, _ in usage}}
    store.load("test", [])
    store.write("test", 1, Batch(at, gangs, usage=usage))
    grid = time_grid(START, START + random.choice((5, 24, 300)) * HOUR)
    course = store.course(grid, "queue", Payer(), 3)
    document = curves(grid, course, "queue")
    assert len(document.curves) == 3
    assert document.others is not None
    told = {curve.key: curve for curve in document.curves} | {OTHERS: document.others}
    for place, (begin, end) in enumerate(spans(grid, at)):
        for key, curve in told.items():
            queues = {f"q-{number}" for number in range(5)} - set(told) if key == OTHERS else {key}
            of = [gang for gang in gangs if gang.queue in queues]
            numbers, gpus = waited(of, at, (begin, end))
            assert curve.waiting_gangs[place] == pytest.approx(numbers, abs=0.001)
            assert curve.waiting_gpus[place] == pytest.approx(gpus, abs=0.02)
            hours = range(int(begin // HOUR), int(begin // HOUR) + grid.hours)
            used = sum(usage.get((hour, Payer(queue, "red")), HourSums()).used for hour in hours for queue in queues)
            assert curve.used[place] == pytest.approx(used / (end - begin), abs=0.001)
    assert len(document.capacity) == len(spans(grid, at))
    assert document.capacity[0] == 64 * grid.step / (min(grid.start + grid.step, at) - grid.start)
    some = curves(grid, store.course(grid, "namespace", Payer("q-1"), 8), "namespace")
    assert not curves(grid, store.course(grid, "namespace", Payer("q-1"), 8, ["elsewhere"]), "namespace").curves
    assert {curve.key for curve in some.curves} <= {"red", "blue"}
    numbers, _ = waited([gang for gang in gangs if gang.queue == "q-1"], at, spans(grid, at)[0])
    assert sum(curve.waiting_gangs[0] for curve in some.curves) == pytest.approx(numbers, abs=0.002)


@pytest.mark.parametrize("seed", range(20))
def test_curves_are_what_the_store_says(tmp_path: Path, seed: int) -> None:
    """Whatever gangs and hours there are, in SQLite."""
    check_random_course(HistoryStore(str(tmp_path / "history.db")), seed)


def test_an_empty_store_has_no_curves(tmp_path: Path) -> None:
    """Nothing was written, so nothing is told."""
    store = HistoryStore(str(tmp_path / "history.db"))
    store.load("test", [])
    grid = time_grid(START, START + HOUR)
    document = curves(grid, store.course(grid, "user", Payer(), 8), "user")
    assert document == CurvesDocument("user", document.since, document.since, HOUR, (), ())


@pytest.mark.parametrize(("days", "hours"), [(1, 1), (7, 1), (30, 4), (365, 48), (3650, 720)])
def test_stretches_are_as_short_as_their_number_allows(days: int, hours: int) -> None:
    """Hours in a week, and days in months."""
    grid = time_grid(START + 60, START + days * 24 * HOUR)
    assert grid.hours == hours
    assert grid.steps <= MOST_STEPS
    assert grid.start <= START + 60
    assert grid.end >= START + days * 24 * HOUR


def test_more_than_an_answer_may_be_about_is_refused() -> None:
    """Sixteen years and more."""
    with pytest.raises(ValueError, match="hours are more"):
        time_grid(0, 20 * 366 * 24 * HOUR)
