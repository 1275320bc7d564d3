"""Figures of the control plane's cases, from runs with known times; what costs were read; what is said meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from bench.controlplane.accounts import busy_processors, cpu_seconds, milestones
from bench.controlplane.arrivals import Mix, Stream
from bench.controlplane.cases import Comparison, in_turns
from bench.controlplane.catalogue import FULL, SHORT
from bench.controlplane.contenders import Contender
from bench.controlplane.growthcases import Grown, Growth
from bench.controlplane.measure import CASES, among
from bench.controlplane.meter import Counters, Meter, Spent, Work
from bench.controlplane.mixedcases import Arrivals
from bench.controlplane.progress import Progress
from bench.controlplane.runs import Run
from bench.controlplane.summary import summaries
from bench.controlplane.waitingcases import Crowd, NextGang, Waiting
from bench.controlplane.waitingrun import Beside, Rest, Succession
from bench.controlplane.workload import GPUS_PER_NODE, Workload
from bench.figures import Figure
from bench.soak.sampling import Page
from localcluster.components import SCHEDULER_CONFIGS
from localcluster.errors import LocalClusterError

STOCK, NATIVE, MUSTER = Contender.STOCK, Contender.NATIVE, Contender.MUSTER
CPU = {"apiserver": 2.0, "scheduler": 1.0, "harness": 9.0}


def spent(seconds: float, attempts: float = 20.0, **work: float) -> Spent:
    """Return what was spent in so many seconds, with three writes for each of ten pods."""
    cpu = CPU | ({"muster": 0.5} if work else {})
    return Spent(seconds, cpu, 0.1, attempts, {"POST pods": 10.0, "POST pods/binding": 20.0}, 1.0, Work(**work))


def run(contender: Contender, seconds: float, **work: float) -> Run:
    """Return a run of ten pods."""
    return Run(contender, 10, seconds, {"last_created": 0.5, "last_bound": seconds}, spent(seconds, **work), 0.4)


def by_name(figures: list[Figure]) -> dict[str, Figure]:
    """Return figures by name; no name comes twice."""
    named = {figure.name: figure for figure in figures}
    assert len(named) == len(figures)
    return named


def test_a_ratio_is_taken_within_each_repeat() -> None:
    """What slowed the machine down for one repeat slowed both contenders down: the median of ratios shows it."""
    case = Comparison(
        "some", 2, Workload(1, 10), {NATIVE: 1, MUSTER: 1}, bounds={NATIVE: 0.5}, cpu_bound=60, filter_bound=1.2
    )
    repeats = [
        {NATIVE: run(NATIVE, native), MUSTER: run(MUSTER, muster, filter_calls=11, nominations=10, bindings=10)}
        for native, muster in ((10.0, 4.0), (100.0, 40.0), (10.0, 8.0))
    ]
    figures = by_name(case.figures(repeats))
    assert figures["some_vs_native"].as_json() == {
        "value": 0.4, "bound": 0.5, "holds": True, "min": 0.4, "max": 0.8, "unit": "ratio", "repeats": [0.4, 0.4, 0.8],
    }  # fmt: skip
    assert figures["some_filter_calls_per_pod"].value == 1.1
    assert figures["some_muster_s"].high == 40.0
    assert figures["some_native_pods_per_s"].low == 0.1
    assert figures["some_muster_last_created_at_s"].value == 0.5
    assert figures["some_native_cpu_apiserver_ms"].value == 200.0
    assert figures["some_native_cpu_ms"].value == 300.0
    assert (figures["some_muster_cpu_muster_ms"].value, figures["some_muster_cpu_muster_ms"].holds) == (50.0, True)
    assert figures["some_cpu_vs_native"].value == pytest.approx(350 / 300)
    assert (figures["some_native_writes"].value, figures["some_native_writes_post_pods_binding"].value) == (3.0, 2.0)
    assert figures["some_native_writes_refused"].value == 1.0
    assert (figures["some_native_load"].value, figures["some_native_elsewhere"].value) == (0.4, 0.1)
    assert figures["some_nominations_per_pod"].value == 1.0
    assert figures["some_native_attempts_per_pod"].value == 2.0


def test_what_muster_counted_before_a_run_is_not_the_runs() -> None:
    """Counters go on from the warm-up."""
    before, after = (
        Page.parse(
            f'muster_verb_seconds_count{{verb="filter",outcome="pinned"}} {calls}\n'
            f'muster_verb_seconds_count{{verb="filter",outcome="waiting"}} {calls}\n'
            f'muster_verb_seconds_count{{verb="bind",outcome="bound"}} 100\n'
            f'muster_writes_total{{kind="nomination",result="ok"}} {calls}\n'
        )
        for calls in (8, 20)
    )
    work = Work.between(before, after)
    assert (work.filter_calls, work.nominations, work.renominations) == (24, 12, 0)


def test_the_worse_way_to_wait_is_the_figure() -> None:
    """In each repeat the greater of the two rates counts; a rate that reaches the bound breaks it."""
    rests = {
        "members": [Rest(10, 20, spent(30.0, 5)), Rest(10, 20, spent(30.0, 5, filter_calls=10))],
        "room": [Rest(10, 20, spent(30.0, 5, filter_calls=5)), Rest(10, 20, spent(30.0, 5, filter_calls=5))],
    }
    case = Waiting("waiting", 1, Workload(1, 1), Workload(1, 1), 1, 30.0, bound=1.5)
    figures = by_name(case.figures(rests))
    worst = figures["waiting_filter_calls_per_pod_minute"]
    assert (worst.low, worst.value, worst.high, worst.holds) == (1.0, 1.5, 2.0, False)
    assert figures["waiting_for_members_filter_calls_per_pod_minute"].value == 1.0
    assert figures["waiting_for_room_first_filter_calls_per_pod"].value == 2.0
    assert figures["waiting_for_room_attempts_per_pod_minute"].value == 1.0
    assert figures["waiting_for_room_cpu_scheduler"].value == pytest.approx(1 / 30)


def test_what_waits_is_told_apart_from_what_starts_beside_it() -> None:
    """Attempts are rates for each pod that waits; every gang that started beside them counts singly."""
    crowd = Crowd("crowd", 1, pods=10, watched_seconds=30.0)
    runs = [Beside(10, behind, 11.0, (0.1, 0.3), spent(30.0, 50.0, filter_calls=20.0)) for behind in (2.0, 4.0)]
    figures = by_name(crowd.figures({"room": runs}))
    assert figures["crowd_room_attempts_per_pod_minute"].value == 10.0
    assert figures["crowd_room_filter_calls_per_pod_minute"].value == 4.0
    assert figures["crowd_room_first_attempts_per_pod"].value == 1.1
    assert figures["crowd_room_gang_right_behind_s"].value == 3.0
    assert figures["crowd_room_gang_beside_s"].high == 0.3
    assert figures["crowd_room_cpu_apiserver"].value == pytest.approx(2 / 30)


def test_the_next_gang_is_timed_at_every_end() -> None:
    """All ends of all repeats make the spread; calls are per pod of the gang that started."""
    ends = {
        NATIVE: [[Succession(4.0, spent(4.0, 80)), Succession(2.0, spent(2.0, 80))]],
        MUSTER: [[Succession(0.2, spent(0.2, filter_calls=16)), Succession(0.4, spent(0.4, filter_calls=8))]],
    }
    figures = by_name(NextGang("full", 4, Workload(3, 8), 2, (NATIVE, MUSTER)).figures(ends))
    assert figures["full_vs_native"].value == pytest.approx(0.1)
    assert (figures["full_muster_next_gang_s"].low, figures["full_muster_next_gang_s"].high) == (0.2, 0.4)
    assert figures["full_filter_calls_per_pod"].value == 1.5
    assert figures["full_native_attempts_per_pod"].value == 10


def test_waits_are_of_each_pod_and_of_each_gang_beside_those_with_a_rival() -> None:
    """Percentiles are of one run; how much longer one waits with Muster is taken within a repeat."""
    case = Arrivals("mix", 2, Mix(8, 1, 2, 50.0), (STOCK, MUSTER), {STOCK: 10.0})
    repeats = [
        {
            STOCK: Stream(run(STOCK, 1.0), [0.010, 0.020 + slow, 0.030], [0.040], [0.001]),
            MUSTER: Stream(run(MUSTER, 1.0, filter_calls=10), [0.010, 0.025 + slow, 0.030], [0.060], [0.001]),
        }
        for slow in (0.0, 0.003, 0.001)
    ]
    figures = by_name(case.figures(repeats))
    over = figures["mix_single_p50_over_stock_ms"]
    assert over.value == pytest.approx(5.0)
    assert (over.bound, over.holds) == (10.0, True)
    assert figures["mix_gang_p99_over_stock_ms"].value == pytest.approx(20.0)
    assert figures["mix_muster_single_p50_ms"].high == pytest.approx(28.0)
    assert figures["mix_muster_single_p99_ms"].value == pytest.approx(29.92, abs=0.1)
    assert figures["mix_stock_arrival_late_p99_ms"].value == pytest.approx(1.0)
    assert figures["mix_stock_writes"].value == 3.0


def test_what_a_pod_costs_is_compared_with_a_small_gang_of_the_same_repeat() -> None:
    """Beside it are long turns of Muster's loop and the writes that it gave up, for each size."""
    small, large = (run(MUSTER, 1.0, busy_turns=turns, given_up=2 * turns) for turns in (0.0, 1.0))
    case = Growth("large", 2, (5, 10), 0.1, cpu_bound=0.9, turns_bound=0)
    figures = by_name(case.figures([[Grown(small, 0.002), Grown(large, 0.012)]]))
    assert (figures["large_10_cpu_growth"].value, figures["large_10_cpu_growth"].holds) == (1.0, False)
    assert "large_5_cpu_growth" not in figures
    assert (figures["large_5_busy_turns"].holds, figures["large_10_busy_turns"].holds) == (True, False)
    assert figures["large_10_longest_turn_ms"].value == 12.0
    assert (figures["large_10_given_up"].value, figures["large_10_muster_writes_refused"].value) == (2.0, 1.0)


