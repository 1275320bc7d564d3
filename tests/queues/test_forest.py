"""Which queues are in use, and what the others are told."""

from __future__ import annotations

from extender.objects.queue import Queue
from extender.objects.reason import Problem
from extender.queues.tree import QueueTree
from tests.builders import GPU
from tests.queues.builders import H100, flavor, queue


def told(*queues: Queue) -> dict[str, str]:
    """Return what is wrong with queues, by name."""
    return {name: "; ".join(map(str, problems)) for name, problems in QueueTree(queues).problems.items()}


def test_without_queues_there_is_no_tree() -> None:
    """An empty tree answers."""
    tree = QueueTree(())
    assert (list(tree), len(tree), tree.problems, tree.default_for("default", {})) == ([], 0, {}, "")


def test_a_path_leads_to_the_root() -> None:
    """A queue comes first in its path, and siblings go by age."""
    tree = QueueTree([queue("a", "org", created="2"), queue("b", "org", created="1"), queue("org"), queue("c", "b")])
    assert tree.path("c") == ("c", "b", "org")
    assert tree.children("org") == ("b", "a")
    assert list(tree) == ["org", "b", "a", "c"]
    assert len(tree) == 4
    assert tree.queue("b").created == "1"


def test_an_unknown_parent_is_named() -> None:
    """What is below an unusable queue is unusable, and each is told the nearest reason."""
    assert told(queue("a", "b"), queue("c", "a"), queue("fine")) == {
        "a": "spec.parent: no Queue is called 'b'; create it, or name another one",
        "c": "spec.parent: Queue 'a' cannot be used itself",
    }


def test_every_queue_of_a_cycle_is_told_the_cycle() -> None:
    """What hangs below the cycle is told that its parent is unusable."""
    cycle = "spec.parent: the Queues a > c > b are each other's parents; one of them must be without a parent"
    assert told(queue("a", "c"), queue("b", "a"), queue("c", "b"), queue("d", "b")) == {
        "a": cycle,
        "b": cycle,
        "c": cycle,
        "d": "spec.parent: Queue 'b' cannot be used itself",
    }
    assert "a > a" not in told(queue("a", "a"))["a"]


def test_a_long_cycle_is_shortened() -> None:
    """Eight queues of a cycle are named."""
    names = [f"q{index:02}" for index in range(20)]
    queues = [queue(name, names[index - 1]) for index, name in enumerate(names)]
    assert "q00 > q19 > q18 > q17 > q16 > q15 > q14 > q13 > ... are" in told(*queues)["q07"]


def test_a_queue_with_problems_is_out_of_use() -> None:
    """Its own problems are told, and its children wait with it; its siblings do not."""
    bad = queue("a", "org", problems=(Problem("spec.weight", "'0' is not a number above 0"),))
    tree = QueueTree([queue("org"), bad, queue("b", "a"), queue("c", "org")])
    assert set(tree) == {"org", "c"}
    assert told(queue("org"), bad, queue("b", "a")) == {
        "a": "spec.weight: '0' is not a number above 0",
        "b": "spec.parent: Queue 'a' cannot be used itself",
    }


def test_a_queue_with_problems_and_an_unknown_parent_is_told_both() -> None:
    """Nothing is left for the next attempt."""
    bad = queue("a", "nobody", problems=(Problem("spec.weight", "'0' is not a number above 0"),))
    assert told(bad)["a"].startswith("spec.weight: '0' is not a number above 0; spec.parent: no Queue is called")


def test_a_queue_without_a_name_is_out_of_use() -> None:
    """The API server lets none through, and nobody can mean it."""
    assert told(Queue("")) == {"": "metadata.name: is missing"}


SELECTOR = (("gpu", "h100"),)


def test_a_flavor_is_the_same_nodes_throughout_a_tree() -> None:
    """Who contradicts an older queue of the tree is out of use, and is told whom; other trees do not matter."""
    older = queue("a", "org", created="1", flavors=(flavor(H100, selector=SELECTOR),))
    younger = queue("b", "org", created="2", flavors=(flavor(H100),))
    elsewhere = queue("c", "", created="3", flavors=(flavor(H100),))
    tree = QueueTree([queue("org"), younger, older, elsewhere])
    assert set(tree) == {"org", "a", "c"}
    assert tree.node_selector("a", H100) == SELECTOR
    assert tree.node_selector("c", H100) == ()
    assert told(queue("org"), younger, older)["b"] == (
        "spec.flavors[0].nodeSelector: Queue a of this tree says of flavor h100 that it is gpu=h100, this one every "
        "node; say the same, or call it otherwise"
    )


def test_a_flavor_without_selector_is_what_the_nearest_ancestor_says() -> None:
    """Quotas are written per queue, the nodes of a flavor once, and saying the same again does no harm."""
    queues = [
        queue("org", flavors=(flavor(H100, selector=SELECTOR), flavor("cpu"))),
        queue("a", "org", flavors=(flavor("cpu"), flavor(H100))),
        queue("b", "a", flavors=(flavor(H100, selector=SELECTOR),)),
    ]
    tree = QueueTree(queues)
    assert tree.problems == {}
    assert {name: tree.node_selector(name, H100) for name in tree} == dict.fromkeys(tree, SELECTOR)
    assert tree.node_selector("b", "cpu") == tree.node_selector("b", "unheard-of") == ()


def test_flavors_go_by_preference() -> None:
    """A queue's own flavors count, else its nearest ancestor's; a root without any has those of its children."""
    queues = [
        queue("org", created="0"),
        queue("a", "org", created="1", flavors=(flavor("spot"), flavor("h100"))),
        queue("b", "org", created="2", flavors=(flavor("b200"), flavor("spot"))),
        queue("c", "b", created="3"),
    ]
    tree = QueueTree(queues)
    assert {name: tree.flavors(name) for name in tree} == {
        "org": ("spot", "h100", "b200"),
        "a": ("spot", "h100"),
        "b": ("b200", "spot"),
        "c": ("b200", "spot"),
    }


def test_a_resource_is_limited_where_somebody_has_quota_of_it() -> None:
    """Quota of the queue itself, its ancestors and its descendants counts, that of its siblings does not."""
    queues = [
        queue("org", flavors=(flavor(H100, {GPU: 16}),)),
        queue("a", "org", flavors=(flavor(H100, {"cpu": 1000}), flavor("spot", {"cpu": 1000}))),
        queue("b", "org", flavors=(flavor(H100, {"memory": 1}),)),
    ]
    tree = QueueTree(queues)
    assert tree.limited("a", H100) == {GPU, "cpu"}
    assert tree.limited("a", "spot") == {"cpu"}
    assert tree.limited("b", H100) == {GPU, "memory"}
    assert tree.limited("org", H100) == {GPU, "cpu", "memory"}
    assert tree.limited("b", "spot") == frozenset()


def test_a_chain_is_bounded_with_a_reason() -> None:
    """Queues far below a root cannot be used, and say why; those above them are used."""
    chain = [queue(f"q{depth:03}", f"q{depth - 1:03}" if depth else "") for depth in range(800)]
    tree = QueueTree(chain)
    assert list(tree) == [f"q{depth:03}" for depth in range(32)]
    problems = told(*chain)
    assert problems["q032"] == "spec.parent: more than 32 Queues deep"
    assert problems["q033"] == "spec.parent: Queue 'q032' cannot be used itself"
    assert len(problems) == 768
