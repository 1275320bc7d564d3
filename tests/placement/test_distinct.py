"""Nodes of one kind are found in one go, whether their numbers lie close together or not."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.whatif import distinct


@given(st.lists(st.one_of(st.integers(0, 9), st.integers(10**9, 10**9 + 5)), max_size=40))
def test_distinct_values_are_those_that_sorting_finds(values: list[int]) -> None:
    """Each value once, ascending, and where each one of all stands among them."""
    array = np.array(values, dtype=np.int64)
    found, inverse = distinct(array)
    assert found.tolist() == sorted(set(values))
    assert found[inverse].tolist() == values
