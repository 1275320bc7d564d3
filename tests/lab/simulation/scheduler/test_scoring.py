"""Scores."""

from __future__ import annotations

import numpy as np
import pytest

from extender.objects.node import Node
from muster_lab.simulation.scheduler.nodes import NodeCache, best, least_allocated
from tests.builders import GI, pod


def test_the_emptier_node_scores_higher() -> None:
    """The score is the free share of CPU and memory with the pod on the node, in whole percent, on average."""
    cache = NodeCache()
    for name in ("empty", "half"):
        cache.put_node(Node(name, allocatable={"cpu": 10_000, "memory": 10 * GI}))
    cache.put_pod(pod("a", node="half", shape=pod("x").shape))
    columns = cache.columns()
    scores = least_allocated(pod("p"), np.array([0, 1], dtype=np.intp), columns)
    # 1 of 10 CPUs and 200 MiB of 10 GiB: (90 + 98) / 2; then twice as much: (80 + 96) / 2.
    assert scores.tolist() == [94, 88]


def test_a_node_that_lists_no_cpu_or_memory_is_scored_by_what_it_has() -> None:
    """A resource that is not there has no weight; with none at all the score is 0, and so is an overcommitted one's."""
    cache = NodeCache()
    cache.put_node(Node("memory", allocatable={"memory": 10 * GI}))
    cache.put_node(Node("nothing", allocatable={"pods": 1}))
    cache.put_node(Node("small", allocatable={"cpu": 500}))
    scores = least_allocated(pod("p"), np.arange(3, dtype=np.intp), cache.columns())
    assert scores.tolist() == [98, 0, 0]


@pytest.mark.parametrize(
    ("scores", "extender", "weight", "chosen"),
    [
        ([50, 60, 60], {}, 0, "b"),
        ([50, 60, 60], {"c": 1}, 1, "c"),
        ([90, 10, 10], {"a": 0, "b": 2}, 5, "b"),
        ([90, 10, 10], {"a": 0, "b": 1}, 5, "a"),
        ([0, 0, 0], {}, 5, "a"),
    ],
)
def test_the_extenders_score_counts_ten_times_its_weight(
    scores: list[int], extender: dict[str, int], weight: int, chosen: str
) -> None:
    """The sum decides; among equals the earlier node."""
    assert best(["a", "b", "c"], np.array(scores, dtype=np.int64), extender, weight) == chosen
