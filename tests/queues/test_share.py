"""Shares, whose turn it is, and that shares come to be as the weights say."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.queue import Queue
from extender.queues.member import QueueShare
from extender.queues.tree import QueueTree
from tests.builders import GPU
from tests.examples import share
from tests.queues.builders import H100, flavor, forests, queue

TOTALS = {GPU: 64, "cpu": 1000}


def order(tree: QueueTree, *names: str) -> list[str]:
    """Return queues in the order in which it is their turn."""
    return sorted(names or tree, key=lambda name: tree.standing(name, TOTALS))


def test_without_quota_all_that_is_used_counts() -> None:
    """A share is of what the cluster has, by the resource of which it is most, divided by the weight."""
    tree = QueueTree([queue("a", weight=2.0), queue("b")])
    tree.charge("a", "", {GPU: 16, "cpu": 750, "unheard-of": 5})
    assert tree.share("a", TOTALS) == QueueShare(0.375, 0.375)
    assert tree.share("b", TOTALS) == QueueShare(0.0, 0.0)
    assert order(tree) == ["b", "a"]


def test_with_quota_what_is_borrowed_counts_first() -> None:
    """Of what the cohort could lend at most; who borrows nothing goes before who does, however much it uses."""
    tree = QueueTree([queue("org"), queue("a", "org", 32), queue("b", "org", 4), queue("c", "org", 4)])
    tree.charge("a", H100, {GPU: 30})
    tree.charge("b", H100, {GPU: 5, "cpu": 900})
    assert tree.share("a", TOTALS) == QueueShare(0.0, 30 / 64)
    assert tree.share("b", TOTALS) == QueueShare(1 / 40, 0.9)
    assert order(tree, "a", "b", "c") == ["c", "a", "b"]


def test_what_is_above_quota_counts_by_the_cluster_where_nothing_is_left_to_lend() -> None:
    """After a quota was lowered to nothing."""
    tree = QueueTree([queue("a", gpus=0)])
    tree.charge("a", H100, {GPU: 16})
    assert tree.share("a", TOTALS) == QueueShare(0.25, 0.25)


def test_resources_of_several_flavors_add_up() -> None:
    """A share is by resource: a GPU of one flavor counts as one of another."""
    flavors = (flavor("h100", {GPU: 4}), flavor("b200", {GPU: 4}))
    tree = QueueTree([queue("org", flavors=flavors), queue("a", "org")])
    tree.charge("a", "h100", {GPU: 2})
    tree.charge("a", "b200", {GPU: 2})
    assert tree.share("a", TOTALS).borrowed == 4 / 8


def test_priority_goes_before_shares_and_branches_compete_as_wholes() -> None:
    """Between queues of two branches it is the branches' turns that count."""
    queues = [queue("x", "org"), queue("y", "org"), queue("x1", "x"), queue("x2", "x"), queue("y1", "y")]
    tree = QueueTree([queue("org"), *queues, queue("urgent", "org", priority=1)])
    tree.charge("x1", "", {GPU: 8})
    tree.charge("y1", "", {GPU: 4})
    tree.charge("urgent", "", {GPU: 32})
    assert order(tree, "x1", "x2", "y1", "urgent") == ["urgent", "y1", "x2", "x1"]


def test_an_inner_queues_own_gangs_compete_with_its_children() -> None:
    """As one more child of weight 1."""
    tree = QueueTree([queue("org", gpus=8), queue("a", "org", weight=2.0)])
    assert order(tree, "org", "a") == ["org", "a"]
    tree.charge("org", H100, {GPU: 10})
    tree.charge("a", H100, {GPU: 6})
    assert order(tree, "org", "a") == ["org", "a"], "2 of 8 beyond quota against 6 of 8, halved"
    tree.charge("org", H100, {GPU: 2})
    assert order(tree, "org", "a") == ["a", "org"]


def test_equal_shares_go_by_name() -> None:
    """So that the order never depends on chance."""
    assert order(QueueTree([queue("b"), queue("a"), queue("c")])) == ["a", "b", "c"]


def test_the_past_counts_where_it_was_more() -> None:
    """The larger of past and present usage, so that neither hides the other."""
    tree = QueueTree([queue("org"), queue("a", "org", 8), queue("b", "org", 8)])
    tree.charge("a", H100, {GPU: 12})
    assert tree.share("a", TOTALS, {GPU: 8.0}) == tree.share("a", TOTALS)
    assert tree.share("b", TOTALS, {GPU: 16.0, "cpu": 100.0}) == QueueShare(0.5, 0.25)
    past = {"b": {GPU: 16.0}}
    turns = sorted("ab", key=lambda name: tree.standing(name, TOTALS, past))
    assert turns == ["a", "b"]
    assert order(tree, "a", "b") == ["b", "a"], "without the past"


