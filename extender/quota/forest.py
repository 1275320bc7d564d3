"""Which Queues make trees that can be used, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from extender.domain.queue import Queue
from extender.domain.reason import Problem

NodeSelector: TypeAlias = tuple[tuple[str, str], ...]
"""Labels that the nodes of a flavor have; empty for every node."""

#: Behind every RFC 3339 time.
_UNKNOWN_TIME = "~"

#: How many queues of a cycle are named.
_MOST_NAMED = 8


def age_of(queue: Queue) -> tuple[str, str]:
    """Return the sort key by which the older of two queues comes first."""
    return queue.created or _UNKNOWN_TIME, queue.name


@dataclass(slots=True)
class Place:
    """Where a sound queue is in its tree.

    `parent` is None for a root. `selectors` are the node selectors of its flavors and of those of its ancestors;
    `flavors` is what its gangs may choose from, in order.
    """

    queue: Queue
    parent: Place | None
    root: str
    selectors: Mapping[str, NodeSelector]
    flavors: tuple[str, ...]
    children: list[Place] = field(default_factory=list)


class Forest:
    """Sort queues into trees, leaving out what is unsound and what is below it.

    Attributes:
        places: the sound queues by name; parents come before their children, older siblings before younger ones.
        problems: why each of the others cannot be used.
        selectors: by root and flavor, which nodes the flavor is throughout the tree.
    """

    def __init__(self, queues: Iterable[Queue]) -> None:
        """Take in all queues at once; never raises."""
        self._queues = {queue.name: queue for queue in queues}
        self.places: dict[str, Place] = {}
        self.problems: dict[str, tuple[Problem, ...]] = {}
        self.selectors: dict[tuple[str, str], NodeSelector] = {}
        self._defined: dict[tuple[str, str], str] = {}
        children: dict[str, list[Queue]] = {}
        for queue in sorted(self._queues.values(), key=age_of):
            children.setdefault(queue.parent, []).append(queue)
        level: list[tuple[Place | None, Queue]] = [(None, queue) for queue in children.get("", ())]
        while level:
            planted = [place for parent, queue in level if (place := self._plant(queue, parent)) is not None]
            below = ((place, queue) for place in planted for queue in children.get(place.queue.name, ()))
            level = sorted(below, key=lambda each: age_of(each[1]))
        self._explain_the_rest()
        self._lend_flavors()

    def _plant(self, queue: Queue, parent: Place | None) -> Place | None:
        """Put a queue below its parent, unless it has problems or contradicts an older one of its tree."""
        root = queue.name if parent is None else parent.root
        selectors = dict({} if parent is None else parent.selectors)
        problems = list(queue.problems)
        for index, flavor in enumerate(queue.flavors):
            if flavor.node_selector is not None or flavor.name not in selectors:
                selectors[flavor.name] = flavor.node_selector or ()
            stated = self.selectors.get((root, flavor.name))
            if stated is not None and stated != selectors[flavor.name]:
                message = f"Queue {self._defined[root, flavor.name]} of this tree says of flavor {flavor.name} that it "
                message += f"is {_nodes(stated)}, this one {_nodes(selectors[flavor.name])}; say the same, or call it "
                message += "otherwise"
                problems.append(Problem(f"spec.flavors[{index}].nodeSelector", message))
        if problems or not queue.name:
            self.problems[queue.name] = tuple(problems) or (Problem("metadata.name", "is missing"),)
            return None
        for flavor in queue.flavors:
            self.selectors.setdefault((root, flavor.name), selectors[flavor.name])
            self._defined.setdefault((root, flavor.name), queue.name)
        flavors = tuple(flavor.name for flavor in queue.flavors) or (parent.flavors if parent is not None else ())
        place = self.places[queue.name] = Place(queue, parent, root, selectors, flavors)
        if parent is not None:
            parent.children.append(place)
        return place

    def _explain_the_rest(self) -> None:
        """Say of every queue that no root leads to why that is."""
        cycles = self._cycles()
        for name, queue in self._queues.items():
            if name in self.places or (not queue.parent and name in self.problems):
                continue
            parent = queue.parent
            if parent not in self._queues:
                message = f"no Queue is called {parent!r}; create it, or name another one"
            elif name in cycles:
                cycle = cycles[name]
                shown = " > ".join(cycle[:_MOST_NAMED]) + (" > ..." if len(cycle) > _MOST_NAMED else "")
                message = f"the Queues {shown} are each other's parents; one of them must be without a parent"
            elif parent in self.places:
                continue  # its own problems have been told
            else:
                message = f"Queue {parent!r} cannot be used itself"
            self.problems[name] = (*queue.problems, Problem("spec.parent", message))

    def _cycles(self) -> dict[str, list[str]]:
        """Return the cycle that each queue is on, of those that are on one."""
        found: dict[str, list[str]] = {}
        seen: set[str] = set()
        for start in self._queues:
            walk: dict[str, None] = {}
            name = start
            while name in self._queues and name not in seen:
                seen.add(name)
                walk[name] = None
                name = self._queues[name].parent
            if name in walk:
                names = list(walk)
                cycle = names[names.index(name) :]
                found |= dict.fromkeys(cycle, cycle)
        return found

    def _lend_flavors(self) -> None:
        """Give queues that have no flavors, and inherit none, those of their children."""
        for place in reversed(self.places.values()):
            if not place.flavors:
                place.flavors = tuple(dict.fromkeys(name for child in place.children for name in child.flavors))


def _nodes(selector: NodeSelector) -> str:
    return " ".join(f"{key}={value}" for key, value in selector) or "every node"
