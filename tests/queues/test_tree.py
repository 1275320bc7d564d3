"""Quota: what a queue may take, what it borrows and lends, and what it takes back."""

from __future__ import annotations

import pytest

from extender.clock import thread_cpu_seconds
from extender.queues.tree import QueueTree, QuotaShortage
from tests.builders import GPU
from tests.queues.builders import H100, flavor, queue


@pytest.fixture
def teams() -> QueueTree:
    """Return two teams with 16 GPUs each, of which each may borrow 8."""
    return QueueTree([queue("org"), queue("a", "org", 16, borrow=8), queue("b", "org", 16, borrow=8)])


def gpus(count: int) -> dict[str, int]:
    """Return an amount of GPUs."""
    return {GPU: count}


def numbers(tree: QueueTree, name: str) -> dict[str, int]:
    """Return what a queue uses, borrows and lends."""
    return {
        "used": tree.used(name, H100, GPU),
        "borrowed": tree.borrowed(name, H100, GPU),
        "lent": tree.lent(name, H100, GPU),
    }


def test_a_team_borrows_what_the_other_does_not_use(teams: QueueTree) -> None:
    """Up to its borrowing limit, and the one that lends sees it."""
    assert teams.available("a", H100, GPU) == 24
    teams.charge("a", H100, gpus(24))
    teams.charge("b", H100, gpus(4))
    assert numbers(teams, "a") == {"used": 24, "borrowed": 8, "lent": 0}
    assert numbers(teams, "b") == {"used": 4, "borrowed": 0, "lent": 8}
    assert numbers(teams, "org") == {"used": 28, "borrowed": 0, "lent": 0}
    assert teams.nominal("org", H100, GPU) == 32


def short(queue: str, asked: int, available: int, *, most: int, ever: bool = False) -> QuotaShortage:
    """Return a shortage of H100 GPUs."""
    return QuotaShortage(queue, H100, GPU, asked, available, ever, most)


def test_what_is_lacking_is_said_with_where(teams: QueueTree) -> None:
    """The queue itself where its borrowing limit ends, the ancestor where it has no more; the nearest of them."""
    teams.charge("a", H100, gpus(20))
    assert teams.shortage("a", H100, gpus(4)) is None
    assert teams.shortage("a", H100, gpus(5)) == QuotaShortage(
        "a", H100, GPU, asked=5, available=4, ever=False, most=24
    )
    assert teams.shortage("b", H100, gpus(13)) == QuotaShortage(
        "org", H100, GPU, asked=13, available=12, ever=False, most=24
    )
    assert teams.shortage("b", H100, gpus(25)) == QuotaShortage(
        "b", H100, GPU, asked=25, available=12, ever=True, most=24
    )


def test_what_can_never_be_had_is_said_first() -> None:
    """Waiting for the other resource would be in vain."""
    tree = QueueTree([queue("a", flavors=(flavor(H100, {GPU: 8, "cpu": 1000}),))])
    tree.charge("a", H100, {GPU: 8, "cpu": 1000})
    shortage = tree.shortage("a", H100, {GPU: 1, "cpu": 2000})
    assert shortage is not None
    assert (shortage.resource, shortage.ever, shortage.available) == ("cpu", True, 0)


def test_resources_without_quota_are_not_limited(teams: QueueTree) -> None:
    """They are neither lacking nor borrowed, but count as used."""
    amounts = {"cpu": 10**9, GPU: 1}
    assert teams.shortage("a", H100, amounts) is None
    assert teams.available("a", H100, "cpu") is None
    teams.charge("a", H100, amounts)
    teams.charge("a", "", {"cpu": 5})
    assert not teams.borrows("a", H100)
    assert teams.usage("a") == teams.usage("org") == {"cpu": 10**9 + 5, GPU: 1}
    assert teams.usage("b") == {}
    assert (teams.used("a", H100, "cpu"), teams.nominal("a", H100, "cpu")) == (0, 0)
    assert (teams.borrowed("a", H100, "cpu"), teams.lent("a", H100, "cpu")) == (0, 0)


def test_what_is_kept_is_not_lent() -> None:
    """A lending limit keeps quota for its owner, and its use of that does not show above."""
    tree = QueueTree([queue("org"), queue("a", "org", 16, lend=4), queue("b", "org", 0)])
    assert tree.available("b", H100, GPU) == 4
    tree.charge("b", H100, gpus(4))
    assert tree.available("a", H100, GPU) == 12
    tree.charge("a", H100, gpus(12))
    assert numbers(tree, "org") == {"used": 4, "borrowed": 0, "lent": 0}
    assert numbers(tree, "a") == {"used": 12, "borrowed": 0, "lent": 4}


