"""Figures of the control plane's cases, from runs with known times; what costs were read; what is said meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from bench.controlplane.accounts import busy_processors, cpu_seconds, milestones
from bench.controlplane.cases import Comparison, Crowd, NextGang, Waiting
from bench.controlplane.catalogue import FULL, SHORT
from bench.controlplane.contenders import Contender
from bench.controlplane.progress import Progress
from bench.controlplane.runs import Run, Work
from bench.controlplane.waitingrun import Beside, Rest, Succession
from bench.controlplane.workload import GPUS_PER_NODE, Workload
from bench.figures import Figure
from bench.soak.sampling import Page
from localcluster.components import SCHEDULER_CONFIGS

MUSTER, NATIVE = Contender.MUSTER, Contender.NATIVE
CPU = {"apiserver": 2.0, "scheduler": 1.0, "harness": 9.0}


def run(contender: Contender, seconds: float, **work: float) -> Run:
    """Return a run of ten pods."""
    return Run(contender, 10, seconds, {"last_created": 0.5, "last_bound": seconds}, CPU, 20.0, Work(**work))


def by_name(figures: list[Figure]) -> dict[str, Figure]:
    """Return figures by name; no name comes twice."""
    named = {figure.name: figure for figure in figures}
    assert len(named) == len(figures)
    return named


def test_a_ratio_is_taken_within_each_repeat() -> None:
    """What slowed the machine down for one repeat slowed both contenders down: the median of ratios shows it."""
    case = Comparison("some", 1, Workload(1, 10), {NATIVE: 0.5}, {NATIVE: 0.1, MUSTER: 0.1}, filter_bound=1.2)
    repeats = [
        {NATIVE: run(NATIVE, native), MUSTER: run(MUSTER, muster, filter_calls=11, nominations=10, bindings=10)}
        for native, muster in ((10.0, 4.0), (100.0, 40.0), (10.0, 8.0))
    ]
    figures = by_name(case.figures(repeats))
    assert figures["some_vs_native"].as_json() == {
        "value": 0.4, "bound": 0.5, "holds": True, "min": 0.4, "max": 0.8, "unit": "ratio", "repeats": [0.4, 0.4, 0.8],
    }  # fmt: skip
    assert figures["filter_calls_per_pod"].value == 1.1
    assert figures["some_muster_s"].high == 40.0
    assert figures["some_native_pods_per_s"].low == 0.1
    assert figures["some_muster_last_created_at_s"].value == 0.5
    assert figures["some_native_cpu_apiserver_s"].value == 2.0
    assert figures["some_native_cpu_s"].value == 3.0
    assert figures["some_cpu_vs_native"].value == 1.0
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
        "members": [Rest(10, 30.0, 20, 0, 5, CPU), Rest(10, 30.0, 20, 10, 5, CPU)],
        "room": [Rest(10, 30.0, 20, 5, 5, CPU), Rest(10, 30.0, 20, 5, 5, CPU)],
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
    runs = [Beside(10, behind, 11.0, 30.0, (0.1, 0.3), 50.0, 20.0, CPU) for behind in (2.0, 4.0)]
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
        NATIVE: [[Succession(4.0, 0, 80, CPU), Succession(2.0, 0, 80, CPU)]],
        MUSTER: [[Succession(0.2, 16, 16, CPU), Succession(0.4, 8, 8, CPU)]],
    }
    figures = by_name(NextGang("full", 4, Workload(3, 8), 2, (NATIVE, MUSTER)).figures(ends))
    assert figures["full_vs_native"].value == pytest.approx(0.1)
    assert (figures["full_muster_next_gang_s"].low, figures["full_muster_next_gang_s"].high) == (0.2, 0.4)
    assert figures["full_filter_calls_per_pod"].value == 1.5
    assert figures["full_native_attempts_per_pod"].value == 10


def test_every_case_has_a_short_version_on_which_its_pods_fit() -> None:
    """The short version is the same measurement, only smaller; its times are promised nothing."""
    assert list(SHORT) == list(FULL)
    for name, case in SHORT.items():
        assert case.nodes < FULL[name].nodes
        assert case.seconds(1) < FULL[name].seconds(1)
    for case in (*SHORT.values(), *FULL.values()):
        if isinstance(case, Comparison):
            assert case.workload.pods * case.workload.gpus <= case.nodes * GPUS_PER_NODE
    assert [
        bound
        for case in SHORT.values()
        if isinstance(case, Comparison)
        for bound in case.rivals.values()
        if bound is not None
    ] == []


def test_only_the_system_differs_between_contenders() -> None:
    """Both shipped configurations let kube-scheduler send as many requests and look at every node."""
    stock, muster = (
        yaml.safe_load((SCHEDULER_CONFIGS / name).read_text(encoding="utf-8")) for name in ("stock.yaml", "muster.yaml")
    )
    assert stock["clientConnection"] == muster["clientConnection"] == {"qps": 1000, "burst": 2000}
    assert stock["percentageOfNodesToScore"] == muster["percentageOfNodesToScore"] == 100


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
    """A machine of half the speed expected takes twice the time for the rest; a busy one is warned of."""
    said: list[str] = []
    times, busy = iter([100.0, 120.0]), iter([0.1, 1.6])
    progress = Progress(said.append, lambda: next(times), 40.0, load=lambda: 0.7, busy=lambda: next(busy))
    progress.step("first", 10.0)
    progress.step("second", 30.0)
    assert said == [
        "first: about 10 s, all about 40 s still (load 0.70, 0.10 processors busy)",
        "second: about 60 s, all about 60 s still (load 0.70, 1.60 processors busy)",
        "warning: 1.60 processors are at work, and nothing is measured yet; times need a quiet machine",
    ]
