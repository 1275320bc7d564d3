"""Default queues: whose gangs are in which, and which of them could take a namespace that an older one has."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from heapq import merge
from itertools import islice, takewhile

from extender.objects.meta import LabelSelector, Requirement
from extender.objects.queue import Queue
from extender.objects.reason import Problem
from extender.queues.member import age_of

_EVERYTHING = LabelSelector()

#: The label with its own name that the API server puts onto every namespace.
_NAME_LABEL = "kubernetes.io/metadata.name"

#: With how many older default queues that could be its rivals one is compared.
_MOST_COMPARED = 100


class Defaults:
    """Keep the default queues that are in use, the oldest first.

    Most select namespaces by values of a label. Such a queue is filed under one of its labels and the values of that,
    so that neither a namespace nor another queue is compared with all there are.
    """

    def __init__(self) -> None:
        """Start without default queues."""
        self._queues: dict[str, Queue] = {}
        self._lines: dict[tuple[str, ...], list[Queue]] = {}  # under (), (label,) or (label, value)
        self._labels: dict[str, None] = {}  # those under which any is filed
        self._problems: dict[str, Problem | None] = {}

    def put(self, queue: Queue) -> None:
        """Take in a queue that is in use; only one that is a default counts."""
        self.drop(queue.name)
        if queue.default:
            self._queues[queue.name] = queue
            self._problems.clear()
            for at in _file(queue):
                insort(self._lines.setdefault(at, []), queue, key=age_of)
            self._labels |= dict.fromkeys(at[0] for at in _file(queue)[:1] if at)

    def drop(self, name: str) -> None:
        """Forget a queue that is not in use any more."""
        queue = self._queues.pop(name, None)
        if queue is not None:
            self._problems.clear()
            for at in _file(queue):
                line = self._lines[at]
                del line[bisect_left(line, age_of(queue), key=age_of)]
                if not line:
                    del self._lines[at]
                    self._labels.pop(at[0] if len(at) == 1 else "", None)

    def of(self, namespace: str, labels: Mapping[str, str]) -> str:
        """Return the oldest that takes gangs of a namespace, "" if none does."""
        known = labels_of(namespace, labels)
        lines = [self._lines.get(key, ()) for key in ((), *known.items())]
        return next((queue.name for queue in merge(*lines, key=age_of) if admits(queue, known)), "")

    def problem(self, name: str) -> Problem | None:
        """Return what is wrong with a default queue that could admit a namespace of an older one."""
        queue = self._queues.get(name)
        if queue is not None and name not in self._problems:
            self._problems[name] = self._problem(queue)
        return self._problems.get(name)

    def _problem(self, queue: Queue) -> Problem | None:
        wanted = _values(queue.namespaces)
        lines: list[Sequence[Queue]] = [self._lines.get((), ())]
        for label in self._labels:
            under = [(label, value) for value in wanted[label]] if label in wanted else [(label,)]
            lines += [self._lines.get(at, ()) for at in under]
        older = takewhile(lambda each: age_of(each) < age_of(queue), merge(*lines, key=age_of))
        compared = islice(older, _MOST_COMPARED)
        rival = next((each for each in compared if overlap(each.namespaces, queue.namespaces)), None)
        if rival is None:
            return None
        message = f"Queue {rival.name} is the default too, and counts for every namespace that both admit; give the "
        return Problem("spec.default", message + "two namespace selectors that exclude each other")


def _file(queue: Queue) -> list[tuple[str, ...]]:
    """Return where a queue is filed: () if it may take namespaces whatever values their labels have."""
    values = _values(queue.namespaces)
    if not values:
        return [()]
    label = min(values, key=lambda each: (len(values[each]), each))
    return [(label,), *((label, each) for each in values[label])]


def labels_of(namespace: str, labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return the labels of a namespace with that which the API server puts onto each."""
    return labels if _NAME_LABEL in labels else {**labels, _NAME_LABEL: namespace}


def admits(queue: Queue, labels: Mapping[str, str]) -> bool:
    """Tell whether gangs of a namespace with `labels` may use a queue."""
    return queue.namespaces is None or queue.namespaces.matches(labels)


def overlap(one: LabelSelector | None, other: LabelSelector | None) -> bool:
    """Tell whether a namespace can exist that both selectors pick."""
    by_key: dict[str, list[Requirement]] = {}
    for selector in (one or _EVERYTHING, other or _EVERYTHING):
        for requirement in selector.requirements:
            by_key.setdefault(requirement.key, []).append(requirement)
    return all(map(_can_hold, by_key.values()))


def _values(selector: LabelSelector | None) -> dict[str, set[str]]:
    """Return the values that labels may have, of labels that must have one of some."""
    found: dict[str, set[str]] = {}
    for each in (selector or _EVERYTHING).requirements:
        if each.operator == "In":
            found[each.key] = found[each.key].intersection(each.values) if each.key in found else set(each.values)
    return found


def _can_hold(requirements: list[Requirement]) -> bool:
    """Tell whether some value of a label, or its absence, meets all requirements on it."""
    listed = {value for requirement in requirements for value in requirement.values}
    unlisted = "x" * (1 + max(map(len, listed), default=0))
    key = requirements[0].key
    candidates: list[dict[str, str]] = [{}, {key: unlisted}, *({key: value} for value in listed)]
    return any(all(requirement.matches(labels) for requirement in requirements) for labels in candidates)
