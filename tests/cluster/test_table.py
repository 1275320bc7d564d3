"""NodeTable: nodes as rows, resources as columns, pods as claims."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from extender.cluster.claims import Claim
from extender.cluster.table import NodeTable
from extender.objects.node import Node
from extender.objects.pod import Shape
from extender.objects.podspec import Taint
from extender.objects.text import natural_key
from tests.cluster.conftest import GPU, node, table_of
from tests.examples import share

ONE_CPU = Shape((("cpu", 1000), ("pods", 1)))


def names_in_order(table: NodeTable) -> list[str]:
    """Return the names of all nodes as `order` ranks them."""
    order = table.order()
    return sorted((each.name for each in table.nodes()), key=lambda name: int(order[table.rows_of([name])[0]]))


def amount(table: NodeTable, column: str, name: str, resource: str) -> int:
    """Read one cell: `column` is allocatable, used or lasting."""
    row = table.row(name)
    assert row is not None
    return int(getattr(table, column)[table.resources.index(resource), row])


def test_row_of_a_node_never_moves() -> None:
    """A node keeps its row while others come and go and while rows and columns grow."""
    table = table_of([node("first"), node("gone"), node("last")])
    rows = table.row("first"), table.row("last")
    table.remove("gone")
    for index in range(200):
        table.upsert(node(f"new-{index}", allocatable={f"vendor-{index}.com/device": 1}))
    assert (table.row("first"), table.row("last")) == rows
    assert amount(table, "allocatable", "first", "cpu") == amount(table, "allocatable", "last", "cpu") == 64_000


def test_row_of_a_removed_node_is_recycled_clean() -> None:
    """A new node takes the row of one that went, and nothing of its capacity, claims or labels."""
    table = table_of([node("gone", gpus=8, labels={"zone": "a"})])
    table.claim("pod", "gone", Shape(((GPU, 8), ("pods", 1))), lasting=True)
    row = table.row("gone")
    table.remove("gone")
    table.upsert(node("new", cpu=1000))
    assert (table.row("new"), table.rows, len(table)) == (row, 1, 1)
    assert amount(table, "allocatable", "new", GPU) == 0
    assert not table.used.any()
    assert not table.lasting.any()
    assert table.nodes() == [node("new", cpu=1000)]


def test_removed_node_leaves_nothing_behind() -> None:
    """The row of a node that went is empty in every array, and asking for its node raises KeyError."""
    table = table_of([node("gone", gpus=8), node("here")])
    table.claim("pod", "gone", ONE_CPU, lasting=True)
    row = table.row("gone")
    assert row is not None
    assert table.remove("gone")
    assert not table.present[row]
    assert not np.stack([table.allocatable, table.used, table.lasting])[:, :, row].any()
    assert table.find("gone") is None
    assert table.row("gone") is None
    with pytest.raises(KeyError):
        table.node(row)
    assert not table.remove("gone")


def test_lookups() -> None:
    """Nodes are found by name and by row; names that no node has give None and -1."""
    table = table_of([node("a"), node("b")])
    assert table.node(1) == table.find("b") == node("b")
    assert table.find("c") is None
    assert table.rows_of(["b", "c", "a"]).tolist() == [1, -1, 0]
    assert table.rows_of([]).tolist() == []


def test_columns_appear_with_the_first_node_that_lists_them() -> None:
    """A resource gets its column from the first node that has it; no other node is given any of it."""
    table = table_of([node("plain"), node("gpu", gpus=4)])
    assert table.resources == ("cpu", "memory", "pods", "ephemeral-storage", GPU)
    assert table.extended().tolist() == [False, False, False, False, True]
    assert amount(table, "allocatable", "plain", GPU) == 0
    assert amount(table, "allocatable", "gpu", GPU) == 4


def test_column_appears_with_a_claim() -> None:
    """A claim on a resource that no node lists is counted all the same: its node is overcommitted."""
    table = table_of([node("plain")])
    table.claim("pod", "plain", Shape(((GPU, 1),)))
    assert amount(table, "used", "plain", GPU) == 1
    assert table.short_of("plain") == frozenset({GPU})


def test_resource_that_a_node_stops_listing_is_gone() -> None:
    """Allocatable is replaced as a whole: what a node does not list any more counts as zero."""
    table = table_of([node("n", gpus=8)])
    assert table.upsert(node("n"))
    assert amount(table, "allocatable", "n", GPU) == 0


def test_claim_waits_for_its_node() -> None:
    """A claim on a node that is not there counts from the moment it appears, and again when it comes back."""
    table = NodeTable()
    table.claim("early", "n", ONE_CPU)
    table.claim("daemon", "n", ONE_CPU, lasting=True)
    for _ in range(2):
        table.upsert(node("n"))
        assert amount(table, "used", "n", "cpu") == 2000
        assert amount(table, "lasting", "n", "cpu") == 1000
        table.remove("n")
    table.release("early")
    table.upsert(node("n"))
    assert amount(table, "used", "n", "cpu") == 1000


def test_claim_takes_the_place_of_the_former_one() -> None:
    """A pod has one claim: a new one replaces it on its own node and moves it between nodes."""
    table = table_of([node("a"), node("b")])
    assert table.claim("pod", "a", ONE_CPU)
    assert table.claim("pod", "a", Shape((("cpu", 3000), ("pods", 1))), lasting=True)
    assert (amount(table, "used", "a", "cpu"), amount(table, "lasting", "a", "cpu")) == (3000, 3000)
    assert table.claim("pod", "b", ONE_CPU)
    assert (amount(table, "used", "a", "cpu"), amount(table, "used", "b", "cpu")) == (0, 1000)
    assert (dict(table.claims_on("a")), list(dict(table.claims_on("b")))) == ({}, ["pod"])
    assert table.claim_of("pod") == Claim("b", ONE_CPU)
    assert not table.lasting.any()


def test_equal_claim_changes_nothing() -> None:
    """A reservation that becomes the same bound pod is one claim throughout, and no mutation."""
    table = table_of([node("n")])
    table.claim("pod", "n", ONE_CPU)
    generation = table.generation
    assert not table.claim("pod", "n", ONE_CPU)
    assert table.generation == generation
    assert amount(table, "used", "n", "cpu") == 1000


@pytest.mark.parametrize("nodes", [3, 40])
def test_claims_that_are_alike_are_made_together(nodes: int) -> None:
    """The table is as if each pod had claimed its own, wherever its node is there; other claims stay."""
    tables = []
    for together in (False, True):
        table = table_of([node(f"node-{index}", gpus=8) for index in range(nodes)])
        table.claim("other", "node-0", ONE_CPU)
        table.touched, table.claimed = {}, {}
        places = {f"node-{index}": [f"pod-{index}-{pod}" for pod in range(1 + index % 3)] for index in range(nodes + 1)}
        if together:
            table.claim_alike(ONE_CPU, places)
        for name, uids in () if together else places.items():
            for uid in uids:
                table.claim(uid, name, ONE_CPU)
        table.upsert(node(f"node-{nodes}"))  # what was claimed on it counts from now on
        tables.append(table)
    one_by_one, together_ = tables
    assert np.array_equal(one_by_one.used, together_.used)
    assert (one_by_one.touched, one_by_one.claimed) == (together_.touched, together_.claimed)
    for index in range(nodes + 1):
        claims = [list(table.claims_on(f"node-{index}")) for table in tables]
        assert claims[0] == claims[1]
    assert (together_.moved_at[: nodes + 1] > 0).all()


def test_release() -> None:
    """Releasing gives back what the pod claimed, once."""
    table = table_of([node("n")])
    table.claim("pod", "n", ONE_CPU, lasting=True)
    assert table.release("pod")
    assert not table.release("pod")
    assert table.claim_of("pod") is None
    assert not np.stack([table.used, table.lasting]).any()


def test_free_and_potential() -> None:
    """Free is what nobody claims; potential is what only lasting claims take away; both may be negative."""
    table = table_of([node("n", cpu=4000)])
    table.claim("daemon", "n", Shape((("cpu", 1000),)), lasting=True)
    table.claim("job", "n", Shape((("cpu", 4000),)))
    cpu = table.resources.index("cpu")
    assert (table.free()[cpu].tolist(), table.potential()[cpu].tolist()) == ([-1000], [3000])
    assert table.free().shape == table.potential().shape == (4, 1)


def test_a_node_is_short_while_more_is_claimed_than_it_has() -> None:
    """A node that shrinks under its pods is short of what it lost, until enough is given back; one that went never."""
    table = table_of([node("full", gpus=2), node("shrinks", gpus=2), node("gone", gpus=2)])
    for each in table.nodes():
        table.claim(f"pod-{each.name}", each.name, Shape(((GPU, 2),)))
    assert not any(table.short_of(name) for name in ("full", "shrinks", "gone"))
    table.upsert(node("shrinks", gpus=1))
    table.remove("gone")
    assert [table.short_of(name) for name in ("full", "shrinks", "gone")] == [set(), {GPU}, set()]
    table.release("pod-shrinks")
    assert table.short_of("shrinks") == frozenset()


def test_upsert_tells_whether_anything_changed() -> None:
    """An equal node is no change; a new capacity or label is one."""
    table = table_of([node("n")])
    generation = table.generation
    assert not table.upsert(node("n"))
    assert table.generation == generation
    assert table.upsert(node("n", cpu=1))
    assert table.upsert(node("n", cpu=1, labels={"zone": "a"}))
    assert table.generation == generation + 2


def test_last_change_follows_what_eligibility_reads() -> None:
    """Labels, taints and presence move `last_change`; capacity and claims do not."""
    table = table_of([node("n"), node("other")])
    seen = table.last_change
    table.upsert(node("n", cpu=1))
    table.claim("pod", "n", ONE_CPU)
    assert table.last_change == seen
    for change in (node("n", labels={"zone": "a"}), node("n", taints=(Taint("k", "v", "NoSchedule"),))):
        table.upsert(change)
        assert table.last_change == table.changed_at[0] == table.generation
    table.remove("n")
    assert table.last_change == table.changed_at[0] == table.generation
    assert table.changed_at[1] == seen


def test_order_is_the_natural_order_of_names() -> None:
    """Numbers in names compare as numbers; rows without a node rank last."""
    table = table_of(node(name) for name in ("node-10", "gone", "node-9", "edge", "node-9a"))
    table.remove("gone")
    assert names_in_order(table) == ["edge", "node-9", "node-9a", "node-10"]
    assert table.order().tolist() == [3, 5, 1, 0, 2]


@pytest.mark.parametrize("seed", range(5))
def test_order_does_not_depend_on_history(seed: int) -> None:
    """The order is the same however nodes came and went, names that differ in leading zeros included."""
    names = [f"node-{index}" for index in range(30)] + [f"node-{index:03}" for index in range(30)]
    expected = names_in_order(table_of(map(node, names)))
    shuffler = random.Random(seed)
    table = NodeTable()
    for name in shuffler.sample(names, k=len(names)):
        table.upsert(node(name))
        if shuffler.random() < 0.3:
            table.remove(name)
            table.upsert(node(name))
    assert names_in_order(table) == expected == sorted(names, key=lambda name: (natural_key(name), name))


def test_vector_translates_requests() -> None:
    """A request becomes column indices and amounts; a resource that no node ever listed makes it unknown."""
    table = table_of([node("n", gpus=8)])
    vector = table.vector((("cpu", 500), (GPU, 2)))
    assert (vector.columns.tolist(), vector.amounts.tolist(), vector.unknown) == ([0, 4], [500, 2], False)
    vector = table.vector((("amd.com/gpu", 1), ("pods", 1)))
    assert (vector.columns.tolist(), vector.amounts.tolist(), vector.unknown) == ([2], [1], True)
    assert table.vector(()).unknown is False


def test_amounts_beyond_any_node_saturate() -> None:
    """Requests and claims beyond int64 are taken for more than any node has, instead of overflowing or fitting."""
    huge = 2 * (2**63 - 1)  # two containers may ask for the largest quantity each
    table = table_of([Node("n", allocatable={"memory": 2**63 - 1, "pods": 110})])
    memory = table.resources.index("memory")
    assert table.vector((("memory", huge),)).amounts[0] > table.free()[memory, 0] > 0
    for index in range(1000):
        table.claim(f"pod-{index}", "n", Shape((("memory", huge),)), lasting=True)
    assert table.free()[memory, 0] < 0
    assert table.potential()[memory, 0] < 0
    for index in range(1000):
        table.release(f"pod-{index}")
    assert table.used[memory, 0] == table.lasting[memory, 0] == 0


NAMES = st.sampled_from(["node-1", "node-01", "node-2", "node-10", "edge"])
UIDS = st.sampled_from(["a", "b", "c", "d"])
RESOURCES = st.sampled_from(["cpu", "pods", GPU, "rdma/hca"])
AMOUNTS = st.dictionaries(RESOURCES, st.integers(0, 9), max_size=4)


class TableHistory(RuleBasedStateMachine):
    """A table under a random history, beside two dictionaries that say what it must amount to."""

    def __init__(self) -> None:
        super().__init__()
        self.table = NodeTable()
        self.nodes: dict[str, Node] = {}
        self.claims: dict[str, Claim] = {}
        self.rows: dict[str, int | None] = {}
        self.generation = 0

    def follow(self, *, changed: bool) -> None:
        """Assert that the generation grew if and only if something changed."""
        assert (self.table.generation > self.generation) == changed
        self.generation = self.table.generation

    @rule(name=NAMES, allocatable=AMOUNTS, zone=st.sampled_from("ab"))
    def upsert(self, name: str, allocatable: dict[str, int], zone: str) -> None:
        """Add or change a node."""
        new = Node(name, allocatable=allocatable, labels={"zone": zone})
        changed = self.nodes.get(name) != new
        assert self.table.upsert(new) == changed
        self.nodes[name] = new
        self.rows.setdefault(name, self.table.row(name))
        self.follow(changed=changed)

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        """Delete a node, known or not."""
        known = self.nodes.pop(name, None) is not None
        assert self.table.remove(name) == known
        self.rows.pop(name, None)
        self.follow(changed=known)

    @rule(uid=UIDS, name=NAMES, requests=AMOUNTS, lasting=st.booleans())
    def claim(self, uid: str, name: str, requests: dict[str, int], lasting: bool) -> None:
        """Make or replace a claim."""
        new = Claim(name, Shape(tuple(requests.items())), lasting)
        changed = self.claims.get(uid) != new
        assert self.table.claim(uid, new.node, new.shape, lasting=lasting) == changed
        self.claims[uid] = new
        self.follow(changed=changed)

    @rule(uid=UIDS)
    def release(self, uid: str) -> None:
        """Give up a claim, if there is one."""
        known = self.claims.pop(uid, None) is not None
        assert self.table.release(uid) == known
        self.follow(changed=known)

    @invariant()
    def cells_are_sums(self) -> None:
        """Assert that every cell is what nodes list and claims on them sum up to, and that empty rows are zero."""
        expected = np.zeros((3, len(self.table.resources), self.table.rows), dtype=np.int64)
        for index, resource in enumerate(self.table.resources):
            for name, each in self.nodes.items():
                row = self.table.row(name)
                on_node = [claim for claim in self.claims.values() if claim.node == name]
                expected[0, index, row] = each.allocatable.get(resource, 0)
                expected[1, index, row] = sum(dict(claim.shape.requests).get(resource, 0) for claim in on_node)
                expected[2, index, row] = sum(dict(c.shape.requests).get(resource, 0) for c in on_node if c.lasting)
        rows = self.table.rows
        actual = [matrix[:, :rows] for matrix in (self.table.allocatable, self.table.used, self.table.lasting)]
        assert np.array_equal(np.stack(actual), expected)

    @invariant()
    def rows_are_stable_and_distinct(self) -> None:
        """Assert that nodes have the rows they were first given, no two the same, and that the others are absent."""
        rows = {name: self.table.row(name) for name in self.nodes}
        assert rows == self.rows
        assert sorted(rows.values(), key=str) == sorted(np.flatnonzero(self.table.present).tolist(), key=str)
        assert len(self.table) == len(self.nodes)

    @invariant()
    def order_is_by_name(self) -> None:
        """Assert that the order is that of the names alone."""
        assert names_in_order(self.table) == sorted(self.nodes, key=lambda name: (natural_key(name), name))

    @invariant()
    def claimants_are_indexed(self) -> None:
        """Assert that the claimants of a node are the pods whose claim names it."""
        for name in ("node-1", "node-01", "node-2", "node-10", "edge"):
            claimants = set(dict(self.table.claims_on(name)))
            assert claimants == {uid for uid, claim in self.claims.items() if claim.node == name}


TestTableHistory = share(0.6, stateful_step_count=30)(TableHistory).TestCase


# -------------------------------------------------------------------------------------------------------------- touched


def test_nodes_are_touched_by_changes_and_by_what_is_taken_there() -> None:
    """A reader that keeps promises on nodes learns which to look at: new, changed, gone, or with more taken."""
    table = table_of([node("a"), node("b")])

    def touched() -> list[str]:
        names, table.touched = list(table.touched), {}
        return names

    assert touched() == ["a", "b"]
    table.upsert(node("a"))
    table.release("nobody")
    assert touched() == []
    table.upsert(node("a", cpu=1))
    table.claim("pod", "b", Shape((("cpu", 1),)))
    assert touched() == ["a", "b"]
    table.claim("pod", "b", Shape((("cpu", 1),)))
    table.release("pod")
    assert touched() == []
    table.remove("a")
    table.touch("b")
    assert touched() == ["a", "b"]


def test_all_nodes_are_touched_those_included_that_are_gone_and_claimed() -> None:
    """Whoever starts to keep promises looks at every node that one could be on."""
    table = table_of([node("here")])
    table.claim("pod", "gone", Shape((("cpu", 1),)))
    table.touched = {}
    table.touch_all()
    assert set(table.touched) == {"here", "gone"}


def test_a_node_has_what_is_provided_besides_what_it_lists() -> None:
    """Provided amounts are there as soon as the node is, stay when it changes, and give way to what it lists."""
    table = NodeTable()
    assert table.provide("a", {"devices": 8, "cpu": 1})
    assert not table.provide("a", {"devices": 8, "cpu": 1})
    table.upsert(node("a", gpus=0))
    assert (free_of(table, "a", "devices"), free_of(table, "a", "cpu")) == (8, 64_000)
    table.upsert(node("a", gpus=4))
    assert (free_of(table, "a", "devices"), free_of(table, "a", GPU)) == (8, 4)
    generation = table.last_node_change
    assert table.provide("a", {})
    assert table.last_node_change > generation
    assert free_of(table, "a", "devices") == 0


def free_of(table: NodeTable, name: str, resource: str) -> int:
    """Return how much of a resource is free on a node."""
    row = table.row(name)
    assert row is not None
    return int(table.free()[table.resources.index(resource), row])
