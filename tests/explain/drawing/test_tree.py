"""The cluster as nested domains, in as much detail as a picture can bear."""

from __future__ import annotations

import pytest

from extender.explain.drawing.tree import Domain, TreePicture, is_summed, tree, walk
from tests.explain.drawing.builders import GANG, node, racks


def leaves(root: Domain) -> list[Domain]:
    """Return the innermost domains."""
    return [domain for domain in walk(root) if not domain.domains]


def totals(root: Domain) -> tuple[int, int, int]:
    """Return nodes, GPUs, and GPUs of the gang, over all that is drawn or summed."""
    domains = list(walk(root))
    nodes = [node for domain in domains for node in domain.nodes]
    sums = [total for domain in domains for total in domain.sums]
    return (
        len(nodes) + sum(total.nodes for total in sums),
        sum(len(node.cells) for node in nodes) + sum(total.gpus for total in sums),
        sum(node.held_by(GANG) for node in nodes) + sum(total.own for total in sums),
    )


def test_a_small_cluster_is_drawn_whole_in_natural_order() -> None:
    """Racks in their blocks, nodes in their racks, the tenth behind the ninth."""
    root = tree(racks(48, own={3: 8}, rack=12, block=24))
    assert [(domain.level, domain.name) for domain in root.domains] == [("block", "block-0"), ("block", "block-1")]
    assert [domain.name for domain in root.domains[0].domains] == ["r0", "r1"]
    assert [node.name for node in root.domains[0].domains[0].nodes] == [f"gpu-{i}" for i in range(12)]
    assert not is_summed(root)


def test_nodes_without_the_gang_are_summed_in_a_larger_one() -> None:
    """Every rack is there; the gang's nodes are, others as a sum."""
    root = tree(racks(256, own={8: 8, 9: 4}))
    assert len(leaves(root)) == 32
    rack = root.domains[0].domains[1]
    assert [node.name for node in rack.nodes] == ["gpu-8", "gpu-9"]
    (rest,) = rack.sums
    assert (rest.label, rest.nodes, rest.gpus, rest.used, rest.own) == ("6x node", 6, 48, 6, 0)
    assert is_summed(root)


def test_domains_without_the_gang_are_summed_in_a_still_larger_one() -> None:
    """Of a thousand nodes, the blocks and racks that the gang is in."""
    root = tree(racks(1600, own=dict.fromkeys(range(30, 34), 8)))
    assert [domain.name for domain in root.domains] == ["block-0", "block-1"]
    assert [domain.name for domain in root.domains[1].domains] == ["r4"]
    (rest,) = root.sums
    assert (rest.label, rest.nodes) == ("48x block", 48 * 32)
    (inner,) = root.domains[0].sums
    assert (inner.label, inner.gpus) == ("3x rack", 24 * 8)


def test_a_gang_on_very_many_nodes_is_summed_itself() -> None:
    """What counts then is which domains it fills."""
    root = tree(racks(800, own=dict.fromkeys(range(400), 8)))
    assert not any(domain.nodes for domain in walk(root))
    assert root.domains[0].domains[0].sums[0].own == 64


def test_racks_are_left_out_when_there_are_too_many_to_draw() -> None:
    """A gang on 1,900 nodes is drawn by block."""
    root = tree(racks(2000, own=dict.fromkeys(range(1900), 8)))
    assert {domain.level for domain in walk(root)} == {"", "block"}


@pytest.mark.parametrize(
    ("nodes", "own"), [(1, 0), (30, 2), (256, 2), (500, 20), (1600, 4), (800, 400), (3200, 3000), (5000, 5000)]
)
def test_nothing_is_lost_however_little_is_drawn(nodes: int, own: int) -> None:
    """Nodes and GPUs add up in every detail, and there is never more than fits a screen or two."""
    root = tree(racks(nodes, own=dict.fromkeys(range(own), 8)))
    assert totals(root) == (nodes, nodes * 8, own * 8)
    assert root.items <= 160


def test_a_node_outside_of_all_domains_is_shown_outside() -> None:
    """A domain without a name stands for nodes that lack the label; a level that nobody has is no box."""
    nodes = (node(0, domains=("b", "r")), node(1, domains=("b", "")), node(2, domains=("", "")))
    root = tree(TreePicture("", (), ("block", "rack"), nodes, GANG))
    nameless, named = root.domains
    assert (nameless.name, [n.name for n in nameless.nodes], nameless.domains) == ("", ["gpu-2"], ())
    assert [(domain.name, [n.name for n in domain.nodes]) for domain in named.domains] == [
        ("", ["gpu-1"]),
        ("r", ["gpu-0"]),
    ]


def test_namesakes_in_different_domains_are_two() -> None:
    """Rack 0 of one block is not rack 0 of another."""
    nodes = (node(0, domains=("a", "0")), node(1, domains=("b", "0")))
    root = tree(TreePicture("", (), ("block", "rack"), nodes, GANG))
    assert [len(domain.domains) for domain in root.domains] == [1, 1]


def test_a_cluster_without_nodes_is_empty() -> None:
    """There is nothing to draw, and nothing fails."""
    assert tree(TreePicture("", (), ("rack",), (), GANG)).items == 1
