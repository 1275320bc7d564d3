"""Capacity views: what is free, followed as pods come and go."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.table import NodeTable
from extender.cluster.tree import build
from extender.objects.levels import Levels
from extender.objects.pod import Shape
from extender.placement.candidates import Eligibility
from extender.placement.capacityview import Capacity, CapacityViews
from tests.cluster.conftest import node, shape, table_of
from tests.placement.conftest import SHAPES, THOROUGH, tables


def views_of(table: NodeTable) -> CapacityViews:
    """Return the views of a table that has no levels."""
    return CapacityViews(table, build(table, Levels()), Eligibility(table))


@THOROUGH
@given(tables(), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), SHAPES, st.booleans()), max_size=12))
def test_a_view_follows_claims(table: NodeTable, changes: list[tuple[int, int, Shape, bool]]) -> None:
    """Whatever has been claimed and given back, a view that was made before says what a new one does."""
    views = views_of(table)
    kept = np.zeros((len(table.resources), table.rows), dtype=np.int64)
    kept[table.resources.index("cpu")] = 1000
    names = [each.name for each in table.nodes()]
    for uid, at, wanted, claims in changes:
        if claims:
            table.claim(f"pod-{uid}", names[at % len(names)], wanted)
        else:
            table.release(f"pod-{uid}")
        for kept_now in ((), (kept,)):
            view, fresh = views.view((), kept_now), views_of(table).view((), kept_now)
            for capacity in Capacity:
                assert view.room(capacity, wanted, view.admitted) == fresh.room(capacity, wanted, fresh.admitted)
                assert np.array_equal(view.snapshot(capacity).free, fresh.snapshot(capacity).free)
                assert np.array_equal(view.snapshot(capacity).states, fresh.snapshot(capacity).states)
            assert view.totals() == fresh.totals()


def test_a_view_is_kept_while_nodes_stay_as_they_are() -> None:
    """Claims move it; a node that changes, or a resource that no node had until now, makes it anew."""
    table = table_of([node("a", gpus=8), node("b", gpus=8)])
    views = views_of(table)
    view = views.view()
    assert view.room(Capacity.FREE, shape(gpus=8), view.admitted) == 2
    table.claim("pod", "a", shape(gpus=1))
    assert views.view() is view
    assert view.room(Capacity.FREE, shape(gpus=8), view.admitted) == 1
    table.upsert(node("a", gpus=4))
    assert views.view() is not view


def test_few_views_are_kept() -> None:
    """What is kept for others changes from gang to gang; views of what was kept before do not pile up."""
    table = table_of([node("a", gpus=8)])
    views = views_of(table)
    first = views.view()
    for _ in range(20):
        views.view((), (np.zeros((len(table.resources), table.rows), dtype=np.int64),))
    assert views.view() is not first
