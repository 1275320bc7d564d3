"""Which Queues make trees that can be used, and why the others do not.

Queues come and go one by one: each costs what it and those below it take, and a step for each ancestor. One case costs
a tree: the Queue that says first which nodes a flavor is leaves it, or an older one comes, while others of the tree say
otherwise.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from extender.objects.queue import Queue
from extender.objects.reason import Problem
from extender.queues.member import Amounts, QuotaNode, age_of

NodeSelector: TypeAlias = tuple[tuple[str, str], ...]
"""Labels that the nodes of a flavor have; empty for every node."""

#: Queues from a root down at most: each adds up what all below it have.
_MOST_DEPTH = 32

#: How many queues of a cycle are named.
_MOST_NAMED = 8


class _FlavorNodes:
    """Which nodes a flavor is throughout a tree, and the queues that say so, in the order of `_turn`."""

    __slots__ = ("said_by", "selector")

    def __init__(self, selector: NodeSelector) -> None:
        self.selector = selector
        self.said_by: list[QuotaNode] = []


class Forest:
    """Keep queues in trees, leaving out what is unsound and what is below it.

    Attributes:
        queues: all Queues by name.
        nodes: those in use by name.
    """

    def __init__(self, charged: Mapping[str, Amounts], gangs: Mapping[str, int]) -> None:
        """Start without queues; `charged` is charged by queue to so many `gangs`, whether it is in use or not."""
        self.queues: dict[str, Queue] = {}
        self.nodes: dict[str, QuotaNode] = {}
        self._charged = charged
        self._gangs = gangs
        self._below: dict[str, dict[str, None]] = {}
        self._flavors: dict[str, dict[str, _FlavorNodes]] = {}  # by root and name
        self._contradicting: dict[str, dict[str, None]] = {}  # by root, the queues that say otherwise
        self._cycles: Mapping[str, tuple[str, ...]] | None = None

    def put(self, queue: Queue) -> dict[str, None]:
        """Take in a Queue; return which came into use or left it, or may have other flavors or quotas now."""
        name = queue.name
        before, node = self.queues.get(name), self.nodes.get(name)
        if node is not None and _place(node.queue) == _place(queue):
            self.queues[name] = queue
            node.restate(queue)
            return {}
        above = self._seen_from(queue) if before is None else self._seen_from(before) | self._seen_from(queue)
        moved = {} if before is None else self._take_out(before)
        self.queues[name] = queue
        self._below.setdefault(queue.parent, {})[name] = None
        self._cycles = None
        return {name: None} | moved | self._plant(name) | self._changed(above)

    def drop(self, name: str) -> dict[str, None]:
        """Forget a Queue; return as `put` does."""
        before = self.queues.get(name)
        if before is None:
            return {}
        above = self._seen_from(before)
        return {name: None} | self._take_out(before) | self._changed(above)

    def selector(self, root: str, flavor: str) -> NodeSelector:
        """Return which nodes a flavor is throughout the tree of `root`, () for every node."""
        found = self._flavors.get(root, {}).get(flavor)
        return () if found is None else found.selector

    # Why some are not in use.

    def problems(self, name: str) -> tuple[Problem, ...]:
        """Return why a Queue is not in use; () for one that is, or is unknown."""
        queue = self.queues.get(name)
        if queue is None or name in self.nodes:
            return ()
        parent = self.nodes.get(queue.parent)
        if parent is None and queue.parent:
            return (*queue.problems, Problem("spec.parent", self._why_not_below(queue)))
        if parent is not None and len(parent.path) >= _MOST_DEPTH:
            return (*queue.problems, Problem("spec.parent", f"more than {_MOST_DEPTH} Queues deep"))
        found = (*queue.problems, *self._contradictions(queue, parent)[0])
        return found or (Problem("metadata.name", "is missing"),)

    def _why_not_below(self, queue: Queue) -> str:
        """Return why nothing can be below the parent of a queue."""
        if queue.parent not in self.queues:
            return f"no Queue is called {queue.parent!r}; create it, or name another one"
        if self._cycles is None:
            self._cycles = self._find_cycles()
        cycle = self._cycles.get(queue.name)
        if cycle is None:
            return f"Queue {queue.parent!r} cannot be used itself"
        shown = " > ".join(cycle[:_MOST_NAMED]) + (" > ..." if len(cycle) > _MOST_NAMED else "")
        return f"the Queues {shown} are each other's parents; one of them must be without a parent"

    def _find_cycles(self) -> dict[str, tuple[str, ...]]:
        """Return the cycle that each queue is on, of those that are on one, from its oldest queue."""
        found: dict[str, tuple[str, ...]] = {}
        seen: set[str] = set()
        for start in sorted(self.queues.keys() - self.nodes.keys(), key=lambda name: age_of(self.queues[name])):
            walk: dict[str, None] = {}
            name = start
            while name in self.queues and name not in seen and name not in self.nodes:
                seen.add(name)
                walk[name] = None
                name = self.queues[name].parent
            if name in walk:
                names = list(walk)
                cycle = names[names.index(name) :]
                first = cycle.index(min(cycle, key=lambda each: age_of(self.queues[each])))
                cycle = cycle[first:] + cycle[:first]
                found |= dict.fromkeys(cycle, tuple(cycle))
        return found

    def _contradictions(self, queue: Queue, parent: QuotaNode | None) -> tuple[list[Problem], bool]:
        """Return where a queue contradicts what older ones of its tree say, and whether it does younger ones."""
        problems, younger = list[Problem](), False
        known = {} if parent is None else self._flavors.get(parent.root, {})
        turn = (1 if parent is None else len(parent.path) + 1, age_of(queue))
        for index, flavor in enumerate(queue.flavors):
            stated, selector = known.get(flavor.name), self._selector(flavor.node_selector, flavor.name, parent)
            if stated is None or stated.selector == selector:
                continue
            older = stated.said_by[0]
            if turn < _turn(older):
                younger = True
                continue
            message = f"Queue {older.queue.name} of this tree says of flavor {flavor.name} that it is "
            message += f"{_nodes(stated.selector)}, this one {_nodes(selector)}; say the same, or call it otherwise"
            problems.append(Problem(f"spec.flavors[{index}].nodeSelector", message))
        return problems, younger

    def _selector(self, own: NodeSelector | None, flavor: str, parent: QuotaNode | None) -> NodeSelector:
        """Return the nodes of a flavor of a queue below `parent`: what it says itself, or the nearest ancestor."""
        if own is not None or parent is None:
            return own or ()
        above = any(each.name == flavor for node in parent.path for each in node.queue.flavors)
        return self.selector(parent.root, flavor) if above else ()

    # In and out.

    def _take_out(self, queue: Queue) -> dict[str, None]:
        """Take a Queue out of its tree and of what is known; return which left the tree, or were planted again."""
        node = self.nodes.get(queue.name)
        root = "" if node is None else node.root
        moved, first = ({}, set[str]()) if node is None else self._uproot(node)
        del self.queues[queue.name]
        siblings = self._below[queue.parent]
        del siblings[queue.name]
        if not siblings:
            del self._below[queue.parent]
        self._cycles = None
        self._forget_contradiction(queue)
        others = (flavor.name for name in self._contradicting.get(root, ()) for flavor in self.queues[name].flavors)
        return moved if first.isdisjoint(others) else moved | self._plant_again(root)

    def _plant_again(self, root: str) -> dict[str, None]:
        """Take a tree out of use and into it again in order; return its queues."""
        return self._uproot(self.nodes[root])[0] | self._plant(root)

    def _uproot(self, top: QuotaNode) -> tuple[dict[str, None], set[str]]:
        """Take a queue and all below it out of their tree; return these, and the flavors of which one spoke first."""
        root, first = top.root, set[str]()
        branch = [top]
        for node in branch:
            branch += node.children
        flavors = self._flavors.get(root, {})
        for node in reversed(branch):
            for flavor in node.queue.flavors:
                said_by = flavors[flavor.name].said_by
                at = bisect_left(said_by, _turn(node), key=_turn)
                del said_by[at]
                if not at:
                    first.add(flavor.name)
                if not said_by:
                    del flavors[flavor.name]
            for child in self._below.get(node.queue.name, ()):
                self._forget_contradiction(self.queues[child])
            node.detach()
            del self.nodes[node.queue.name]
        if not flavors:
            self._flavors.pop(root, None)
        return {node.queue.name: None for node in branch}, first

    def _plant(self, name: str) -> dict[str, None]:
        """Take a queue into the tree of its parent, and all below it, level by level; return what is in use now."""
        queue, moved = self.queues[name], dict[str, None]()
        parent = self.nodes.get(queue.parent)
        level = [] if queue.parent and parent is None else [(queue, parent)]
        while level:
            planted: list[QuotaNode] = []
            for each, above in level:
                if each.problems or not each.name or (above is not None and len(above.path) >= _MOST_DEPTH):
                    continue
                root = each.name if above is None else above.root
                contradictions, younger = self._contradictions(each, above)
                if contradictions:
                    self._contradicting.setdefault(root, {})[each.name] = None
                elif younger:  # it speaks before those that are there: some of them cannot stay
                    return moved | self._plant_again(root)
                else:
                    planted.append(self._attach(each, above))
                    moved[each.name] = None
            below = ((self.queues[child], node) for node in planted for child in self._below.get(node.queue.name, ()))
            level = sorted(below, key=lambda pair: age_of(pair[0]))
        return moved

    def _attach(self, queue: Queue, parent: QuotaNode | None) -> QuotaNode:
        """Take one queue into use."""
        selectors = [self._selector(flavor.node_selector, flavor.name, parent) for flavor in queue.flavors]
        node = QuotaNode(queue, parent, self._charged.get(queue.name, {}), self._gangs.get(queue.name, 0))
        self.nodes[queue.name] = node
        for flavor, selector in zip(queue.flavors, selectors, strict=True):
            said = self._flavors.setdefault(node.root, {}).setdefault(flavor.name, _FlavorNodes(selector))
            insort(said.said_by, node, key=_turn)
        return node

    def _forget_contradiction(self, queue: Queue) -> None:
        """Take in that a queue is where it was no more, should it have said otherwise than its tree."""
        parent = self.nodes.get(queue.parent)
        root = queue.name if parent is None else parent.root
        contradicting = self._contradicting.get(root, {})
        if contradicting.pop(queue.name, "") is None and not contradicting:
            del self._contradicting[root]

    def _seen_from(self, queue: Queue) -> dict[str, object]:
        """Return what gangs of the queues above one may choose from there, of those that have any."""
        parent = self.nodes.get(queue.parent)
        above = () if parent is None else parent.path
        return {node.queue.name: _choices(node) for node in above if node.own}

    def _changed(self, before: Mapping[str, object]) -> dict[str, None]:
        """Return of which queues that is different now."""
        now = ((name, self.nodes.get(name), seen) for name, seen in before.items())
        return {name: None for name, node, seen in now if node is None or _choices(node) != seen}


def _place(queue: Queue) -> tuple[object, ...]:
    """Return what of a queue others depend on beside its figures."""
    flavors = [(flavor.name, flavor.node_selector, flavor.quotas.keys()) for flavor in queue.flavors]
    return queue.parent, queue.created, queue.problems, flavors


def _turn(node: QuotaNode) -> tuple[int, tuple[str, str]]:
    """Return the sort key by which queues are taken into a tree: level by level, the older ones first."""
    return len(node.path), age_of(node.queue)


def _choices(node: QuotaNode) -> tuple[object, ...]:
    """Return what says in which flavor the pods of a queue are charged, the nodes of each flavor apart."""
    return node.flavors, {flavor: frozenset(accounts) for flavor, accounts in node.accounts.items()}


def in_turn(nodes: Iterable[QuotaNode]) -> list[QuotaNode]:
    """Return queues with parents first, the older ones first in each level."""
    return sorted(nodes, key=_turn)


def _nodes(selector: NodeSelector) -> str:
    return " ".join(f"{key}={value}" for key, value in selector) or "every node"