def test_what_a_queue_keeps_is_its_own_even_if_the_tree_has_too_little() -> None:
    """After a quota was lowered, more is used than there is; what is never lent can be used all the same."""
    tree = QueueTree([queue("org"), queue("a", "org", 16, lend=4), queue("b", "org", 0)])
    tree.charge("b", H100, gpus(10))
    assert tree.available("b", H100, GPU) == 0
    assert tree.available("a", H100, GPU) == 12
    assert tree.shortage("a", H100, gpus(12)) is None
    assert tree.shortage("a", H100, gpus(13)) == QuotaShortage(
        "org", H100, GPU, asked=13, available=12, ever=False, most=16
    )


def test_a_parents_quota_adds_to_its_childrens() -> None:
    """It is a pool beside theirs, not a limit; children without any share it up to what each may borrow."""
    tree = QueueTree([queue("org", gpus=10), queue("a", "org", 8), queue("b", "org", 8)])
    assert tree.nominal("org", H100, GPU) == 26
    assert tree.shortage("a", H100, gpus(26)) is None
    tree = QueueTree([queue("org", gpus=10), *(queue(name, "org", 0, borrow=8) for name in "ab")])
    assert tree.nominal("org", H100, GPU) == 10
    tree.charge("a", H100, gpus(8))
    assert tree.available("a", H100, GPU) == 0
    assert tree.available("b", H100, GPU) == 2
    tree.charge("b", H100, gpus(2))
    assert tree.shares_where_they_meet("a", "b", {}) == (0.8, 0.2)


def test_an_inner_queues_gangs_use_what_its_children_lend() -> None:
    """Every queue may hold gangs."""
    tree = QueueTree([queue("org"), queue("a", "org", 16), queue("b", "org", 16, lend=0)])
    assert tree.shortage("org", H100, gpus(17)) == QuotaShortage(
        "org", H100, GPU, asked=17, available=16, ever=True, most=16
    )
    tree.charge("org", H100, gpus(16))
    assert numbers(tree, "a") == {"used": 0, "borrowed": 0, "lent": 16}
    assert numbers(tree, "b") == {"used": 0, "borrowed": 0, "lent": 0}
    assert tree.reclaims("a", "org", H100, gpus(16))
    assert not tree.reclaims("org", "a", H100, gpus(1))


def test_lending_is_shared_out_by_what_is_unused() -> None:
    """Two who could have lent the same have lent half each, and the parts add up."""
    tree = QueueTree([queue("org", gpus=8), queue("a", "org", 12), queue("b", "org", 12), queue("c", "org", 0)])
    tree.charge("b", H100, gpus(8))
    tree.charge("c", H100, gpus(6))
    assert [tree.lent(name, H100, GPU) for name in "abc"] == [3, 1, 0]


def test_unknown_queues_are_charged_nothing(teams: QueueTree) -> None:
    """A gang may name a queue that does not exist (any more)."""
    teams.charge("gone", H100, gpus(4))
    teams.refund("gone", H100, gpus(4))
    assert numbers(teams, "org") == {"used": 0, "borrowed": 0, "lent": 0}


def test_a_queue_borrows_beyond_its_quota(teams: QueueTree) -> None:
    """Now, or with what is asked for in addition."""
    teams.charge("a", H100, gpus(16))
    assert not teams.borrows("a", H100)
    assert teams.borrows("a", H100, gpus(1))
    assert not teams.borrows("a", H100, {"cpu": 1})
    teams.charge("a", H100, gpus(1))
    assert teams.borrows("a", H100)
    assert teams.borrows("a", H100, gpus(0))


def test_quota_is_taken_back_from_who_has_borrowed_it(teams: QueueTree) -> None:
    """By a gang that stays within its own, from a queue that is beyond its own."""
    teams.charge("a", H100, gpus(24))
    assert teams.reclaims("b", "a", H100, gpus(16))
    assert not teams.reclaims("b", "a", H100, gpus(17))
    assert not teams.reclaims("a", "b", H100, gpus(1))
    assert not teams.reclaims("b", "a", H100, {"cpu": 1})
    assert not teams.reclaims("a", "a", H100, gpus(1))
    assert teams.borrows_from("a", "b", H100, gpus(17))


def test_a_department_takes_its_quota_back_for_its_teams() -> None:
    """A team without quota of its own takes back what its department has."""
    queues = [queue("org"), queue("x", "org", 8), queue("x1", "x"), queue("x2", "x"), queue("y", "org", 8)]
    tree = QueueTree(queues)
    tree.charge("y", H100, gpus(16))
    assert tree.reclaims("x1", "y", H100, gpus(8))
    tree.refund("y", H100, gpus(8))
    tree.charge("x1", H100, gpus(8))
    assert not tree.reclaims("x2", "y", H100, gpus(1))
    assert not tree.reclaims("x2", "x1", H100, gpus(1)), "both have nothing of their own"


