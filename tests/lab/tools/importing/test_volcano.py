"""Volcano's queues as Muster's."""

from __future__ import annotations

import pytest

from extender.objects.queue import QueueingStrategy, Quota, Reclaim, StopPolicy, WithinQueue
from muster_lab.tools.importing.objects import NO_NAMESPACE, ImportingError
from tests.lab.tools.importing.examples import VOLCANO, queues, specs, told, volcano

GPU = "nvidia.com/gpu"
QUEUE = "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: %s}, spec: %s}"
CLUSTER = {"cpu": 512_000, GPU: 64}


def test_what_is_imported_is_read_without_problems() -> None:
    """Each Queue is one, below `root`, which Volcano makes itself; nothing of these objects is lost."""
    imported = volcano(VOLCANO, capacity=CLUSTER)
    read = queues(imported)
    assert {name: queue.parent for name, queue in read.items()} == {
        "root": "",
        "eng": "root",
        "train": "eng",
        "notebooks": "eng",
        "default": "root",
    }
    assert all(not queue.problems for queue in read.values())
    assert told(imported) == []


def test_deserved_capability_and_guarantee_are_quota_and_limits() -> None:
    """A parent has what its children do not have, and the root what nobody deserves."""
    gpus = {name: queue.flavors[0].quotas[GPU] for name, queue in queues(volcano(VOLCANO, capacity=CLUSTER)).items()}
    assert gpus == {
        "root": Quota(64 - 32),
        "eng": Quota(32 - 24, borrowing_limit=48 - 32),
        "train": Quota(16, borrowing_limit=24 - 16, lending_limit=16 - 4),
        "notebooks": Quota(8),
        "default": Quota(0),
    }
    cpus = {
        name: queue.flavors[0].quotas["cpu"].nominal
        for name, queue in queues(volcano(VOLCANO, capacity=CLUSTER)).items()
    }
    assert cpus == {"root": 448_000, "eng": 64_000, "train": 0, "notebooks": 0, "default": 0}


def test_a_parents_guarantee_counts_what_its_children_keep() -> None:
    """Parent guarantees 10, child 4: six more stay with the parent."""
    tree = (
        QUEUE % ("p", "{deserved: {x/gpu: 20}, guarantee: {resource: {x/gpu: 10}}}"),
        QUEUE % ("c", "{parent: p, deserved: {x/gpu: 12}, guarantee: {resource: {x/gpu: 4}}}"),
    )
    read = queues(volcano(*tree, capacity={"x/gpu": 20}))
    assert read["c"].flavors[0].quotas["x/gpu"] == Quota(12, lending_limit=8)
    assert read["p"].flavors[0].quotas["x/gpu"] == Quota(8, lending_limit=(8 + 8) - 6)


def test_order_priority_and_state_are_kept() -> None:
    """Strategy, priority, a closed queue, the default queue, and who may reclaim."""
    read = queues(volcano(VOLCANO, capacity=CLUSTER))
    assert read["eng"].priority == 3
    assert read["train"].strategy is QueueingStrategy.STRICT_FIFO
    assert read["notebooks"].strategy is QueueingStrategy.BEST_EFFORT_FIFO
    assert read["default"].default
    assert read["default"].stop_policy is StopPolicy.HOLD
    preemption = read["train"].preemption
    assert (preemption.within_queue, preemption.reclaim_within_cohort) == (WithinQueue.LOWER_PRIORITY, Reclaim.ANY)


def test_only_leaves_take_gangs() -> None:
    """As in Volcano; and they take them from every namespace."""
    written = specs(volcano(VOLCANO, capacity=CLUSTER))
    closed = {name for name, spec in written.items() if spec.get("namespaceSelector") == NO_NAMESPACE}
    assert closed == {"root", "eng"}
    assert all("namespaceSelector" not in spec for name, spec in written.items() if name not in closed)


def test_without_the_clusters_capacity_the_rest_of_it_has_no_queue() -> None:
    """It is said for each resource how to change that; resources that are only capped are not limited at all."""
    imported = volcano(VOLCANO, QUEUE % ("b", "{capability: {memory: 1Gi}}"))
    assert sorted(told(imported)) == [
        (
            "Queue b: spec.capability.memory: not limited: how much there is to borrow is not known; "
            "give --capacity memory=QUANTITY"
        ),
        (
            "Queue root: spec.deserved.cpu: what no queue deserves of the cluster stays unused; "
            "give --capacity cpu=QUANTITY"
        ),
        (
            "Queue root: spec.deserved.nvidia.com/gpu: what no queue deserves of the cluster stays unused; "
            "give --capacity nvidia.com/gpu=QUANTITY"
        ),
    ]
    read = queues(imported)
    assert read["root"].flavors[0].quotas[GPU] == Quota(0)
    assert "memory" not in read["b"].flavors[0].quotas


