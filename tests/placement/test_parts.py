"""What of a gang has to be in one domain of its own."""

from __future__ import annotations

from random import Random

from extender.objects.topology import RoleGroup, Slice, TopologyRequest
from extender.placement.candidates import PlacementTerms
from extender.placement.capacityview import Capacity
from extender.placement.plan import Plan, TogetherPart, parts_of, plan, sequence_of
from extender.queues.sharing import Option
from tests.cluster.conftest import pod, shape
from tests.eviction.search.clusters import Site, gang, racks

TREE = Site(racks(2)).candidates.tree
RACK = TREE.levels.find("rack")
ONE, TWO = shape(1), shape(2)


def test_what_nobody_says_anything_about_is_one_part() -> None:
    """A gang without slices and roles is one part that may be anywhere, its pods counted by shape."""
    pods = [*gang(3, 1), *gang(2, 2, "large")]
    assert parts_of(sequence_of(pods), TopologyRequest(required="rack"), TREE) == (TogetherPart(-1, {ONE: 3, TWO: 2}),)


def test_slices_are_parts_and_so_is_what_is_left_of_the_last() -> None:
    """Every so many members share a domain, the last ones too though they are fewer."""
    assert RACK is not None
    request = TopologyRequest(slices=(Slice(2, "rack"),))
    whole, last = TogetherPart(RACK, {ONE: 2}, size=2), TogetherPart(RACK, {ONE: 1}, size=2)
    assert parts_of(sequence_of(gang(5, 1)), request, TREE) == (whole, whole, last)


def test_roles_come_first_and_are_not_counted_off() -> None:
    """Roles that have to share a domain are a part; slices of some roles leave the others where they want to be."""
    assert RACK is not None
    pods = [*gang(3, 1, "a", role="a"), *gang(2, 2, "b", role="b"), *gang(1, 1, "c", role="c")]
    groups = (RoleGroup(frozenset({"a"}), "rack"), RoleGroup(frozenset({"c"}), "rack", required=False))
    request = TopologyRequest(role_groups=groups, slices=(Slice(2, "rack", frozenset({"a", "b"})),))
    group, piece = TogetherPart(RACK, {ONE: 3}, roles=("a",)), TogetherPart(RACK, {TWO: 2}, size=2)
    expected = (group, piece, TogetherPart(-1, {ONE: 1}))
    assert parts_of(sequence_of(pods), request, TREE) == expected


def test_levels_that_are_not_there_are_nobodys() -> None:
    """Slices of one, or of a level that the tree has not, are no parts."""
    request = TopologyRequest(slices=(Slice(1, "rack"), Slice(2, "zone")))
    assert parts_of(sequence_of(gang(4, 1)), request, TREE) == (TogetherPart(-1, {ONE: 4}),)


def test_counting_says_short_only_where_planning_fails() -> None:
    """Slices of several shapes and roles, groups of roles and required levels: what is placed has room by counting."""
    placed = short = 0
    for seed in range(400):
        random = Random(seed)
        site = Site(racks(random.randint(1, 4), random.randint(1, 3)))
        for name in sorted(each.name for each in site.table.nodes()):
            if random.random() < 0.5:
                site.run(f"on-{name}", [(name, random.choice((1, 4, 8)))])
        pods = [
            pod(f"head-{number:02}", random.choice((2, 2, 4)), role=random.choice("ab"))
            for number in range(random.randint(1, 8))
        ]
        level, other = random.choice(("rack", "block")), random.choice(("rack", "block"))
        slices = (Slice(random.randint(2, 3), level, frozenset(random.choice(("", "a")))),)
        groups = (RoleGroup(frozenset("b"), other, required=random.random() < 0.7),)
        topology = TopologyRequest(
            required=random.choice(("", "", "block", "rack")),
            slices=slices if random.random() < 0.7 else (),
            role_groups=groups if random.random() < 0.5 else (),
        )
        case = site.case(pods, PlacementTerms(topology=topology))
        view = case.view(Option())
        counted = view.count(Capacity.FREE, case.pod_set, case.eligible(view))
        found = plan(pods, view.snapshot(Capacity.FREE), site.candidates, PlacementTerms(topology=topology))
        placed += isinstance(found, Plan)
        short += counted is not None and bool(counted.level)
        assert not (isinstance(found, Plan) and counted is not None), seed
    assert placed > 50
    assert short > 10
