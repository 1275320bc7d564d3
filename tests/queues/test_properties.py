"""What holds of every tree of queues, whatever is charged to it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.queue import Flavor, Queue, Quota
from extender.queues.tree import QueueTree, reclaimable
from tests.examples import share
from tests.queues.builders import FLAVORS, RESOURCES, amounts, flavors, forests
from tests.queues.naive import NaiveTree

Charge = tuple[str, str, Mapping[str, int]]

WHERE = [*product(FLAVORS, RESOURCES)]

#: Each example asks every queue everything.
FEW = share(0.4)


@st.composite
def charged(draw: st.DrawFn, *, within: bool) -> tuple[list[Queue], list[Charge]]:
    """Draw queues and charges to them; `within` leaves out those that `shortage` does not let in."""
    queues = draw(forests())
    tree, charges = QueueTree(queues), []
    names = st.sampled_from([queue.name for queue in queues])
    for charge in draw(st.lists(st.tuples(names, st.sampled_from(FLAVORS), amounts), max_size=8)):
        if not within or tree.shortage(*charge) is None:
            tree.charge(*charge)
            charges.append(charge)
    return queues, charges


def build(queues: list[Queue], charges: list[Charge]) -> tuple[QueueTree, NaiveTree]:
    """Charge a tree and the naive one."""
    tree, naive = QueueTree(queues), NaiveTree(queues)
    for charge in charges:
        tree.charge(*charge)
        naive.charge(*charge)
    return tree, naive


def state(tree: QueueTree) -> dict[str, object]:
    """Return all that a tree says of what is charged to it."""
    totals = {"gpu": 100, "cpu": 100}
    return {
        name: (
            tree.usage(name),
            tree.standing(name, totals),
            [(tree.used(name, *at), tree.lent(name, *at), tree.available(name, *at)) for at in WHERE],
        )
        for name in tree
    }


@FEW
@given(charged(within=False), st.randoms(use_true_random=False))
def test_a_refund_undoes_a_charge_in_any_order(drawn: tuple[list[Queue], list[Charge]], order: random.Random) -> None:
    """After all charges have been given back, in whatever order, nothing is left of them."""
    queues, charges = drawn
    tree, _ = build(queues, charges)
    order.shuffle(charges)
    for charge in charges:
        tree.refund(*charge)
    assert state(tree) == state(QueueTree(queues))


@FEW
@given(charged(within=False), st.randoms(use_true_random=False))
def test_a_charge_is_a_what_if(drawn: tuple[list[Queue], list[Charge]], order: random.Random) -> None:
    """Giving back and charging again what others were charged leaves everything as it was."""
    queues, charges = drawn
    tree, _ = build(queues, charges)
    before = state(tree)
    chosen = order.sample(charges, order.randint(0, len(charges)))
    for charge in chosen:
        tree.refund(*charge)
    for charge in order.sample(chosen, len(chosen)):
        tree.charge(*charge)
    assert state(tree) == before


@FEW
@given(charged(within=False))
def test_what_is_used_is_what_the_rules_say(drawn: tuple[list[Queue], list[Charge]]) -> None:
    """Used, nominal, borrowed and limited are those of the naive model."""
    tree, naive = build(*drawn)
    for name, (flavor, resource) in product(tree, WHERE):
        limited = naive.limited(name, flavor, resource)
        assert (resource in tree.limited(name, flavor)) == limited
        assert (tree.available(name, flavor, resource) is None) != limited
        if limited:
            uses, has = naive.uses(name, flavor, resource), naive.has(name, flavor, resource)
            assert tree.used(name, flavor, resource) == uses
            assert tree.nominal(name, flavor, resource) == has
            assert tree.borrowed(name, flavor, resource) == max(0, uses - has)
            assert tree.borrows(name, flavor, {resource: 3}) == (uses + 3 > has)


@FEW
@given(charged(within=False), amounts)
def test_what_is_let_in_is_what_the_rules_let_in(
    drawn: tuple[list[Queue], list[Charge]], asked: Mapping[str, int]
) -> None:
    """`available` and `shortage` agree with the naive model, which tries; also where too much is charged."""
    tree, naive = build(*drawn)
    empty = NaiveTree(drawn[0])
    for name, flavor in product(tree, FLAVORS):
        short = {each: asked[each] for each in asked if each in tree.limited(name, flavor) and asked[each]}
        for resource in short:
            available = tree.available(name, flavor, resource)
            assert available is not None
            assert not naive.admits(name, flavor, resource, available + 1)
            assert available == 0 or naive.admits(name, flavor, resource, available)
        short = {each: amount for each, amount in short.items() if not naive.admits(name, flavor, each, amount)}
        shortage = tree.shortage(name, flavor, asked)
        assert (shortage is None) == (not short)
        if shortage is not None:
            assert shortage.asked == short[shortage.resource] > shortage.available
            assert shortage.available == tree.available(name, flavor, shortage.resource)
            never = [each for each, amount in short.items() if not empty.admits(name, flavor, each, amount)]
            assert shortage.ever == (shortage.resource in never) == bool(never)
            assert shortage.queue in tree.path(name)


@FEW
@given(charged(within=True))
def test_quota_is_never_exceeded_beyond_borrowing(drawn: tuple[list[Queue], list[Charge]]) -> None:
    """If only what `shortage` lets in is charged, no queue exceeds quota and borrowing limit, no tree its sum."""
    tree, naive = build(*drawn)
    for name, at in product(tree, WHERE):
        if naive.limited(name, *at):
            assert naive.sound(name, *at)


@FEW
@given(charged(within=True))
def test_whatever_is_lent_somebody_borrows(drawn: tuple[list[Queue], list[Charge]]) -> None:
    """In each tree what queues lend is what their siblings and their parent's own gangs borrow, or those above them."""
    tree, naive = build(*drawn)
    for name, at in product(tree, WHERE):
        lent = tree.lent(name, *at)
        assert 0 <= lent <= max(0, tree.nominal(name, *at) - tree.used(name, *at))
        children = tree.children(name)
        if naive.limited(name, *at) and children:
            own = naive.charged[name, *at] - (naive.quota(name, *at) or Quota()).nominal
            borrowed = max(0, own) + sum(tree.borrowed(child, *at) for child in children)
            given_away = sum(tree.lent(child, *at) for child in children)
            from_outside = tree.borrowed(name, *at) - lent
            assert given_away <= borrowed - from_outside <= given_away + max(0, -own)