def test_standing_follows_what_is_charged_and_what_there_is() -> None:
    """Keys that are kept at hand are never out of date."""
    tree = QueueTree([queue("org"), queue("a", "org"), queue("b", "org")])
    before = tree.standing("a", TOTALS)
    assert tree.standing("a", dict(TOTALS)) == before
    tree.charge("b", "", {GPU: 8})
    assert tree.standing("a", TOTALS) != before, "the root's share has changed"
    tree.refund("b", "", {GPU: 8})
    assert tree.standing("a", TOTALS) == before
    tree.charge("a", "", {GPU: 8})
    assert tree.standing("a", TOTALS)[-1] == (0, 8 / 64, 8 / 64, "a")
    assert tree.standing("a", {GPU: 128})[-1] == (0, 8 / 128, 8 / 128, "a")
    totals = {GPU: 16}
    assert tree.standing("a", totals)[-1][1] == 0.5
    totals[GPU] = 32
    assert tree.standing("a", totals)[-1][1] == 0.25, "the same mapping with other totals"


@given(forests(), st.data())
@share(0.4)
def test_standing_at_hand_is_standing_worked_out(queues: Sequence[Queue], data: st.DataObject) -> None:
    """After any charges, the standing of each queue is that of a tree to which they were made before anybody asked."""
    names = st.sampled_from([each.name for each in queues])
    charges = data.draw(st.lists(st.tuples(names, st.sampled_from("ab"), st.integers(1, 9)), max_size=6))
    asked, fresh = QueueTree(queues), QueueTree(queues)
    totals = {"gpu": 50}
    for name, where, count in charges:
        for each in asked:
            asked.standing(each, totals)
        asked.charge(name, where, {"gpu": count})
        fresh.charge(name, where, {"gpu": count})
    assert {each: asked.standing(each, totals) for each in asked} == {
        each: fresh.standing(each, totals) for each in fresh
    }


def run(queues: Sequence[Queue], capacity: int, *, seed: int = 1, rounds: int = 3000) -> dict[str, float]:
    """Let every queue without children ask for as much as it can get, and gangs of 1 to 8 GPUs end at random.

    It is always the turn of the queue with the lowest standing, until nothing fits. Returns the mean number of GPUs of
    each queue after the first tenth.
    """
    chance, tree = random.Random(seed), QueueTree(queues)
    leaves = [name for name in tree if not tree.children(name)]
    totals, running, used = {GPU: capacity}, [], 0
    mean: Counter[str] = Counter()
    waiting = {name: chance.randint(1, 8) for name in leaves}
    for now in range(rounds):
        stuck: set[str] = set()
        while candidates := [name for name in leaves if name not in stuck]:
            name = min(candidates, key=lambda each: tree.standing(each, totals))
            size = waiting[name]
            if used + size > capacity:
                break
            if tree.shortage(name, H100, {GPU: size}) is not None:
                stuck.add(name)
                continue
            tree.charge(name, H100, {GPU: size})
            running.append((name, size))
            used += size
            waiting[name] = chance.randint(1, 8)
        if now >= rounds // 10:
            mean.update({name: tree.usage(name).get(GPU, 0) for name in leaves})
        name, size = running.pop(chance.randrange(len(running)))
        tree.refund(name, H100, {GPU: size})
        used -= size
    return {name: mean[name] / (rounds - rounds // 10) for name in leaves}


@pytest.mark.parametrize("seed", [1, 2])
def test_shares_converge_to_weights(seed: int) -> None:
    """Queues without quota that all want more than there is have GPUs in proportion to their weights."""
    weights = {"a": 1.0, "b": 2.0, "c": 5.0}
    got = run([queue("org"), *(queue(each, "org", weight=weights[each]) for each in weights)], 512, seed=seed)
    assert got == pytest.approx({each: 512 * weights[each] / 8 for each in weights}, rel=0.05)


def test_shares_converge_to_weights_at_every_level() -> None:
    """A branch's weight is shared among what is below it, however many that are."""
    queues = [queue("org"), queue("x", "org", weight=3.0), queue("y", "org"), queue("y1", "y")]
    queues += [queue("x1", "x"), queue("x2", "x", weight=2.0)]
    got = run(queues, 256)
    assert got == pytest.approx({"x1": 64, "x2": 128, "y1": 64}, rel=0.05)


def test_what_is_beyond_quota_converges_to_weights() -> None:
    """Each has its quota, and of what the cohort has beyond that a part by its weight."""
    queues = [queue("org", gpus=96), queue("a", "org", 128, weight=1.0), queue("b", "org", 32, weight=2.0)]
    got = run(queues, 256)
    assert got == pytest.approx({"a": 128 + 32, "b": 32 + 64}, rel=0.05)
