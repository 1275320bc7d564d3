"""HyperNodes as a tree, and where nodes are in it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.tree import HyperNodeTree
from extender.objects.hypernodes import HyperNode
from extender.objects.meta import ObjectRef, Requirement
from extender.objects.node import Node
from extender.objects.reason import Problem


def hyper(
    name: str,
    tier: int | None,
    *children: str,
    nodes: tuple[str, ...] = (),
    patterns: tuple[str, ...] = (),
    labels: dict[str, str] | None = None,
    tier_name: str = "",
) -> HyperNode:
    """Return a HyperNode."""
    return HyperNode(
        ObjectRef("topology.volcano.sh/v1alpha1", "HyperNode", "", name, f"uid-{name}"),
        tier,
        tier_name,
        frozenset(nodes),
        patterns,
        () if labels is None else (tuple(Requirement(key, "In", (value,)) for key, value in labels.items()),),
        children,
    )


def complaints(tree: HyperNodeTree) -> dict[str, list[str]]:
    """Return what is wrong with each HyperNode, by name."""
    return {about.name: [str(problem) for problem in found] for about, found in tree.problems.items() if found}


def test_a_node_is_in_its_hyper_node_and_all_above() -> None:
    """Domains are found by name, pattern and labels, and inherited upwards."""
    tree = HyperNodeTree(
        [
            hyper("s0", 1, nodes=("n0",)),
            hyper("s1", 1, patterns=("^n[1-4]$",)),
            hyper("s2", 1, labels={"rack": "r2"}),
            hyper("s3", 2, "s0", "s1"),
            hyper("s4", 3, "s3", "s2"),
        ]
    )
    assert tree.domains(Node("n0")).by_tier == {1: "s0", 2: "s3", 3: "s4"}
    assert tree.domains(Node("n3")).by_tier == {1: "s1", 2: "s3", 3: "s4"}
    assert tree.domains(Node("x", labels={"rack": "r2"})).by_tier == {1: "s2", 3: "s4"}
    assert tree.domains(Node("y")).by_tier == {}
    assert complaints(tree) == {}


def test_a_domain_of_a_tier_is_the_widest_hyper_node_up_to_it() -> None:
    """A tier that the node has no HyperNode of is that of the next one inwards; below all of them is none."""
    tree = HyperNodeTree(
        [hyper("s0", 1, nodes=("n",)), hyper("s3", 3, "s0"), *(hyper(f"other-{tier}", tier) for tier in (0, 2, 4))]
    )
    assert tree.domains(Node("n")).within == {"tier-1": "s0", "tier-2": "s0", "tier-3": "s3", "tier-4": "s3"}


def test_levels_go_from_the_highest_tier_inwards() -> None:
    """A level has the tier's name where there is one; by its number it can be asked for in any case."""
    tree = HyperNodeTree(
        [hyper("a", 0, tier_name="nvlink"), hyper("b", 0), hyper("c", 7, tier_name="spine"), hyper("d", 2)]
    )
    assert [(level.name, level.label) for level in tree.levels] == [
        ("spine", "tier-7"),
        ("tier-2", "tier-2"),
        ("nvlink", "tier-0"),
    ]


def test_tier_names_that_cannot_be_used_are_problems() -> None:
    """One tier has one name, two tiers have two, and the node's own name is taken."""
    tree = HyperNodeTree(
        [
            hyper("a", 1, tier_name="leaf"),
            hyper("b", 1, tier_name="rack"),
            hyper("c", 2, tier_name="leaf"),
            hyper("d", 3, tier_name="node"),
        ]
    )
    assert [level.name for level in tree.levels] == ["tier-3", "tier-2", "leaf"]
    assert complaints(tree) == {
        "b": ["spec.tierName: 'rack': tier 1 is called 'leaf' elsewhere"],
        "c": ["spec.tierName: 'leaf' is the name of something else"],
        "d": ["spec.tierName: 'node' is the name of something else"],
    }


