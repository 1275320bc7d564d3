"""Random clusters, the reference that counts pods, and how the two are compared."""

from __future__ import annotations

from collections import Counter
from math import comb

import pytest

from bench.fabric import CASES, measure
from bench.fabric.clusters import MACHINES, PRODUCT, Cluster, Job, Sizes, draw_cluster
from bench.fabric.comparison import Comparison, Outcome, figures_of
from bench.fabric.exhaustive import MOST_PLACEMENTS, Tally, every_placement
from bench.fabric.site import Site, by_count, muster
from bench.options import Options
from bench.placement import GPU
from extender.objects.levels import Level, Levels
from extender.objects.node import Node

SMALL = Sizes(nodes=(4, 16), jobs=(4, 8), most_pods=16)


def h100(free: list[int], racks: list[str]) -> Site:
    """Return H100 nodes by how many GPUs are free on each, and the rack that each is in."""
    nodes = [
        Node(
            f"node-{index}",
            allocatable={"cpu": 128_000, "memory": 2 << 40, "pods": 110, GPU: 8},
            labels={PRODUCT: MACHINES["h100"].product, "rack": rack},
        )
        for index, rack in enumerate(racks)
    ]
    running = [
        (Job(f"running-{index}", "h100", 8 - left, 1), [f"node-{index}"] * (8 - left))
        for index, left in enumerate(free)
    ]
    return Site(Cluster(nodes, Levels((Level("rack", "rack"),)), running, ()))


def counts(site: Site, job: Job) -> dict[str, int] | None:
    """Return how many pods the reference gives to which node."""
    nodes, _ = site.ask(by_count, job)
    return None if nodes is None else dict(Counter(nodes.values()))


class TestReference:
    """Best fit by count."""

    def test_the_tightest_node_that_holds_all(self) -> None:
        """One node is the lowest level; of those with room for all the one with least."""
        site = h100([8, 5, 4, 3], ["a", "a", "b", "b"])
        assert counts(site, Job("job", "h100", 4, 1)) == {"node-2": 4}

    def test_the_tightest_rack_and_its_fewest_nodes(self) -> None:
        """Without such a node: the rack with least room, its roomiest nodes whole, the rest where it fits tightest."""
        site = h100([8, 8, 8, 7, 5, 2], ["a", "a", "a", "b", "b", "b"])
        assert counts(site, Job("job", "h100", 9, 1)) == {"node-3": 7, "node-5": 2}

    def test_several_racks_if_none_holds_all(self) -> None:
        """The roomiest rack is used up before the next one is touched."""
        site = h100([4, 4, 6], ["a", "a", "b"])
        assert counts(site, Job("job", "h100", 10, 1)) == {"node-0": 4, "node-1": 4, "node-2": 2}

    def test_no_room(self) -> None:
        """Where not all pods have room, or on other machines, it places none."""
        site = h100([4, 4], ["a", "a"])
        assert counts(site, Job("job", "h100", 9, 1)) is None
        assert counts(site, Job("job", "l40s", 1, 1)) is None

    def test_it_does_not_see_bandwidth(self) -> None:
        """The reference fills one node and leaves one GPU alone with its network card; Muster does not."""
        site = h100([7, 4, 4], ["a", "a", "a"])
        job = Job("job", "h100", 8, 1)
        worth = {}
        for name, planner in (("reference", by_count), ("muster", muster)):
            nodes, _ = site.ask(planner, job)
            assert nodes is not None
            worth[name] = site.worth(job, nodes)
        assert worth == {"reference": pytest.approx(47 * 2 * 7 / 8), "muster": pytest.approx(4 * 47 * 2 * 7 / 8)}


class TestClusters:
    """What is drawn."""

    @pytest.mark.parametrize("seed", range(20))
    def test_every_cluster_is_possible(self, seed: int) -> None:
        """No node gives more than it has, the fill is as said, gangs would fit by GPUs alone, and seeds repeat."""
        cluster = draw_cluster(seed, SMALL)
        assert cluster == draw_cluster(seed, SMALL)
        capacity = {node.name: node.allocatable[GPU] for node in cluster.nodes}
        taken: Counter[str] = Counter()
        for job, names in cluster.running:
            assert len(names) == job.pods
            for name in names:
                taken[name] += job.gpus
        assert all(gpus <= capacity[name] for name, gpus in taken.items())
        for machine in {job.machine for job, _ in cluster.running}:
            has = sum(gpus for name, gpus in capacity.items() if name.startswith(machine))
            used = sum(gpus for name, gpus in taken.items() if name.startswith(machine))
            coming = sum(job.pods * job.gpus for job in cluster.arriving if job.machine == machine)
            assert used >= 0.3 * has
            assert used + coming <= has


