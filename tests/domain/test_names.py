"""Names sort as people count."""

from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from extender.domain.names import natural_key

NAMES = st.text(alphabet="ab019-.٣", max_size=12)


def test_numbers_in_names_count_as_numbers() -> None:
    """`worker-10` stands behind `worker-9`, numbers before letters, and a name before its extensions."""
    names = ["worker-10", "workers", "worker-a", "worker-9", "worker", "worker-01a", "worker-2", "worker-1"]
    expected = ["worker", "worker-1", "worker-01a", "worker-2", "worker-9", "worker-10", "worker-a", "workers"]
    assert sorted(names, key=natural_key) == expected


@given(numbers=st.lists(st.integers(0, 10**30), unique=True))
def test_equal_words_are_ordered_by_their_numbers(numbers: list[int]) -> None:
    """Names that differ in one number sort by its value, however long it is."""
    names = sorted((f"gpu-{number}-b" for number in numbers), key=natural_key)
    assert names == [f"gpu-{number}-b" for number in sorted(numbers)]


@given(names=st.lists(NAMES, unique=True), shuffled=st.randoms())
def test_different_names_have_different_places(names: list[str], shuffled: random.Random) -> None:
    """The order is the same whatever order the names came in, leading zeros and all."""
    before = sorted(names, key=natural_key)
    shuffled.shuffle(names)
    assert sorted(names, key=natural_key) == before
    assert all(natural_key(a) != natural_key(b) for a, b in itertools.combinations(names, 2))


@given(names=st.lists(st.text(), max_size=5))
def test_any_text_has_a_place(names: list[str]) -> None:
    """No text is too odd to be sorted, and none is lost."""
    assert len(sorted([*names, "9" * 10_000, ""], key=natural_key)) == len(names) + 2
