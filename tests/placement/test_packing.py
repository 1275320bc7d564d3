"""Packing: how many equal pods go to each node."""

from __future__ import annotations

import itertools
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.keys import Packing
from extender.placement.room import PackingShare, pack, strands
from tests.cluster.conftest import GPU, node, shape, table_of
from tests.placement.conftest import THOROUGH

COUNTS = st.lists(st.integers(0, 4), max_size=5)

#: Counts, how many pods to place, preference classes, order.
Problem: TypeAlias = tuple[list[int], int, list[int], list[int]]


@st.composite
def problems(draw: st.DrawFn, classes: int = 1) -> Problem:
    """Draw a problem that can be solved."""
    counts = draw(COUNTS)
    pods = draw(st.integers(0, sum(counts)))
    preference = [draw(st.integers(-1, classes - 2)) for _ in counts]
    return counts, pods, preference, draw(st.permutations(range(len(counts))))


def packed(
    counts: list[int], pods: int, packing: Packing, preference: list[int] | None = None, order: list[int] | None = None
) -> list[int]:
    """Return how many pods each node gets."""
    shares = [0] * len(counts)
    for share in pack(
        np.array(counts, dtype=np.int64),
        pods,
        packing,
        np.array(preference or [0] * len(counts), dtype=np.int64),
        np.array(order or range(len(counts)), dtype=np.int64),
    ):
        assert share.pods > 0
        assert shares[share.row] == 0
        shares[share.row] = share.pods
    return shares


def everything(counts: list[int], pods: int) -> list[tuple[int, ...]]:
    """Return every way to hand out `pods`."""
    ways = itertools.product(*(range(count + 1) for count in counts))
    return [way for way in ways if sum(way) == pods]


@THOROUGH
@given(problems(classes=3), st.sampled_from(Packing))
def test_shares_add_up_within_the_counts(problem: Problem, packing: Packing) -> None:
    """All pods are handed out, no node gets more than it takes, and the result is in the given order."""
    counts, pods, preference, order = problem
    arrays = [np.array(values, dtype=np.int64) for values in (counts, preference, order)]
    shares = pack(arrays[0], pods, packing, arrays[1], arrays[2])
    assert sum(share.pods for share in shares) == pods
    assert all(0 < share.pods <= counts[share.row] for share in shares)
    ranks = [order[share.row] for share in shares]
    assert ranks == sorted(set(ranks))


@THOROUGH
@given(problems())
def test_binpack_uses_the_fewest_nodes(problem: Problem) -> None:
    """Among equally preferred nodes no way to hand out the pods uses fewer nodes than binpack."""
    counts, pods, preference, order = problem
    shares = packed(counts, pods, Packing.BINPACK, preference, order)
    assert np.count_nonzero(shares) == min(np.count_nonzero(way) for way in everything(counts, pods))


@THOROUGH
@given(problems())
def test_binpack_gives_the_rest_to_the_tightest_node(problem: Problem) -> None:
    """All nodes but one are used up, and no unused node that holds the rest of the pods is tighter than that one."""
    counts, pods, preference, order = problem
    shares = packed(counts, pods, Packing.BINPACK, preference, order)
    partial = [row for row, share in enumerate(shares) if 0 < share < counts[row]]
    assert len(partial) <= 1
    for row in partial:
        unused = [i for i, share in enumerate(shares) if share == 0 and counts[i] >= shares[row]]
        assert all((counts[row], order[row]) < (counts[i], order[i]) for i in unused)


@THOROUGH
@given(problems(classes=3))
def test_binpack_uses_up_a_class_before_the_next(problem: Problem) -> None:
    """Where a node of some class is used, all more preferred nodes are used up; of its class the fewest are used."""
    counts, pods, preference, order = problem
    shares = packed(counts, pods, Packing.BINPACK, preference, order)
    worst = max((preference[row] for row, share in enumerate(shares) if share), default=-2)
    assert all(shares[row] == counts[row] for row in range(len(counts)) if preference[row] < worst)
    members = [row for row in range(len(counts)) if preference[row] == worst]
    ways = everything([counts[row] for row in members], sum(shares[row] for row in members))
    assert sum(shares[row] > 0 for row in members) == min(np.count_nonzero(way) for way in ways)


