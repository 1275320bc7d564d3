"""Who holds which GPU of a node."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from extender.explain.drawing.tree import DrawnHolding, PictureNode, cells


def test_known_gpus_are_where_they_are_and_others_fill_up_from_the_left() -> None:
    """Which GPUs a pod holds is shown where it is known."""
    assert cells(8, [DrawnHolding("a", 2), DrawnHolding("b", 2, (0, 5)), DrawnHolding("c", 1)]) == (
        "b",
        "a",
        "a",
        "c",
        "",
        "b",
        "",
        "",
    )


def test_claims_that_contradict_each_other_are_shown_as_far_as_there_is_room() -> None:
    """Two pods on one GPU, an index that the node does not have, and more than there is: nothing fails."""
    assert cells(2, [DrawnHolding("a", 1, (0,)), DrawnHolding("b", 1, (0,))]) == ("a", "b")
    assert cells(2, [DrawnHolding("a", 1, (7,)), DrawnHolding("b", 1, (-1,))]) == ("a", "b")
    assert cells(2, [DrawnHolding("a", 5)]) == ("a", "a")
    assert cells(0, [DrawnHolding("a", 1)]) == ()


def test_a_node_counts_what_is_held() -> None:
    """Free GPUs belong to nobody."""
    node = PictureNode("n", (), ("a", "", "a", "b"))
    assert (node.used, node.held_by("a"), node.held_by("c")) == (3, 2, 0)


@given(
    st.integers(0, 16),
    st.lists(
        st.builds(
            DrawnHolding,
            st.sampled_from("abc"),
            st.integers(0, 9),
            st.lists(st.integers(-1, 17), max_size=4).map(tuple),
        ),
        max_size=5,
    ),
)
def test_everybody_is_shown_with_what_they_hold_as_long_as_there_is_room(
    gpus: int, holdings: list[DrawnHolding]
) -> None:
    """No GPU is shown twice, none is lost while one is free."""
    row = cells(gpus, holdings)
    wanted = Counter[str]()
    for holding in holdings:
        wanted[holding.gang] += holding.gpus
    assert len(row) == gpus
    shown = Counter(holder for holder in row if holder)
    assert all(shown[gang] <= count for gang, count in wanted.items())
    assert shown.total() == min(gpus, wanted.total())