def fill(queues: list[Queue], chance: random.Random) -> list[Charge]:
    """Let queues take what they get until little is left; return who runs."""
    tree = QueueTree(queues)
    charges: list[Charge] = []
    for _ in range(40):
        charge = chance.choice(queues).name, chance.choice(FLAVORS), {each: chance.randint(0, 4) for each in RESOURCES}
        if tree.shortage(*charge) is None:
            tree.charge(*charge)
            charges.append(charge)
    return charges


@FEW
@given(forests(), st.randoms(use_true_random=False))
def test_lent_quota_can_always_be_had_back(queues: list[Queue], chance: random.Random) -> None:
    """Who asks for no more than its own quota gets it, by evicting those that `reclaims` names, one after the other.

    Nobody is evicted who does not borrow at that moment, and nobody who is could take it back in turn.
    """
    charges = fill(queues, chance)
    for queue, flavor in product(queues, FLAVORS):
        tree, naive = build(queues, charges)

        def left(name: str, resource: str, flavor: str = flavor, naive: NaiveTree = naive) -> int:
            quota = naive.quota(name, flavor, resource) or Quota()
            return quota.nominal - naive.charged[name, flavor, resource]

        wanted = {each: amount for each in RESOURCES if (amount := left(queue.name, each)) > 0}
        running, evicted = chance.sample(charges, len(charges)), []
        while tree.shortage(queue.name, flavor, wanted) is not None:
            victim = next(
                each for each in running if each[1] == flavor and tree.reclaims(queue.name, each[0], flavor, wanted)
            )
            assert any(left(victim[0], each) < 0 for each in wanted)
            running.remove(victim)
            evicted.append(victim)
            tree.refund(*victim)
            naive.charge(*victim, -1)
        tree.charge(queue.name, flavor, wanted)
        for victim in evicted:
            assert not tree.reclaims(victim[0], queue.name, flavor, {each: victim[2][each] for each in wanted})


@FEW
@given(forests(), st.randoms(use_true_random=False))
def test_who_is_reclaimable_is_enough(queues: list[Queue], chance: random.Random) -> None:
    """Once all queues that are named are within their own quota, whoever asks for no more than its own gets it.

    Asking changes nothing.
    """
    charges = fill(queues, chance)
    tree, naive = build(queues, charges)
    before = state(tree)
    for queue, flavor in product(queues, FLAVORS):
        nominal = {each: (naive.quota(queue.name, flavor, each) or Quota()).nominal for each in RESOURCES}
        wanted = {each: nominal[each] - naive.charged[queue.name, flavor, each] for each in RESOURCES}
        wanted = {each: amount for each, amount in wanted.items() if amount > 0}
        named = reclaimable(tree, queue.name, flavor, wanted)
        assert state(tree) == before
        if tree.shortage(queue.name, flavor, wanted) is None:
            continue
        evicted = []
        for victim in chance.sample(charges, len(charges)):
            if victim[1] == flavor and victim[0] in named and tree.excess(victim[0], flavor):
                tree.refund(*victim)
                evicted.append(victim)
        assert tree.shortage(queue.name, flavor, wanted) is None
        for victim in evicted:
            tree.charge(*victim)