@THOROUGH
@given(problems(classes=3))
def test_spread_keeps_the_largest_share_smallest(problem: Problem) -> None:
    """No way to hand out the pods has a smaller largest share, and none that has as small a one uses more nodes."""
    counts, pods, preference, order = problem
    shares = packed(counts, pods, Packing.SPREAD, preference, order)
    ways = everything(counts, pods)
    largest = min(max(way, default=0) for way in ways)
    assert max(shares, default=0) == largest
    assert np.count_nonzero(shares) == max(np.count_nonzero(way) for way in ways if max(way, default=0) == largest)


@THOROUGH
@given(problems(classes=3))
def test_spread_prefers_among_equal_shares(problem: Problem) -> None:
    """Of the nodes that could take one more pod, those that do are the more preferred, then roomier, then earlier."""
    counts, pods, preference, order = problem
    shares = packed(counts, pods, Packing.SPREAD, preference, order)
    top = max(shares, default=0)
    keys = [(preference[row], -counts[row], order[row]) for row in range(len(counts))]
    favoured = [keys[row] for row, share in enumerate(shares) if share == top]
    passed_over = [keys[row] for row, share in enumerate(shares) if share < top and counts[row] > share]
    assert all(favourite < other for favourite in favoured for other in passed_over)


@THOROUGH
@given(problems(classes=3), st.sampled_from(Packing), st.data())
def test_result_does_not_depend_on_the_rows(problem: Problem, packing: Packing, data: st.DataObject) -> None:
    """Nodes in other rows get the same shares as long as their order is the same."""
    counts, pods, preference, order = problem
    shuffle = data.draw(st.permutations(range(len(counts))))
    moved = [[values[row] for row in shuffle] for values in (counts, preference, order)]
    shares = packed(counts, pods, packing, preference, order)
    assert packed(moved[0], pods, packing, moved[1], moved[2]) == [shares[row] for row in shuffle]


@pytest.mark.parametrize("packing", Packing)
def test_counts_without_end(packing: Packing) -> None:
    """Pods that ask for nothing fit without end anywhere; their counts neither overflow nor are they lost."""
    endless = np.iinfo(np.int64).max
    shares = packed([endless, endless, endless], 4, packing)
    assert shares == ([4, 0, 0] if packing is Packing.BINPACK else [2, 1, 1])


def test_binpack_of_one_pod_spares_the_empty_node() -> None:
    """A single pod goes where least room is left over, however much room other nodes have."""
    assert packed([8, 8, 1, 3], 1, Packing.BINPACK) == [0, 0, 1, 0]
    assert packed([8, 8, 1, 3], 2, Packing.BINPACK) == [0, 0, 0, 2]


def test_spread_of_one_pod_takes_the_emptiest_node() -> None:
    """A single pod goes where most room is, even if others have more than enough."""
    assert packed([1, 3, 8, 8], 1, Packing.SPREAD) == [0, 0, 1, 0]


@pytest.mark.parametrize("packing", Packing)
def test_nothing_to_place(packing: Packing) -> None:
    """No pods, or no nodes, make no shares."""
    assert packed([], 0, packing) == []
    assert packed([3, 0], 0, packing) == [0, 0]


def test_share_names_row_and_pods() -> None:
    """A share is a row and a number of pods, as plain integers."""
    counts, zeros, order = np.array([0, 5]), np.zeros(2, dtype=np.int64), np.array([0, 1])
    assert pack(counts, 3, Packing.BINPACK, zeros, order) == (PackingShare(1, 3),)


def test_strands_counts_unused_extended_resources() -> None:
    """A node loses as many extended resources as it has and the pod does not ask for; ordinary ones do not count."""
    kvm = {"cpu": 1000, "pods": 1, "hugepages-2Mi": 2**30, "devices.kubevirt.io/kvm": 100}
    table = table_of(
        [
            node("plain"),
            node("kvm", allocatable=kvm),
            node("gpu", gpus=8),
            node("both", allocatable=kvm | {GPU: 8}),
            node("none-left", allocatable=kvm | {GPU: 0}),
        ]
    )
    assert strands(table, table.vector(shape().requests)).tolist() == [0, 1, 1, 2, 1]
    assert strands(table, table.vector(shape(gpus=1).requests)).tolist() == [0, 1, 0, 1, 1]
