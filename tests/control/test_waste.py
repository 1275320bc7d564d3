"""What is charged for waiting: each stretch of time to the reason that held during it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.clock import ManualClock
from extender.control.exposition import LostTime, expose_lost_time
from extender.control.metrics import Metrics
from extender.objects.podgroup import GroupRef
from extender.objects.reason import Reason
from extender.objects.sources.coscheduling import COSCHEDULING

A, B = (GroupRef(COSCHEDULING, "default", name) for name in "ab")
FULL, QUOTA, BEHIND = Reason.INSUFFICIENT_CAPACITY, Reason.QUOTA_EXCEEDED, Reason.BEHIND_HEAD


def nonzero(charged: Mapping[Reason, float]) -> dict[Reason, float]:
    """Return what was charged without the reasons that cost nothing."""
    return {reason: seconds for reason, seconds in charged.items() if seconds}


def test_each_stretch_is_charged_to_the_reason_that_held_during_it() -> None:
    """A gang that waits 10 s for quota and then 5 s for room has lost 10 s to the one and 5 s to the other."""
    lost = LostTime()
    lost.wait(A, QUOTA, 8, 100)
    lost.wait(A, FULL, 8, 110)
    lost.wait(A, None, 0, 115)
    taken = lost.take(1000)
    assert nonzero(taken.gang_seconds) == {QUOTA: 10, FULL: 5}
    assert nonzero(taken.gpu_seconds) == {QUOTA: 80, FULL: 40}


def test_who_waits_still_is_charged_up_to_now_and_only_once() -> None:
    """A scrape in the middle of a wait takes its part, and the next one the rest."""
    lost = LostTime()
    lost.wait(A, FULL, 4, 0)
    lost.wait(B, FULL, 0, 6)
    assert nonzero(lost.take(10).gang_seconds) == {FULL: 14}
    assert nonzero(lost.take(10).gang_seconds) == {}
    taken = lost.take(11)
    assert (nonzero(taken.gang_seconds), nonzero(taken.gpu_seconds)) == ({FULL: 2}, {FULL: 4})


def test_gpus_count_from_when_they_are_asked_for() -> None:
    """Members that come later, or are placed, change what the gang waits for from then on."""
    lost = LostTime()
    lost.wait(A, FULL, 8, 0)
    lost.wait(A, FULL, 16, 10)
    lost.wait(A, FULL, 0, 20)
    assert nonzero(lost.take(30).gpu_seconds) == {FULL: 8 * 10 + 16 * 10}


def test_who_stops_deciding_charges_nothing_any_more() -> None:
    """What was lost until then stays charged; from then on the replica that leads counts."""
    lost = LostTime()
    lost.wait(A, FULL, 8, 0)
    lost.clear(5)
    taken = lost.take(100)
    assert nonzero(taken.gang_seconds) == {FULL: 5}
    assert lost.longest(100) == {}


def test_longest_wait_goes_on_when_the_reason_changes() -> None:
    """How long a gang has waited does not begin anew with another reason, but does after a break."""
    lost = LostTime()
    lost.wait(A, QUOTA, 8, 10)
    lost.wait(B, FULL, 8, 30)
    lost.wait(A, FULL, 8, 40)
    assert lost.longest(50) == {FULL: 40}
    assert lost.longest(55) == {FULL: 45}
    lost.wait(A, None, 0, 50)
    assert lost.longest(50) == {FULL: 20}
    lost.wait(A, FULL, 8, 60)
    assert lost.longest(61) == {FULL: 31}


@given(
    st.lists(
        st.tuples(
            st.integers(0, 50),  # seconds until then
            st.sampled_from(["one", "two", "three"]),
            st.sampled_from([None, FULL, QUOTA, BEHIND]),
            st.integers(0, 64),
        ),
        max_size=30,
    ),
    st.sets(st.integers(0, 29)),
)
def test_whatever_happens_the_sums_are_those_of_counting_second_by_second(
    steps: list[tuple[int, str, Reason | None, int]], scrapes: set[int]
) -> None:
    """However gangs change their reasons, and whenever it is asked, the charges add up to what held each second."""
    clock, lost = ManualClock(), LostTime()
    gangs: Counter[Reason] = Counter()
    gpus: Counter[Reason] = Counter()
    expected_gangs: Counter[Reason] = Counter()
    expected_gpus: Counter[Reason] = Counter()
    standing: dict[str, tuple[Reason, int]] = {}
    began: dict[str, float] = {}
    for number, (pause, name, reason, wanted) in enumerate([*steps, (7, "one", None, 0)]):
        for _ in range(pause):
            expected_gangs.update(reason for reason, _ in standing.values())
            for held, count in standing.values():
                expected_gpus[held] += count
        clock.advance(pause)
        now = clock.monotonic()
        standing.pop(name, None)
        if reason is not None:
            standing[name] = (reason, wanted)
        lost.wait(GroupRef(COSCHEDULING, "default", name), reason, wanted, now)
        if number in scrapes or number == len(steps):
            taken = lost.take(now)
            gangs.update({key: int(value) for key, value in taken.gang_seconds.items()})
            gpus.update({key: int(value) for key, value in taken.gpu_seconds.items()})
        began = {gang: began.get(gang, now) for gang in standing}
        assert lost.longest(now) == {
            why: max(now - began[gang] for gang, (reason, _) in standing.items() if reason is why)
            for why, _ in standing.values()
        }
    assert +gangs == +expected_gangs
    assert +gpus == +expected_gpus


def test_counters_grow_with_each_scrape() -> None:
    """What a scrape takes is added to the counters, by reason; the longest wait is what it is now."""
    metrics, lost = Metrics(), LostTime()
    lost.wait(A, FULL, 8, 0)
    for now in (10, 25):
        expose_lost_time(metrics, lost, now)
    read = metrics.registry.get_sample_value
    assert read("muster_gang_waiting_seconds_total", {"reason": "InsufficientCapacity"}) == pytest.approx(25)
    assert read("muster_gang_waiting_gpu_seconds_total", {"reason": "InsufficientCapacity"}) == pytest.approx(200)
    assert read("muster_longest_wait_seconds", {"reason": "InsufficientCapacity"}) == pytest.approx(25)
    lost.wait(A, None, 0, 30)
    expose_lost_time(metrics, lost, 40)
    assert read("muster_gang_waiting_seconds_total", {"reason": "InsufficientCapacity"}) == pytest.approx(30)
    assert read("muster_longest_wait_seconds", {"reason": "InsufficientCapacity"}) is None
