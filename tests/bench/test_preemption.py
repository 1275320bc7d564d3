"""Searches for whom to evict, timed and compared with every choice there is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.options import Options
from bench.placement import GPU, worker, workers
from bench.preemption import CASES, measure
from bench.preemption.everychoice import Tally, cost_of, least, pieces_of
from bench.preemption.occupied import GPUS_OF_NODE, Occupied, Sizes, occupy
from extender.cluster.table import NodeTable
from extender.eviction.search.units import Victim, VictimEviction
from extender.objects.node import Node

LITTLE = Sizes(2, 2, gpus=(2, 4), pods=(1, 2, 3))


def victim(site: Occupied, name: str, nodes: list[str], gpus: int, extras: int = 0) -> Victim:
    """Let a gang run for 10 s."""
    pods = [
        replace(pod, node_name=node)
        for pod, node in zip(workers(name, len(nodes), worker(gpus, 1000)), nodes, strict=True)
    ]
    for pod in pods:
        site.table.claim(pod.uid, pod.node_name, pod.shape)
    core, spare = pods[: len(pods) - extras], pods[len(pods) - extras :]
    found = Victim(name, name, "", "", 0, name, tuple(core), tuple(spare), 10.0)
    site.victims.append(found)
    return found


def two_nodes() -> Occupied:
    """Return a site of two nodes in two racks."""
    table = NodeTable()
    for name in "ab":
        capacity = {"cpu": 64_000, "memory": 1 << 40, "pods": 110, GPU: GPUS_OF_NODE}
        table.upsert(Node(name, allocatable=capacity, labels={"rack": name, "block": "all"}))
    return Occupied(table)


def test_equal_seeds_give_equal_clusters() -> None:
    """Anybody can draw the clusters of a figure again; none has a GPU free, or it has so many gangs."""
    one, two = occupy(3, LITTLE), occupy(3, LITTLE)
    assert one.victims == two.victims
    assert one.table.free()[one.table.resources.index(GPU)].tolist() == [0, 0, 0, 0]
    assert len(occupy(3, replace(LITTLE, gangs=2)).victims) == 2


def test_the_least_cost_of_all_choices() -> None:
    """The reference counts by hand: extras alone before gangs, domains where one is asked for."""
    site = two_nodes()
    elastic = victim(site, "elastic", ["a", "a", "b"], 4, extras=1)
    single = victim(site, "single", ["b"], 4)
    assert [piece.core for piece in pieces_of(site)] == [False, True, True]
    assert least(site, 1, 4, "") == (0, 0, 0, 40_000)
    assert least(site, 2, 4, "") == (0, 40_000, 1, 40_000)
    assert least(site, 2, 4, "rack") == (0, 40_000, 1, 40_000)
    assert least(site, 3, 4, "") == (0, 120_000, 1, 0)
    assert least(site, 3, 4, "rack") is None
    assert cost_of([VictimEviction(elastic, elastic.extras), VictimEviction(single, single.core)]) == (
        0,
        40_000,
        1,
        40_000,
    )


def test_what_is_wrong_is_told_from_what_is_not_optimal() -> None:
    """A way that was missed, one that is none, and a cost below the least are wrong."""
    tally = Tally()
    tally.add(None, (0, 0, 0, 0))
    tally.add(None, None)
    assert (tally.wrong, tally.searches) == (1, 0)


@pytest.mark.parametrize("case", CASES)
def test_every_case_runs_and_holds_what_does_not_hang_on_the_machine(case: str) -> None:
    """The short versions run through; their bounds hold, but for times, which a busy machine stretches."""
    figures = measure(Options(repeats=1, cases=(case,), short=True), lambda _: None)
    assert figures
    assert all(figure.holds is not False for figure in figures if figure.unit != "ms")
