"""The parts of a gang: when they hold, what they need, and how people write them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.branches import Branch, Standing, of_roles
from extender.objects.keys import ROLE_MINIMUMS, TREE, read_options
from extender.objects.topology import RoleGroup, Slice


def leaf(name: str, least: int = 1) -> Branch:
    """Return a part without parts."""
    return Branch(name, least)


def replica(name: str, prefill: int = 2, decode: int = 1) -> Branch:
    """Return a replica with two parts, both of which it needs, in one rack."""
    return Branch(name, 2, (leaf(f"{name}.p", prefill), leaf(f"{name}.d", decode)), required="rack")


SERVE = Branch("", 2, tuple(map(replica, "abc")), preferred="block")


def standing(free: Mapping[str, int], placed: Mapping[str, int] | None = None) -> Callable[[str], Standing]:
    """Return how many of each role are there, and have a place."""
    there = placed or {}
    return lambda role: Standing(free.get(role, 0), there.get(role, 0))


ALL = dict.fromkeys(SERVE.roles, 2)


@pytest.mark.parametrize(
    ("have", "holds", "torn"),
    [
        ({}, False, "abc"),
        ({"a.p": 2, "a.d": 1, "b.p": 2}, False, "bc"),
        ({"a.p": 2, "a.d": 1, "b.p": 2, "b.d": 1}, True, "c"),
        ({"a.p": 1, "a.d": 1, "b.p": 2, "b.d": 1, "c.p": 2, "c.d": 9}, True, "a"),
    ],
)
def test_a_part_holds_with_so_many_of_its_own(have: dict[str, int], holds: bool, torn: str) -> None:
    """Two of three replicas do, whichever, each with both of its parts; the roles of the others are torn."""
    assert SERVE.holds(lambda role: have.get(role, 0)) is holds
    assert frozenset().union(*SERVE.torn(lambda role: have.get(role, 0))) == {
        role for role in SERVE.roles if role[0] in torn
    }


@pytest.mark.parametrize(
    ("free", "placed", "needed"),
    [
        (ALL, {}, "ab"),
        (ALL, {"c.d": 1}, "ca"),
        (ALL | {"a.p": 1}, {}, "bc"),
        (ALL | {"a.p": 1, "b.d": 0}, {}, "ca"),
        ({}, {}, "ab"),
    ],
)
def test_it_needs_those_that_are_nearest(free: dict[str, int], placed: dict[str, int], needed: str) -> None:
    """Of equal replicas the first, before them such as have begun, and before these such as have their members."""
    needs = SERVE.needs(standing(free, placed))
    assert needs == {f"{name}.{part}": least for name in needed for part, least in (("p", 2), ("d", 1))}


def test_a_member_is_of_the_outermost_part_that_lacks_members() -> None:
    """The unit of a replica that has not begun is all of it; a member beyond all minimums is none."""
    have = {"a.p": 2, "a.d": 1, "b.p": 2}
    unit = [SERVE.unit(role, lambda role: have.get(role, 0)) for role in ("a.d", "b.d", "elsewhere")]
    assert [part and part.name for part in unit] == [None, "b", None]


def test_levels_are_groups_of_roles() -> None:
    """Each part's level is that of its roles; the level and the slices of all are the gang's own."""
    sliced = Branch("", 1, (Branch("x", 4, slices=(Slice(2, "node"),)),), "zone", "", (Slice(4, "rack"),))
    assert sliced.terms.slices == (Slice(4, "rack"), Slice(2, "node", frozenset({"x"})))
    assert (SERVE.terms.required, SERVE.terms.preferred, sliced.terms.required) == ("", "block", "zone")
    assert SERVE.terms.role_groups == tuple(RoleGroup(frozenset({f"{name}.p", f"{name}.d"}), "rack") for name in "abc")


def test_no_more_than_it_may_have_is_allowed() -> None:
    """Of parts those that have begun may go on; of a role no more members join."""
    tree = Branch("", 1, (replica("a"), replica("b"), Branch("c", 1, most=2)), most=2)
    for have, barred in (
        ({}, ""),
        ({"a.p": 1}, ""),
        ({"a.p": 1, "b.d": 1}, "c"),
        ({"a.p": 2, "c": 1}, "b.p b.d"),
        ({"c": 2}, "c"),
    ):
        found = [role for role in ("a.p", "b.p", "b.d", "c", "elsewhere") if tree.bars(role, Counter(have).__getitem__)]
        assert " ".join(found) == barred
    assert tree.has_most
    assert not SERVE.has_most
    assert str(Branch("", 2, (leaf("a"), leaf("b")), most=1).problem("spec")) == (
        "spec: at most 1 of all are too few: it needs 2"
    )


TREES = st.recursive(
    st.integers(0, 2).map(lambda least: Branch("", least)),
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda parts: st.integers(1, len(parts)).map(lambda least: Branch("", least, tuple(parts)))
    ),
    max_leaves=4,
)


def named(tree: Branch, path: str = "r") -> Branch:
    """Return a tree whose parts are called by where they are."""
    parts = tuple(named(part, f"{path}{index}") for index, part in enumerate(tree.parts))
    return Branch(path, tree.least, parts)


@given(TREES.map(named), st.data())
def test_needs_are_the_first_of_all_choices_and_each_choice_holds(tree: Branch, data: st.DataObject) -> None:
    """What would do is found by trying all numbers of members: every choice holds, and what holds has a choice."""
    roles = sorted(tree.roles)
    numbers = st.tuples(*(st.integers(0, 2) for _ in roles))
    free, placed = (dict(zip(roles, data.draw(numbers), strict=True)) for _ in range(2))
    there = standing(free, placed)
    choices = list(tree.choices(there))
    assert choices[0] == tree.needs(there)
    for counts in product(range(3), repeat=len(roles)):
        have = dict(zip(roles, counts, strict=True))
        enough = any(all(have[role] >= least for role, least in choice.items()) for choice in choices)
        assert tree.holds(have.__getitem__) is enough
        assert (not any(tree.torn(have.__getitem__))) is all(part.holds(have.__getitem__) for part in tree.inside)
    assert tree.has_choice is (len(choices) > 1)


def test_people_write_trees_as_json() -> None:
    """Without a minimum all parts are needed; roles are parts too; what Muster's other keys say of levels counts."""
    text = """{"minimum": 1, "preferred": "block", "parts": [
        {"name": "r0", "required": "rack", "slices": "node=2", "roles": {"a": 4, "b": 1}}, {"roles": {"c": 2}}]}"""
    options = read_options({}, {TREE: text})
    inner = Branch("r0", 2, (leaf("a", 4), leaf("b")), "rack", "", (Slice(2, "node"),))
    assert options.tree == Branch("", 1, (inner, Branch("", 1, (leaf("c", 2),))), "", "block")
    assert (options.topology.preferred, options.problems) == ("block", ())
    assert options.topology.role_groups == (RoleGroup(frozenset("ab"), "rack"),)
    bounded = """{"minimum": 1, "maximum": 2, "roles": {"a": {"minimum": 1, "maximum": 3}, "b": 1, "c": 1}}"""
    assert read_options({}, {TREE: bounded}).tree == Branch(
        "", 1, (Branch("a", 1, most=3), leaf("b"), leaf("c")), most=2
    )
    besides = read_options({}, {TREE: text, "muster.dev/topology-preferred": "zone", ROLE_MINIMUMS: "a=1"})
    assert besides.topology.preferred == "zone"
    assert [problem.field for problem in besides.problems] == [f"metadata.annotations[{ROLE_MINIMUMS}]"]


