"""Default queues: which namespaces' gangs they take, and where two of them would take the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extender.domain.labelselector import LabelSelector
from extender.domain.queue import Queue
from extender.domain.reason import Problem
from extender.domain.selectors import Requirement

_EVERYTHING = LabelSelector()


def admits(queue: Queue, labels: Mapping[str, str]) -> bool:
    """Tell whether gangs of a namespace with `labels` may use a queue."""
    return queue.namespaces is None or queue.namespaces.matches(labels)


def rivals(defaults: Iterable[Queue]) -> dict[str, Problem]:
    """Return what is wrong with default queues, the oldest first, that could admit a namespace of an older one."""
    found: dict[str, Problem] = {}
    older: list[Queue] = []
    for queue in defaults:
        rival = next((each for each in older if overlap(each.namespaces, queue.namespaces)), None)
        if rival is not None:
            message = (
                f"Queue {rival.name} is the default too, and counts for every namespace that both admit; give the "
            )
            message += "two namespace selectors that exclude each other"
            found[queue.name] = Problem("spec.default", message)
        older.append(queue)
    return found


def overlap(one: LabelSelector | None, other: LabelSelector | None) -> bool:
    """Tell whether a namespace can exist that both selectors pick."""
    by_key: dict[str, list[Requirement]] = {}
    for selector in (one or _EVERYTHING, other or _EVERYTHING):
        for requirement in selector.requirements:
            by_key.setdefault(requirement.key, []).append(requirement)
    return all(map(_can_hold, by_key.values()))


def _can_hold(requirements: list[Requirement]) -> bool:
    """Tell whether some value of a label, or its absence, meets all requirements on it."""
    listed = {value for requirement in requirements for value in requirement.values}
    unlisted = "x" * (1 + max(map(len, listed), default=0))
    key = requirements[0].key
    candidates: list[dict[str, str]] = [{}, {key: unlisted}, *({key: value} for value in listed)]
    return any(all(requirement.matches(labels) for requirement in requirements) for labels in candidates)
