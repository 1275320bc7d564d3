"""Names that stand for others, in the same order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from extender.journal.pseudonyms import Pseudonyms, Space
from extender.objects.text import natural_key

NAMES = st.lists(st.text("ab01-.", min_size=1, max_size=6), unique=True, max_size=20)


@given(NAMES)
def test_pseudonyms_are_in_the_order_of_the_names(names: list[str]) -> None:
    """Nodes and pods in the natural order, others in that of texts; each name has one of its own."""
    pseudonyms = Pseudonyms()
    for name in names:
        assert pseudonyms.name(Space.PLACE, name) == pseudonyms.name(Space.GANG, name) == name
    pseudonyms.settle()
    places = {name: pseudonyms.name(Space.PLACE, name) for name in names}
    gangs = {name: pseudonyms.name(Space.GANG, name) for name in names}
    assert sorted(names, key=natural_key) == sorted(names, key=lambda name: natural_key(places[name]))
    assert sorted(names) == sorted(names, key=gangs.__getitem__)
    assert len(set(places.values())) == len(names)


def test_they_can_be_taken_back() -> None:
    """In texts and wherever they stand in a document; what only looks like one stays."""
    pseudonyms = Pseudonyms()
    pseudonyms.name(Space.PLACE, "n-1")
    pseudonyms.name(Space.GANG, "train")
    pseudonyms.settle()
    document = {"place-000000": ["gang-000000 waits for place-000000", 3, None], "x": "pod-000007"}
    assert pseudonyms.restored(document) == {"n-1": ["train waits for n-1", 3, None], "x": "pod-000007"}


def test_what_is_empty_has_no_pseudonym() -> None:
    """A pod without node has none."""
    pseudonyms = Pseudonyms()
    pseudonyms.settle()
    assert pseudonyms.name(Space.PLACE, "") == ""