def test_each_contender_comes_first_in_turn() -> None:
    """What a run leaves behind in the API server hits another one in each repeat."""
    order: list[str] = []

    def measured(_: Contender, title: str) -> str:
        order.append(title)
        return title

    found = in_turns("some", (STOCK, NATIVE, MUSTER), 2, measured)
    assert [title.rpartition(" ")[2] for title in order] == ["stock", "native", "muster", "native", "muster", "stock"]
    assert [list(repeat) for repeat in found] == [[STOCK, NATIVE, MUSTER], [NATIVE, MUSTER, STOCK]]


def test_people_read_a_row_for_each_contender() -> None:
    """Times with their spread, costs, writes, ratios, what others took meanwhile; and below what has a bound."""
    race = Comparison("race", 2, Workload(1, 10), {NATIVE: 1, MUSTER: 1}, bounds={NATIVE: 0.5}, cpu_bound=60)
    repeats = [{NATIVE: run(NATIVE, 10.0), MUSTER: run(MUSTER, seconds, passes=1)} for seconds in (4.0, 8.0)]
    mix = Arrivals("mix", 2, Mix(8, 1, 2, 50.0), (STOCK,), {})
    waits = [{STOCK: Stream(run(STOCK, 1.0), [0.010], [0.040], [0.001])}]
    large = Growth("large", 2, (5, 10), 0.1)
    grown = [[Grown(run(MUSTER, 1.0, passes=1), 0.002)] * 2]
    figures = by_name([*race.figures(repeats), *mix.figures(waits), *large.figures(grown)])
    tables = list(summaries([race, mix, large], figures))
    assert [str(table.caption).splitlines() for table in tables] == [
        ["race_vs_native 0.60 (0.40 to 0.80) <= 0.5 MISSED", "race_muster_cpu_muster_ms 50.00 <= 60 ok"],
        [],
        [],
    ]
    shown = [[list(column.cells) for column in table.columns] for table in tables]
    assert [list(zip(*columns, strict=True)) for columns in shown] == [
        [
            ("native gang", "10.00", "200.00", "100.00", "", "3.00", "1", "0.60 (0.40 to 0.80)", "0.10"),
            ("Muster", "6.00 (4.00 to 8.00)", "200.00", "100.00", "50.00", "3.00", "1", "", "0.10"),
        ],
        [("stock", "10", "10", "40", "40", "200.00", "100.00", "", "3.00", "1", "0.10")],
        [(size, "1.00", "200.00", "100.00", "50.00", "3.00", "1", "0", "0", "2.00", "0.10") for size in ("5", "10")],
    ]


