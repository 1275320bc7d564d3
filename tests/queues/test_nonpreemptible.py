"""What gangs may use that cannot be evicted."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from extender.objects.queue import Flavor, Queue, Quota
from extender.queues.nonpreemptible import NonPreemptibleUse
from extender.queues.tree import QueueTree

GPU, FLAVOR = "nvidia.com/gpu", "h100"


def queue(name: str, nominal: int, parent: str = "") -> Queue:
    """Return a Queue with a quota of GPUs."""
    return Queue(name, uid=name, parent=parent, flavors=(Flavor(FLAVOR, {GPU: Quota(nominal)}),))


def org(*children: tuple[str, int], own: int = 4) -> QueueTree:
    """Return a tree of one level below `org`."""
    return QueueTree([queue("org", own), *(queue(name, nominal, "org") for name, nominal in children)])


def left(use: NonPreemptibleUse, tree: QueueTree, name: str) -> int:
    """Return how many GPUs are left of a queue."""
    short = use.shortage(tree, name, FLAVOR, {GPU: 1000})
    assert short is not None
    return short.available


def test_the_own_quota_first_then_that_above() -> None:
    """What a sibling contributes is never used, and who has used what is above leaves less of it to the others."""
    tree, use = org(("a", 2), ("b", 8)), NonPreemptibleUse()
    assert (left(use, tree, "a"), left(use, tree, "b"), left(use, tree, "org")) == (6, 12, 4)
    use.charge(tree, "a", FLAVOR, {GPU: 3}, 1)
    assert (left(use, tree, "a"), left(use, tree, "b"), left(use, tree, "org")) == (3, 11, 3)
    use.charge(tree, "a", FLAVOR, {GPU: 3}, -1)
    assert (left(use, tree, "a"), left(use, tree, "b"), left(use, tree, "org")) == (6, 12, 4)


def test_what_never_fits_goes_before_what_does_not_fit_now() -> None:
    """The shortage says the most that the queue could have; what has no quota is not asked about."""
    tree, use = org(("a", 2), ("b", 8)), NonPreemptibleUse()
    use.charge(tree, "a", FLAVOR, {GPU: 5}, 1)
    now = use.shortage(tree, "a", FLAVOR, {GPU: 2, "cpu": 1000})
    never = use.shortage(tree, "a", FLAVOR, {GPU: 7})
    assert now is not None
    assert never is not None
    assert (now.asked, now.available, now.most, now.ever, now.nonpreemptible) == (2, 1, 6, False, True)
    assert (never.asked, never.most, never.ever) == (7, 6, True)
    assert use.shortage(tree, "a", FLAVOR, {GPU: 1, "cpu": 1000}) is None


def test_a_queue_that_has_lost_quota_leaves_others_theirs() -> None:
    """What it uses beyond that goes up; below zero nothing is left anywhere."""
    tree, use = org(("a", 6), ("b", 8)), NonPreemptibleUse()
    use.charge(tree, "a", FLAVOR, {GPU: 6}, 1)
    assert left(use, tree, "b") == 12
    tree.put(queue("a", 1, "org"))
    use.forget_tree()
    assert (left(use, tree, "a"), left(use, tree, "b")) == (0, 8)


def test_a_queue_that_is_gone_uses_nothing_of_others() -> None:
    """Its pods still run, and count again once it is there again."""
    tree, use = org(("a", 0), ("b", 8)), NonPreemptibleUse()
    use.charge(tree, "a", FLAVOR, {GPU: 3}, 1)
    tree.drop("a")
    use.forget_tree()
    assert left(use, tree, "b") == 12
    tree.put(queue("a", 0, "org"))
    use.forget_tree()
    assert left(use.copy(), tree, "b") == 9


Change = tuple[str, int]
CHANGES = st.lists(st.tuples(st.sampled_from(["root", "x", "x1", "x2", "y"]), st.integers(1, 6)), max_size=12)


@given(CHANGES, st.lists(st.integers(0, 6), min_size=5, max_size=5), st.sampled_from(["root", "x", "x1", "x2", "y"]))
def test_it_is_what_a_flow_of_nominal_quota_says(changes: list[Change], nominal: list[int], asks: str) -> None:
    """However it came to be: each level takes what it has quota for, and hands on the rest."""
    parents = {"root": "", "x": "root", "x1": "x", "x2": "x", "y": "root"}
    quota = dict(zip(parents, nominal, strict=True))
    tree, use = QueueTree(queue(name, quota[name], parent) for name, parent in parents.items()), NonPreemptibleUse()
    held: Counter[str] = Counter()
    for number, (name, amount) in enumerate(changes):
        sign = -1 if number % 3 == 2 and held[name] >= amount else 1
        held[name] += sign * amount
        use.charge(tree, name, FLAVOR, {GPU: amount}, sign)
        left(use, tree, asks)  # from here on it is kept in step

    def up(name: str) -> int:
        used = held[name] + sum(up(child) for child, parent in parents.items() if parent == name)
        return max(0, used - quota[name])

    before, more = up("root"), 0
    while more < 40:
        held[asks] += 1
        if up("root") > before:
            break
        more += 1
    assert left(use, tree, asks) == more