def test_members_that_do_not_exist_are_problems() -> None:
    """A member that is not there, or has no tier, is named; the others count."""
    tree = HyperNodeTree([hyper("s0", 1, nodes=("n",)), hyper("s1", None), hyper("top", 2, "s0", "s1", "s9")])
    assert tree.domains(Node("n")).by_tier == {1: "s0", 2: "top"}
    assert complaints(tree) == {
        "top": ["spec.members: HyperNode 's1' has no tier", "spec.members: there is no HyperNode 's9'"]
    }


def test_a_circle_is_a_problem_and_ends() -> None:
    """A member is of a lower tier, so that nothing can be above itself."""
    tree = HyperNodeTree([hyper("a", 1, "b", nodes=("n",)), hyper("b", 2, "a"), hyper("c", 2, "c")])
    assert tree.domains(Node("n")).by_tier == {1: "a", 2: "b"}
    assert set(complaints(tree)) == {"a", "c"}
    assert "never in a circle" in complaints(tree)["a"][0]


def test_of_two_parents_the_closer_one_counts() -> None:
    """The other one is told; of two that are as close the first by name counts."""
    tree = HyperNodeTree(
        [hyper("s0", 1, nodes=("n",)), hyper("far", 3, "s0"), hyper("near-a", 2, "s0", "s0"), hyper("near-b", 2, "s0")]
    )
    assert tree.domains(Node("n")).by_tier == {1: "s0", 2: "near-a"}
    assert complaints(tree) == {
        name: ["spec.members: HyperNode 's0' is a member of 'near-a' already"] for name in ("far", "near-b")
    }


def test_a_node_in_two_domains_of_a_tier_is_in_the_first() -> None:
    """Both are named, so that somebody can be told."""
    tree = HyperNodeTree([hyper("s1", 1, nodes=("n",)), hyper("s0", 1, patterns=("n",)), hyper("s2", 1)])
    domains = tree.domains(Node("n"))
    assert (domains.by_tier, domains.shared) == ({1: "s0"}, (("s0", "s1"),))


def test_a_pattern_that_cannot_be_used_is_a_problem() -> None:
    """The HyperNode's other members count."""
    tree = HyperNodeTree([hyper("s0", 1, nodes=("n",), patterns=("(", "^m"))])
    assert tree.domains(Node("n")).by_tier == tree.domains(Node("m1")).by_tier == {1: "s0"}
    (found,) = complaints(tree)["s0"]
    assert found.startswith("spec.members: pattern '(' is not a regular expression of Go")


def test_problems_of_reading_are_passed_on() -> None:
    """What was wrong in the object itself is told beside what is wrong between objects."""
    problem = Problem("spec.tier", "is odd")
    about = ObjectRef("topology.volcano.sh/v1alpha1", "HyperNode", "", "s0", "u")
    assert HyperNodeTree([HyperNode(about, problems=(problem,))]).problems == {about: [problem]}


NAMES = st.sampled_from("abcdef")
HYPERS = st.dictionaries(
    NAMES,
    st.tuples(st.none() | st.integers(0, 3), st.lists(NAMES, max_size=4), st.frozensets(st.sampled_from(["n1", "n2"]))),
)


@given(HYPERS)
def test_any_hyper_nodes_are_a_forest(written: dict[str, tuple[int | None, list[str], frozenset[str]]]) -> None:
    """Whatever somebody writes: a node's domains end, one for each tier at most, whatever the order of objects."""
    everybody = [hyper(name, tier, *children, nodes=tuple(nodes)) for name, (tier, children, nodes) in written.items()]
    tree = HyperNodeTree(everybody)
    tiers = {each.name: each.tier for each in everybody}
    for node in (Node("n1"), Node("n2")):
        domains = tree.domains(node)
        assert all(tiers[name] == tier for tier, name in domains.by_tier.items())
        assert domains == HyperNodeTree(reversed(everybody)).domains(node)
    assert [level.label for level in tree.levels] == [
        f"tier-{tier}" for tier in sorted({tier for tier in tiers.values() if tier is not None}, reverse=True)
    ]
