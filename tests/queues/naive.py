"""Kueue's rules of borrowing and lending as its documentation states them, worked out from scratch for every question.

Source: kueue.sigs.k8s.io, concepts "Cohort" and "Cluster Queue". A queue uses its own quota and whatever others of its
tree lend and do not use. It lends at most its lending limit, so the rest of what it and those below it have is seen by
nobody else. It and those below it use at most their quota and the borrowing limit. All together use no more than there
is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache

from extender.objects.queue import Queue, Quota

NONE = Quota()


class NaiveTree:
    """Sound queues, and the charges made to each."""

    def __init__(self, queues: Iterable[Queue]) -> None:
        """Start with nothing charged; what queues have does not change."""
        self.queues = {queue.name: queue for queue in queues}
        self.path, self.children, self.quota = cache(self._path), cache(self._children), cache(self._quota)
        self.limited, self.has, self.keeps = cache(self._limited), cache(self._has), cache(self._keeps)
        self.charged: Counter[tuple[str, str, str]] = Counter()

    def charge(self, name: str, flavor: str, amounts: Mapping[str, int], sign: int = 1) -> None:
        """Charge, or refund; what nobody has quota of is not limited, and not counted."""
        for resource, amount in amounts.items():
            if self.limited(name, flavor, resource):
                self.charged[name, flavor, resource] += sign * amount

    def _path(self, name: str) -> list[str]:
        """Return a queue and its ancestors."""
        return [name, *(self.path(parent) if (parent := self.queues[name].parent) else ())]

    def _children(self, name: str) -> list[str]:
        """Return the queues right below one."""
        return [queue.name for queue in self.queues.values() if queue.parent == name]

    def _quota(self, name: str, flavor: str, resource: str) -> Quota | None:
        """Return what a queue says."""
        return next((each.quotas.get(resource) for each in self.queues[name].flavors if each.name == flavor), None)

    def _limited(self, name: str, flavor: str, resource: str) -> bool:
        """Tell whether anybody from the root to the leaves below a queue has quota."""
        below = [name]
        for each in below:
            below += self.children(each)
        return any(self.quota(each, flavor, resource) is not None for each in {*below, *self.path(name)})

    def _has(self, name: str, flavor: str, resource: str) -> int:
        """Return what a queue has with what those below it lend to it."""
        quota = self.quota(name, flavor, resource) or NONE
        return quota.nominal + sum(
            self.has(child, flavor, resource) - self.keeps(child, flavor, resource) for child in self.children(name)
        )

    def _keeps(self, name: str, flavor: str, resource: str) -> int:
        """Return what a queue lends to nobody."""
        limit = (self.quota(name, flavor, resource) or NONE).lending_limit
        return 0 if limit is None else max(0, self.has(name, flavor, resource) - limit)

    def uses(self, name: str, flavor: str, resource: str) -> int:
        """Return what a queue uses with those below it, without what these keep for themselves."""
        return self.charged[name, flavor, resource] + sum(
            max(0, self.uses(child, flavor, resource) - self.keeps(child, flavor, resource))
            for child in self.children(name)
        )

    def most(self, name: str, flavor: str, resource: str) -> int | None:
        """Return how much a queue may use with those below it; None if only its ancestors decide."""
        if not self.queues[name].parent:
            return self.has(name, flavor, resource)
        limit = (self.quota(name, flavor, resource) or NONE).borrowing_limit
        return None if limit is None else self.has(name, flavor, resource) + limit

    def sound(self, name: str, flavor: str, resource: str) -> bool:
        """Tell whether nobody from a queue to the root uses more than it may."""
        return all(
            (most := self.most(each, flavor, resource)) is None or self.uses(each, flavor, resource) <= most
            for each in self.path(name)
        )

    def admits(self, name: str, flavor: str, resource: str, amount: int) -> bool:
        """Tell whether a charge leaves everybody who has to do with it within what it may use."""
        before = [self.uses(each, flavor, resource) for each in self.path(name)]
        self.charge(name, flavor, {resource: amount})
        after = [self.uses(each, flavor, resource) for each in self.path(name)]
        mosts = [self.most(each, flavor, resource) for each in self.path(name)]
        self.charge(name, flavor, {resource: amount}, -1)
        return all(
            most is None or then <= most or then == now for now, then, most in zip(before, after, mosts, strict=True)
        )