def test_nobody_pays_for_what_a_sibling_has_borrowed() -> None:
    """While another team of the branch uses too much, that one gives way, not those of other branches."""
    queues = [queue("org"), queue("x", "org"), queue("x1", "x", 8), queue("x2", "x", 0), queue("y", "org", 8)]
    tree = QueueTree([*queues, queue("z", "org", 8)])
    tree.charge("x2", H100, gpus(12))
    tree.charge("y", H100, gpus(12))
    assert tree.reclaims("x1", "x2", H100, gpus(8))
    assert not tree.reclaims("x1", "y", H100, gpus(8))
    assert tree.reclaims("z", "x2", H100, gpus(8))


def test_a_borrower_within_a_branch_that_borrows_nothing_is_safe_from_outside() -> None:
    """What it has borrowed is its own branch's."""
    queues = [queue("org"), queue("x", "org"), queue("x1", "x", 8), queue("x2", "x", 0), queue("y", "org", 8)]
    tree = QueueTree(queues)
    tree.charge("x2", H100, gpus(8))
    assert not tree.reclaims("y", "x2", H100, gpus(8))
    assert tree.reclaims("x1", "x2", H100, gpus(8))


def test_trees_share_nothing() -> None:
    """A root is what Kueue calls a cohort."""
    tree = QueueTree([queue("a", gpus=8), queue("b", gpus=8)])
    tree.charge("a", H100, gpus(12))
    assert tree.available("b", H100, GPU) == 8
    assert not tree.reclaims("b", "a", H100, gpus(8))
    assert not tree.borrows_from("a", "b", H100, gpus(8))


def test_a_thousand_gangs_in_fifty_queues_are_asked_in_no_time() -> None:
    """Standing, lack and charge of each: what a pass asks, in a fraction of its 50 ms where nothing is traced."""
    queues = [queue("org"), *(queue(f"t{index}", "org") for index in range(7))]
    queues += [queue(f"q{index}", f"t{index % 7}", 16, borrow=32) for index in range(42)]
    totals, amounts = {GPU: 5000, "cpu": 10**7, "memory": 10**13}, {GPU: 1, "cpu": 1000, "memory": 10**9}
    taken = []
    for _ in range(5):  # a collection of all that the process holds may fall into some of them
        tree, admitted = QueueTree(queues), 0
        before = thread_cpu_seconds()
        for index in range(1000):
            name = f"q{index % 42}"
            tree.standing(name, totals)
            if tree.shortage(name, H100, amounts) is None:
                tree.charge(name, H100, amounts)
                admitted += 1
        taken.append(thread_cpu_seconds() - before)
        assert admitted == 672
    assert min(taken) < 0.25  # it takes 10 ms; tracing for coverage makes it several times as much


def test_the_worked_example_of_the_tree() -> None:
    """What queues have, lack and reclaim, and which is next, as `tree.py` shows it."""
    children = [queue("a", "org", 8, lend=4), queue("b", "org", 8), queue("c", "org", 0, borrow=6)]
    tree = QueueTree([queue("org"), *children])
    tree.charge("b", H100, {GPU: 10})
    figures = {
        name: [read(name, H100, GPU) for read in (tree.nominal, tree.used, tree.borrowed, tree.available)]
        for name in tree
    }
    assert figures == {"org": [12, 10, 0, 2], "a": [8, 0, 0, 6], "b": [8, 10, 2, 2], "c": [0, 0, 0, 2]}
    assert tree.shortage("c", H100, {GPU: 4}) == short("org", 4, 2, most=6)
    assert tree.shortage("c", H100, {GPU: 7}) == short("c", 7, 2, most=6, ever=True)
    assert tree.shortage("a", H100, {GPU: 8}) == short("org", 8, 6, most=16)
    assert tree.reclaims("a", "b", H100, {GPU: 8})
    shares = {name: tree.share(name, {GPU: 32}).borrowed for name in "abc"}
    assert shares == {"a": 0, "b": pytest.approx(2 / 12), "c": 0}
    assert max("abc", key=lambda name: tree.standing(name, {GPU: 32})) == "b"


def test_what_can_be_had_at_most_does_not_depend_on_what_is_used() -> None:
    """A shortage for ever names the queue's maximum; what is left now is another number."""
    tree = QueueTree([queue("a", gpus=16)])
    tree.charge("a", H100, gpus(16))
    shortage = tree.shortage("a", H100, gpus(32))
    assert shortage is not None
    assert (shortage.ever, shortage.available, shortage.most) == (True, 0, 16)
