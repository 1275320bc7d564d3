"""Default queues and namespaces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.meta import LabelSelector, Requirement
from extender.queues.defaults import overlap
from extender.queues.tree import QueueTree
from tests.queues.builders import queue


def selector(**labels: str) -> LabelSelector:
    """Build a selector of equal labels."""
    return LabelSelector(tuple(Requirement(key, "In", (value,)) for key, value in labels.items()))


def test_a_queue_admits_the_namespaces_that_it_selects() -> None:
    """Without a selector it admits all of them."""
    tree = QueueTree([queue("open"), queue("vision", namespaces=selector(team="vision"))])
    assert tree.admits("open", {})
    assert tree.admits("vision", {"team": "vision", "stage": "dev"})
    assert not tree.admits("vision", {"team": "speech"})


def test_a_default_queue_takes_the_namespaces_that_it_admits() -> None:
    """Another namespace has no default."""
    tree = QueueTree([queue("a", default=True, namespaces=selector(team="a")), queue("b")])
    assert tree.default_for("one", {"team": "a"}) == "a"
    assert tree.default_for("one", {"team": "b"}) == ""
    assert tree.problems == {}


def test_a_namespace_has_its_name_as_a_label() -> None:
    """A selector may name namespaces, as the API server labels each with its name."""
    chosen = selector(**{"kubernetes.io/metadata.name": "ml"})
    tree = QueueTree([queue("a", default=True, namespaces=chosen)])
    assert tree.default_for("ml", {}) == "a"
    assert tree.default_for("web", {}) == ""


def test_of_two_defaults_the_older_counts() -> None:
    """The younger one is told, and takes only what the older does not."""
    young = queue("young", default=True, created="2")
    old = queue("old", default=True, created="1", namespaces=selector(team="a"))
    tree = QueueTree([young, old])
    assert "young" in tree
    assert tree.default_for("one", {"team": "a"}) == "old"
    assert tree.default_for("one", {"team": "b"}) == "young"
    (problem,) = tree.problems["young"]
    assert str(problem) == (
        "spec.default: Queue old is the default too, and counts for every namespace that both admit; give the two "
        "namespace selectors that exclude each other"
    )
    assert "old" not in tree.problems


def test_an_unusable_queue_is_nobodys_default() -> None:
    """Its namespaces are without one, and it is in no one's way."""
    tree = QueueTree([queue("a", "nobody", default=True, created="1"), queue("b", default=True, created="2")])
    assert tree.default_for("one", {}) == "b"
    assert "b" not in tree.problems


requirements = st.one_of(
    st.builds(
        Requirement, st.sampled_from("xy"), st.sampled_from(["In", "NotIn"]), st.sampled_from([("1",), ("1", "2")])
    ),
    st.builds(Requirement, st.sampled_from("xy"), st.sampled_from(["Exists", "DoesNotExist"])),
)
selectors = st.none() | st.builds(LabelSelector, st.lists(requirements, max_size=3).map(tuple))
VALUES = (None, "1", "2", "3")


@given(selectors, selectors)
def test_selectors_overlap_where_a_namespace_can_be_in_both(
    one: LabelSelector | None, other: LabelSelector | None
) -> None:
    """Trying all labels of two keys finds the same."""
    namespaces = [
        {key: value for key, value in (("x", x), ("y", y)) if value is not None} for x in VALUES for y in VALUES
    ]
    both = [each for each in namespaces if all(s is None or s.matches(each) for s in (one, other))]
    assert overlap(one, other) == bool(both)


@pytest.mark.parametrize(("one", "other"), [(None, None), (None, LabelSelector()), (selector(a="1"), selector(b="1"))])
def test_selectors_that_say_nothing_against_each_other_overlap(
    one: LabelSelector | None, other: LabelSelector | None
) -> None:
    """A namespace with both labels can exist."""
    assert overlap(one, other)
