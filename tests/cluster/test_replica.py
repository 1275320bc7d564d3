"""Copies of the node table."""

from __future__ import annotations

import numpy as np
import pytest

from extender.cluster.table import NodeTable
from extender.cluster.whatif import Replica
from extender.objects.holdings import DeviceHolding
from tests.builders import GPU, node, shape
from tests.cluster.conftest import up_to_date


@pytest.fixture
def table() -> NodeTable:
    """Return a table of two nodes, with two claims on the first and one on a node that is not there."""
    table = NodeTable()
    table.upsert(node("a"))
    table.upsert(node("b"))
    table.claim("one", "a", shape(2))
    table.claim("two", "a", shape(1), observed=DeviceHolding((7,)))
    table.claim("three", "gone", shape(1))
    return table


def claims(table: NodeTable, name: str) -> dict[str, int]:
    """Return UID -> GPUs of the claims on a node."""
    return {uid: claim.shape.request(GPU) for uid, claim in table.claims_on(name)}


def test_a_replica_has_what_the_table_had(table: NodeTable) -> None:
    """Nodes, what is free of them, and who claims it."""
    replica = Replica(table)
    assert replica.nodes() == table.nodes()
    assert np.array_equal(replica.free(), table.free())
    assert claims(replica, "a") == {"one": 2, "two": 1}
    assert replica.claim_of("three") == table.claim_of("three")
    assert set(dict(replica.claims_on("a"))) == {"one", "two"}
    assert replica.claim_of("nobody") is None
    held = up_to_date(replica).held("two")
    assert held is not None
    assert held.gpus == (7,)


def test_what_happens_to_the_table_does_not_happen_to_the_replica(table: NodeTable) -> None:
    """Its nodes and what is free stay; claims that nobody asked for in time are gone."""
    replica = Replica(table)
    before = replica.free().copy()
    claims(replica, "a")
    table.release("one")
    table.claim("four", "b", shape(8))
    table.remove("b")
    table.upsert(node("c"))
    assert np.array_equal(replica.free(), before)
    assert [each.name for each in replica.nodes()] == ["a", "b"]
    assert claims(replica, "a") == {"one": 2, "two": 1}


def test_what_happens_to_the_replica_does_not_happen_to_the_table(table: NodeTable) -> None:
    """Claims, releases and nodes are its own."""
    replica = Replica(table)
    assert replica.claim("new", "a", shape(4))
    assert replica.release("one")
    assert not replica.release("one")
    assert replica.claim("two", "b", shape(1))
    replica.upsert(node("c"))
    assert claims(replica, "a") == {"new": 4}
    assert claims(replica, "b") == {"two": 1}
    assert replica.claim_of("one") is None
    assert replica.free()[:, 0].tolist() == (replica.allocatable[:, 0] - replica.used[:, 0]).tolist()
    assert claims(table, "a") == {"one": 2, "two": 1}
    assert [each.name for each in table.nodes()] == ["a", "b"]
    row = table.row("a")
    assert row is not None
    assert table.used[:, row].tolist() != replica.used[:, row].tolist()


def test_a_claim_that_stands_is_not_counted_twice(table: NodeTable) -> None:
    """The same as in the table changes nothing; another takes its place."""
    replica = Replica(table)
    assert not replica.claim("one", "a", shape(2))
    assert replica.claim("one", "a", shape(3))
    assert claims(replica, "a") == {"two": 1, "one": 3}
    assert replica.used[:, 0].sum() - table.used[:, 0].sum() == 1


def test_a_replica_of_a_replica_has_its_changes(table: NodeTable) -> None:
    """And neither has what happens to the other afterwards."""
    first = Replica(table)
    first.release("one")
    first.claim("new", "b", shape(8))
    second = Replica(first)
    second.release("new")
    first.release("two")
    assert claims(second, "a") == {"two": 1}
    assert claims(second, "b") == {}
    assert claims(first, "b") == {"new": 8}
