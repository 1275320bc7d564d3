"""The levels that follow from nodes and objects, as these come and go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.tree import LevelSources
from extender.objects.hypernodes import HyperNode
from extender.objects.levelobjects import LevelList
from extender.objects.levels import Level
from extender.objects.meta import ObjectRef
from extender.objects.node import Node
from extender.objects.podspec import Taint
from extender.objects.reason import Problem
from tests.counting import calls

ZONE, LEAF, SPINE = "topology.kubernetes.io/zone", "fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1"


def sources() -> LevelSources:
    """Return the sources of a cluster that is read as it describes itself."""
    return LevelSources((), "auto")


def node(name: str, taint: str = "", **labels: str) -> Node:
    """Return a node with topograph's labels, `tier_0` and so on, or a zone."""
    known = {"tier_0": LEAF, "tier_1": SPINE, "zone": ZONE}
    taints = (Taint(taint, "", "NoSchedule"),) if taint else ()
    return Node(name, labels={known.get(key, key): value for key, value in labels.items()}, taints=taints)


def hyper(name: str, tier: int, *children: str, pattern: str = "", problems: tuple[Problem, ...] = ()) -> HyperNode:
    """Return a HyperNode of nodes whose names match a pattern."""
    about = ObjectRef("topology.volcano.sh/v1alpha1", "HyperNode", "", name, f"uid-{name}")
    return HyperNode(about, tier, patterns=(pattern,) if pattern else (), children=children, problems=problems)


def listed(name: str, label: str, group: str = "kueue.x-k8s.io", problems: tuple[Problem, ...] = ()) -> LevelList:
    """Return what a Topology with one level says."""
    return LevelList(ObjectRef(f"{group}/v1", "Topology", "", name, f"uid-{name}"), (Level(label, label),), problems)


def labels(known: LevelSources) -> list[str]:
    """Return the labels of the levels."""
    return [level.label for level in known.levels().levels]


def test_levels_follow_the_labels_of_nodes() -> None:
    """A label counts from the first node that carries it to the last."""
    known = sources()
    assert labels(known) == []
    known.put_node(node("a", zone="z"))
    assert labels(known) == [ZONE]
    known.put_node(node("b", tier_0="l0", tier_1="s0"))
    assert labels(known) == [SPINE, LEAF]
    known.put_node(node("b", tier_0="l0"))
    assert labels(known) == [LEAF]
    known.drop_node("b")
    known.drop_node("b")
    assert labels(known) == [ZONE]


def test_the_levels_stay_the_same_object() -> None:
    """Whoever built something on them need not build it again when nodes come that change nothing about them."""
    known = sources()
    known.put_node(node("a", zone="z"))
    before = known.levels()
    known.put_node(node("b", zone="y"))
    known.put_node(node("a", taint="t", zone="z"))
    assert known.put_list(listed("t", "x/rack"))
    assert known.drop_list("kueue.x-k8s.io", "t")
    assert known.levels() is before


def test_lists_are_ranked_by_whose_they_are_and_by_name() -> None:
    """Kueue's come before KAI's, the first by name before the second; without any the labels count again."""
    known = sources()
    everywhere = {f"x/{name}": "d" for name in ("koordinator", "kai", "first", "second")}
    known.put_node(node("a", zone="z", **everywhere))
    assert known.put_list(listed("a", "x/koordinator", "scheduling.koordinator.sh"))
    assert known.put_list(listed("a", "x/kai", "kai.scheduler"))
    assert labels(known) == ["x/kai"]
    assert known.put_list(listed("b", "x/second"))
    assert known.put_list(listed("a", "x/first"))
    assert not known.put_list(listed("a", "x/first"))
    assert labels(known) == ["x/first"]
    for group, name in (("kueue.x-k8s.io", "a"), ("kueue.x-k8s.io", "b"), ("kai.scheduler", "a")):
        assert known.drop_list(group, name)
    assert labels(known) == ["x/koordinator"]
    assert known.drop_list("scheduling.koordinator.sh", "a")
    assert not known.drop_list("scheduling.koordinator.sh", "a")
    assert labels(known) == [ZONE]


def test_a_list_may_change() -> None:
    """A list that is written anew, under another UID or not, takes the place of the old one."""
    known = sources()
    known.put_node(Node("a", labels={"x/a": "d", "x/b": "d"}))
    known.put_list(listed("t", "x/a"))
    assert known.put_list(listed("t", "x/b"))
    assert labels(known) == ["x/b"]


def test_hyper_nodes_name_the_domains_of_nodes() -> None:
    """Nodes are in the domains of the HyperNodes that have them, from the moment either is there."""
    known = sources()
    known.put_node(node("n1", zone="z"))
    assert known.put_hyper_node(hyper("s0", 1, pattern="^n"))
    assert known.put_hyper_node(hyper("top", 2, "s0"))
    known.put_node(node("n2"))
    known.put_node(node("m"))
    levels = known.levels()
    assert (levels.source, labels(known)) == ("HyperNodes", ["tier-2", "tier-1"])
    assert levels.members == {"tier-2": {"n1": "top", "n2": "top"}, "tier-1": {"n1": "s0", "n2": "s0"}}
    assert not known.put_hyper_node(hyper("s0", 1, pattern="^n"))
    assert known.put_hyper_node(hyper("s0", 1, pattern="^m"))
    known.drop_node("n1")
    assert known.levels().members == {"tier-2": {"m": "top"}, "tier-1": {"m": "s0"}}
    assert known.drop_hyper_node("top")
    assert known.drop_hyper_node("s0")
    assert not known.drop_hyper_node("s0")
    assert known.levels().members == {}


