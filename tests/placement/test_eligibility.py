"""Eligibility: which nodes admit a pod, remembered between calls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from numpy.typing import NDArray

from extender.cluster.table import NodeTable
from extender.objects.meta import Requirement, Selector, SelectorTerm
from extender.objects.pod import Shape
from extender.objects.podspec import Taint, Toleration
from extender.placement.candidates import Eligibility
from tests.cluster.conftest import node, shape, table_of
from tests.examples import share
from tests.placement.conftest import DEDICATED, TOLERATES, ZONE_A, ZONE_B, admits

IN_A = Selector(terms=(SelectorTerm(labels=(Requirement("zone", "In", ("a",)),)),))
NOT_IN_A = Selector(terms=(SelectorTerm(labels=(Requirement("zone", "NotIn", ("a",)),)),))
BY_NAME = Selector(terms=(SelectorTerm(fields=(Requirement("metadata.name", "In", ("node-0",)),)),))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (shape(), [True, False, True, False]),
        (shape(tolerations=TOLERATES), [True, True, True, False]),
        (shape(selector=ZONE_A), [True, False, False, False]),
        (shape(selector=ZONE_A, tolerations=TOLERATES), [True, True, False, False]),
        (shape(selector=IN_A), [True, False, False, False]),
        (shape(selector=NOT_IN_A), [False, False, True, False]),
        (shape(selector=BY_NAME), [True, False, False, False]),
        (shape(selector=Selector(terms=())), [False, False, False, False]),
        (shape(tolerations=(Toleration("", "Exists", "", ""),)), [True, True, True, True]),
    ],
)
def test_taints_selector_and_affinity_decide(wanted: Shape, expected: list[bool]) -> None:
    """A node admits a pod that tolerates all its taints and selects its labels and its name."""
    table = table_of(
        [
            node("node-0", labels={"zone": "a"}),
            node("node-1", labels={"zone": "a"}, taints=(DEDICATED,)),
            node("node-2", labels={"zone": "b"}),
            node("node-3", labels={"zone": "b"}, taints=(DEDICATED, Taint("broken", "", "NoExecute"))),
        ]
    )
    assert Eligibility(table).mask(wanted).tolist() == expected


def test_a_node_that_is_announced_to_go_takes_no_gang() -> None:
    """Whoever tolerates every taint is kept off all the same, and let in again when the announcement is taken back."""
    tolerates_all = shape(tolerations=(Toleration("", "Exists", "", ""),))
    table = table_of([node("stays", taints=(DEDICATED,)), node("goes"), node("deleted", deleting=True)])
    eligibility = Eligibility(table)
    assert eligibility.mask(tolerates_all).tolist() == [True, True, False]
    table.upsert(node("goes", taints=(Taint("karpenter.sh/disrupted", "", "NoSchedule"),)))
    assert eligibility.mask(tolerates_all).tolist() == [True, False, False]
    table.upsert(node("goes"))
    table.upsert(node("deleted"))
    assert eligibility.mask(tolerates_all).tolist() == [True, True, True]


def test_requests_do_not_matter() -> None:
    """Shapes that differ in what they ask for alone share one mask."""
    eligibility = Eligibility(table_of([node("node-0")]))
    assert eligibility.mask(shape(gpus=1)) is eligibility.mask(shape(gpus=2))


def test_no_nodes() -> None:
    """Without nodes the mask is empty, and it grows with the table."""
    table = NodeTable()
    eligibility = Eligibility(table)
    assert eligibility.mask(shape()).tolist() == []
    table.upsert(node("node-0"))
    assert eligibility.mask(shape()).tolist() == [True]


def test_only_changed_nodes_are_judged_again() -> None:
    """While no label, taint or node changes the very same array is returned, whatever else happens."""
    table = table_of([node("node-0"), node("node-1")])
    eligibility = Eligibility(table)
    mask = eligibility.mask(shape())
    table.claim("pod", "node-0", Shape((("cpu", 1),)))
    table.upsert(node("node-1", cpu=1))
    assert eligibility.mask(shape()) is mask
    table.upsert(node("node-1", taints=(DEDICATED,)))
    assert eligibility.mask(shape()).tolist() == [True, False]


def test_mask_that_was_handed_out_stays_as_it_is() -> None:
    """A change gives a new array; whoever still works with the former one is not disturbed."""
    table = table_of([node("node-0"), node("node-1")])
    eligibility = Eligibility(table)
    mask = eligibility.mask(shape())
    table.remove("node-1")
    assert eligibility.mask(shape()).tolist() == [True, False]
    assert mask.tolist() == [True, True]


def test_sets_not_asked_for_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache keeps what was asked for last, and its answers stay right when it has to start over."""
    monkeypatch.setattr(Eligibility, "MOST_BYTES", 2400)
    table = table_of([node("node-0", labels={"zone": "a"})])
    eligibility = Eligibility(table)
    kept = eligibility.mask(shape(selector=ZONE_A))
    dropped = eligibility.mask(shape(selector=ZONE_B))
    assert eligibility.mask(shape(selector=ZONE_A)) is kept
    eligibility.mask(shape())
    assert eligibility.mask(shape(selector=ZONE_A)) is kept
    again = eligibility.mask(shape(selector=ZONE_B))
    assert again is not dropped
    assert again.tolist() == [False]


SELECTORS = st.sampled_from([Selector(), ZONE_A, ZONE_B, IN_A, NOT_IN_A, BY_NAME])
WANTED = st.builds(shape, selector=SELECTORS, tolerations=st.sampled_from([(), TOLERATES]))
NAMES = st.sampled_from([f"node-{index}" for index in range(5)])


class EligibilityHistory(RuleBasedStateMachine):
    """One cache that lives through all changes of the table, against fresh ones."""

    def __init__(self) -> None:
        super().__init__()
        self.table = NodeTable()
        self.eligibility = Eligibility(self.table)
        self.handed_out: list[tuple[NDArray[np.bool_], NDArray[np.bool_]]] = []

    @rule(name=NAMES, zone=st.sampled_from(["a", "b", ""]), tainted=st.booleans(), cpu=st.integers(1, 2))
    def upsert(self, name: str, zone: str, tainted: bool, cpu: int) -> None:
        """Add or change a node."""
        labels = {"zone": zone} if zone else {}
        self.table.upsert(node(name, cpu=cpu, labels=labels, taints=(DEDICATED,) if tainted else ()))

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        """Delete a node; its row may be given to another one."""
        self.table.remove(name)

    @rule(wanted=WANTED)
    def ask(self, wanted: Shape) -> None:
        """Assert that the cache says what a fresh computation and the nodes themselves say."""
        mask = self.eligibility.mask(wanted)
        assert mask.tolist() == Eligibility(self.table).mask(wanted).tolist()
        admitting = {each.name for each in self.table.nodes() if admits(self.table, each.name, wanted)}
        assert {self.table.node(row).name for row in np.flatnonzero(mask).tolist()} == admitting
        self.handed_out.append((mask, mask.copy()))
        assert all(np.array_equal(given, copy) for given, copy in self.handed_out)


TestEligibilityHistory = share(1, stateful_step_count=30)(EligibilityHistory).TestCase