def test_every_placement_is_tried_once() -> None:
    """Three pods on three nodes with room for all: as many ways as there are to share them out."""
    site = h100([3, 3, 3], ["a", "a", "a"])
    found = list(every_placement(site, Job("job", "h100", 3, 1)))
    shares = {tuple(sorted(Counter(nodes.values()).items())) for nodes in found}
    assert len(found) == len(shares) == comb(5, 2)


def test_gangs_are_counted_that_every_placement_was_tried_of() -> None:
    """Within 5 % counts as the best; a wrong refusal is told from a right one; too many placements count nowhere."""
    tally = Tally()
    assert tally.add([96.0], [100.0, None, 96.0])
    assert tally.add([50.0], [100.0])
    assert not tally.add(None, [])  # does not fit, and was refused
    assert not tally.add(None, [100.0])
    assert not tally.add([None], [None])  # a single GPU
    assert not tally.add([], [100.0])
    assert not tally.add([1.0], [100.0] * (MOST_PLACEMENTS + 1))
    assert (tally.gangs, tally.best, tally.placements, tally.wrong) == (2, 1, 4, 1)
    assert tally.ratios == pytest.approx(1.46)


def test_a_trial_leaves_no_trace() -> None:
    """What a placement is worth is found by making it: afterwards everything is as free as before."""
    site = h100([8, 8], ["a", "a"])
    job = Job("job", "h100", 16, 1)
    nodes, _ = site.ask(muster, job)
    assert nodes is not None
    assert site.worth(job, nodes) == pytest.approx(475.0)
    assert site.whole_nodes() == 2
    site.take(job, nodes)
    assert site.whole_nodes() == 0
    assert site.ask(muster, job)[0] is None


def test_figures_of_two_gangs() -> None:
    """Means are over the gangs that both placed; refused ones are counted."""
    job = Job("job", "h100", 8, 1)
    placed = Outcome(job, 329.0, 82.25, 329.0, False, False, 2, 4, 0.002, 0.001)  # noqa: FBT003 - none was refused
    refused = Outcome(job, 400.0, None, 400.0, False, True, 1, 0, 0.004, 0.001)  # noqa: FBT003 - one of the two refused it
    figures = {figure.name: figure.value for figure in figures_of([Comparison([placed, refused], 6, 4)])}
    assert figures["bandwidth_vs_best_fit"] == figures["bandwidth_vs_best_fit_h100"] == 4.0
    assert figures["bandwidth_vs_best_fit_beyond_a_node"] == 1.0  # there is none
    assert figures["allreduce_time_vs_best_fit"] == 0.25
    assert figures["whole_nodes_vs_best_fit"] == 1.5
    assert figures["plan_time_vs_best_fit"] == pytest.approx(3.0)
    assert figures["best_fit_within_5_percent_of_possible"] == 0.0
    assert figures["worse_than_best_fit_on_the_same_state"] == 0.0
    assert (figures["gangs_refused_by_muster"], figures["gangs_refused_by_best_fit"]) == (0, 1)


def test_muster_is_never_worse_than_what_there_is() -> None:
    """On small random clusters no placement, the reference's or any other, is faster by more than the model's error.

    Times are left to the long version: the machine that runs the tests may be busy.
    """
    said: list[str] = []
    figures = {figure.name: figure for figure in measure(Options(short=True), said.append)}
    assert len(said) >= len(CASES)
    assert figures["gangs_tried_exhaustively"].value >= 10
    assert figures["gangs_of_two_kinds_of_pods_tried_exhaustively"].value >= 3
    assert 0 < figures["muster_bandwidth_vs_best_if_two_kinds_of_pods"].value <= 1
    judged = [figure for figure in figures.values() if figure.unit != "ms" and figure.bound is not None]
    assert len(judged) == 3
    assert all(figure.holds for figure in judged), judged
    assert all(figure.value > 0 for figure in figures.values() if figure.unit == "ms")
