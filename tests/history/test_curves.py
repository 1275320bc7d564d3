"""The course of things as curves is the integral of what the hours and the gangs of a store say."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
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


def as_of(gang: GangRecord, at: float, random: Random) -> GangRecord:
    """Return what is known of a gang at a moment, in another Queue and with fewer GPUs than it has in the end."""
    return msgspec.structs.replace(
        gang,
        queue=random.choice((gang.queue, "q-1")),
        gpus=random.randrange(gang.gpus + 1),
        started=None if gang.started is None or gang.started > at else gang.started,
        ended=None if gang.ended is None or gang.ended > at else gang.ended,
    )


def fill(store: HistoryStore, random: Random, at: float) -> tuple[list[GangRecord], dict[tuple[int, Payer], HourSums]]:
    """Fill a store in several batches, with gangs that change meanwhile; return what it has in the end."""
    gangs = random_gangs(random, 80, at)
    usage = {
        (START // HOUR + hour, Payer(f"q-{queue}", "red")): HourSums(used=random.uniform(0, 9000), reserved=10.0)
        for hour in range(-170, int((at - START) // HOUR) + 1)
        for queue in range(4)
    }
    usage |= {(hour, Payer()): HourSums(capacity=64.0 * HOUR) for hour in {hour for hour, _ in usage}}
    store.load("test", [])
    for seq in (1, 2):
        now = random.uniform(START - 20 * HOUR, at)
        known = [as_of(gang, now, random) for gang in gangs if gang.created <= now]
        store.write("test", seq, Batch(now, known))
    twins = [msgspec.structs.replace(gang, uid=f"old-{gang.uid}") for gang in gangs[::7]]
    store.write("test", 3, Batch(at, [*gangs[::2], *twins]))
    renamed = {gang.uid: gang.uid.removeprefix("old-") for gang in twins}
    store.write("test", 4, Batch(at, gangs[1::2], renamed=renamed, usage=usage))
    return gangs, usage


def check_random_course(store: HistoryStore, seed: int) -> None:
    """Fill a store at random, and compare each figure of its curves with what the definition says."""
    random = Random(seed)
    at = START + random.uniform(3, 40) * HOUR
    gangs, usage = fill(store, random, at)
    grid = time_grid(START, START + random.choice((5, 24, 300, 5000)) * HOUR)
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
    there = {hour for hour, _ in usage} & set(range(grid.first, grid.first + grid.hours))
    seconds = min(grid.start + grid.step, at) - grid.start
    assert document.capacity[0] == pytest.approx(64 * HOUR * len(there) / seconds, abs=0.001)
    some = curves(grid, store.course(grid, "namespace", Payer("q-1"), 8), "namespace")
    assert not curves(grid, store.course(grid, "namespace", Payer("q-1"), 8, ["elsewhere"]), "namespace").curves
    assert {curve.key for curve in some.curves} <= {"red", "blue"}
    told_of = {curve.key for curve in some.curves}  # who asks for no GPU is not told of
    of = [gang for gang in gangs if gang.queue == "q-1" and gang.namespace in told_of]
    numbers, _ = waited(of, at, spans(grid, at)[0])
    assert sum(curve.waiting_gangs[0] for curve in some.curves) == pytest.approx(numbers, abs=0.002)
    for curve in curves(grid, store.course(grid, "queue", Payer(), 8, ["blue"]), "queue").curves:
        seen = [gang for gang in gangs if gang.namespace == "blue" and gang.queue == curve.key]
        expected = [waited(seen, at, span)[1] for span in spans(grid, at)]
        assert curve.waiting_gpus == pytest.approx(expected, abs=0.02)
        assert not any(curve.used)


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


@pytest.mark.parametrize(("days", "hours"), [(1, 1), (7, 1), (30, 24), (119, 24), (365, 168), (3650, 672)])
def test_stretches_are_as_short_as_their_number_allows(days: int, hours: int) -> None:
    """Hours in a week, days in months, weeks in a year."""
    grid = time_grid(START + 60, START + days * 24 * HOUR)
    assert grid.hours == hours
    assert grid.steps <= MOST_STEPS
    assert grid.start <= START + 60
    assert grid.end >= START + days * 24 * HOUR


def test_more_than_an_answer_may_be_about_is_refused() -> None:
    """Sixteen years and more."""
    with pytest.raises(ValueError, match="hours are more"):
        time_grid(0, 20 * 366 * 24 * HOUR)