def test_only_the_contenders_asked_for_take_part() -> None:
    """A case in which none of them takes part is an error; one about Muster alone stays as it is."""
    gang, mix = (among(FULL[name], name, ["muster", "native"]) for name in ("gang-1000-500-empty", "mix-500-empty"))
    assert isinstance(gang, Comparison)
    assert isinstance(mix, Arrivals)
    assert [*gang.contenders] == [*mix.contenders] == [NATIVE, MUSTER]
    assert among(FULL["waiting"], "waiting", ["stock"]) is FULL["waiting"]
    with pytest.raises(LocalClusterError, match="singles has no native; it has stock, stock_100, floor, muster"):
        among(FULL["singles-500-empty"], "singles", ["native"])


def test_every_case_has_a_short_version_on_which_its_pods_fit() -> None:
    """The short version is the same measurement, only smaller; its times are promised nothing."""
    assert list(SHORT) == list(FULL) == list(CASES)
    for name, case in SHORT.items():
        assert case.nodes < FULL[name].nodes
        assert case.seconds(1) < FULL[name].seconds(1)
    for case in (*SHORT.values(), *FULL.values()):
        if isinstance(case, Comparison | Arrivals):
            pods = case.workload.pods if isinstance(case, Comparison) else case.mix.pods
            assert pods <= (case.nodes - case.occupied) * GPUS_PER_NODE
    assert {bool(case.bounds) for case in SHORT.values() if isinstance(case, Comparison | Arrivals)} == {False}
    assert {case.cpu_bound for case in SHORT.values() if isinstance(case, Comparison)} == {None}


