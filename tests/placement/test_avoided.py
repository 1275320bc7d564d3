"""Nodes that are used last: with taints PreferNoSchedule, and such as preferred node affinity does not name."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from extender.cluster.table import NodeTable
from extender.cluster.whatif import WhatIf
from extender.objects.meta import (
    Affinity,
    NodeAffinity,
    NodeSelectorTerm,
    PreferredTerm,
    RequirementObject,
    Selector,
    read_selector,
)
from extender.objects.node import Node
from extender.objects.podspec import Taint, Toleration
from extender.placement.candidates import Eligibility, PlacementTerms
from extender.placement.plan import Plan, plan
from tests.cluster.conftest import node, pod, shape, table_of
from tests.placement.conftest import ground_of
from tests.placement.exhaustive import TooManyWaysError, drawn

ANY = Selector()
FLAKY = Taint("flaky", "yes", "PreferNoSchedule")
TOLERATES = (Toleration("flaky", "Exists", "", ""),)
PREFERS = Affinity(
    NodeAffinity(
        preferred_during_scheduling_ignored_during_execution=[
            PreferredTerm(NodeSelectorTerm([RequirementObject("pool", "In", ["good"])]))
        ]
    )
)


def nodes_used(
    table: NodeTable, gpus: int, pods: int, selector: Selector = ANY, tolerations: tuple[Toleration, ...] = ()
) -> set[str]:
    """Return the nodes of a gang of equal pods."""
    members = [pod(f"p{index}", shape=shape(gpus, selector=selector, tolerations=tolerations)) for index in range(pods)]
    where = replace(ground_of(table), avoided=Eligibility(table).avoided)
    found = plan(members, WhatIf(table), where, PlacementTerms())
    assert isinstance(found, Plan)
    return set(found.nodes.values())


def flaky(name: str, gpus: int) -> Node:
    """Return a node with the taint."""
    return replace(node(name, gpus, cpu=64_000), soft_taints=(FLAKY,))


@pytest.mark.parametrize("gpus", [0, 4, 8])
def test_tainted_nodes_are_used_last(gpus: int) -> None:
    """A pod and a gang go to others, though tainted ones come first by name; not if they are tolerated."""
    table = table_of(
        [*(flaky(f"a-{index}", 8) for index in range(2)), *(node(f"b-{i}", 8, cpu=64_000) for i in range(2))]
    )
    assert nodes_used(table, gpus, 1) <= {"b-0", "b-1"}
    assert nodes_used(table, gpus, 2) <= {"b-0", "b-1"}
    assert nodes_used(table, gpus, 1, tolerations=TOLERATES) == {"a-0"}


def test_few_of_them_are_used_where_some_are_needed() -> None:
    """Three nodes with two that are not tainted take one that is."""
    table = table_of([*(flaky(f"a-{index}", 8) for index in range(3)), *(node(f"b-{index}", 8) for index in range(2))])
    assert nodes_used(table, 8, 3) == {"a-0", "b-0", "b-1"}


def test_preferred_nodes_are_used_first() -> None:
    """A gang goes to nodes that its preferred node affinity names, and beyond them where they are too few."""
    table = table_of([node("a", 8, labels={"pool": "poor"}), node("b", 8, labels={"pool": "good"}), node("c", 8)])
    selector = read_selector(None, PREFERS)
    assert nodes_used(table, 8, 1, selector) == {"b"}
    assert nodes_used(table, 8, 2, selector) == {"a", "b"}


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_none_is_used_without_need(first: int) -> None:
    """On small random clusters no tainted node is used where a placement without them exists."""
    needless = 0
    for seed in range(first, first + 100):
        question, random = drawn(seed), Random(seed)
        names = [each.name for each in question.table.nodes()]
        last = {name for name in names if random.random() < 0.3}
        shapes = {each.shape for each in question.pods}
        spared = question.vetoes | {(name, each) for name in last for each in shapes}
        try:
            exists = replace(question, vetoes=frozenset(spared)).exists()
        except TooManyWaysError:
            continue
        for name in last:
            found = question.table.find(name)
            assert found is not None
            question.table.upsert(replace(found, soft_taints=(FLAKY,)))
        avoided = Eligibility(question.table).avoided
        plan_of = plan(
            question.pods, WhatIf(question.table), replace(question.candidates, avoided=avoided), question.terms
        )
        if exists:
            assert isinstance(plan_of, Plan)
            assert not last.intersection(plan_of.nodes.values()), seed
        needless += exists and bool(last)
    assert needless > 10
