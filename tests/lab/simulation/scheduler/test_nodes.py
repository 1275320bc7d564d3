"""What the scheduler knows of nodes."""

from __future__ import annotations

import numpy as np

from muster_lab.simulation.scheduler.nodes import NodeCache, scored_request
from tests.builders import GPU, node, pod

MI200 = 200 * 1024 * 1024


def test_pods_count_on_their_node_until_they_go() -> None:
    """A node's requests are the sum over its pods, those of the newest version."""
    cache = NodeCache()
    cache.put_node(node("n"))
    cache.put_pod(pod("a", gpus=2, node="n"))
    cache.put_pod(pod("a", gpus=3, node="n"))
    cache.put_pod(pod("b", gpus=1, node="n"))
    info = cache.find("n")
    assert info is not None
    assert info.requested[GPU] == 4
    assert cache.columns().requested[GPU].tolist() == [4]
    cache.drop_pod("uid-a")
    cache.drop_pod("uid-a")
    assert cache.columns().requested[GPU].tolist() == [1]


def test_a_pod_may_be_heard_of_before_its_node() -> None:
    """Pods of a node that is not there, yet or any more, count as soon as it is."""
    cache = NodeCache()
    cache.put_pod(pod("a", gpus=2, node="n"))
    cache.put_pod(pod("b", gpus=1, node="n"))
    cache.drop_pod("uid-b")
    assert cache.columns().names == []
    assert cache.put_node(node("n")) is None
    assert cache.columns().requested[GPU].tolist() == [2]
    cache.drop_node("n")
    cache.drop_node("n")
    assert len(cache) == 0
    cache.put_node(node("n"))
    assert cache.columns().requested[GPU].tolist() == [2]


def test_an_assumed_pod_counts_until_it_is_forgotten_or_for_good_once_confirmed() -> None:
    """Assumption and confirmation count once; what is confirmed is not forgotten as an assumption."""
    cache = NodeCache()
    cache.put_node(node("n"))
    cache.assume(pod("a", gpus=2, node="n"))
    assert cache.assumes("uid-a")
    cache.forget("uid-a")
    assert cache.columns().requested[GPU].tolist() == [0]
    cache.assume(pod("a", gpus=2, node="n"))
    cache.put_pod(pod("a", gpus=2, node="n"))
    assert not cache.assumes("uid-a")
    cache.forget("uid-a")
    assert cache.columns().requested[GPU].tolist() == [2]


def test_columns_follow_nodes_in_the_order_of_their_appearance() -> None:
    """A node keeps its place; resources that few nodes have are zero on the others."""
    cache = NodeCache()
    cache.put_node(node("b", gpus=0))
    cache.put_node(node("a", gpus=4))
    columns = cache.columns()
    assert columns.names == ["b", "a"]
    assert columns.allocatable[GPU].tolist() == [0, 4]
    assert columns.of(columns.allocatable, "amd.com/gpu").tolist() == [0, 0]
    before = cache.put_node(node("b", gpus=2))
    assert before == node("b", gpus=0)
    assert cache.columns().allocatable[GPU].tolist() == [2, 4]


def test_versions_tell_what_changed() -> None:
    """The version grows with the nodes alone, the revision with their pods too; nothing grows when nothing changed."""
    cache = NodeCache()
    cache.put_node(node("n"))
    first = cache.columns()
    version, revision = first.version, first.revision
    cache.put_node(node("n"))
    assert (cache.columns().version, cache.columns().revision) == (version, revision)
    cache.put_pod(pod("a", node="n"))
    assert cache.columns().version == version
    assert cache.columns().revision > revision
    cache.put_node(node("n", zone="a"))
    assert cache.columns().version > version


def test_the_lowest_priority_on_a_node_is_known() -> None:
    """It tells where preemption is worth trying; a node without pods has none."""
    cache = NodeCache()
    cache.put_node(node("n"))
    cache.put_node(node("empty"))
    for name, priority in (("a", 5), ("b", -3)):
        cache.put_pod(pod(name, node="n", priority=priority))
    assert cache.columns().lowest_priority.tolist() == [-3, np.iinfo(np.int64).max]


def test_pods_that_ask_for_nothing_count_for_something_in_scores() -> None:
    """CPU and memory have a floor per pod, as in kube-scheduler's scores."""
    assert scored_request(pod("a")) == {"cpu": 1000, "memory": MI200}
    cache = NodeCache()
    cache.put_node(node("n"))
    cache.put_pod(pod("a", node="n"))
    assert cache.columns().scored["memory"].tolist() == [MI200]


def test_a_trial_does_not_touch_the_original() -> None:
    """A copy can be filled and emptied; fitting is per resource."""
    cache = NodeCache()
    cache.put_node(node("n"))
    cache.put_pod(pod("a", gpus=8, node="n"))
    info = cache.find("n")
    assert info is not None
    trial = info.copy()
    assert not trial.fits(pod("b", gpus=1))
    assert trial.fits(pod("b"))
    trial.remove("uid-a")
    assert trial.fits(pod("b", gpus=8))
    assert info.requested[GPU] == 8