def test_weights_share_out_the_cluster_where_no_queue_says_what_it_deserves() -> None:
    """Volcano's plugin proportion: by weight among siblings, no less than guaranteed, no more than capability."""
    imported = volcano(
        QUEUE % ("a", "{weight: 3, capability: {x/gpu: 40}}"),
        QUEUE % ("b", "{weight: 1, guarantee: {resource: {x/gpu: 20}}}"),
        QUEUE % ("a1", "{weight: 1, parent: a}"),
        QUEUE % ("a2", "{weight: 1, parent: a}"),
        capacity={"x/gpu": 64},
    )
    read = queues(imported)
    quotas = {name: queue.flavors[0].quotas["x/gpu"] for name, queue in read.items()}
    assert quotas == {
        "root": Quota(64 - 40 - 20),
        "a": Quota(0, borrowing_limit=0),
        "a1": Quota(20),
        "a2": Quota(20),
        "b": Quota(20, lending_limit=0),
    }
    assert (read["a"].weight, read["b"].weight) == (3.0, 1.0)
    assert told(imported) == [
        (
            "Queue a: spec.weight: its part of --capacity is nominal quota once and for all; "
            "Volcano keeps dividing what is not asked for"
        )
    ]


def test_weights_alone_order_the_queues() -> None:
    """Without quota there is nothing to reclaim."""
    imported = volcano(QUEUE % ("a", "{weight: 3}"), QUEUE % ("b", "{}"))
    read = queues(imported)
    assert (read["a"].weight, read["a"].flavors, read["root"].flavors) == (3.0, (), ())
    (line,) = told(imported)
    assert line.startswith("Queue a: spec.weight: orders the queues, and none reclaims")


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("{reclaimable: false, deserved: {x: 1}}", "spec.reclaimable: what it uses above its nominal quota can be"),
        ("{weight: 2, deserved: {x: 1}}", "spec.weight: left out: the capacity plugin does not look at it either"),
        ("{affinity: {nodeGroupAffinity: {}}}", "spec.affinity: gangs of a queue go to the nodes"),
        ("{dra: {capability: {gpu: {count: 1}}}}", "spec.dra: resource claims are not counted"),
        ("{extendClusters: [{name: c}]}", "spec.extendClusters: there is one cluster"),
        ("{deserved: {x: 9}}", "spec.deserved.x: queues deserve 9 of 5: quota without nodes"),
    ],
)
def test_what_has_no_equal_is_told(spec: str, line: str) -> None:
    """Object, field, and what Muster does instead."""
    (difference,) = told(volcano(QUEUE % ("a", spec), capacity={"x": 5}))
    assert difference.split(": ", 1)[1].startswith(line)


def test_labels_for_people_are_not_told_and_annotations_are() -> None:
    """`type` means nothing to Volcano either; the older annotations of hierarchies do."""
    one = (
        "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, spec: {type: gpu, reclaimable: true}, "
        "metadata: {name: a, annotations: {volcano.sh/hierarchy: root/a}}}"
    )
    assert told(volcano(one)) == [
        "Queue a: metadata.annotations.volcano.sh/hierarchy: left out: the tree is what spec.parent says"
    ]
    assert told(volcano(VOLCANO, "{kind: Job, metadata: {name: j}}", capacity=CLUSTER)) == ["Job j: not imported"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["{kind: Queue, metadata: {name: a}}"], "no Queue of Volcano's in these files"),
        ([QUEUE % ("a", "{parent: b}")], "Queue a: spec.parent: there is no Queue b in these files"),
        ([QUEUE % ("a", "{parent: b}"), QUEUE % ("b", "{parent: a}")], "Queue a: spec.parent: its parents are a cycle"),
        ([QUEUE % ("a", "{deserved: {cpu: many}}")], "Queue a: spec.deserved.cpu: 'many' is not a quantity"),
        ([QUEUE % ("a", "{guarantee: {resource: {x: -1}}}")], "Queue a: spec.guarantee.resource.x: '-1' is negative"),
        ([QUEUE % ("a", "{dequeueStrategy: lifo}")], "Queue a: spec.dequeueStrategy: 'lifo' is neither fifo nor"),
        ([QUEUE % ("a", "{weight: heavy}")], "Queue a: Expected `int | null`, got `str` - at `spec.weight`"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(texts: list[str], message: str) -> None:
    """Object and field are named."""
    with pytest.raises(ImportingError) as refused:
        volcano(*texts)
    assert str(refused.value).startswith(message)
