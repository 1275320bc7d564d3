"""What of a gang has to be in one domain of its own."""

from __future__ import annotations

from extender.domain.topology import RoleGroup, Slice, TopologyRequest
from extender.preemption.parts import Part, parts_of
from tests.cluster.conftest import shape
from tests.preemption.clusters import Site, gang, racks

TREE = Site(racks(2)).ground.tree
RACK = TREE.levels.find("rack")
ONE, TWO = shape(1), shape(2)


def test_what_nobody_says_anything_about_is_one_part() -> None:
    """A gang without slices and roles is one part that may be anywhere, its pods counted by shape."""
    pods = [*gang(3, 1), *gang(2, 2, "large")]
    assert parts_of(pods, TopologyRequest(required="rack"), TREE) == (Part(-1, {ONE: 3, TWO: 2}),)


def test_slices_are_parts_and_so_is_what_is_left_of_the_last() -> None:
    """Every so many members share a domain, the last ones too though they are fewer."""
    assert RACK is not None
    request = TopologyRequest(slices=(Slice(2, "rack"),))
    assert parts_of(gang(5, 1), request, TREE) == (*[Part(RACK, {ONE: 2})] * 2, Part(RACK, {ONE: 1}))


def test_roles_come_first_and_are_not_counted_off() -> None:
    """Roles that have to share a domain are a part; slices of some roles leave the others where they want to be."""
    assert RACK is not None
    pods = [*gang(3, 1, "a", role="a"), *gang(2, 2, "b", role="b"), *gang(1, 1, "c", role="c")]
    groups = (RoleGroup(frozenset({"a"}), "rack"), RoleGroup(frozenset({"c"}), "rack", required=False))
    request = TopologyRequest(role_groups=groups, slices=(Slice(2, "rack", frozenset({"a", "b"})),))
    expected = (Part(RACK, {ONE: 3}), Part(RACK, {TWO: 2}), Part(-1, {ONE: 1}))
    assert parts_of(pods, request, TREE) == expected


def test_levels_that_are_not_there_are_nobodys() -> None:
    """Slices of one, or of a level that the tree has not, are no parts."""
    request = TopologyRequest(slices=(Slice(1, "rack"), Slice(2, "zone")))
    assert parts_of(gang(4, 1), request, TREE) == (Part(-1, {ONE: 4}),)
