"""Network tiers: names, domains and factors."""

from __future__ import annotations

from itertools import combinations

import pytest

from extender.objects.levels import ALLREDUCE_FACTORS, ALLTOALL_FACTORS, Level, Levels, tier_bound, up_to_tier
from extender.objects.node import Node

TIERS = Levels((Level("core", "x/core"), Level("spine", "x/spine"), Level("leaf", "x/leaf", 0.9, 0.5)), "test")


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        ("core", 0),
        ("x/spine", 1),
        ("leaf", 2),
        ("node", 3),
        ("host", 3),
        ("kubernetes.io/hostname", 3),
        ("cloud.google.com/gce-topology-host", 3),
        ("rack", None),
        ("", None),
    ],
)
def test_a_level_is_found_by_name_or_label(wanted: str, index: int | None) -> None:
    """People name a level, peers' annotations its label; the node itself is the level after the last."""
    assert TIERS.find(wanted) == index


def test_levels_have_names_for_people() -> None:
    """What is further out than the first level is the cluster, what is further in than the last the node."""
    assert [TIERS.name(index) for index in (-1, 0, 2, 3)] == ["cluster", "core", "leaf", "node"]


def test_a_domain_is_read_off_the_label() -> None:
    """A node's domain is the value of the level's label; without the label it has none."""
    node = Node("n", labels={"x/leaf": "l1"})
    assert [TIERS.domain(index, node) for index in range(3)] == ["", "", "l1"]


def test_a_domain_that_objects_describe_is_not_read_off_labels() -> None:
    """Where objects list the members of a level, a node that they leave out has no domain there."""
    levels = Levels((Level("tier-1", "tier-1"),), members={"tier-1": {"a": "s0"}})
    assert levels.domain(0, Node("a")) == "s0"
    assert levels.domain(0, Node("b", labels={"tier-1": "s0"})) == ""


def test_factors_follow_position_from_the_inside() -> None:
    """The innermost level costs nothing, each one further out more, as far as it is known."""
    plain = Levels(tuple(Level(f"l{index}", f"x/{index}") for index in range(4)))
    allreduce = [plain.factor(index)[0] for index in range(-1, 5)]
    assert allreduce == [ALLREDUCE_FACTORS[2], ALLREDUCE_FACTORS[2], ALLREDUCE_FACTORS[2], ALLREDUCE_FACTORS[1], 1, 1]
    assert [plain.factor(index)[1] for index in (0, 2, 3)] == [ALLTOALL_FACTORS[2], ALLTOALL_FACTORS[1], 1]


def test_given_factors_win() -> None:
    """A level that says what it leaves is believed; its neighbours keep theirs."""
    assert TIERS.factor(2) == (0.9, 0.5)
    assert TIERS.factor(1) == (ALLREDUCE_FACTORS[1], ALLTOALL_FACTORS[1])


def test_without_levels_nothing_is_taken_off() -> None:
    """Where nothing is known of the network, the cluster counts as one domain without loss."""
    assert Levels().factor(-1) == (1, 1)


def test_a_bound_by_number_is_the_widest_level_up_to_it() -> None:
    """For all sets of tiers and numbers: the widest tier that is not above it, the cluster above all, else none."""
    for count in range(4):
        for tiers in combinations(range(5, -1, -1), count):
            levels = Levels(tuple(Level(f"tier-{tier}", f"example.com/{tier}") for tier in tiers))
            for number in range(-1, 7):
                within = [tier for tier in tiers if tier <= number]
                expected = None if not within else tiers.index(within[0])
                expected = -1 if tiers and number > tiers[0] else expected
                assert levels.find(up_to_tier(number)) == expected, (tiers, number)


@pytest.mark.parametrize(
    ("level", "tier"),
    [
        (Level("tier-3", "tier-3"), 3),
        (Level("spine", "tier-7"), 7),
        (Level("tier-0", "fabric.topograph.run/tier-0"), 0),
        (Level("tier-2", "example.com/block"), 2),
        (Level("layer-2", "topology.k8s.aws/network-node-layer-2"), None),
        (Level("tier-2b", "example.com/my-tier-2"), None),
    ],
)
def test_the_number_of_a_tier_is_in_its_label_or_name(level: Level, tier: int | None) -> None:
    """Levels that are not called by a number have none."""
    assert level.tier == tier


def test_what_is_no_bound_is_a_level() -> None:
    """Names and label keys are looked up as they are."""
    assert (tier_bound(up_to_tier(2)), tier_bound(up_to_tier(-1)), tier_bound("tier-2")) == (2, -1, None)
