"""The benchmark on the real control plane in its short version: every contender works, and Muster does no work twice.

Only counts are judged, which are the same on every machine. Times are for `make bench`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import uvloop

from bench.controlplane.arrivals import Mix
from bench.controlplane.cases import Comparison
from bench.controlplane.contenders import Contender
from bench.controlplane.fill import Fill
from bench.controlplane.growthcases import Growth
from bench.controlplane.mixedcases import Arrivals
from bench.controlplane.progress import Progress
from bench.controlplane.stage import Arena
from bench.controlplane.waitingcases import NextGang, Waiting
from bench.controlplane.waitingrun import Beside, beside
from bench.controlplane.workload import GPUS_PER_NODE, Workload
from bench.figures import Figure

pytestmark = pytest.mark.controlplane

NODES = 40


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    """Run a control plane without kubelets, as the benchmark does."""
    with Arena(NODES) as running:
        yield running


@pytest.fixture
def progress() -> Progress:
    """Return what nobody reads; the machine is not looked at."""
    return Progress(lambda _: None, time.monotonic, 1.0, load=lambda: 0.0, busy=lambda: 0.0)


def _by_name(figures: list[Figure]) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures}


def test_a_gang_that_fits_costs_one_filter_call_and_one_binding_for_each_pod(arena: Arena, progress: Progress) -> None:
    """A hundred pods created at once: few are asked about before the gang is complete, or nominated twice."""
    case = Comparison("gang", NODES, Workload(1, 100), {Contender.MUSTER: 5.0}, filter_bound=1.2)
    figures = _by_name(case.measure(arena, 1, progress))
    assert figures["gang_bindings_per_pod"].value == 1.0
    assert figures["gang_muster_writes_post_pods_binding"].value == 1.0
    assert figures["gang_muster_writes_refused"].value == 0
    assert figures["gang_filter_calls_per_pod"].holds is True
    assert figures["gang_nominations_per_pod"].value <= 1.1
    # kube-scheduler loses some nominations: those that come while it tries that very pod.
    assert figures["gang_renominations"].value <= 2
    assert 0 < figures["gang_muster_last_gang_started_at_s"].value <= figures["gang_muster_last_bound_at_s"].value


def test_the_rivals_place_the_same_gang(arena: Arena, progress: Progress) -> None:
    """Stock, native and floor bind every pod of some gangs; Muster does not run meanwhile."""
    rivals = [contender for contender in Contender if contender is not Contender.MUSTER]
    case = Comparison("gangs", NODES, Workload(5, 4), dict.fromkeys(Contender, 1.0))
    figures = _by_name(case.measure(arena, 1, progress))
    for rival in rivals:
        assert figures[f"gangs_{rival}_pods_per_s"].value > 0
        assert f"gangs_{rival}_cpu_muster_ms" not in figures
        # Pod, Binding and Event: the API server counts what everybody has to write.
        assert figures[f"gangs_{rival}_writes"].value >= 3.0
        assert figures[f"gangs_{rival}_writes_post_pods_binding"].value == 1.0
    assert figures["gangs_muster_cpu_muster_ms"].value > 0


def test_a_full_cluster_still_has_room_for_what_comes(progress: Progress) -> None:
    """All nodes but five are taken by pods that stay from contender to contender; forty pods need these five."""
    workload = Workload(5, 8)
    case = Comparison("full", NODES, workload, dict.fromkeys((Contender.FLOOR, Contender.MUSTER), 1.0), Fill.FULL)
    with Arena(NODES, case.occupied) as arena:
        figures = _by_name(case.measure(arena, 2, progress))
    assert case.occupied == NODES - 5
    for contender in case.contenders:
        assert len(figures[f"full_{contender}_s"].repeats) == 2


def test_a_mix_arrives_and_every_pod_of_it_is_bound(arena: Arena, progress: Progress) -> None:
    """Single pods and gangs are told apart, for those who know gangs and for those who do not."""
    contenders = (Contender.STOCK, Contender.NATIVE, Contender.MUSTER)
    case = Arrivals("mix", NODES, Mix(singles=32, gangs=2, size=4, pods_per_second=40.0), contenders, {})
    figures = _by_name(case.measure(arena, 1, progress))
    for contender in contenders:
        assert 0 < figures[f"mix_{contender}_single_p50_ms"].value <= figures[f"mix_{contender}_single_p99_ms"].value
        assert figures[f"mix_{contender}_gang_p50_ms"].value > 0
        assert figures[f"mix_{contender}_writes_post_pods_binding"].value == 1.0


def test_gangs_of_several_sizes_are_compared(arena: Arena, progress: Progress) -> None:
    """Each is placed by a fresh Muster, whose loop is looked at meanwhile."""
    figures = _by_name(Growth("large", NODES, (10, 100), 0.01).measure(arena, 1, progress))
    assert figures["large_100_cpu_growth"].value > 0
    assert figures["large_100_longest_turn_ms"].value > 0
    assert figures["large_100_given_up"].value == 0


def test_waiting_gangs_are_not_asked_about_while_nothing_happens(arena: Arena, progress: Progress) -> None:
    """Neither those that lack members nor those that lack room, once they have settled."""
    case = Waiting(
        "waiting",
        NODES,
        for_members=Workload(10, 5, missing=1),
        for_room=Workload(10, 4, gpus=8),
        free_nodes=3,
        rest_seconds=4.0,
        bound=1.0,
    )
    figures = _by_name(case.measure(arena, 1, progress))
    assert figures["waiting_filter_calls_per_pod_minute"].holds is True
    assert figures["waiting_for_room_first_filter_calls_per_pod"].value > 0  # they were asked about, and refused


def test_a_gang_in_the_queue_does_not_have_those_before_it_tried_again(arena: Arena, progress: Progress) -> None:
    """No node has room for 300 pods; the gang behind them is nominated, and not nominated again meanwhile."""

    async def watch() -> Beside:
        async with arena.stage(Contender.MUSTER) as stage:
            waiting = Workload(100, 3, gpus=GPUS_PER_NODE, prefix="crowd")
            return await beside(stage, waiting, len(stage.nodes), 1.0, progress.say)

    found = uvloop.run(watch())
    assert found.first_attempts <= 1.1 * found.pods


def test_the_next_gang_starts_when_one_ends_on_a_full_cluster(arena: Arena, progress: Progress) -> None:
    """Every pod of the gang that starts was asked about; the others cost at most as much again for each of them."""
    case = NextGang("full", NODES, Workload(10, 8), ends=1, contenders=(Contender.MUSTER,))
    figures = _by_name(case.measure(arena, 1, progress))
    assert 1 <= figures["full_filter_calls_per_pod"].value <= 10
