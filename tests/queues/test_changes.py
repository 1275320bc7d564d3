"""A tree of queues that come and go answers as one that is built afresh from those that are there."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.meta import LabelSelector, Requirement
from extender.objects.queue import Flavor, Queue, Quota
from extender.objects.reason import Problem
from extender.queues.tree import QueueTree, reclaimable
from tests.counting import calls
from tests.examples import share
from tests.queues.builders import FLAVORS, RESOURCES, amounts, quotas

NAMES = [f"q{index}" for index in range(7)]
WHERE = [*product(FLAVORS, RESOURCES)]
TOTALS = {"gpu": 64, "cpu": 64}
ASKED = {"gpu": 3, "cpu": 5}
TEAMS = ("", "a", "b", "c")

selectors = st.none() | st.sampled_from([(), (("gpu", "h100"),)])
namespaces = st.none() | st.builds(
    lambda operator, values: LabelSelector((Requirement("team", operator, values),)),
    st.sampled_from(["In", "NotIn"]),
    st.sampled_from([("a",), ("b",), ("a", "b")]),
)


@st.composite
def any_queue(draw: st.DrawFn) -> Queue:
    """Draw a queue: its parent is anybody or unknown, its flavors may contradict others, and it may be unsound."""
    names = draw(st.lists(st.sampled_from(FLAVORS), unique=True))
    return Queue(
        draw(st.sampled_from(NAMES)),
        created=draw(st.sampled_from(["", "1", "2", "3"])),
        parent=draw(st.sampled_from(["", "", "nobody", *NAMES])),
        flavors=tuple(
            Flavor(name, draw(st.dictionaries(st.sampled_from(RESOURCES), quotas)), draw(selectors)) for name in names
        ),
        weight=draw(st.sampled_from([1.0, 2.0])),
        priority=draw(st.sampled_from([0, 0, 1])),
        default=draw(st.booleans()),
        namespaces=draw(namespaces),
        problems=draw(st.sampled_from([(), (), (), (Problem("spec.weight", "is not a number"),)])),
    )


Step = tuple[str, Any]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), any_queue()),
        st.tuples(st.just("put"), any_queue()),
        st.tuples(st.just("edit"), st.tuples(st.sampled_from(NAMES), st.sampled_from([1.0, 3.0]), quotas)),
        st.tuples(st.just("drop"), st.sampled_from(NAMES)),
        st.tuples(st.just("charge"), st.tuples(st.sampled_from(NAMES), st.sampled_from(["", *FLAVORS]), amounts)),
        st.tuples(st.just("ask"), st.sampled_from(NAMES)),
    ),
    max_size=40,
)


def said_of(tree: QueueTree, name: str) -> dict[str, object]:
    """Return all that a tree says of one queue in use."""
    return {
        "queue": tree.queue(name),
        "place": (tree.path(name), tree.children(name), tree.root(name)),
        "flavors": (tree.flavors(name), [tree.node_selector(name, each) for each in FLAVORS]),
        "limited": [tree.limited(name, each) for each in FLAVORS],
        "usage": (tree.usage(name), tree.gangs(name)),
        "accounts": [
            (tree.nominal(name, *at), tree.used(name, *at), tree.borrowed(name, *at), tree.lent(name, *at))
            for at in WHERE
        ],
        "available": [tree.available(name, *at) for at in WHERE],
        "excess": [tree.excess(name, each) for each in FLAVORS],
        "shortage": [tree.shortage(name, each, ASKED) for each in FLAVORS],
        "borrows": [(tree.borrows(name, each), tree.borrows(name, each, ASKED)) for each in FLAVORS],
        "reclaimable": [reclaimable(tree, name, each, ASKED) for each in FLAVORS],
        "share": (tree.share(name, TOTALS), tree.share(name, TOTALS, {"gpu": 5.5})),
        "standing": (tree.standing(name, TOTALS), tree.charged_beside(name)),
        "admits": [tree.admits(name, {"team": each}) for each in TEAMS],
    }


def said(tree: QueueTree) -> dict[str, object]:
    """Return all that a tree says."""
    names = list(tree)
    return {
        "names": (names, len(tree), sorted(tree.charged())),
        "problems": dict(sorted(tree.problems.items())),
        "defaults": [tree.default_for("space", {"team": each} if each else {}) for each in TEAMS],
        "rights": [
            (tree.reclaims(one, other, each, ASKED), tree.borrows_from(one, other, each, ASKED))
            for one, other, each in product(names, names, FLAVORS)
        ],
        **{name: said_of(tree, name) for name in names},
    }


def afresh(
    queues: Iterable[Queue], charges: Iterable[tuple[str, str, Mapping[str, int]]], gangs: Mapping[str, int]
) -> QueueTree:
    """Return a tree that is built from all queues at once, parents and older ones first where that can be."""
    tree = QueueTree(sorted(queues, key=lambda each: (each.parent, each.created or "~", each.name)))
    for charge in charges:
        tree.charge(*charge)
    for name, count in gangs.items():
        tree.count(name, count)
    return tree


@share(1.0)
@given(STEPS)
def test_a_changed_tree_is_one_built_afresh(steps: list[Step]) -> None:
    """Adds, edits, moves, cycles, dangling parents, contradictions, drops and charges, in whatever order."""
    tree, queues = QueueTree(), dict[str, Queue]()
    charges, gangs = list[tuple[str, str, Mapping[str, int]]](), Counter[str]()
    for kind, what in steps:
        if kind == "put":
            queues[what.name] = what
            tree.put(what)
        elif kind == "edit" and what[0] in queues:
            name, weight, quota = what
            before = queues[name]
            changed = tuple(replace(each, quotas=dict.fromkeys(each.quotas, quota)) for each in before.flavors)
            queues[name] = replace(before, weight=weight, flavors=changed)
            tree.put(queues[name])
        elif kind == "drop":
            queues.pop(what, None)
            tree.drop(what)
        elif kind == "charge":
            charges.append(what)
            tree.charge(*what)
            gangs[what[0]] += 1
            tree.count(what[0], 1)
        elif kind == "ask" and what in tree:
            said_of(tree, what)  # what is at hand from before must not be taken for what is now
    assert said(tree) == said(afresh(queues.values(), charges, gangs))
    for charge in charges:
        tree.refund(*charge)
        tree.count(charge[0], -1)
    for name in [name for name in queues if len(name) % 2]:
        tree.drop(name)
    assert list(tree.charged()) == []


def test_a_chain_that_is_moved_up_and_down_is_one_built_afresh() -> None:
    """Queues that come to be too deep leave use with what is below them, and come back when there is room again."""
    chain = [Queue(f"q{depth:02}", parent=f"q{depth - 1:02}" if depth else "") for depth in range(40)]
    queues = {each.name: each for each in [*chain, Queue("top", flavors=(Flavor("a", {"gpu": Quota(8)}),))]}
    tree = QueueTree(queues.values())
    for name, parent in [("q20", ""), ("q00", "top"), ("q20", "q19"), ("q00", "q39"), ("q10", "top"), ("q00", "")]:
        queues[name] = replace(queues[name], parent=parent)
        tree.put(queues[name])
        fresh = QueueTree(reversed(queues.values()))
        assert list(tree) == list(fresh)
        assert dict(tree.problems) == dict(fresh.problems)
        assert {each: tree.limited(each, "a") for each in tree} == {each: fresh.limited(each, "a") for each in fresh}
    assert len(tree) == 41


GPUS = (Flavor("any", {"gpu": Quota(8), "cpu": Quota(8_000), "memory": Quota(2**30)}),)


def flat(count: int) -> list[Queue]:
    """Return a root and so many queues below it."""
    names = [f"q{number:05}" for number in range(count)]
    return [Queue("root"), *(Queue(name, parent="root", flavors=GPUS) for name in names)]


def three_deep(count: int) -> list[Queue]:
    """Return a root, ten departments, and so many queues below these in turn."""
    departments = [Queue(f"d{number}", parent="root") for number in range(10)]
    teams = [Queue(f"q{number:05}", parent=f"d{number % 10}", flavors=GPUS) for number in range(count)]
    return [Queue("root"), *departments, *teams]


def single(count: int) -> list[Queue]:
    """Return so many queues without any above them, which are defaults of a namespace each."""
    teams = [LabelSelector((Requirement("team", "In", (str(number),)),)) for number in range(count)]
    return [Queue(f"q{number:05}", flavors=GPUS, default=True, namespaces=team) for number, team in enumerate(teams)]


@pytest.mark.parametrize("shape", [flat, three_deep, single])
def test_a_change_costs_the_same_among_many_queues(shape: Callable[[int], list[Queue]]) -> None:
    """One more Queue, an edit and a deletion take as many calls beside 1,000 others as beside 20."""

    def work(count: int) -> list[int]:
        tree, one = QueueTree(shape(count)), replace(shape(1)[-1], name="one", created="2026")
        dearer = replace(one, flavors=(Flavor("any", {"gpu": Quota(16), "cpu": Quota(1), "memory": Quota(1)}),))
        other = replace(one, flavors=(Flavor("other", {"gpu": Quota(16)}),))
        changes = [lambda: tree.put(one), lambda: tree.put(dearer), lambda: tree.put(other), lambda: tree.drop("one")]
        return [calls(change) for change in changes]

    few, many = work(20), work(1000)
    assert all(more <= 1.5 * less for less, more in zip(few, many, strict=True)), (few, many)
    assert sum(many) < 2000


def test_a_queue_takes_a_few_kilobytes() -> None:
    """2,000 Queues with quota of three resources each, in one tree, take less than 10 MB, and leave nothing behind."""
    queues = flat(2000)
    tracemalloc.start()
    try:
        tree = QueueTree(queues)
        assert tracemalloc.get_traced_memory()[0] < 10_000_000
        for each in queues[1:]:
            tree.drop(each.name)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()


def test_default_queues_are_compared_with_few_others() -> None:
    """Who else takes the namespaces of one of 1,000 default queues is found by the label's value."""
    tree = QueueTree([*single(1000), replace(single(1)[0], name="younger")])
    assert calls(lambda: tree.problems_of("q00999")) < 100
    assert calls(lambda: tree.default_for("space", {"team": "999"})) < 100
    assert "Queue q00000 is the default too" in str(tree.problems_of("younger")[0])
    assert set(tree.problems) == {"younger"}
