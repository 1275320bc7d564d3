"""HyperNodes, as Volcano's users write them."""

from __future__ import annotations

from typing import Any

import pytest

from extender.objects.hypernodes import HyperNode, decode_hyper_node, read_hyper_node
from extender.objects.meta import Requirement, encode


def read(*members: dict[str, Any], tier: object = 1, **spec: object) -> HyperNode:
    """Read a HyperNode called `s0`."""
    body = {"metadata": {"name": "s0", "uid": "u"}, "spec": {"tier": tier, "members": members, **spec}}
    return read_hyper_node(decode_hyper_node(encode(body)))


def member(kind: str = "Node", **selector: object) -> dict[str, Any]:
    """Return a member."""
    return {"type": kind, "selector": selector}


def test_members_by_name_pattern_and_labels() -> None:
    """Each kind of member ends up where it is looked for."""
    expression = {"key": "gpu", "operator": "Exists"}
    hyper_node = read(
        member(exactMatch={"name": "n1"}),
        member(regexMatch={"pattern": "^gpu-[0-9]+$"}),
        member(labelMatch={"matchLabels": {"rack": "r1"}, "matchExpressions": [expression]}),
        member("HyperNode", exactMatch={"name": "s1"}),
        tierName="leaf",
    )
    assert hyper_node.problems == ()
    assert (hyper_node.name, hyper_node.tier, hyper_node.tier_name) == ("s0", 1, "leaf")
    assert hyper_node.nodes == {"n1"}
    assert (hyper_node.patterns, hyper_node.children) == (("^gpu-[0-9]+$",), ("s1",))
    assert hyper_node.selectors == ((Requirement("rack", "In", ("r1",)), Requirement("gpu", "Exists")),)


def test_a_tier_may_be_text() -> None:
    """The first versions of the API had strings there."""
    assert read(tier="2").tier == 2


@pytest.mark.parametrize("tier", [None, -1, "leaf", ""])
def test_without_a_tier_it_is_no_domain(tier: object) -> None:
    """A tier that is missing, negative or no number is a problem, not a crash."""
    hyper_node = read(tier=tier)
    assert hyper_node.tier is None
    assert [problem.field for problem in hyper_node.problems] == ["spec.tier"]


@pytest.mark.parametrize(
    ("odd", "field"),
    [
        (member(), "spec.members[0].selector"),
        ({"type": "Node"}, "spec.members[0].selector"),
        (member(exactMatch={"name": ""}), "spec.members[0].selector"),
        (member(exactMatch={"name": "a"}, regexMatch={"pattern": "a"}), "spec.members[0].selector"),
        (member(labelMatch={}), "spec.members[0].selector.labelMatch"),
        (
            member(labelMatch={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
            "spec.members[0].selector.labelMatch.matchExpressions[0].operator",
        ),
        (
            member(labelMatch={"matchExpressions": [{"key": "a", "operator": "In"}]}),
            "spec.members[0].selector.labelMatch.matchExpressions[0].values",
        ),
        (member("HyperNode", regexMatch={"pattern": "s.*"}), "spec.members[0].selector"),
        (member("Rack", exactMatch={"name": "a"}), "spec.members[0].type"),
        ({}, "spec.members[0].type"),
    ],
)
def test_a_member_that_cannot_be_read_is_left_out(odd: dict[str, Any], field: str) -> None:
    """The problem names its place, and the other members count."""
    hyper_node = read(odd, member(exactMatch={"name": "n1"}))
    assert [problem.field for problem in hyper_node.problems] == [field]
    assert hyper_node.nodes == {"n1"}


def test_an_empty_object_is_read() -> None:
    """Nothing in the object is needed for reading it."""
    assert read_hyper_node(decode_hyper_node(b"{}")).tier is None