def test_only_the_system_differs_between_contenders() -> None:
    """All may send as many requests; how many nodes are looked at is kube-scheduler's own default, or all of them."""
    configs = {contender: contender.profile.render(Path("/kubeconfig")) for contender in Contender}
    for config in configs.values():
        assert config["clientConnection"] == {"qps": 1000, "burst": 2000, "kubeconfig": "/kubeconfig"}
    looked_at = {contender: config.get("percentageOfNodesToScore") for contender, config in configs.items()}
    shipped = yaml.safe_load((SCHEDULER_CONFIGS / "muster.yaml").read_text(encoding="utf-8"))
    assert looked_at == {
        STOCK: None,
        Contender.STOCK_100: 100,
        NATIVE: None,
        Contender.NATIVE_100: 100,
        Contender.FLOOR: None,
        MUSTER: shipped.get("percentageOfNodesToScore"),
    }


def test_to_be_asked_for_counters_is_no_part_of_what_is_measured() -> None:
    """They are read before the processor time at the beginning, and after it at the end."""
    requests = (
        "apiserver_request_total{"
        'code="201",component="apiserver",group="",resource="pods",scope="resource",subresource="",verb="POST"} %d\n'
    )
    pages = iter([8, 20])

    def count() -> Counters:
        before = cpu_seconds({"this": os.getpid()})["this"]
        while cpu_seconds({"this": os.getpid()})["this"] < before + 0.2:
            sum(range(10_000))
        return Counters(Page(), 3.0, Page.parse(requests % next(pages)))

    found = Meter(count, {"this": os.getpid()}).read()
    assert found.cpu["this"] < 0.1
    assert (found.attempts, found.writes, found.refused) == (0.0, {"POST pods": 12.0}, 0.0)


def test_processor_time_grows_with_work() -> None:
    """It is read off the kernel, for whichever process."""
    before = cpu_seconds({"this": os.getpid()})["this"]
    while cpu_seconds({"this": os.getpid()})["this"] < before + 0.02:
        sum(range(10_000))
    assert cpu_seconds({"this": os.getpid()})["this"] < before + 10
    assert 0.0 <= busy_processors() <= (os.cpu_count() or 1) * 1.5


def test_milestones_are_muster_s_decisions_since_a_moment(tmp_path: Path) -> None:
    """Other lines of the log, and earlier decisions, are left out."""
    log = tmp_path / "muster.log"
    log.write_text(
        '{"event":"gang placed","decision":"a","timestamp":"2026-01-01T00:00:01.5Z"}\n'
        "Traceback: not JSON\n"
        '{"event":"synced","timestamp":"2026-01-01T00:00:02Z"}\n'
        '{"event":"gang started","decision":"a","timestamp":"2026-01-01T00:00:03Z"}\n',
        encoding="utf-8",
    )
    new_year = 1767225600.0
    assert list(milestones(log, new_year)) == [("gang placed", new_year + 1.5), ("gang started", new_year + 3)]
    assert list(milestones(log, new_year + 2)) == [("gang started", new_year + 3)]


def test_progress_learns_from_how_long_the_steps_took() -> None:
    """A machine of half the speed expected takes twice the time for the rest; one that stays busy is warned of."""
    said: list[str] = []
    times, busy = iter([100.0, 120.0]), iter([1.9, 0.1, 1.8, 1.7, 1.6])
    progress = Progress(said.append, lambda: next(times), 40.0, load=lambda: 0.7, busy=lambda: next(busy), looks=3)
    progress.step("first", 10.0)
    progress.step("second", 30.0)
    assert said == [
        "first: about 10 s, all about 40 s still (load 0.70, 0.10 processors busy)",
        "second: about 60 s, all about 60 s still (load 0.70, 1.60 processors busy)",
        "warning: 1.60 processors are at work, and nothing is measured yet; times need a quiet machine",
    ]
