"""Lists of levels, from the objects of Kueue, KAI, Grove and Koordinator."""

from __future__ import annotations

from typing import Any

from extender.objects.levelobjects import (
    LevelList,
    decode_grove_topology,
    decode_network_topology,
    decode_topology,
    read_grove_topology,
    read_network_topology,
    read_topology,
)
from extender.objects.meta import encode


def topology(*labels: str | None) -> LevelList:
    """Read a Topology of Kueue with these labels."""
    levels = [{} if label is None else {"nodeLabel": label} for label in labels]
    body = encode({"metadata": {"name": "default", "uid": "u"}, "spec": {"levels": levels}})
    return read_topology(decode_topology(body), "kueue.x-k8s.io/v1beta2")


def grove(*levels: tuple[str, str]) -> LevelList:
    """Read a ClusterTopologyBinding of Grove with these domains and node labels."""
    spec = {"levels": [{"domain": domain, "key": key} for domain, key in levels]}
    return read_grove_topology(decode_grove_topology(encode({"metadata": {"name": "default"}, "spec": spec})))


def network(*layers: dict[str, Any]) -> LevelList:
    """Read a ClusterNetworkTopology with these layers."""
    body = encode({"metadata": {"name": "default"}, "spec": {"networkTopologySpec": layers}})
    return read_network_topology(decode_network_topology(body))


def layer(name: str, parent: str | None, *labels: str) -> dict[str, Any]:
    """Return a layer as Koordinator writes it."""
    return {"topologyLayer": name, "labelKey": list(labels)} | (
        {} if parent is None else {"parentTopologyLayer": parent}
    )


def pairs(read: LevelList) -> list[tuple[str, str]]:
    """Return name and label of each level."""
    return [(level.name, level.label) for level in read.levels]


def test_a_topology_lists_labels_from_the_outside() -> None:
    """A level is called what follows the label's prefix; the node itself is no level of the list."""
    read = topology("example.com/block", "example.com/rack", "kubernetes.io/hostname")
    assert pairs(read) == [("block", "example.com/block"), ("rack", "example.com/rack")]
    assert read.problems == ()
    assert (read.about.group, str(read.about), read.about.uid) == ("kueue.x-k8s.io", "Topology default", "u")


def test_known_labels_have_the_names_of_the_presets() -> None:
    """A level is called the same whether an object or a preset lists it."""
    assert pairs(topology("topology.k8s.aws/network-node-layer-1")) == [
        ("layer-1", "topology.k8s.aws/network-node-layer-1")
    ]


def test_a_short_name_that_is_taken_is_written_out() -> None:
    """Two labels that end alike, or as the node is called, keep their prefixes as names."""
    assert pairs(topology("a/rack", "b/rack", "c/node")) == [
        ("rack", "a/rack"),
        ("b/rack", "b/rack"),
        ("c/node", "c/node"),
    ]


def test_odd_levels_are_left_out_with_a_problem() -> None:
    """Empty and repeated labels, and a host that is not last, are named by their place; the others count."""
    read = topology("a/block", None, "kubernetes.io/hostname", "a/block", "a/rack")
    assert [level.label for level in read.levels] == ["a/block", "a/rack"]
    assert [problem.field for problem in read.problems] == [f"spec.levels[{index}].nodeLabel" for index in (1, 2, 3)]


def test_an_empty_topology_has_no_levels() -> None:
    """Neither a spec nor a name is needed to read an object."""
    assert read_topology(decode_topology(b"{}"), "kai.scheduler/v1alpha1").levels == ()
    assert network().levels == read_network_topology(decode_network_topology(b"{}")).levels == ()


def test_levels_of_grove_have_the_names_of_their_domains() -> None:
    """The node itself is no level of the list, and a name that means something else gives way to the label."""
    read = grove(("zone", "x/zone"), ("cluster", "x/block"), ("zone", "x/rack"), ("host", "kubernetes.io/hostname"))
    assert pairs(read) == [("zone", "x/zone"), ("x/block", "x/block"), ("x/rack", "x/rack")]
    assert read.problems == ()
    assert (read.about.group, str(read.about)) == ("grove.io", "ClusterTopologyBinding default")


def test_odd_levels_of_grove_are_left_out_with_a_problem() -> None:
    """What is within a node is no level of the network, and a label counts once."""
    read = grove(("a", ""), ("b", "x/rack"), ("c", "x/rack"), ("host", "kubernetes.io/hostname"), ("numa", "x/numa"))
    assert pairs(read) == [("b", "x/rack")]
    assert [problem.field for problem in read.problems] == [
        "spec.levels[0].key",
        "spec.levels[2].key",
        "spec.levels[4]",
    ]
    assert grove().levels == read_grove_topology(decode_grove_topology(b"{}")).levels == ()


def test_layers_of_koordinator_are_ordered_by_their_parents() -> None:
    """Layers come in any order, from the cluster down to the node; both ends are no levels."""
    read = network(
        layer("NodeTopologyLayer", "block", "kubernetes.io/hostname"),
        layer("block", "spine", "x/block"),
        layer("spine", None, "x/spine"),
        layer("ClusterTopologyLayer", None, "x/cluster"),
    )
    assert pairs(read) == [("spine", "x/spine"), ("block", "x/block")]
    assert read.problems == ()


def test_odd_layers_of_koordinator_are_problems() -> None:
    """A layer without label, a second child, further labels, and one that hangs in the air are named."""
    read = network(
        layer("spine", "ClusterTopologyLayer", "x/spine", "y/spine"),
        layer("other", "ClusterTopologyLayer", "x/other"),
        layer("nothing", "spine"),
        layer("lost", "nowhere", "x/lost"),
    )
    assert pairs(read) == [("spine", "x/spine")]
    assert [str(problem) for problem in read.problems] == [
        "spec.networkTopologySpec[0].labelKey: only the first label, 'x/spine', is read",
        "spec.networkTopologySpec[1]: layer 'spine' has the same parent; only that one counts",
        "spec.networkTopologySpec[2]: needs topologyLayer and labelKey",
        "spec.networkTopologySpec: layer 'lost' has no way up to the cluster and is left out",
    ]


def test_layers_in_a_circle_end() -> None:
    """Layers that are each other's parents have no way up, and are left out."""
    read = network(layer("a", "b", "x/a"), layer("b", "a", "x/b"))
    assert read.levels == ()
    assert len(read.problems) == 2