def test_what_no_node_belongs_to_hides_nothing() -> None:
    """A list or HyperNodes that somebody left behind do not stand before what nodes say of themselves."""
    known = sources()
    known.put_node(node("a", zone="z"))
    known.put_list(listed("old", "x/rack"))
    known.put_hyper_node(hyper("s0", 1, pattern="^gone-"))
    assert labels(known) == [ZONE]
    known.put_node(Node("b", labels={"x/rack": "r"}))
    assert labels(known) == ["x/rack"]
    known.put_node(Node("gone-1"))
    assert labels(known) == ["tier-1"]


def test_members_by_labels_follow_the_labels() -> None:
    """A node that is labelled otherwise is in another domain; one that only gets a taint is not looked at again."""
    known = sources()
    known.put_hyper_node(hyper("s0", 1, pattern="^n1$"))
    known.put_node(node("n1"))
    before = known.levels()
    known.put_node(node("n1", taint="t"))
    assert known.levels() is before
    known.put_node(node("n1", rack="r"))
    assert known.levels() is before, "another label, but the same domain"


def test_problems_name_the_object() -> None:
    """What is wrong in an object, and between objects, is told until it is mended."""
    known = sources()
    odd = Problem("spec.levels[0].nodeLabel", "is empty")
    known.put_list(listed("t", "x/rack", problems=(odd,)))
    known.put_hyper_node(hyper("s0", 1, pattern="n"))
    known.put_hyper_node(hyper("s1", 1, pattern="n[23]"))
    for name in ("n1", "n3", "n2"):
        known.put_node(node(name))
    shared = "shares nodes with 's0' of the same tier, 'n2' for one; they count as nodes of that one"
    assert {about.name: found for about, found in known.problems().items()} == {
        "t": (odd,),
        "s1": (Problem("spec.members", shared),),
    }
    known.put_hyper_node(hyper("s1", 1, pattern="m"))
    known.drop_list("kueue.x-k8s.io", "t")
    assert known.problems() == {}
    assert known.problems() is known.problems()


def test_the_settings_need_no_cluster() -> None:
    """Levels of the settings are there at once."""
    rack = Level("rack", "x/rack")
    assert LevelSources([rack], "auto").levels().levels == (rack,)
    assert LevelSources((), "alibaba").levels().source == "preset alibaba"


NAMES = st.sampled_from(["n1", "n2", "m1"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("node"), NAMES, st.dictionaries(st.sampled_from([ZONE, LEAF, "x"]), st.sampled_from("ab"))),
        st.tuples(st.just("node gone"), NAMES),
        st.tuples(st.just("hyper"), st.sampled_from("stu"), st.integers(0, 2), st.sampled_from(["^n", "1$", "x"])),
        st.tuples(st.just("hyper gone"), st.sampled_from("stu")),
        st.just(("look",)),
    ),
    max_size=15,
)


@given(STEPS)
def test_what_is_kept_is_what_would_be_found_anew(steps: list[tuple[object, ...]]) -> None:
    """After any changes, looked at in between or not, levels and problems are those of a cluster seen at once."""
    known = sources()
    nodes: dict[str, Node] = {}
    hypers: dict[str, HyperNode] = {}
    for step in steps:
        match step:
            case ("node", str(name), dict(written)):
                nodes[name] = Node(name, labels=written)
                known.put_node(nodes[name])
            case ("node gone", str(name)):
                nodes.pop(name, None)
                known.drop_node(name)
            case ("hyper", str(name), int(tier), str(pattern)):
                hypers[name] = hyper(name, tier, *"stu", pattern=pattern)
                known.put_hyper_node(hypers[name])
            case ("hyper gone", str(name)):
                hypers.pop(name, None)
                known.drop_hyper_node(name)
            case _:
                known.levels()
    anew = sources()
    for each in hypers.values():
        anew.put_hyper_node(each)
    for every in nodes.values():
        anew.put_node(every)
    assert known.levels() == anew.levels()
    assert known.problems() == anew.problems()


def test_a_node_that_joins_a_large_cluster_costs_little() -> None:
    """With 5,000 nodes in 200 HyperNodes of patterns, one more node is matched alone, not with all others again."""
    known = sources()
    for index in range(200):
        known.put_hyper_node(hyper(f"s{index}", 1, pattern=f"^rack{index}-"))
    for index in range(5000):
        known.put_node(node(f"rack{index % 200}-{index}"))
    first = calls(known.levels)
    again = calls(lambda: known.put_node(node("rack7-new"))) + calls(known.levels)
    assert again < first / 4
    assert known.levels().members["tier-1"]["rack7-new"] == "s7"
