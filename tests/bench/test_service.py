"""The service family in its short form, on one Muster or two; judged by ratios and counts, never by times."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from bench.options import Options
from bench.placement import RESERVED
from bench.service import CASES, measure
from bench.service.calls import Connection, request, time_calls
from bench.service.growth import pass_curves, service_figures
from bench.service.population import Size
from bench.service.situations import SITUATIONS, prepare_calls
from bench.service.stand import Cores, Stand
from bench.service.verbs import SHORT_SIZES
from localcluster.waiting import wait_until
from tests.patience import HANGS

SIZE = Size(nodes=500, bound=400, pinned=16)
SITUATION, MOST_ROUNDS = "pinned_filter", 30
#: Nodes, pods, PodGroups and PriorityClasses.
LISTED_KINDS = 4
GROUPS = "podgroups.scheduling.x-k8s.io"


# Two servers start, each a few seconds of processor time: more than the usual limit while other tests run beside them.


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    """Run a Muster on a replayed cluster that has settled."""
    with Stand(SIZE, Cores.available()) as running:
        yield running


def expired(stand: Stand) -> float:
    """Return how many watches had to start again because the server had forgotten where they were."""
    return stand.metrics().sum("muster_watch_restarts_total", cause="expired")


def measured(case: str, repeats: int = 1) -> dict[str, float]:
    """Run the short form of a case once, and return the values of its figures."""
    figures = measure(Options(repeats=repeats, cases=(case,), short=True), lambda _: None)
    assert len({figure.name for figure in figures}) == len(figures)
    assert all(figure.low <= figure.value <= figure.high for figure in figures)
    return {figure.name: figure.low if figure.unit == "ratio" else figure.value for figure in figures}


def test_the_pinned_path_costs_the_same_at_500_and_at_5000_nodes(stand: Stand) -> None:
    """Ten times as many nodes make the fastest call at most half as slow again.

    The fastest of ever more calls tends to what the path costs on a machine that does nothing else.
    """
    larger, few = Stand(replace(SIZE, nodes=10 * SIZE.nodes), Cores.available()), Connection(stand.port)
    with larger, few, Connection(larger.port) as many:
        asked = [(few, prepare_calls(stand, few, SITUATION)), (many, prepare_calls(larger, many, SITUATION))]
        fastest = [math.inf, math.inf]
        for _ in range(MOST_ROUNDS):
            rounds = [time_calls(connection, calls, at_most=100, seconds=1) for connection, calls in asked]
            fastest = [min(best, *taken) for best, taken in zip(fastest, rounds, strict=True)]
            if fastest[1] <= 1.5 * fastest[0]:
                break
    assert fastest[1] <= 1.5 * fastest[0]


def test_every_situation_is_measured_at_every_size() -> None:
    """Three percentiles each, at rest and under events; the growth of the pinned path comes first."""
    found = measured("verbs")
    for situation, nodes, busy in itertools.product(SITUATIONS, SHORT_SIZES, ("", "_busy")):
        assert {f"{situation}_{rank}_{nodes}{busy}" for rank in ("p50", "p99", "p999")} <= found.keys()
    assert next(iter(found)) == "pinned_filter_growth_100_to_500"


def test_plans_do_not_grow_with_the_nodes_and_not_beyond_the_pods() -> None:
    """Ten times as many nodes cost a plan at most five times as much, five times as many pods at most fifteen."""
    found = measured("plan", repeats=9)
    assert found["plan_growth_500_to_5000_nodes"] <= 5
    assert found["plan_growth_1000_to_5000_pods"] <= 15


def test_a_pass_after_one_change_leaves_the_other_gangs_alone() -> None:
    """Where a hundred gangs wait, it costs at most half of judging them all."""
    assert measured("pass", repeats=5)["pass_changed_vs_full_100_gangs_500_nodes"] <= 0.5


def test_a_start_is_measured_with_its_memory_and_its_stalls() -> None:
    """Every phase has its longest stall; a large cluster is not needed to see that."""
    found = measured("scale")
    assert found["cold_start_s"] > 0
    assert 50 < found["resident_mb"] < 350
    phases = ("start", "scrape", "events", "relist", "garbage_collection")
    assert {f"longest_stall_ms_{phase}" for phase in phases} <= found.keys()


def test_a_start_with_devices_in_slices_is_measured() -> None:
    """The gang that fits is planned on devices of slices, since nodes tell of no GPUs."""
    found = measured("devices")
    assert found["cold_start_devices_s"] > 0
    assert 50 < found["resident_devices_mb"] < 350


def test_every_case_can_be_asked_for() -> None:
    """The names are those of the budget's parts."""
    in_process = ["plan", "pass", "turns", "forecast", "crowd"]
    assert list(CASES) == ["verbs", "scale", "devices", *in_process, "growth", "seeing"]


def test_looking_is_measured_beside_not_looking() -> None:
    """Questions and open pages are answered meanwhile, and what they cost the verbs is a ratio or a difference."""
    found = measured("seeing")
    assert found["explain_p99"] > 0
    assert found["first_picture_p99"] > 0
    assert found["filter_p99_stream_busy_vs_nobody"] > 0
    assert "explain_delays_pinned_filter_p99" in found


def test_a_gang_keeps_its_nodes_when_everything_is_listed_again(stand: Stand) -> None:
    """A replayed cluster has settled: a list anew moves nobody, and nobody is bound."""
    before = stand.pinned()
    stand.relist()
    waited_for = "every watch to have been opened anew"
    wait_until(lambda: expired(stand) >= LISTED_KINDS, timeout_seconds=HANGS, description=waited_for)
    wait_until(lambda: stand.pinned() == before, timeout_seconds=HANGS, description="the same nominations")
    assert len(before) == SIZE.pinned
    assert "binding" not in stand.writes()


def test_pushed_events_reach_muster_and_are_understood(stand: Stand) -> None:
    """What is replayed is what an API server sends: nothing of it is skipped."""
    stand.push_events(500)
    wait_until(lambda: stand.events() >= 200, timeout_seconds=HANGS, description="200 events pushed")
    stand.push_events(0)
    page = stand.metrics()
    assert page.sum("muster_undecodable_objects_total") == 0
    assert page.sum("muster_watch_age_seconds", kind="pods") < page.sum("muster_watch_age_seconds", kind=GROUPS)


def test_a_collection_can_be_asked_for(stand: Stand) -> None:
    """Muster survives the signal and goes on answering."""
    stand.collect_garbage()
    with Connection(stand.port) as connection:
        answer = connection.exchange(request("bind", b"{}"))
    assert b"PodName" in bytes(answer)
    assert stand.metrics().sum("muster_ready") == 1


def test_each_size_shows_the_same_quantities(stand: Stand) -> None:
    """A point of every curve: start, stalls, memory, each situation at rest; plans and passes."""
    found = {figure.name: figure.value for figure in service_figures(stand, repeats=1, calls=3)}
    situations = ("pinned_filter", "waiting_filter", "filter", "prioritize", "bind")
    quantities = {"cold_start_s", "longest_stall_ms_start", "resident_mb", *(f"{name}_p50" for name in situations)}
    assert found.keys() == quantities
    assert min(found.values()) >= 0
    assert [figure.name for figure in pass_curves(RESERVED // 8, gangs=2, repeats=1)] == ["pass_full", "pass_changed"]
