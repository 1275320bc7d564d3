"""Who gives back what it has borrowed, where that depends on what others give back."""

from __future__ import annotations

import pytest

from extender.queues.tree import QueueTree, reclaimable
from tests.builders import GPU
from tests.queues.builders import H100, queue

EIGHT = {GPU: 8}


@pytest.fixture
def tree() -> QueueTree:
    """Return a department in which x2 has borrowed what is x1's, and half of z's; y has borrowed the other half."""
    queues = [queue("org"), queue("x", "org"), queue("x1", "x", 8), queue("x2", "x", 0), queue("y", "org", 8)]
    tree = QueueTree([*queues, queue("z", "org", 8), queue("w", gpus=0)])
    tree.charge("x2", H100, {GPU: 12})
    tree.charge("y", H100, {GPU: 12})
    tree.charge("w", H100, {GPU: 12})
    return tree


def test_those_who_come_next_are_named_too(tree: QueueTree) -> None:
    """A sibling gives back first; another branch may have to give back the rest, another tree never."""
    assert not tree.reclaims("x1", "y", H100, EIGHT)
    assert reclaimable(tree, "x1", H100, EIGHT) == ("x2", "y")
    assert reclaimable(tree, "z", H100, EIGHT) == ("y", "x2")
    assert reclaimable(tree, "z", H100, {GPU: 9}) == ()
    assert tree.excess("x2", H100) == {GPU: 12}, "asking changes nothing"
    assert tree.excess("z", H100) == tree.excess("z", "spot") == {}
