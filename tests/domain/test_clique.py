"""The NVLink domain of a node."""

from __future__ import annotations

import pytest

from extender.domain.clique import CLIQUE_LABEL, clique_of

NOBODY = "00000000-0000-0000-0000-000000000000"
CLUSTER = "7f3c2a10-5b4e-4d6a-9c1e-2b8f0e6d4a91"


def test_nodes_with_the_same_label_are_one_island() -> None:
    """The value names cluster and clique, and both count: a rack may be split into several cliques."""
    assert clique_of({CLIQUE_LABEL: f"{CLUSTER}.1"}) == f"{CLUSTER}.1"
    assert clique_of({CLIQUE_LABEL: f"{CLUSTER}.1"}) != clique_of({CLIQUE_LABEL: f"{CLUSTER}.2"})


@pytest.mark.parametrize("value", ["", f"{NOBODY}.0", f"{NOBODY}.7", NOBODY])
def test_a_value_that_names_no_fabric_is_none(value: str) -> None:
    """The zero UUID that boards without such a fabric report joins nobody."""
    assert clique_of({CLIQUE_LABEL: value}) == ""
    assert clique_of({}) == ""


def test_people_may_name_it() -> None:
    """Whoever labels nodes by hand need not invent UUIDs."""
    assert clique_of({CLIQUE_LABEL: "rack-7"}) == "rack-7"
