"""Node codes: why each node admits a shape or does not, and how flavors, kubelets and kube-scheduler narrow that."""

from __future__ import annotations

import numpy as np
import pytest

from extender.cluster.table import NodeTable
from extender.cluster.whatif import Replica
from extender.objects.meta import Requirement, Selector, SelectorTerm
from extender.objects.pod import Shape
from extender.objects.podspec import Taint
from extender.placement.candidates import Eligibility, NodeCode, NodeFilter, causes
from tests.cluster.conftest import node, shape, table_of
from tests.placement.conftest import DEDICATED, TOLERATES, ZONE_A

SPOT = (("kind", "spot"),)
CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


@pytest.fixture
def table() -> NodeTable:
    """Return one node of each kind: two that admit, one cordoned, one tainted, one elsewhere, one announced to go."""
    return table_of(
        [
            node("spot", labels={"zone": "a", "kind": "spot"}),
            node("own", labels={"zone": "a", "kind": "own"}),
            node("cordoned", labels={"zone": "a"}, taints=(CORDONED, DEDICATED)),
            node("tainted", labels={"zone": "b"}, taints=(DEDICATED,)),
            node("elsewhere", labels={"zone": "b"}),
            node("goes", labels={"zone": "a"}, taints=(Taint("karpenter.sh/disrupted", "", "NoSchedule"),)),
        ]
    )


def coded(codes: np.ndarray[tuple[int], np.dtype[np.int8]]) -> list[NodeCode]:
    """Return codes by name."""
    return [NodeCode(code) for code in codes.tolist()]


def test_each_node_has_the_first_cause_that_keeps_a_shape_off(table: NodeTable) -> None:
    """State goes before taints, taints before labels; the mask is where nothing does."""
    eligibility = Eligibility(table)
    assert coded(eligibility.codes(shape(selector=ZONE_A))) == [
        *(NodeCode.ADMITTED, NodeCode.ADMITTED, NodeCode.UNSCHEDULABLE),
        *(NodeCode.TAINTED, NodeCode.MISMATCHED, NodeCode.UNSCHEDULABLE),
    ]
    assert eligibility.mask(shape(selector=ZONE_A)).tolist() == [True, True, False, False, False, False]
    assert coded(eligibility.codes(shape(selector=ZONE_A, tolerations=TOLERATES)))[3] is NodeCode.MISMATCHED


def test_a_row_without_node_is_absent(table: NodeTable) -> None:
    """And is so from the moment that its node is gone."""
    eligibility = Eligibility(table)
    eligibility.codes(shape())
    table.remove("own")
    assert coded(eligibility.codes(shape()))[1] is NodeCode.ABSENT


@pytest.mark.parametrize(
    ("name", "wanted", "words"),
    [
        ("spot", shape(), ""),
        ("cordoned", shape(), "cordoned"),
        ("goes", shape(), "Karpenter removes it (taint karpenter.sh/disrupted)"),
        ("tainted", shape(), f"taint {DEDICATED.key}={DEDICATED.value}:{DEDICATED.effect}"),
        ("elsewhere", shape(selector=ZONE_A), "not zone=a"),
        (
            "elsewhere",
            shape(selector=Selector(terms=(SelectorTerm(labels=(Requirement("zone", "In", ("a", "c")),)),))),
            "not zone In a, c",
        ),
        ("elsewhere", shape(selector=Selector(terms=())), "the node affinity matches no node"),
        (
            "elsewhere",
            shape(selector=Selector(terms=(SelectorTerm(fields=(Requirement("metadata.name", "In", ("own",)),)),))),
            "not one of the nodes named in the node affinity",
        ),
    ],
)
def test_the_cause_in_words(table: NodeTable, name: str, wanted: Shape, words: str) -> None:
    """What an explanation counts is said of the node by what it was judged by."""
    found = table.find(name)
    assert found is not None
    assert causes([found, found], wanted) == ({words: 2} if words else {})
    row = table.rows_of([name])[0]
    assert (Eligibility(table).codes(wanted)[row] == NodeCode.ADMITTED) is not bool(words)


def test_a_flavor_narrows_to_the_nodes_with_all_its_labels(table: NodeTable) -> None:
    """Nodes that nothing else keeps off get the code of another flavor; a taint does not matter for the labels."""
    eligibility = Eligibility(table)
    assert eligibility.labelled(SPOT).tolist() == [True, False, False, False, False, False]
    assert eligibility.labelled((*SPOT, ("zone", "b"))).any() == np.False_
    assert eligibility.labelled(()).tolist() == [True, True, True, True, True, False]
    narrowed = NodeFilter.of(eligibility).within(eligibility.labelled(SPOT))
    assert narrowed(shape(selector=ZONE_A)).tolist() == [True, False, False, False, False, False]
    assert coded(narrowed.codes(shape(selector=ZONE_A)))[1:5] == [
        *(NodeCode.OTHER_FLAVOR, NodeCode.UNSCHEDULABLE, NodeCode.TAINTED, NodeCode.MISMATCHED)
    ]


def test_of_two_causes_the_first_in_order_counts(table: NodeTable) -> None:
    """Whether kube-scheduler's refusal is taken in before the kubelet's rejection or after it."""
    every = NodeFilter.of(Eligibility(table))
    refused = every.without(NodeCode.REFUSED, lambda _: [0]).without(NodeCode.REJECTED, lambda _: [0, 1, 2])
    rejected = every.without(NodeCode.REJECTED, lambda _: [0, 1, 2]).without(NodeCode.REFUSED, lambda _: [0])
    for narrowed in (refused, rejected):
        assert coded(narrowed.codes(shape()))[:3] == [NodeCode.REFUSED, NodeCode.REJECTED, NodeCode.UNSCHEDULABLE]
        assert narrowed(shape()).tolist() == [False, False, False, False, True, False]


def test_only_the_shape_that_was_rejected_is_kept_off(table: NodeTable) -> None:
    """A filter that leaves nothing out for a shape answers as the one that it narrows."""
    every = NodeFilter.of(Eligibility(table))
    narrowed = every.without(NodeCode.REJECTED, lambda wanted: [0] if wanted == shape(gpus=8) else [])
    assert not narrowed(shape(gpus=8))[0]
    assert narrowed(shape(gpus=1)) is every(shape(gpus=1))


def test_a_copy_goes_on_by_itself(table: NodeTable) -> None:
    """What was known is taken over; nodes that are added to the copy of the table are evaluated there alone."""
    eligibility = Eligibility(table)
    known = eligibility.codes(shape())
    replica = Replica(table)
    copy = eligibility.on(replica)
    assert copy.codes(shape()) is known
    replica.upsert(node("new"))
    table.upsert(node("spot", taints=(DEDICATED,)))
    assert coded(copy.codes(shape())) == [*coded(known), NodeCode.ADMITTED]
    assert coded(eligibility.codes(shape()))[0] is NodeCode.TAINTED
