"""Lists of nodes as runs of numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.journal.entries import NameListError, NamePacker, NameUnpacker

NODES = [f"node-{number}" for number in range(100)]


@given(st.lists(st.lists(st.sampled_from(NODES), max_size=60), max_size=8))
def test_lists_come_back_as_they_were(lists: list[list[str]]) -> None:
    """Whatever is listed, in whatever order and however often: one packer's lists are read by one unpacker."""
    packer, unpacker = NamePacker(), NameUnpacker()
    assert [unpacker.unpack(packer.pack(names)) for names in lists] == lists


def test_what_was_offered_before_costs_next_to_nothing() -> None:
    """kube-scheduler begins at another node each time: two runs, whatever their length."""
    packer = NamePacker()
    packer.pack(NODES)
    assert packer.pack([*NODES[40:], *NODES[:40]]) == {"new": [], "runs": [40, 60, 0, 40]}


@pytest.mark.parametrize("runs", [[0, 1], [-1, 1], [0, 0]])
def test_numbers_that_nobody_has_are_refused(runs: list[int]) -> None:
    """A list that names nothing is an error, never another list."""
    with pytest.raises(NameListError):
        NameUnpacker().unpack({"new": [], "runs": runs})
