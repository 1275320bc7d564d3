"""Nodes whose kubelet rejected a pod: how long they are left out, and for which pods."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.clock import ManualClock
from extender.cluster.table import NodeTable
from extender.ledger.rejections import LONGEST_SECONDS, MEMORY_SECONDS, Rejections
from extender.objects.podspec import Toleration
from tests.builders import node, shape

FIRST = 30.0
WHOLE = shape(8)


class Memory(Rejections):
    """A memory with its clock."""

    def __init__(self) -> None:
        """Leave nodes out for half a minute at first."""
        self.clock = ManualClock()
        super().__init__(FIRST, self.clock.monotonic)

    def later(self, seconds: float) -> list[str]:
        """Let time pass; return the nodes that are tried again."""
        self.clock.advance(seconds)
        return self.ended(self.clock.monotonic())


@pytest.fixture
def memory() -> Memory:
    """Return an empty memory."""
    return Memory()


def test_a_node_is_left_out_for_a_while(memory: Memory) -> None:
    """The kubelet's refusal holds until its time is over, and then until that is reported, once."""
    assert memory.add(WHOLE, "a") == FIRST
    assert memory.nodes(WHOLE) == ["a"]
    assert memory.next_end() == FIRST
    assert memory.later(FIRST - 1) == []
    memory.clock.advance(1)
    assert memory.nodes(WHOLE) == ["a"]
    assert memory.later(0) == ["a"]
    assert memory.nodes(WHOLE) == []
    assert memory.next_end() is None
    assert memory.later(FIRST) == []


def test_it_counts_for_whatever_asks_for_the_same(memory: Memory) -> None:
    """Where else a pod may go, and what it tolerates, is nothing to the kubelet; what it asks for is."""
    memory.add(WHOLE, "a")
    tolerant = replace(WHOLE, tolerations=(Toleration("k", "Exists", "", ""),))
    assert memory.nodes(tolerant) == ["a"]
    assert memory.nodes(shape(4)) == []


def test_repetition_doubles_the_time(memory: Memory) -> None:
    """A controller that makes its pod anew has it fail there ever more seldom, five minutes apart in the end."""
    pauses = []
    for _ in range(40):
        pause = memory.add(WHOLE, "a")
        assert pause is not None
        pauses.append(pause)
        assert memory.later(pause) == ["a"]
    assert pauses[:5] == [30.0, 60.0, 120.0, 240.0, LONGEST_SECONDS]
    assert set(pauses[5:]) == {LONGEST_SECONDS}


def test_pods_that_were_on_their_way_count_as_one(memory: Memory) -> None:
    """Eight members rejected together are one refusal, told once; the last of them counts for the time."""
    assert memory.add(WHOLE, "a") == FIRST
    memory.clock.advance(10)
    assert [memory.add(WHOLE, "a") for _ in range(7)] == [None] * 7
    assert memory.later(FIRST - 10) == []
    assert memory.later(10) == ["a"]
    assert memory.add(WHOLE, "a") == 2 * FIRST


def test_repetitions_are_forgotten_after_a_quiet_time(memory: Memory) -> None:
    """A node that has not refused anybody for long begins anew."""
    memory.add(WHOLE, "a")
    memory.later(FIRST + MEMORY_SECONDS - 1)
    assert memory.add(WHOLE, "a") == 2 * FIRST
    memory.later(2 * FIRST + MEMORY_SECONDS)
    assert memory.add(WHOLE, "a") == FIRST


def test_a_node_on_which_something_ended_is_tried_again_sooner(memory: Memory) -> None:
    """The kubelet may think otherwise then; but no sooner than the first time after its last refusal."""
    for pause in (30.0, 60.0, 120.0):
        memory.later(pause if memory.add(WHOLE, "a") == pause else -1)
    assert memory.add(WHOLE, "a") == 240.0
    memory.clock.advance(10)
    memory.eased("a")
    assert memory.later(19) == []
    assert memory.later(1) == ["a"]
    assert memory.add(WHOLE, "a") == LONGEST_SECONDS


def test_a_change_late_in_the_time_ends_it_at_once(memory: Memory) -> None:
    """Then the first time has passed already; what ends on other nodes changes nothing."""
    memory.add(WHOLE, "a")
    memory.later(FIRST)
    memory.add(WHOLE, "a")
    memory.clock.advance(45)
    memory.eased("b")
    assert memory.later(0) == []
    memory.eased("a")
    assert memory.later(0) == ["a"]
    memory.eased("a")
    assert memory.later(0) == []


def test_a_node_that_is_gone_is_forgotten(memory: Memory) -> None:
    """A node that comes back under its name may be another machine."""
    memory.add(WHOLE, "a")
    memory.add(shape(4), "a")
    memory.forget_node("a")
    memory.forget_node("b")
    assert len(memory) == 0
    assert memory.next_end() is None
    assert memory.add(WHOLE, "a") == FIRST


def test_of_too_many_the_oldest_are_dropped(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory is bounded."""
    monkeypatch.setattr(Rejections, "CAPACITY", 2)
    for name in "abc":
        memory.add(WHOLE, name)
    assert memory.nodes(WHOLE) == ["b", "c"]
    memory.add(shape(4), "c")
    assert (memory.nodes(WHOLE), memory.nodes(shape(4))) == (["c"], ["c"])


def test_nodes_are_left_out_of_what_is_admitted(memory: Memory) -> None:
    """Rows are of nodes that are there, for what was asked for alone; without any rejection nothing is asked."""
    table = NodeTable()
    for name in "abc":
        table.upsert(node(name))
    assert memory.rejected(table) is None
    memory.add(WHOLE, "b")
    memory.add(WHOLE, "gone")
    rejected = memory.rejected(table)
    assert rejected is not None
    assert rejected(WHOLE) == [1]
    assert rejected(shape(4)) == []
