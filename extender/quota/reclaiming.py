"""Which queues give back what they have borrowed, one after the other.

Whether a queue reclaims from another can depend on a third one: while a sibling has borrowed what is missing, nobody of
another branch pays for it; once the sibling has given that back, the other branch may have to give back the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from extender.quota.tree import QueueTree

Eviction: TypeAlias = tuple[str, Mapping[str, int]]
"""The queue of somebody who is evicted, and what that frees."""


def reclaimable(tree: QueueTree, preemptor: str, flavor: str, amounts: Mapping[str, int]) -> tuple[str, ...]:
    """Return the queues whose gangs a gang of `preemptor` that asks for `amounts` may have evicted.

    If it asks for no more than its queue's own quota, it is within quota once all of them are within theirs. Those from
    which it reclaims at once come first.
    """
    found: list[tuple[str, Mapping[str, int]]] = []
    others = [name for name in tree if name != preemptor and tree.excess(name, flavor)]
    try:
        while taken := [name for name in others if tree.reclaims(preemptor, name, flavor, amounts)]:
            for name in taken:
                excess = tree.excess(name, flavor)
                tree.refund(name, flavor, excess)
                found.append((name, excess))
                others.remove(name)
    finally:
        for name, excess in found:
            tree.charge(name, flavor, excess)
    return tuple(name for name, _ in found)


def is_rightful(
    tree: QueueTree, preemptor: str, flavor: str, amounts: Mapping[str, int], evictions: Sequence[Eviction]
) -> bool:
    """Tell whether evictions from other queues can be put in an order in which each takes back what is borrowed."""
    left, done = list(evictions), []
    try:
        while left:
            rightful = next((each for each in left if tree.reclaims(preemptor, each[0], flavor, amounts)), None)
            if rightful is None:
                return False
            left.remove(rightful)
            done.append(rightful)
            tree.refund(rightful[0], flavor, rightful[1])
    finally:
        for name, freed in done:
            tree.charge(name, flavor, freed)
    return True