@FEW
@given(charged(within=True), amounts)
def test_nobody_reclaims_from_whom_it_is_not_related_to(
    drawn: tuple[list[Queue], list[Charge]], asked: Mapping[str, int]
) -> None:
    """Reclaiming ends at the root, never takes from one's own queue, nor from queues within their quota."""
    tree, _ = build(*drawn)
    for one, other, flavor in product(tree, tree, FLAVORS):
        if tree.reclaims(one, other, flavor, asked):
            assert one != other
            assert tree.path(one)[-1] == tree.path(other)[-1]
            assert tree.borrows_from(other, one, flavor, asked)
            below = [each for each in tree.path(other) if each not in tree.path(one)]
            assert any(all(tree.borrowed(each, flavor, resource) for each in below) for resource in asked)
            assert not tree.reclaims(other, one, flavor, asked)


@st.composite
def wild_forests(draw: st.DrawFn) -> list[Queue]:
    """Draw 50 queues whose parents are anybody, themselves and nobody included."""
    names = [f"q{index}" for index in range(50)]
    parent = st.sampled_from(["", "", "nobody", *names])
    return [Queue(name, parent=draw(parent), created=draw(st.sampled_from(["", "1", "2"]))) for name in names]


@FEW
@given(wild_forests())
def test_unsound_queues_do_not_keep_the_others_from_working(queues: list[Queue]) -> None:
    """Of any 50 queues those that a root leads to are at work, and each of the others has a problem."""
    by_name = {queue.name: queue for queue in queues}

    def is_sound(name: str) -> bool:
        for _ in queues:
            if not name or name not in by_name:
                break
            name = by_name[name].parent
        return not name

    tree = QueueTree(queues)
    sound = {name for name in by_name if is_sound(name)}
    assert set(tree) == sound
    assert tree.problems.keys() == by_name.keys() - sound
    assert all(problem.field == "spec.parent" for each in tree.problems.values() for problem in each)
    for name in tree:
        assert tree.path(name)[0] == name
        assert tree.children(name) == tuple(
            sorted(
                (each for each in sound if by_name[each].parent == name), key=lambda n: (by_name[n].created or "~", n)
            )
        )


@st.composite
def odd_queues(draw: st.DrawFn) -> list[Queue]:
    """Draw queues with flavors that contradict each other, anywhere."""
    names = ["", "q1", "q2", "q3", "q4"]
    selectors = st.none() | st.sampled_from([(), (("gpu", "h100"),), (("gpu", "b200"),)])
    return [
        Queue(
            draw(st.sampled_from(names)),
            parent=draw(st.sampled_from(names)),
            flavors=tuple(Flavor(each.name, each.quotas, draw(selectors)) for each in draw(flavors())),
            default=draw(st.booleans()),
        )
        for _ in range(draw(st.integers(0, 6)))
    ]


@FEW
@given(odd_queues(), amounts)
def test_no_queue_makes_a_tree_fail(queues: list[Queue], asked: Mapping[str, int]) -> None:
    """Whatever queues there are, every question has an answer, and a flavor is the same nodes throughout a tree."""
    tree = QueueTree(queues)
    for name, flavor in product(tree, FLAVORS):
        tree.charge(name, flavor, asked)
        assert tree.node_selector(name, flavor) == tree.node_selector(tree.path(name)[-1], flavor)
        assert tree.shortage(name, flavor, asked) is None or tree.limited(name, flavor)
        assert tree.share(name, {"gpu": 8}) >= tree.share(name, {"gpu": 16})
    tree.charge("nobody", "a", asked)
    assert "" not in tree
    assert not tree.reclaims("nobody", "q1", "a", asked)
    assert not tree.borrows_from("q1", "nobody", "a", asked)
    assert set(tree) | set(tree.problems) == {queue.name for queue in queues}


@pytest.mark.parametrize("depth", [1, 32])
def test_the_deepest_queue_has_its_quota(depth: int) -> None:
    """A chain of queues as deep as may be works, from the root's quota to the last one's share."""
    queues = [Queue("q0", flavors=(Flavor("a", {"gpu": Quota(8)}),))]
    queues += [Queue(f"q{index}", parent=f"q{index - 1}") for index in range(1, depth)]
    tree = QueueTree(queues)
    last = f"q{depth - 1}"
    assert tree.flavors(last) == ("a",)
    assert tree.available(last, "a", "gpu") == 8
    tree.charge(last, "a", {"gpu": 8})
    assert tree.shortage(last, "a", {"gpu": 1}) is not None
    assert tree.lent("q0", "a", "gpu") == 0
    assert len(tree.standing(last, {"gpu": 8})) == depth