DEEP = '{"parts": [' * 9 + '{"roles": {"a": 1}}' + "]}" * 9


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "{",
        '{"roles": {"a": 0}}',
        '{"roles": {"a": 1}, "minimum": 2}',
        '{"roles": {"a": 1}, "minimum": 0}',
        '{"roles": {"a": 1}, "least": 1}',
        '{"roles": {"a": 1, "b": 1}, "maximum": 1}',
        '{"roles": {"a": 1}, "maximum": 0}',
        '{"roles": {"a": {"minimum": 3, "maximum": 2}}}',
        '{"roles": {"a": {"minimum": 1}}}',
        '{"roles": {"a": 1}, "required": "no level"}',
        '{"roles": {"a": 1}, "slices": "rack=2,node=3"}',
        '{"parts": [{"roles": {"a": 1}}, {"roles": {"a": 1}}]}',
        '{"parts": [{}]}',
        DEEP,
        "[" * 5_000,
    ],
)
def test_a_tree_that_cannot_be_is_a_problem(text: str) -> None:
    """It says nothing, and an event names the key."""
    options = read_options({}, {TREE: text})
    assert options.tree is None
    assert [problem.field for problem in options.problems] == [f"metadata.annotations[{TREE}]"]


def test_a_gang_with_a_minimum_for_each_role_is_a_tree_of_leaves() -> None:
    """Equal minimums give the same tree."""
    tree = of_roles((("leader", 1), ("worker", 4)))
    assert tree == Branch("", 2, (leaf("leader"), leaf("worker", 4)))
    assert tree is of_roles((("leader", 1), ("worker", 4)))
    assert not tree.has_choice


def test_what_can_be_no_gang_is_said() -> None:
    """Names twice, more leaves than are counted, and minimums that can never be."""
    assert leaf("a").problem("spec") is None
    found = [
        Branch("", 2, (leaf("a"), leaf("a"))).problem("spec"),
        Branch("", 1, tuple(leaf(str(index)) for index in range(257))).problem("spec"),
        Branch("", 3, (leaf("a"), leaf("b"))).problem("spec"),
    ]
    assert [str(problem) for problem in found] == [
        "spec: a is there twice",
        "spec: 257 parts without parts are more than a gang may have, 256",
        "spec: 3 of all can never be: it has 2 parts",
    ]
